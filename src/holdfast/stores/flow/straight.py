"""Sync calls that are done by the calling thread itself, where a store can be used without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.session import run_sync
from holdfast.stores.sides import Closable, Sides

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

S = TypeVar("S", bound=Closable)
T = TypeVar("T")


class Straight(Sides[S]):
    """Opens a store with *open_* on each loop that asks for one, and with *open_here* a single one for all threads.

    The latter must be safe for many threads, and its coroutines must block instead of waiting: no loop serves them.
    So a sync call wakes no other thread.
    """

    def __init__(
        self,
        open_: Callable[[], Coroutine[Any, Any, S]],
        open_here: Callable[[], Coroutine[Any, Any, S]],
        *,
        let_go: Callable[[S], None] | None = None,
    ) -> None:
        super().__init__(open_, let_go=let_go)
        self._open_here = open_here

    def call(self, work: Callable[[S], Awaitable[T]]) -> T:
        """Do *work* on this thread."""
        return run_sync(_await(work, self.blocking()))

    def blocking(self) -> S:
        """Return the store of sync calls."""
        store = self._sync
        if store is None:
            with self._opening:
                if self._sync is None:
                    self._sync = run_sync(self._open_here())
                store = self._sync
        return store

    def close(self) -> None:
        """End what sync calls have opened, and what closed loops have left open; it opens again when used."""
        self._forget_closed()
        with self._opening:
            store, self._sync = self._sync, None
            if store is not None:
                run_sync(store.close())


async def _await(work: Callable[[S], Awaitable[T]], store: S) -> T:
    return await work(store)
