"""How a store is opened and closed: by its owner, or by a block, where it begins and where it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing import Self


class Closable(Protocol):
    """A store, as far as its owner is concerned."""

    async def close(self) -> None:
        """Finish what is being written."""


class Openable(Closable, Protocol):
    """A store that makes its own place."""

    async def initialize(self) -> None:
        """Make the place; a second call changes nothing."""


class Opened:
    """A store that ``async with`` makes ready and closes. Where nothing is opened, both have nothing to do."""

    async def initialize(self) -> None:
        """Make the storage ready; a second call changes nothing."""

    async def close(self) -> None:
        """Finish what is being written. What was given to the store stays open."""

    def _near(self) -> Self | None:
        """Return this store for threads that drive its coroutines themselves; None where they cannot, or not yet.

        Only verbs that are a single write may be asked of it: they block, and wait for no loop.
        """
        return None

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


__all__ = ["Closable", "Openable", "Opened"]
