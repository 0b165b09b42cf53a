"""Flow checkpoints in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.db.migrations import key_collation
from holdfast.db.url import DialectName
from holdfast.errors import Conflict, DatabaseError, UnknownCommit
from holdfast.stores.flow.queries import TABLE, flow_queries
from holdfast.stores.flow.shelf import Card, Put, Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.world import World

_ALL = 2**31 - 1
_TRIES = 5


class SQLShelf:
    """Cards in the table *table_name* of *manager*'s database, which is made if it is not there.

    Every write carries a key of its own: after a lost reply the table says whether it has landed.
    """

    def __init__(
        self,
        manager: ConnectionManager,
        world: World,
        *,
        table_name: str = TABLE,
        clock_offset_ms: str | None = None,
        owns: bool = True,
    ) -> None:
        self._manager = manager
        self._world = world
        self._table = table_name
        self._offset = clock_offset_ms
        self._owns = owns
        self._queries: Queries = flow_queries(manager.dialect, table_name, clock_offset_ms=clock_offset_ms)

    async def initialize(self) -> None:
        """Connect, and make the table if it is not there."""
        await self._manager.initialize()
        if self._manager.dialect is DialectName.MYSQL:
            [row] = await self._manager.fetch("SELECT VERSION() AS version")
            collation = key_collation(row["version"])
            self._queries = flow_queries(
                DialectName.MYSQL, self._table, clock_offset_ms=self._offset, key_collation=collation
            )
        try:
            await self._create()
        except DatabaseError:  # on PostgreSQL two who create one thing at once may collide, IF NOT EXISTS or not
            await self._create()

    async def close(self) -> None:
        """End the connections, unless they are somebody else's."""
        if self._owns:
            await self._manager.close()

    async def put(self, card: Card, expected: int) -> Put:
        """Store a card; see ``Shelf``."""
        values: dict[str, Any] = {**card._asdict(), "data": card.data.decode(), "write_key": self._world.new_id()}
        del values["sequence"]
        for _ in range(_TRIES):
            if await self._written(values, expected):
                return Put.STORED
            head = await self._manager.fetchone(self._queries["flow_head"], id=card.id)
            if head is not None:
                return Put.STORED if head["write_key"] == values["write_key"] else Put.STALE
            if expected:
                return Put.MISSING
        raise Conflict(f"The checkpoint {card.id} was made and deleted by others again and again.")

    async def get(self, checkpoint_id: str) -> Card | None:
        """Return a card, or None."""
        row = await self._manager.fetchone(self._queries["flow_get"], id=checkpoint_id)
        return None if row is None else _card(row)

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a card; return whether there was one."""
        return await self._manager.execute(self._queries["flow_delete"], id=checkpoint_id) > 0

    async def query(self, wanted: Wanted) -> list[Card]:
        """Return cards, newest first."""
        return await self._find(wanted, whole=True)

    async def skeleton(self, wanted: Wanted) -> list[Card]:
        """Return cards without their data."""
        return await self._find(wanted, whole=False)

    async def delete_all(self, cards: Sequence[Card]) -> int:
        """Remove those of *cards* that still have the same revision."""
        delete = self._queries["flow_delete_all"]

        async def work(transaction: Transaction) -> int:
            return await transaction.execute_batch(delete, [(card.id, card.revision) for card in cards])

        return await self._manager.run(work)

    async def claim(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Let *token* hold a card; see ``Shelf``."""
        named = {"token": token, "lease_ms": round(seconds * 1000)}
        try:
            return await self._manager.execute(self._queries["flow_claim"], id=checkpoint_id, **named) > 0
        except UnknownCommit:
            head = await self._manager.fetchone(self._queries["flow_head"], id=checkpoint_id)
            if head is None or head["claim_token"] != token:
                raise
            return True

    async def extend(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Hold a card for *seconds* from now."""
        named = {"token": token, "lease_ms": round(seconds * 1000)}
        return await self._manager.execute(self._queries["flow_extend"], id=checkpoint_id, **named) > 0

    async def release(self, checkpoint_id: str, token: str) -> bool:
        """Let a card go."""
        return await self._manager.execute(self._queries["flow_release"], id=checkpoint_id, token=token) > 0

    async def _create(self) -> None:
        create = self._queries["flow_create"]

        async def work(transaction: Transaction) -> None:
            await transaction.execute(create)

        await self._manager.run(work)

    async def _written(self, values: dict[str, Any], expected: int) -> bool:
        try:
            if expected:
                values = {**values, "expected": expected}
                del values["created_at"]
                return await self._manager.execute(self._queries["flow_update"], **values) > 0
            return await self._manager.execute(self._queries["flow_insert"], **values) > 0
        except (Conflict, UnknownCommit):  # MariaDB: it came in between the look and the insert; or nobody knows
            return False

    async def _find(self, wanted: Wanted, *, whole: bool) -> list[Card]:
        given: dict[str, Any] = {name: value for name, value in wanted._asdict().items() if value is not None}
        statuses = given.pop("status", ())
        if len(statuses) == 1:
            [given["status"]] = statuses
        given["waiting"] = len(statuses) > 1
        most = given.pop("limit", _ALL)
        rows = await self._manager.fetch(self._queries["flow_query"], **given, whole=whole, most=most)
        return [_card(row) for row in rows]


def _card(row: Row) -> Card:
    return Card(
        row["id"],
        row["flow_id"],
        row["run_id"],
        row["wf_run_id"],
        row["status"],
        row["parent_checkpoint_id"],
        row["created_at"],
        row["updated_at"],
        row["resume_at"],
        row["revision"],
        row.get("data", "").encode(),
        row["sequence"],
    )
