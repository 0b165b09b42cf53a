"""An order survives the death of its worker, before your eyes.

The demonstration starts a worker process, which begins an order on SQLite. While the order is being packed the worker
is killed with SIGKILL. A second worker sees that the first has fallen silent, takes the order over, and goes on where
it stopped. The bank's ledger, a plain file that Holdfast knows nothing of, shows that the card was charged once.

Run it with ``make demo``, or ``python examples/demo.py``. It exits with 0 only if the ledger is right.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from holdfast import Holdfast

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(os.environ.get("HOLDFAST_DEMO_FOLDER", "."))
ORDER = "order-17"
PATIENCE = 30

app = Holdfast(FOLDER / "shop.db", lease=1)


# The application. Without its decorators it is a plain program.


@app.step
def reserve(item: str) -> str:
    tell("runs", "reserve", f"puts one pair of {item} aside")
    return "shelf 4"


@app.step
def charge(cents: int) -> str:
    tell("runs", "charge", f"asks the bank for {cents / 100:.2f}")
    with (FOLDER / "bank-ledger.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{app.workflow_id} {cents}\n")
    return "payment 1"


@app.step
def pack(shelf: str) -> str:
    tell("runs", "pack", f"fetches the boots from {shelf}")
    time.sleep(1)
    return "parcel 1"


@app.step
def ship(parcel: str) -> str:
    tell("runs", "ship", f"hands {parcel} to the carrier")
    return "on its way"


@app.workflow
def order(item: str, cents: int) -> str:
    tell("begins", "order", "")
    shelf = reserve(item)
    tell("has", "reserve", shelf)
    payment = charge(cents)
    tell("has", "charge", payment)
    parcel = pack(shelf)
    tell("has", "pack", parcel)
    state = ship(parcel)
    tell("has", "ship", state)
    return f"{item}, {payment}, {parcel}, {state}"


# A worker: a process of its own that reports on its standard output, one JSON line an event.


def tell(event: str, subject: str, text: str) -> None:
    """Report to the process that watches."""
    sys.stdout.write(json.dumps([event, subject, text]) + "\n")
    sys.stdout.flush()


class Telling(logging.Handler):
    """Reports what Holdfast itself logs."""

    def emit(self, record: logging.LogRecord) -> None:
        tell("logs", record.name, record.getMessage())


def work(task: str) -> None:
    """Begin the order, or wait until it has ended, whoever began it."""
    logging.getLogger("holdfast.executor").addHandler(Telling())
    logging.getLogger("holdfast.db").addHandler(logging.NullHandler())
    with app:
        if task == "begin":
            handle = order.options(workflow_id=ORDER).start("boots", 8900)
        else:
            handle = app.retrieve_workflow(ORDER)
        tell("result", "order", handle.result(timeout=PATIENCE))


# The stage: starts the workers, kills the first, and shows what happens.


@dataclass
class Stage:
    """Shows the events of workers on the terminal."""

    console: Console
    folder: Path
    began: float = field(default_factory=time.monotonic)
    result: str | None = None

    def act(self, title: str, task: str, *, kill_in: str | None = None) -> None:
        """Run one worker to its end, or until it is in the step *kill_in*."""
        environment = {**os.environ, "HOLDFAST_DEMO_FOLDER": str(self.folder)}
        command = [sys.executable, __file__, "worker", task]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as worker:
            self.console.print(f"\n[bold]{title}[/] (process {worker.pid})")
            try:
                for event, subject in self._events(worker):
                    if event == "runs" and subject == kill_in:
                        time.sleep(0.3)
                        worker.kill()
                        self._line("SIGKILL", f"the worker dies in the middle of {subject}", "bold red")
            finally:
                worker.kill()

    def _events(self, worker: subprocess.Popen[str]) -> Iterator[tuple[str, str]]:
        ran: set[str] = set()
        for line in worker.stdout or ():
            event, subject, text = json.loads(line)
            self._show(event, subject, text, recorded=subject not in ran)
            if event == "runs":
                ran.add(subject)
            yield event, subject

    def _show(self, event: str, subject: str, text: str, *, recorded: bool) -> None:
        if event == "begins":
            self._line(subject, "the workflow's code begins at the top")
        elif event == "runs":
            self._line(subject, f"[yellow]runs[/]      {text}")
        elif event == "has" and recorded:
            self._line(subject, f"[cyan]recorded[/]  {text!r} comes from the record, nothing is done again")
        elif event == "has":
            self._line(subject, f"[green]done[/]      {text!r} is recorded")
        elif event == "logs":
            self._line("holdfast", f"[dim]{text}[/]", "dim")
        elif event == "result":
            self.result = text
            self._line(subject, f"[bold green]ended[/]     {text}")

    def _line(self, subject: str, text: str, style: str = "default") -> None:
        elapsed = time.monotonic() - self.began
        self.console.print(f"  {elapsed:5.2f} s  [{style}]{subject:10}[/]{text}", highlight=False)


def main() -> int:
    """Play both acts and check the ledger."""
    console = Console(soft_wrap=True)
    console.print("[bold]An order on SQLite: reserve, charge, pack, ship. Its worker is killed on the way.[/]")
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as name:
        stage = Stage(console, Path(name))
        stage.act("First worker", "begin", kill_in="pack")
        stage.act("Second worker", "finish")
        charges = (stage.folder / "bank-ledger.txt").read_text(encoding="utf-8").splitlines()
    fine = len(charges) == 1 and stage.result is not None
    console.print(f"\nThe bank's ledger: {'; '.join(charges)}", highlight=False)
    console.print(
        "[bold green]The order ended, and the card was charged once.[/]" if fine else "[bold red]This is wrong.[/]"
    )
    return 0 if fine else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        work(sys.argv[2])
    else:
        sys.exit(main())
