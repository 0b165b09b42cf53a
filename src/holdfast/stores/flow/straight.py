"""Sync calls that are done by the calling thread itself, where a store can be used without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.session import run_sync
from holdfast.stores.sides import Sides

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from holdfast.stores.opened import Closable

S = TypeVar("S", bound="Closable")
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

    def _open_sync(self) -> S:
        return run_sync(self._open_here())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return run_sync(work)
