"""A worker of the message tests: its workflows and its threads send and receive, and it may die while they do.

It is told what to do on standard input, a JSON list a line, and answers on standard output. It ends with its input.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from holdfast import Holdfast, Message, faults
from holdfast.testing.program import obey, say

SETTINGS = json.loads(sys.argv[1])

app = Holdfast(SETTINGS["url"], lease=0.6, application_version="tested", put_away_after=SETTINGS.get("away", 10))


@app.step(name="whisper")
def whisper(destination: str, number: int) -> None:
    app.send(destination, number, "talk")
    app.set_event("whispered", number)


@app.workflow(name="listener")
def listener(count: int) -> list[Any]:
    heard = []
    for _ in range(count):
        heard.append(app.recv("talk", timeout=3600))
        app.set_event("heard", len(heard))
    return heard


@app.workflow(name="speaker")
def speaker(destination: str, count: int) -> int:
    """Send numbers in their order: alone, from a step, and two at a time."""
    for number in range(0, count, 4):
        app.send(destination, number, "talk")
        whisper(destination, number + 1)
        app.send_many([Message(destination, number + each, "talk") for each in (2, 3)])
    return count


def shout(name: str, destination: str, count: int) -> None:
    """Send numbers under a name, and keys that others send at the same moment, in another order."""
    order = range(20) if name < "c" else range(19, -1, -1)
    for number in range(count):
        app.send(destination, [name, 2 * number], "talk")
        app.send_many(
            [
                Message(destination, [name, 2 * number + 1], "talk"),
                Message(destination, number, "keyed", f"key-{order[number % 20]}"),
            ]
        )


def carry_out(verb: str, *given: Any) -> None:
    match verb:
        case "listen":
            say("result", listener.options(workflow_id="listener").start(given[0]).result())
        case "speak":
            say("spoken", speaker.options(workflow_id="speaker").start("listener", given[0]).result())
        case "shout":
            shout(*given)
            say("shouted", given[0])


if __name__ == "__main__":
    for point, at in SETTINGS.get("faults", ()):
        faults.arm(point, at=at)
    with app:
        say("ready")
        obey(carry_out)
