"""Telling of messages and events: to those who wait here, to runs that were put away, and to other processes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.workflows.messaging.event_reader import event_of
from holdfast.workflows.parking import Awaited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.messaging.bells import Bells
    from holdfast.workflows.messaging.message import MessageRow
    from holdfast.workflows.messaging.setting import EventRow

_TELL_EVERY = 0.05  # a hint makes every process look for work: not every single message is worth one


def message_to(workflow_id: str, topic: str) -> Awaited:
    """Return what a run waits for that waits for a message; *topic* as it is stored."""
    return Awaited("message", workflow_id, topic)


class Telling:
    """Of one engine; called from any thread."""

    def __init__(self, engine: Engine, bells: Bells) -> None:
        self._engine = engine
        self._bells = bells
        self._quiet = False
        self._owed = False

    def sent(self, rows: Sequence[MessageRow]) -> None:
        """Say that messages were sent."""
        running = self._engine.runner.running
        elsewhere = any(row.destination not in running for row in rows)
        self._tell([message_to(row.destination, row.topic) for row in rows], elsewhere=elsewhere)

    def was_set(self, rows: Sequence[EventRow]) -> None:
        """Say that events were set."""
        self._tell([event_of(row.workflow_id, row.key) for row in rows], elsewhere=True)

    def _tell(self, things: list[Awaited], *, elsewhere: bool) -> None:
        self._engine.on_loop(partial(self._on_loop, things, elsewhere=elsewhere))

    def _on_loop(self, things: list[Awaited], *, elsewhere: bool) -> None:
        self._bells.ring(things)
        self._engine.wakes.happened(things)
        if elsewhere:
            self._hint()

    def _hint(self) -> None:
        """Tell other processes: at once, but not again before some time has passed."""
        if self._quiet:
            self._owed = True
            return
        self._engine.wakeups.tell()
        self._quiet = True
        self._engine.loop().call_later(_TELL_EVERY, self._speak_again)

    def _speak_again(self) -> None:
        self._quiet = False
        if self._owed:
            self._owed = False
            self._hint()
