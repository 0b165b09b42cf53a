"""The small dead letter queue: failed items with retries that come later and later, on the same table.

It has words of its own for where an item stands: retrying is replaying, succeeded is resolved, and permanent_failure is
requires_review.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.dead_letters import Claim, GiveBack, transition
from holdfast.core.durations import SHORTEST_LEASE, checked_seconds
from holdfast.db.manager import ConnectionManager
from holdfast.db.migrations.migrator import SCHEMA
from holdfast.model.dead_letter import DeadLetterItem, DeadLetterStats, FailedOperationData
from holdfast.model.world import RealWorld, World
from holdfast.stores import tokens
from holdfast.stores.dead_letters import door
from holdfast.stores.dead_letters.repository import AsyncFailedOperationRepository
from holdfast.stores.dead_letters.sql import SqlShelf
from holdfast.stores.near import Near
from holdfast.stores.opened import Opened
from holdfast.stores.ways import check_manager

if TYPE_CHECKING:
    import os
    from datetime import datetime
    from typing import Self

    from holdfast.db.pipeline.pipeline import Pipeline
    from holdfast.db.session import Transaction
    from holdfast.model.workflow import Duration
    from holdfast.stores.commits import ThreadCommits
    from holdfast.stores.dead_letters.shelf import Shelf

BASE_DELAY = 60.0
LEASE = 300.0
DEFAULT_PATH = "holdfast_dlq.db"
_WORDS = {
    "pending": "pending",
    "replaying": "retrying",
    "resolved": "succeeded",
    "requires_review": "permanent_failure",
}


class DeadLetterQueue(Opened):
    """The queue's calls over any storage."""

    def __init__(self, shelf: Shelf, *, base_delay: Duration, lease: Duration, domain: str, world: World) -> None:
        self._shelf = shelf
        self._records = AsyncFailedOperationRepository(shelf, lease=lease, world=world)
        self._base_delay = checked_seconds(base_delay, "base_delay")
        self._lease = checked_seconds(lease, "lease", least=SHORTEST_LEASE)
        self._domain = door.word(domain, "domain")
        self._world = world

    async def initialize(self) -> None:
        """Open the storage and make it ready; a second call changes nothing."""
        await self._shelf.initialize()

    async def close(self) -> None:
        """Finish what is being written. What was given to the queue stays open."""
        await self._shelf.close()

    async def enqueue(
        self, workflow_id: str, error: str, payload: Any, max_retries: int = 3, *, failure_type: str = "workflow"
    ) -> str:
        """Store a failed item and return its id; it is due at once.

        With *max_retries* 0 it is a permanent failure from the start. ``CannotSerialize`` names the part of *payload*
        that does not fit JSON.
        """
        fresh = self._fresh(workflow_id, error, payload, max_retries, failure_type)
        return (await self._shelf.add(fresh)).id

    async def dequeue_ready(self, limit: int = 10) -> list[DeadLetterItem]:
        """Claim at most *limit* items that are due, the longest due first, and return them.

        Nobody else gets them until the lease is over: end each with ``mark_success`` or ``mark_failure`` before that,
        or say ``extend``. An item whose worker died is due when its lease is over, and its retry counts.
        """
        return [_item(record) for record in await self._records.acquire_due(limit)]

    async def mark_retrying(self, item_id: str) -> bool:
        """Claim one item, due or not; nothing changes if the caller holds it already.

        False, and nothing is changed, if somebody else holds it, it has ended, or there is none.
        """
        item = self._records._item(item_id)  # noqa: SLF001 -- the other door
        mine, token = tokens.held(item), self._world.new_id()
        held = False

        def decide(record: FailedOperationData, now: datetime) -> FailedOperationData | None:
            nonlocal held
            held = record.status == "replaying" and record.replay_token in {mine, token} - {None}
            return None if held else transition(record, Claim(token, self._lease), now)

        claimed = await self._records._change(item_id, decide, GiveBack(token))  # noqa: SLF001
        if claimed is not None and claimed.status == "replaying":
            held = True
            tokens.hold(item, token)
        return held

    async def extend(self, item_id: str, *, token: str | None = None) -> bool:
        """Have the claim last a whole lease from now; False if it is not, or no longer, the caller's."""
        return await self._records.extend_replay(item_id, token=token)

    async def mark_success(self, item_id: str, *, token: str | None = None) -> bool:
        """End an item well.

        False, and nothing is changed, if somebody else holds it or has held it since, if it has ended, or there is
        none. What nobody holds may be ended by anyone.
        """
        return await self._records.complete_replay(item_id, True, token=token)

    async def mark_failure(self, item_id: str, error: str = "", *, token: str | None = None) -> bool:
        """End a retry that failed: after the n-th one the next comes in 2^(n-1) times the base delay, at most 1 h.

        Up to a quarter of that is added at random. After ``max_retries`` of them the item is a permanent failure.
        False, and nothing is changed, where ``mark_success`` says so.
        """
        return await self._records.complete_replay(item_id, False, note=error, token=token)

    async def get(self, item_id: str) -> DeadLetterItem | None:
        """Return an item, or None."""
        record = await self._shelf.get(item_id)
        return None if record is None else _item(record)

    async def get_stats(self) -> DeadLetterStats:
        """Return how many items there are: pending, retrying, succeeded, permanent_failure and total."""
        counts = dict.fromkeys(_WORDS.values(), 0)
        for (_, _, status), number in (await self._shelf.tally()).items():
            if status in _WORDS:
                counts[_WORDS[status]] += number
        return DeadLetterStats(
            pending=counts["pending"],
            retrying=counts["retrying"],
            succeeded=counts["succeeded"],
            permanent_failure=counts["permanent_failure"],
            total=sum(counts.values()),
        )

    def _fresh(
        self, workflow_id: str, error: str, payload: Any, max_retries: int, failure_type: str
    ) -> FailedOperationData:
        retryable = door.retries(max_retries, "max_retries") > 0
        message = door.text(error, "error")
        return FailedOperationData(
            id=self._world.new_id(),
            domain=self._domain,
            failure_type=door.word(failure_type, "failure type"),
            status="pending" if retryable else "requires_review",
            error=message,
            error_message=message,
            workflow_id=door.word(workflow_id, "workflow_id"),
            payload=door.json(payload, "payload"),
            max_retries=max_retries,
            retry_delay=self._base_delay,
        )


def _item(record: FailedOperationData) -> DeadLetterItem:
    """Show a record the queue's way. A retry under way is not counted yet: it has not failed."""
    assert record.created_at is not None  # noqa: S101 -- every stored record has it
    is_held = record.status == "replaying"
    return DeadLetterItem(
        id=record.id,
        workflow_id=record.workflow_id or "",
        error=record.error,
        payload=record.payload,
        created_at=record.created_at,
        retry_count=record.retry_count - is_held,
        max_retries=record.max_retries,
        next_retry_at=record.next_retry_at,
        status=_WORDS.get(record.status, record.status),
        token=record.replay_token if is_held else None,
    )


class DBDeadLetterQueue(DeadLetterQueue, Near):
    """The queue in PostgreSQL, MariaDB/MySQL or SQLite, shared by every process that uses the database.

    *manager* is the caller's, and stays open. *lease* is for how many seconds a claim lasts, *base_delay* how many
    seconds after the first failed retry the next one comes, *domain* what the items are filed under for the full
    repository. Concurrent writes become one commit. Times are the database's.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str = SCHEMA,
        base_delay: Duration = BASE_DELAY,
        lease: Duration = LEASE,
        domain: str = "workflow",
        pipeline: Pipeline | None = None,
        world: World | None = None,
        clock_offset_ms: str | None = None,
    ) -> None:
        check_manager(self, manager)
        world = world or RealWorld()
        self.manager = manager
        self._tables = SqlShelf(manager, schema=schema, pipeline=pipeline, world=world, clock_offset_ms=clock_offset_ms)
        self._commits = self._tables.commits
        super().__init__(self._tables, base_delay=base_delay, lease=lease, domain=domain, world=world)

    def _on(self, commits: ThreadCommits) -> Self:
        nearby = super()._on(commits)
        shelf = nearby._shelf = self._tables.on(commits)  # noqa: SLF001 -- one of this class
        nearby._records = AsyncFailedOperationRepository(shelf, lease=self._lease, world=self._world)  # noqa: SLF001
        return nearby

    async def enqueue_in(
        self,
        transaction: Transaction,
        workflow_id: str,
        error: str,
        payload: Any,
        max_retries: int = 3,
        *,
        failure_type: str = "workflow",
    ) -> str:
        """Do as ``enqueue`` in a transaction of the same database: the item is there if that is committed."""
        fresh = self._fresh(workflow_id, error, payload, max_retries, failure_type)
        return (await self._tables.add_in(transaction, fresh)).id


class PersistentDLQ(DBDeadLetterQueue):
    """The queue in a SQLite file of its own: *path*, or ``holdfast_dlq.db`` in the current folder.

    It opens and closes the file itself. The options are those of ``DBDeadLetterQueue``.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, **options: Any) -> None:
        super().__init__(ConnectionManager(Path(DEFAULT_PATH if path is None else path)), **options)

    async def close(self) -> None:
        """Finish what is being written and close the file; a second call changes nothing."""
        await super().close()
        await self.manager.close()


__all__ = ["DBDeadLetterQueue", "DeadLetterQueue", "PersistentDLQ"]
