"""How long an operation of a workflow waits for a message or an event: to a moment that is recorded, or for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.workflows.messaging.receiving import Instead
from holdfast.workflows.parking import Wait

if TYPE_CHECKING:
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.messaging.bells import Bell
    from holdfast.workflows.operations.place import WorkflowPlace


_BRIEF = 0.02


class Patience:
    """One wait of at most *limit* seconds; None for no limit.

    The end is an operation of its own, called *name*, that comes before the one that waits. It is recorded only when it
    is known that there is something to wait for: so a wait that is over soon has no end, one operation, and one commit.
    A process that dies before the end is recorded leaves a wait that has not begun.
    """

    def __init__(self, engine: Engine, place: WorkflowPlace, name: str, limit: float | None) -> None:
        self._engine = engine
        self._place = place
        self._name = name
        self._limit = limit
        self._begun = engine.now()
        self._end: int | None = None

    async def recall(self) -> None:
        """Take the end from the record, if it is there; to be called before the operation that waits is begun."""
        recorded = (self._place.run.history or {}).get(self._place.branch.peek_identity())
        if recorded is not None and recorded.name == self._name and self._limit is not None:
            self._end = await self._engine.durable.deadline(self._place, self._name, self._limit)

    async def record(self) -> None:
        """Record the end, if there is one and it is not recorded; before the operation that waits is begun."""
        if self._end is None and self._limit:
            durable, end = self._engine.durable, int((self._begun + self._limit) * 1000)
            self._end = await durable.value(self._place, self._name, durable.whole, lambda: end, self._limit)

    def beginning(self) -> Instead | None:
        """Return the record of the end, to be written where there is no message; None if there is none to write."""
        if self._end is not None or self._limit is None:
            return None
        payloads = self._engine.payloads
        text, format_ = payloads.dump(int((self._begun + self._limit) * 1000))
        return Instead(self._name, payloads.mark(self._name, (self._limit,), {}), text, format_)

    def begin(self, text: str | None, format_: str | None) -> None:
        """Take notice that the end was recorded."""
        self._end = self._engine.durable.whole.load(text, format_)

    def is_over(self) -> bool:
        """Whether there is nothing to wait for: no time was given, or it has passed."""
        if self._end is None:
            return self._limit is not None and self._limit <= 0
        return self._engine.durable.seconds_until(self._end) <= 0

    async def wait_briefly(self, bell: Bell) -> bool:
        """Wait a moment for what may be on its way; return whether there is an end to be recorded after that."""
        if self._end is not None or not self._limit:
            return False
        self._place.check_before_wait()
        await bell.wait(min(_BRIEF, self._limit))
        self._place.check()
        return True

    async def wait(self, bell: Bell) -> None:
        """Wait until the bell rings or the time is over. Raises if the execution is to go no further."""
        left = None if self._end is None else self._engine.durable.seconds_until(self._end)

        def halt() -> None:
            self._engine.on_loop(bell.ring)

        self._place.check_before_wait()
        waiting = self._engine.parker.waiting(self._place, Wait(self._end, things=(bell.thing,)))
        with self._place.halting(halt), waiting:
            await bell.wait(left)
        self._place.check()
