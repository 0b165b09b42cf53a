"""An expense waits for a person. The wait is durable: it may take days, and deploys and crashes, and costs nothing.

The workflow says what it waits for in an event, which any program can read, and goes on when the answer comes, or when
the time is over.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast import Holdfast

app = Holdfast("expenses.sqlite")


@dataclass
class Decision:
    """What the person has said."""

    by: str
    approved: bool


@app.step
def pay(cents: int) -> str:
    return f"{cents / 100:.2f} paid"


@app.workflow
def expense(what: str, cents: int) -> str:
    app.set_event("question", f"{what} for {cents / 100:.2f}?")
    decision = app.recv("decision", timeout=7 * 24 * 3600, type=Decision)
    if decision is None:
        return "nobody decided in time"
    if not decision.approved:
        return f"refused by {decision.by}"
    return f"{pay(cents)}, approved by {decision.by}"


def main() -> None:
    with app:
        chairs = expense.options(workflow_id="chairs").start("four chairs", 38_000)
        yacht = expense.options(workflow_id="yacht").start("a yacht", 900_000_000)
        # What a web page would show, and what its two buttons would do.
        for run in (chairs, yacht):
            print(f"{run.workflow_id}: {app.get_event(run.workflow_id, 'question')}")
        app.send("chairs", Decision("Ada", approved=True), "decision", idempotency_key="chairs-by-ada")
        app.send("yacht", Decision("Ada", approved=False), "decision", idempotency_key="yacht-by-ada")
        for run in (chairs, yacht):
            print(f"{run.workflow_id}: {run.result(timeout=60)}")


if __name__ == "__main__":
    main()
