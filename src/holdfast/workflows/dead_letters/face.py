"""``app.dead_letters``: the small queue and the full repository over one table, and replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from holdfast.model.world import RealWorld
from holdfast.resilience.replay import CONCURRENCY, LEASE, Manner, Replayer, Selection
from holdfast.stores.dead_letters.blocking import BlockingFailedOperations
from holdfast.stores.dead_letters.queue import BASE_DELAY, DBDeadLetterQueue, DeadLetterQueue
from holdfast.stores.dead_letters.queue_blocking import SyncDeadLetterQueue
from holdfast.stores.dead_letters.repository import AsyncFailedOperationRepository
from holdfast.stores.dead_letters.sql import AsyncSQLFailedOperationRepository, SqlShelf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.dead_letters import Complete
    from holdfast.db.manager import ConnectionManager
    from holdfast.db.portal import Portal
    from holdfast.db.session import Transaction
    from holdfast.model.dead_letter import DLQCompressedEntry, FailedOperationData
    from holdfast.model.world import World
    from holdfast.resilience.letters import Contents
    from holdfast.resilience.replay import Find, Progress
    from holdfast.resilience.replay_report import ReplayReport


class _MaskedShelf(SqlShelf):
    """The tables, into which nothing goes with a field that is to be masked, or without the delay of its domain."""

    contents: Contents
    made: Callable[[], None]
    delay_of: Callable[[str], float | None]

    async def add(self, fresh: FailedOperationData) -> FailedOperationData:
        added = await super().add(self._masked(self._due(fresh)))
        if added.retry_delay is not None:
            self.made()
        return added

    async def add_in(self, transaction: Transaction, fresh: FailedOperationData) -> FailedOperationData:
        return await super().add_in(transaction, self._masked(self._due(fresh)))

    async def add_summary(self, entry: DLQCompressedEntry) -> bool:
        return await super().add_summary(replace(entry, sample_context=self.contents.masked(entry.sample_context)))

    def _due(self, fresh: FailedOperationData) -> FailedOperationData:
        delay = self.delay_of(fresh.domain) if fresh.retry_delay is None else None
        return fresh if delay is None else replace(fresh, retry_delay=delay)

    def _masked(self, fresh: FailedOperationData) -> FailedOperationData:
        if not self.contents.mask_fields:
            return fresh
        return replace(fresh, **{name: self.contents.masked(getattr(fresh, name)) for name in _OPEN})


_OPEN = ("request_data", "response_data", "snapshot_data", "metadata", "entity_refs", "payload")


class AsyncDeadLetters(DBDeadLetterQueue, AsyncSQLFailedOperationRepository):
    """The dead letters of an application: every call of the queue and of the repository, and ``replay``.

    *find* names the handler of a letter; *made* is called when one was made that is due by itself, as all
    are of a domain for which *delay_of* tells a delay.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        contents: Contents,
        find: Find,
        made: Callable[[], None] = lambda: None,
        delay_of: Callable[[str], float | None] = lambda _: None,
        world: World | None = None,
        lease: float = LEASE,
        **options: Any,
    ) -> None:
        world = world or RealWorld()
        shelf = _MaskedShelf(manager, world=world, **options)
        shelf.contents, shelf.made, shelf.delay_of = contents, made, delay_of
        self.manager = manager
        self._tables = shelf
        self._contents = contents
        AsyncFailedOperationRepository.__init__(self, shelf, lease=lease, world=world)
        DeadLetterQueue.__init__(self, shelf, base_delay=BASE_DELAY, lease=lease, domain="workflow", world=world)
        self.replayer = Replayer(self, find, world, lease=lease)

    async def close(self) -> None:
        """Finish what is being written. What was given to it stays open."""
        await self.replayer.close()
        await super().close()

    def _near(self) -> None:
        """Leave threads to the loop, where the application hears of letters that are due by themselves."""

    async def due_in(self, domains: Sequence[str]) -> dict[str, float]:
        """Return in how many seconds the next letter of each domain is due by itself; 0 if it is due now.

        By the database's clock. A domain of which nothing will be due is left out.
        """
        return await self._tables.due_in(domains)

    async def replay(
        self,
        id: str | None = None,  # noqa: A002 -- the documented word
        *,
        domain: str | None = None,
        status: str | None = None,
        failure_type: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        force: bool = False,
        rate: float | None = None,
        concurrency: int = CONCURRENCY,
        progress: Progress | None = None,
        resolved_by_id: int | None = None,
    ) -> ReplayReport:
        """Replay one letter, or the pending ones that fit, the oldest first; return what became of them.

        Each is held while its handler runs, so that of several who replay one has it. One that has been replayed as
        often as it may be is left; with *force* it is not, nor is one that requires review. At most *rate* are begun in
        a second, and *concurrency* run at once. With *dry_run* nothing is changed. *progress* is called with how many
        are done and the outcome of the last, on the application's loop: it must not wait. ``ConfigurationError`` for
        choices that exclude each other; an error of the database ends the replay.
        """
        selection = Selection(id, domain, status, failure_type, limit)
        manner = Manner(dry_run, force, rate, concurrency, resolved_by_id)
        return await self.replayer.replay(selection, manner, progress)

    def _ending(self, *said: Any, **more: Any) -> Complete:
        event = super()._ending(*said, **more)
        return replace(event, error_details=self._contents.masked(event.error_details))


class DeadLetters(SyncDeadLetterQueue, BlockingFailedOperations):
    """The same for code without an event loop."""

    def __init__(self, store: AsyncDeadLetters, portal: Portal) -> None:
        super().__init__(store, portal)
        self._store: AsyncDeadLetters = store

    def due_in(self, domains: Sequence[str]) -> dict[str, float]:
        """Return in how many seconds the next letter of each domain is due by itself; 0 if it is due now.

        By the database's clock. A domain of which nothing will be due is left out.
        """
        return self._call(self._store.due_in(domains))

    def replay(
        self,
        id: str | None = None,  # noqa: A002 -- the documented word
        *,
        domain: str | None = None,
        status: str | None = None,
        failure_type: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        force: bool = False,
        rate: float | None = None,
        concurrency: int = CONCURRENCY,
        progress: Progress | None = None,
        resolved_by_id: int | None = None,
    ) -> ReplayReport:
        """Replay one letter, or the pending ones that fit, the oldest first; return what became of them.

        Each is held while its handler runs, so that of several who replay one has it. One that has been replayed as
        often as it may be is left; with *force* it is not, nor is one that requires review. At most *rate* are begun in
        a second, and *concurrency* run at once. With *dry_run* nothing is changed. *progress* is called with how many
        are done and the outcome of the last, on the application's loop: it must not wait. ``ConfigurationError`` for
        choices that exclude each other; an error of the database ends the replay.
        """
        return self._call(
            self._store.replay(
                id, domain=domain, status=status, failure_type=failure_type, limit=limit, dry_run=dry_run, force=force,
                rate=rate, concurrency=concurrency, progress=progress, resolved_by_id=resolved_by_id,
            )
        )  # fmt: skip


__all__ = ["AsyncDeadLetters", "DeadLetters"]
