"""Threads that a sync workflow starts itself are branches of its run: for as long as they live, and no longer."""

from __future__ import annotations

import contextvars
import threading
from typing import TYPE_CHECKING

from holdfast import Holdfast
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable


def test_run_whose_threads_have_ended_is_put_away(fresh_database: Callable[[str], str]) -> None:
    app = Holdfast(fresh_database("sqlite"), put_away_after=0.1)
    did = []

    @app.step
    def work(number: int) -> None:
        did.append(number)

    @app.workflow
    def threaded() -> str:
        for number in range(2):
            thread = threading.Thread(target=contextvars.copy_context().run, args=(work, number))
            thread.start()
            thread.join()
        app.sleep(3600)
        return "rested"

    with app:
        handle = threaded.start()
        until(lambda: handle.status().status == "DELAYED")
        app.cancel_workflow(handle.workflow_id)
    assert did == [0, 1]
