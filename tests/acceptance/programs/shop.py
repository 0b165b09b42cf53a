"""A shop that runs until its standard input ends: one quick workflow, and one that waits for an hour."""

from __future__ import annotations

import json
import sys

from holdfast import Holdfast

settings = json.loads(sys.argv[1])
app = Holdfast(settings["url"], executor_id=settings["name"], application_version="v1", lease=settings["lease"])


@app.step
def charge(cents: int) -> str:
    """Take the money."""
    return f"receipt for {cents}"


@app.workflow(name="checkout")
def checkout(cents: int) -> str:
    """Sell something."""
    return charge(cents)


@app.workflow(name="subscribe")
def subscribe(cents: int) -> str:
    """Sell something, and again after an hour."""
    charge(cents)
    app.sleep(3600)
    return charge(cents)


with app:
    print(json.dumps(["ready"]), flush=True)
    sys.stdin.read()
