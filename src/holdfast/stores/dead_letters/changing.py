"""How records of dead letters are changed, one or many, by a caller that may be cancelled meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.core.dead_letters import Event, rests_on_standing, transition
from holdfast.model.world import RealWorld, World
from holdfast.stores.cancels import cancels, to_the_end
from holdfast.stores.dead_letters.making import Making
from holdfast.stores.opened import Opened

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from datetime import datetime

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.stores import tokens
    from holdfast.stores.dead_letters.shelf import Decide, Shelf, Wanted

PER_STEP = 500
"""How many records one step of a long change takes."""

ALL = 2**31 - 1


class Changing(Opened, Making):
    """What all parts of the repository stand on: a shelf, and how its records are changed.

    *at_once* says that nothing here ever waits for the loop.
    """

    def __init__(self, shelf: Shelf, *, lease: float, world: World | None = None) -> None:
        super().__init__(shelf, world or RealWorld())
        self._shelf = shelf
        self._lease = lease
        self.at_once: bool = getattr(shelf, "at_once", False)

    async def initialize(self) -> None:
        """Make the storage ready; a second call changes nothing."""
        await self._shelf.initialize()

    async def close(self) -> None:
        """Finish what is being written. What was given to the store stays open."""
        await self._shelf.close()

    def _item(self, id: str) -> tokens.Item:  # noqa: A002 -- the documented word
        return ("dead letter", self._shelf.place, id)

    async def _change(
        self,
        id: str,  # noqa: A002 -- the documented word
        decide: Decide,
        undo: Event | None = None,
        *,
        whole: bool = True,
        on_standing: bool = False,
    ) -> FailedOperationData | None:
        """Change one record; None if there is none, or it is left as it is. *whole* is as in ``Wanted``.

        *on_standing* is as for a shelf. If this task was cancelled meanwhile, *undo* happens to it, if it is given, and
        then the cancellation goes on.
        """
        before = cancels()
        changed = await self._shelf.change(id, decide, whole=whole, on_standing=on_standing)
        if cancels() > before:
            if undo is not None:
                await self._shelf.change(id, happening(undo), whole=False)
            raise asyncio.CancelledError
        return changed

    async def _change_all(
        self, ids: Sequence[str], decide: Decide, undo: Decide | None = None, *, whole: bool = True
    ) -> list[FailedOperationData]:
        """Change several records in one step, to the end; *undo* is as for ``_change``."""
        return await self._carried(self._shelf.change_all(ids, decide, whole=whole), undo)

    async def _carried(
        self, changing: Coroutine[Any, Any, list[FailedOperationData]], undo: Decide | None
    ) -> list[FailedOperationData]:
        """Return what *changing* has changed; it is carried to its end. *undo* is as for ``_change``."""
        before = cancels()
        changed = await (changing if self.at_once else to_the_end(changing))
        if cancels() > before:
            if undo is not None and changed:
                await to_the_end(self._shelf.change_all([record.id for record in changed], undo, whole=False))
            raise asyncio.CancelledError
        return changed

    async def _happen(self, id: str, event: Event) -> FailedOperationData | None:  # noqa: A002
        """Let *event* happen to one record; None if there is none, or it is refused. It may come without contents."""
        return await self._change(id, happening(event), whole=False, on_standing=rests_on_standing(event))

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


__all__ = ["ALL", "PER_STEP", "Changing", "happening"]
