"""Flow checkpoints in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from holdfast import faults
from holdfast.db.manager import ConnectionManager
from holdfast.db.url import DialectName
from holdfast.errors import ClaimLost, Conflict, DatabaseError, StorageError, UnknownCommit
from holdfast.stores.flow.queries import TABLE, flow_queries, split_name
from holdfast.stores.flow.shelf import Card, Put, Wanted
from holdfast.stores.flow.together import Together

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from holdfast.db.queries.queries import Queries, Query
    from holdfast.db.session import Row, Transaction
    from holdfast.model.world import World

T = TypeVar("T")

_ALL = 2**31 - 1
_TRIES = 5


class Database(Protocol):
    """The verbs of a connection manager that the shelf uses; a transaction of somebody else's has them too."""

    @property
    def dialect(self) -> DialectName:
        """Which SQL it speaks."""

    async def initialize(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """End the connections, if they are its own."""

    async def execute(self, sql: str | Query, *args: Any, **named: Any) -> int:
        """Run a statement; return how many rows it touched."""

    async def fetch(self, sql: str | Query, *args: Any, **named: Any) -> list[Row]:
        """Run a statement; return its rows."""

    async def fetchone(self, sql: str | Query, *args: Any, **named: Any) -> Row | None:
        """Run a statement; return its first row, or None."""

    async def run(self, work: Callable[[Transaction], Coroutine[Any, Any, T]]) -> T:
        """Run *work* in one transaction."""


class SQLShelf:
    """Cards in the table *table_name* of *database*, which is made if it is not there.

    Every write carries a key of its own: after a lost reply the table says whether it has landed. One that is *shared*
    by the tasks of a loop writes in one transaction what they save at the same moment.
    """

    def __init__(
        self,
        database: Database,
        world: World,
        *,
        table_name: str = TABLE,
        clock_offset_ms: str | None = None,
        shared: bool = False,
    ) -> None:
        self._database = database
        self._world = world
        self._table = table_name
        self._offset = clock_offset_ms
        self._queries: Queries = flow_queries(database.dialect, table_name, clock_offset_ms=clock_offset_ms)
        self._together = (
            Together(self._write_one, self._write_many, lambda save: len(save[0]["data"])) if shared else None
        )

    async def initialize(self) -> None:
        """Connect, and make the table if it is not there; another process may be at it at the same moment."""
        await self._database.initialize()
        await self.prepare()

    async def prepare(self, *, may_create: bool = True) -> None:
        """Learn what the server is, and make the table if it is not there and that is allowed."""
        if self._database.dialect is DialectName.MYSQL:
            [row] = await self._database.fetch(self._queries["flow_server_version"])
            self._queries = flow_queries(
                DialectName.MYSQL, self._table, clock_offset_ms=self._offset, server_version=row["version"]
            )
        if await self._is_present():
            return
        if not may_create:
            raise StorageError(
                f"There is no table {self._table}, and making it would commit; save() once without a session."
            )
        try:
            await self._create()
        except DatabaseError:  # on PostgreSQL two who create one thing at once may collide, IF NOT EXISTS or not
            if not await self._is_present():
                await self._create()

    async def close(self) -> None:
        """Write what is at hand and end the connections, unless they are somebody else's."""
        if self._together is not None:
            await self._together.finish()
        await self._database.close()

    def let_go(self) -> None:
        """End what did not end with the loop, which was closed."""
        if isinstance(self._database, ConnectionManager):
            self._database.let_go()

    async def put(self, card: Card, expected: int) -> Put:
        """Store a card; see ``Shelf``."""
        values = self._values(card)
        for _ in range(_TRIES):
            if await self._written(values, expected):
                faults.point("flow.stored")
                return Put.STORED
            head = await self._head(card.id)
            if head is None and expected:
                return Put.MISSING
            if head is not None:
                if head["write_key"] == values["write_key"]:
                    return Put.STORED
                if (head["revision"], head["flow_id"]) != (expected, card.flow_id):
                    return Put.STALE
        raise Conflict(f"The checkpoint {card.id} was made and deleted by others again and again.")

    async def follow(self, card: Card, before: str, token: str, seconds: float) -> Put:
        """Store a card and pass the claim on to it; see ``Shelf``."""
        values = self._values(card)
        lease_ms = round(seconds * 1000)

        async def work(transaction: Transaction) -> None:
            if not await transaction.execute(self._queries["flow_release"], id=before, token=token):
                raise ClaimLost(f"Nobody holds the checkpoint {before} under this token any more.")
            if not await transaction.execute(self._queries["flow_insert"], **values):
                raise Conflict(f"There is a checkpoint {card.id} already.")
            await transaction.execute(self._queries["flow_hold"], id=card.id, token=token, lease_ms=lease_ms)

        for _ in range(_TRIES):
            try:
                await self._database.run(work)
            except ClaimLost:
                return Put.LOST
            except Conflict:
                return Put.STALE
            except UnknownCommit:
                head = await self._head(card.id)
                if head is None:
                    continue
            faults.point("flow.stored")
            return Put.STORED
        raise UnknownCommit(f"The database did not say whether the checkpoint {card.id} was stored.")

    async def get(self, checkpoint_id: str) -> Card | None:
        """Return a card, or None."""
        row = await self._database.fetchone(self._queries["flow_get"], id=checkpoint_id)
        return None if row is None else _card(row)

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a card; see ``Shelf``."""
        delete = self._queries["flow_delete"]
        try:
            return await self._database.execute(delete, id=checkpoint_id) > 0
        except UnknownCommit:
            await self._database.execute(delete, id=checkpoint_id)
            return True

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

        return await self._database.run(work)

    async def claim(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Let *token* hold a card; see ``Shelf``."""
        named = {"id": checkpoint_id, "token": token, "lease_ms": round(seconds * 1000)}
        try:
            claimed = await self._database.execute(self._queries["flow_claim"], **named) > 0
        except UnknownCommit:  # if it has not landed the second try finds the card free, unless somebody else has it
            claimed = await self._database.execute(self._queries["flow_claim"], **named) > 0
            if not claimed:
                head = await self._head(checkpoint_id)
                claimed = head is not None and head["claim_token"] == token
        faults.point("flow.claimed")
        return claimed

    async def extend(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Hold a card for *seconds* from now."""
        named = {"token": token, "lease_ms": round(seconds * 1000)}
        return await self._database.execute(self._queries["flow_extend"], id=checkpoint_id, **named) > 0

    async def release(self, checkpoint_id: str, token: str) -> bool:
        """Let a card go."""
        release = self._queries["flow_release"]
        try:
            return await self._database.execute(release, id=checkpoint_id, token=token) > 0
        except UnknownCommit:
            await self._database.execute(release, id=checkpoint_id, token=token)
            return True

    async def _is_present(self) -> bool:
        return bool(await self._database.fetch(self._queries["flow_present"]))

    async def _create(self) -> None:
        schema, _ = split_name(self._table, self._database.dialect)
        in_schema = schema is not None and self._database.dialect is DialectName.POSTGRES
        if in_schema and not await self._database.fetch(self._queries["flow_schema_present"]):
            await self._database.execute(self._queries["flow_schema_create"])
        create = self._queries["flow_create"]

        async def work(transaction: Transaction) -> None:
            await transaction.execute(create)

        await self._database.run(work)

    def _values(self, card: Card) -> dict[str, Any]:
        values: dict[str, Any] = {**card._asdict(), "data": card.data.decode(), "write_key": self._world.new_id()}
        del values["sequence"]
        return values

    async def _head(self, checkpoint_id: str) -> Row | None:
        return await self._database.fetchone(self._queries["flow_head"], id=checkpoint_id)

    async def _written(self, values: dict[str, Any], expected: int) -> bool:
        write = self._write_one if self._together is None else self._together.write
        try:
            return await write((values, expected))
        except (Conflict, UnknownCommit):  # MariaDB: it came in between the look and the insert; or nobody knows
            return False

    async def _write_one(self, save: tuple[dict[str, Any], int]) -> bool:
        query, values = self._change(*save)
        return await self._database.execute(query, **values) > 0

    async def _write_many(self, saves: Sequence[tuple[dict[str, Any], int]]) -> list[bool]:
        # By id, so that two who write the same ones at once do not wait for each other.
        order = sorted(range(len(saves)), key=lambda place: str(saves[place][0]["id"]))

        async def work(transaction: Transaction) -> list[bool]:
            stored = [False] * len(saves)
            for place in order:
                query, values = self._change(*saves[place])
                stored[place] = await transaction.execute(query, **values) > 0
            return stored

        return await self._database.run(work)

    def _change(self, values: dict[str, Any], expected: int) -> tuple[Query, dict[str, Any]]:
        if not expected:
            return self._queries["flow_insert"], values
        newer = {**values, "expected": expected}
        del newer["created_at"]
        return self._queries["flow_update"], newer

    async def _find(self, wanted: Wanted, *, whole: bool) -> list[Card]:
        given: dict[str, Any] = {name: value for name, value in wanted._asdict().items() if value is not None}
        statuses = given.pop("status", ())
        if len(statuses) == 1:
            [given["status"]] = statuses
        given["waiting"] = len(statuses) > 1
        most = given.pop("limit", _ALL)
        query = self._queries["flow_query" if wanted.due_at is None else "flow_due"]
        rows = await self._database.fetch(query, **given, whole=whole, most=most)
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


__all__ = ["Database", "SQLShelf"]
