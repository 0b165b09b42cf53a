"""What all parts of the repository stand on: the shelf, time and ids, and the token a caller holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.dead_letters import Event, transition
from holdfast.model.world import RealWorld, World
from holdfast.stores.dead_letters.making import Making

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.stores import tokens
    from holdfast.stores.dead_letters.shelf import Decide, Shelf, Wanted

AT_ONCE = 500
"""How many records one step of a long change takes."""

ALL = 2**31 - 1


class Room(Making):
    """A shelf, and how its records are changed."""

    def __init__(self, shelf: Shelf, *, lease: float, world: World | None = None) -> None:
        super().__init__(shelf, world or RealWorld())
        self._shelf = shelf
        self._lease = lease

    async def initialize(self) -> None:
        """Make the storage ready; a second call changes nothing."""
        await self._shelf.initialize()

    async def close(self) -> None:
        """Finish what is being written. What was given to the repository stays open."""
        await self._shelf.close()

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _item(self, id: str) -> tokens.Item:  # noqa: A002 -- the documented word
        return ("dead letter", self._shelf.place, id)

    async def _change(self, id: str, decide: Decide, undo: Event | None = None) -> FailedOperationData | None:  # noqa: A002
        """Change one record; None if there is none, or it is left as it is.

        If this task was cancelled meanwhile, *undo* happens to it, if it is given, and then the cancellation goes on.
        """
        before = _cancellings()
        changed = await self._shelf.change(id, decide)
        if _cancellings() > before:
            if undo is not None:
                await self._shelf.change(id, happening(undo))
            raise asyncio.CancelledError
        return changed

    async def _happen(self, id: str, event: Event) -> FailedOperationData | None:  # noqa: A002
        """Let *event* happen to one record; None if there is none, or it is refused."""
        return await self._change(id, happening(event))

    async def _sweep(self, wanted: Wanted, decide: Decide) -> int:
        """Change everything that is wanted, some at a time; return how many that were."""
        total = 0
        while changed := await self._shelf.sweep(wanted, decide):
            total += len(changed)
        return total


def happening(event: Event) -> Decide:
    """Return the decision that is: what the state machine says of *event*."""

    def decide(record: FailedOperationData, now: datetime) -> FailedOperationData | None:
        return transition(record, event, now)

    return decide


def _cancellings() -> int:
    """Return how often the running task has been cancelled; a store in memory is also driven without any."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return 0 if task is None else task.cancelling()


__all__ = ["ALL", "AT_ONCE", "Room", "happening"]
