"""What is open within a block: made ready where the block begins, closed where it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Opened:
    """A store that ``async with`` makes ready and closes. Where nothing is opened, both have nothing to do."""

    async def initialize(self) -> None:
        """Make the storage ready; a second call changes nothing."""

    async def close(self) -> None:
        """Finish what is being written. What was given to the store stays open."""

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


__all__ = ["Opened"]
