"""A worker of the dead-letter tests of runs: has a poisonous workflow, replays letters, and may die at a named point.

It is told what to do on standard input, a JSON list a line, and answers on standard output. It ends with its input.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast import Holdfast, faults
from holdfast.testing.effects import Effects
from holdfast.testing.program import obey, say

if TYPE_CHECKING:
    from holdfast.stores import FailedOperationData

SETTINGS = json.loads(sys.argv[1])
LEDGER = Effects(SETTINGS["ledger"])
app = Holdfast(SETTINGS["url"], lease=SETTINGS.get("lease", 1.0), application_version="tested")


@app.workflow(name="poison", max_recovery_attempts=0)
def poison() -> str:
    if not SETTINGS.get("cured"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "cured"


@app.workflow(name="failing", dead_letter=True)
def failing() -> None:
    raise ValueError("always")


@app.replay_handler("work")
def work(letter: FailedOperationData) -> None:
    LEDGER.append(letter.id, "handled", SETTINGS["name"])
    if "until" in SETTINGS:
        say("handling", letter.id)
        while not Path(SETTINGS["until"]).exists():
            time.sleep(0.02)


def do(verb: str, *args: Any) -> None:
    if verb == "start":
        name, run_id = args
        flows: dict[str, Any] = {"poison": poison, "failing": failing}
        flows[name].options(workflow_id=run_id).start()
        say("started", run_id)
    if verb == "replay":
        report = app.dead_letters.replay(**args[0])
        say("report", {each.value: number for each, number in report.counts.items()})


def main() -> None:
    for point, at in SETTINGS.get("faults", ()):
        faults.arm(point, at=at)
    app.launch()
    say("ready")
    obey(do)
    os._exit(0)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    main()
