"""What happens to idempotency keys, as kinds of the commit pipeline: claimed, ended, given back, extended, put.

Each row carries the token of its claim, or a mark of its own, which is stored with it: so a write whose reply was lost
is found again, and not made twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.db.pipeline.operation import Fleeting
from holdfast.db.url import DialectName
from holdfast.errors import Retryable
from holdfast.stores.idempotency.entry import IN_PROGRESS, Kept, KeptRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction

_ROUNDS = 10
_FINISH = ("idempotency_key", "token", "mark", "response_data", "status_code", "headers", "later_ms")


def kept(row: Row) -> Kept:
    """Return what a row of the table says."""
    return KeptRow(
        row["idempotency_key"],
        row["fingerprint"],
        row["response_data"],
        row["status_code"],
        row["headers"],
        row["created_at"],
        row["expires_at"],
        row["owner_token"],
    )


class _Keys:
    """What all kinds have in common: rows begin with the key, and it can be looked up."""

    one_statement: bool
    name: str

    def __init__(self, queries: Queries, write: str) -> None:
        self._write = queries[write]
        self._looking = queries["keys_look"]
        # On MariaDB/MySQL a write is followed by a look at what came of it. The write commits by itself, and the token
        # in the row tells whose it is: no transaction is needed around the two.
        self.one_statement = True

    async def _look(self, transaction: Transaction, keys: Iterable[str]) -> dict[str, Row]:
        wanted = [(key,) for key in dict.fromkeys(keys)]
        return {row["idempotency_key"]: row for row in await transaction.fetch_batch(self._looking, wanted)}


class ClaimKeys(_Keys):
    """Rows as in the query ``keys_claim``; the result is what is kept under the key then, and has not expired."""

    name = "key claimed"

    def __init__(self, queries: Queries) -> None:
        super().__init__(queries, "keys_claim")
        is_postgres = queries.dialect is DialectName.POSTGRES
        self._write_many = queries["keys_claim_many"] if is_postgres else self._write

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Kept | Exception]:
        outcomes: dict[int, Kept] = {}
        for _ in range(_ROUNDS):
            still = [place for place in range(len(rows)) if place not in outcomes]
            if not still:
                return [outcomes[place] for place in range(len(rows))]
            # Of several claims of one key in a batch the first is tried; no statement may touch a row twice.
            first = {rows[place][0]: rows[place] for place in reversed(still)}
            found = await self._tried(transaction, first)
            outcomes |= {place: found[rows[place][0]] for place in still if rows[place][0] in found}
        raise Retryable("Idempotency keys were taken and freed again faster than they could be claimed.")

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Kept | None]:
        found = await self._look(transaction, [row[0] for row in rows])
        return [kept(there) if (there := found.get(row[0])) and _is_claim_of(there, row[2]) else None for row in rows]

    async def _tried(self, transaction: Transaction, first: dict[str, Values]) -> dict[str, Kept]:
        write = self._write if len(first) == 1 else self._write_many
        answer = await transaction.fetch_batch(write, list(first.values()))
        found = {row["idempotency_key"]: row for row in answer}
        # Overtaken: whoever has the key now was not there, or was over, when the statement began.
        again = [key for key in first if key not in found or not found[key]["is_live"]]
        if again:
            found |= await self._look(transaction, again)
        return {key: kept(row) for key, row in found.items() if row["is_live"]}


class FleetingClaimKeys(ClaimKeys, Fleeting):
    """Claims that end with the machine at the latest, and therefore need not be on its disk."""

    name = "key claimed for now"


class FinishKeys(_Keys):
    """Rows as in the query ``keys_finish``; the result is whether this very result is stored."""

    name = "key's result stored"

    def __init__(self, queries: Queries) -> None:
        super().__init__(queries, "keys_finish")
        self._write_one = queries["key_finish"]

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | Exception]:
        if await self._written(transaction, rows) == len(rows):
            return [True] * len(rows)
        return [each or False for each in await self.recall(transaction, rows)]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
        found = await self._look(transaction, [row[0] for row in rows])
        return [((there := found.get(row[0])) is not None and _is_result(there, row)) or None for row in rows]

    async def _written(self, transaction: Transaction, rows: Sequence[Values]) -> int:
        if len(rows) > 1 or rows[0][1] is None:
            return await transaction.execute_batch(self._write, rows)
        return await transaction.execute(self._write_one, **dict(zip(_FINISH, rows[0], strict=True)))


class PutKeys(_Keys):
    """Rows as in the query ``keys_put``; the result is whether the result is stored."""

    name = "key put"

    def __init__(self, queries: Queries) -> None:
        super().__init__(queries, "keys_put")

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | Exception]:
        first = {row[0]: row for row in reversed(rows)}
        if await transaction.execute_batch(self._write, list(first.values())) == len(rows):
            return [True] * len(rows)
        return [each or False for each in await self.recall(transaction, rows)]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
        found = await self._look(transaction, [row[0] for row in rows])
        return [((there := found.get(row[0])) is not None and there["owner_token"] == row[2]) or None for row in rows]


class ReleaseKeys(_Keys):
    """Rows are (key, token); the result is whether the claim was there and is gone."""

    name = "key released"

    def __init__(self, queries: Queries) -> None:
        super().__init__(queries, "keys_release")
        self.one_statement = len(self._write.statements) == 1

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | Exception]:
        gone = {row["idempotency_key"] for row in await transaction.fetch_batch(self._write, rows)}
        return [row[0] in gone for row in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
        found = await self._look(transaction, [row[0] for row in rows])
        return [None if row[0] in found else True for row in rows]


class ExtendKeys(_Keys):
    """Rows are (key, token, lease_ms); the result is whether the claim lasts longer now."""

    name = "key's claim extended"

    def __init__(self, queries: Queries) -> None:
        super().__init__(queries, "keys_extend")

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | Exception]:
        if await transaction.execute_batch(self._write, rows) == len(rows):
            return [True] * len(rows)
        found = await self._look(transaction, [row[0] for row in rows])
        return [(there := found.get(row[0])) is not None and _is_claim_of(there, row[1]) for row in rows]

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:  # noqa: ARG002
        return [None] * len(rows)  # a second time does no harm


def _is_claim_of(row: Row, token: Any) -> bool:
    return bool(row["status_code"] == IN_PROGRESS and row["owner_token"] == token)


def _is_result(row: Row, wanted: Values) -> bool:
    """Whether *row* has the very result that *wanted*, a row of ``keys_finish``, brings."""
    there = (row["owner_token"], row["response_data"], row["status_code"], row["headers"])
    return there == tuple(wanted[2:6])


__all__ = ["ClaimKeys", "ExtendKeys", "FinishKeys", "FleetingClaimKeys", "PutKeys", "ReleaseKeys", "kept"]
