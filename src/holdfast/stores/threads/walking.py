"""Going through many checkpoints, a page at a time: what to read next, and what of it is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.stores.threads.records import Found, Place, Saved, Span
    from holdfast.stores.threads.threads import Threads

_LARGEST = 100
_GROWTH = 4


class HasSaved(Protocol):
    """A checkpoint, with more or less of what belongs to it."""

    @property
    def saved(self) -> Saved:
        """The checkpoint itself."""


F = TypeVar("F", bound=HasSaved)


class Walk:
    """The checkpoints of *span* that are *wanted*, newest first, at most *limit*; pages grow from *first*.

    Whoever walks reads a page with ``read`` and takes with ``taken`` what is wanted of it, while there is ``more``. No
    checkpoint comes twice; one that is put or deleted meanwhile may come or not.
    """

    def __init__(
        self,
        span: Span,
        wanted: Callable[[Saved], bool] | None = None,
        limit: int | None = None,
        *,
        first: int = _LARGEST,
    ) -> None:
        self._span = span
        self._wanted = wanted
        self._left = limit
        self._size = first
        self._after: Place | None = None
        self.more = limit is None or limit > 0

    def next_page(self) -> tuple[Span, Place | None, int]:
        """Return what to read next; where everything is wanted, no more than that."""
        if self._left is not None and self._wanted is None:
            self._size = min(self._size, self._left)
        return self._span, self._after, self._size

    async def read(self, threads: Threads) -> list[Found]:
        """Return the next page."""
        return await threads.page(*self.next_page())

    def taken(self, page: Sequence[F]) -> Iterator[F]:
        """Yield what is wanted of the page that was read."""
        self.more = len(page) == self._size
        if page:
            self._after = page[-1].saved.place
        self._size = min(self._size * _GROWTH, _LARGEST)
        for found in page:
            if self._wanted is None or self._wanted(found.saved):
                if self._left is not None:
                    self._left -= 1
                    self.more = self.more and self._left > 0
                yield found
                if self._left == 0:
                    return
