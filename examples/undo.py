"""A journey is booked in three steps. When one fails for good, those before it are undone, last first.

What was done and undone is in the record, so a crash at any moment, also in the middle of undoing, goes on from there.
"""

from __future__ import annotations

from holdfast import Holdfast, Retry

app = Holdfast("journeys.sqlite")


class SoldOut(Exception):
    """Nothing is left; asking again will not help."""


@app.step
def book_train(city: str) -> str:
    return f"train to {city}"


@app.step
def book_hotel(city: str) -> str:
    return f"hotel in {city}"


@app.step(retry=Retry(attempts=3, interval=0.01, never=(SoldOut,)))
def book_concert(city: str) -> str:
    if city == "Vienna":
        raise SoldOut(f"no concert left in {city}")
    return f"concert in {city}"


@app.step
def cancel(booking: str) -> None:
    print(f"  cancelled: {booking}")


@app.workflow
def journey(city: str) -> list[str]:
    booked: list[str] = []
    with app.saga() as saga:
        for book in (book_train, book_hotel, book_concert):
            booking = book(city)
            saga.undo(cancel, booking)
            booked.append(booking)
    return booked


def main() -> None:
    with app:
        print("Lisbon:", ", ".join(journey("Lisbon")))
        print("Vienna:")
        try:
            journey("Vienna")
        except SoldOut as error:
            print(f"  not booked: {error}")


if __name__ == "__main__":
    main()
