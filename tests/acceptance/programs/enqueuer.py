"""A worker of the enqueue tests: puts runs in queues, from outside and from workflows, and may die while it does.

It is told what to do on standard input, a JSON list a line, and answers on standard output. It ends with its input.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from holdfast import Holdfast, faults
from holdfast.testing.program import obey, say
from holdfast.testing.workers import until

SETTINGS = json.loads(sys.argv[1])

app = Holdfast(SETTINGS["url"], lease=0.6, application_version="tested")


@app.workflow(name="leaf")
def leaf(number: int) -> int:
    return number


@app.workflow(name="parent")
def parent(number: int) -> list[str]:
    """Enqueue one, some, one that others have, and one that is put off."""
    queued = leaf.options(queue_name="quiet")
    one = queued.enqueue(number)
    some = queued.enqueue_many(leaf.call(each) for each in range(3))
    same = queued.options(deduplication_id="shared", on_duplicate="return_existing").enqueue(number)
    late = queued.debounce(f"{number}", 3600, number)
    return [each.workflow_id for each in (one, *some, same, late)]


def race(number: int) -> list[str]:
    """Want the same deduplication ids as others do at this moment, in another order."""
    names = [f"name-{each}" for each in range(20)][:: (-1) ** number]
    queued = leaf.options(queue_name="quiet", on_duplicate="return_existing")
    ids = {name: queued.options(deduplication_id=name).enqueue(number).workflow_id for name in names[:10]}
    calls = [leaf.options(deduplication_id=name).call(number) for name in names]
    ids |= dict(zip(names, [each.workflow_id for each in queued.enqueue_many(calls)], strict=True))
    return [ids[name] for name in sorted(ids)]


def ride_with(tag: str) -> None:
    """Enqueue while this process is at rest, in whose commit it claims."""
    dispatch = app._engine.dispatch
    app.register_queue("quiet")
    until(lambda: dispatch.queue("quiet") is not None and dispatch._waits)
    leaf.options(queue_name="quiet", workflow_id=tag).enqueue(1)


def carry_out(verb: str, *given: Any) -> None:
    match verb:
        case "many":
            tag, count = given
            queued = leaf.options(queue_name="quiet")
            queued.enqueue_many(leaf.options(workflow_id=f"{tag}-{each}").call(each) for each in range(count))
            say("many", tag)
        case "parent":
            say("parent", given[0], parent.options(workflow_id=f"parent-{given[0]}").start(given[0]).result())
        case "race":
            say("race", given[0], race(given[0]))
        case "listen":
            app.register_queue("quiet")
            say("listens")
        case "one":
            ride_with(given[0])


if __name__ == "__main__":
    for point, at in SETTINGS.get("faults", ()):
        faults.arm(point, at=at)
    with app:
        say("ready")
        obey(carry_out)
