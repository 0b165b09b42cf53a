"""Orders fail while the bank is closed, and are kept. When it opens they are replayed, from the step that failed."""

from __future__ import annotations

from holdfast import Holdfast

app = Holdfast("letters.sqlite", mask_fields=("card",))
bank = {"open": False}


@app.step
def pack(order: str) -> str:
    print(f"  packed {order}")
    return order


@app.step
def charge(order: str, card: str) -> str:
    if not bank["open"]:
        raise ConnectionError("the bank is closed")
    return f"{order} paid with a card of {len(card)} digits"


@app.workflow(dead_letter="orders")
def checkout(order: str, card: str) -> str:
    return charge(pack(order), card)


def main() -> None:
    with app:
        handles = [checkout.options(workflow_id=f"order-{n}").start(f"order {n}", card="4711") for n in (1, 2)]
        for handle in handles:
            try:
                handle.result()
            except ConnectionError as error:
                print(f"{handle.workflow_id}: {error}")
        for letter in app.dead_letters.find_by_status("pending", domain="orders"):
            print(f"kept: {letter.id}, {letter.error_message}, {letter.request_data['namedArgs']}")

        bank["open"] = True
        report = app.dead_letters.replay(domain="orders")
        print(f"replayed: {report.replayed} of {report.matched}")
        for handle in handles:
            print(app.retrieve_workflow(handle.workflow_id).result())


if __name__ == "__main__":
    main()
