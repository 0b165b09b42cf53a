"""What the sync colour of every store stands on: calls go to the portal's loop, tokens come back to the thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from holdfast.db.session import run_sync
from holdfast.errors import ConfigurationError, MisuseError
from holdfast.stores import tokens
from holdfast.stores.opened import Opened

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Self

    from holdfast.db.portal import Portal

T = TypeVar("T")
S = TypeVar("S", bound=Opened)


class Blocking:
    """A store for code without an event loop: each method is one line over the async store's method of that name."""

    def __init__(self, portal: Portal) -> None:
        self._portal = portal

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* on the loop and return its result; a token it has obtained is held by the calling thread."""
        try:
            result, held = self._portal.call(_with_tokens(work))
        except MisuseError:
            work.close()  # the portal may have refused to begin it
            raise
        if held is not tokens.all_held():
            tokens.take_over(held)
        return result


class BlockingStore(Blocking, Generic[S]):
    """An async store and the portal that it lives on, open within a ``with`` block."""

    def __init__(self, store: S, portal: Portal) -> None:
        super().__init__(portal)
        self._store = store

    @property
    def store(self) -> S:
        """The async store behind, which lives on the portal's loop."""
        return self._store

    @property
    def portal(self) -> Portal:
        """Where the loop of the store runs."""
        return self._portal

    def initialize(self) -> None:
        """Make the storage ready; a second call changes nothing."""
        self._call(self._store.initialize())

    def close(self) -> None:
        """Finish what is being written. What was given to the store stays open."""
        self._call(self._store.close())

    def _write(self, work: Callable[[S], Coroutine[Any, Any, T]]) -> T:
        """Do *work*, a verb that is a single write: on this thread, which waits for it anyway, if the store can."""
        near = self._store._near()  # noqa: SLF001 -- the other colour
        return self._call(work(self._store)) if near is None or not self._portal.is_running else run_sync(work(near))

    def __enter__(self) -> Self:
        self.initialize()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refuse_options(store: object, options: Mapping[str, Any]) -> None:
    """Raise ``ConfigurationError`` if there are *options* for a store that was made without them."""
    if options:
        raise ConfigurationError(
            f"{', '.join(sorted(options))}: such options are for a repository that is made here, and the "
            f"{type(store).__name__} is there already. Give them to that one."
        )


async def _with_tokens(work: Coroutine[Any, Any, T]) -> tuple[T, tokens.Tokens]:
    return await work, tokens.all_held()
