"""Who is watched until their patience is over: nobody who comes while the watch ends, or an outage lasts, is missed."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from holdfast.db import DialectName
from holdfast.errors import Unavailable
from holdfast.workflows.parking import parking_queries
from holdfast.workflows.parking.parker import Parker
from holdfast.workflows.queries import workflow_queries

if TYPE_CHECKING:
    from collections.abc import Callable


class Patient(dict[Any, Any]):
    """The runs that wait; *when_empty* is called once after it was found that there are none."""

    def __init__(self, when_empty: Callable[[], None]) -> None:
        super().__init__()
        self._when_empty: Callable[[], None] | None = when_empty

    def __len__(self) -> int:
        count = super().__len__()
        if count == 0 and self._when_empty is not None:
            call, self._when_empty = self._when_empty, None
            call()
        return count


class Waits:
    """Waits of a run that may end at any moment."""

    changes = 1

    def together(self) -> Any:
        return self

    until_ms = None
    may_end_at_any_moment = True
    things = ("a message",)


class WaitingRun:
    """A run that waits."""

    ended = False
    suspect = False
    attempts = 0

    def waits(self) -> Waits:
        return Waits()


class Clock:
    """A world whose time stands still."""

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, _: float) -> None:
        await asyncio.Event().wait()


def test_run_that_begins_to_wait_while_the_watch_ends_is_watched() -> None:
    async def scene() -> None:
        nothing: Any = None
        watches: list[Callable[[], None]] = []

        def begin(watch: Callable[[], None]) -> bool:
            watches.append(watch)
            return True

        parker = Parker(
            nothing,
            workflow_queries(DialectName.SQLITE, "holdfast"),
            parking_queries(DialectName.SQLITE, "holdfast"),
            nothing,
            nothing,
            nothing,
            Clock(),  # type: ignore[arg-type]  # all that it needs
            now=lambda: 0.0,
            on_loop=begin,
            have_come=nothing,
            left=nothing,
            after=1.0,
        )
        late = threading.Thread(target=parker._consider, args=(WaitingRun(),), daemon=True)

        def comes() -> None:
            late.start()
            late.join(0.5)  # it may have to wait until the watch has ended

        parker._patient = Patient(comes)
        parker._is_watching = True
        await parker._watch()
        await asyncio.to_thread(late.join)
        assert (len(parker._patient), len(watches)) == (1, 1)

    asyncio.run(scene())


def test_run_that_could_not_be_put_away_while_the_database_was_away_is_put_away_later() -> None:
    async def scene() -> None:
        nothing: Any = None

        async def away(_: Any) -> bool:
            raise Unavailable("gone for lunch")

        parker = Parker(
            nothing,
            workflow_queries(DialectName.SQLITE, "holdfast"),
            parking_queries(DialectName.SQLITE, "holdfast"),
            nothing,
            nothing,
            nothing,
            Clock(),  # type: ignore[arg-type]  # all that it needs
            now=lambda: 0.0,
            on_loop=lambda _: True,
            have_come=away,
            left=nothing,
            after=1.0,
        )
        run: Any = WaitingRun()
        await parker._put_away(run, Waits.changes)
        assert parker._patient == {run: (Waits.changes, 1.0)}

    asyncio.run(scene())
