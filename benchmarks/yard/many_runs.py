"""A table of very many runs, made by the database itself: each column has a value that is often and one that is rare.

``often`` is the value of a third or a fifth of the runs, ``rare`` of four in a million; ``nobody`` is nowhere. Two runs
in a thousand wait in a queue, and two hundred in a million are PENDING.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.db import DialectName

if TYPE_CHECKING:
    from holdfast.db import ConnectionManager

FIRST_MS = 1_700_000_000_000
EVERY_MS = 100
LASTED_MS = 5_000
_AT_ONCE = 50_000
_RARE = "n.i % 250000 = 7"
_NUMBERS = {
    DialectName.POSTGRES: "generate_series({first}, {last}) AS n(i)",
    DialectName.SQLITE: (
        "(WITH RECURSIVE c(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM c WHERE i < {last}) SELECT i FROM c) AS n"
    ),
    DialectName.MYSQL: "(SELECT seq AS i FROM seq_{first}_to_{last}) AS n",
}
_ANALYSE = {
    DialectName.POSTGRES: "ANALYZE holdfast.workflow_status",
    DialectName.SQLITE: "ANALYZE workflow_status",
    DialectName.MYSQL: "ANALYZE TABLE workflow_status",
}


async def fill(manager: ConnectionManager, count: int) -> None:
    """Insert *count* runs into an empty table."""
    for first in range(0, count, _AT_ONCE):
        await manager.execute(_insert(manager.dialect, first, min(count, first + _AT_ONCE) - 1))


async def analyse(manager: ConnectionManager) -> None:
    """Let the database look at what it has."""
    await manager.execute(_ANALYSE[manager.dialect])


def _insert(dialect: DialectName, first: int, last: int) -> str:
    columns = _columns(dialect)
    table = "holdfast.workflow_status" if dialect is DialectName.POSTGRES else "workflow_status"
    numbers = _NUMBERS[dialect].format(first=first, last=last)
    return f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(columns.values())} FROM {numbers}"


def _columns(dialect: DialectName) -> dict[str, str]:
    def joined(*parts: str) -> str:
        return f"CONCAT({', '.join(parts)})" if dialect is DialectName.MYSQL else " || ".join(parts)

    def mixed(prefix: str, kinds: int) -> str:
        others = joined(f"'{prefix}'", f"n.i % {kinds}")
        return f"CASE WHEN {_RARE} THEN 'rare' WHEN n.i % 3 = 0 THEN 'often' ELSE {others} END"

    at, waits, pending = f"{FIRST_MS} + n.i * {EVERY_MS}", "n.i % 1000 IN (1, 2)", "n.i % 5000 = 3"
    numbered = joined("'d'", "n.i")
    often, rare, arguments = '{"tenant":"often"}', '{"tenant":"rare"}', "x" * 100
    seldom = f"CASE WHEN {_RARE} THEN 'rare' WHEN n.i % 5 = 0 THEN 'often' END"
    return {
        "workflow_uuid": joined(f"CASE WHEN {_RARE} THEN 'rare-' ELSE 'often-' END", "n.i"),
        "status": (
            f"CASE WHEN {pending} THEN 'PENDING' WHEN n.i % 1000 = 1 THEN 'ENQUEUED' WHEN n.i % 1000 = 2 THEN 'DELAYED'"
            f" WHEN n.i % 40 = 5 THEN 'ERROR' WHEN {_RARE} THEN 'CANCELLED' ELSE 'SUCCESS' END"
        ),
        "name": mixed("flow-", 20),
        "executor_id": mixed("host-", 50),
        "application_version": mixed("v", 9),
        "application_id": f"CASE WHEN {_RARE} THEN 'rare' ELSE 'often' END",
        **dict.fromkeys(("class_name", "config_name", "authenticated_user", "assumed_role"), seldom),
        **dict.fromkeys(("queue_partition_key", "parent_workflow_id"), seldom),
        "queue_name": f"CASE WHEN {_RARE} THEN 'rare' WHEN n.i % 3 = 0 THEN 'often' WHEN {waits} THEN 'other' END",
        "forked_from": f"CASE WHEN {_RARE} THEN 'rare' WHEN n.i % 50 = 0 THEN 'often' END",
        "was_forked_from": _RARE,
        "deduplication_id": f"CASE WHEN n.i % 1000 = 1 THEN {numbered} END",
        "priority": f"CASE WHEN {_RARE} THEN 9 WHEN n.i % 5 = 0 THEN 1 ELSE 0 END",
        "recovery_attempts": f"CASE WHEN {_RARE} THEN 5 ELSE 0 END",
        "workflow_deadline_epoch_ms": f"CASE WHEN {_RARE} THEN {at} END",
        "attributes": f"CASE WHEN {_RARE} THEN '{rare}' WHEN n.i % 2 = 0 THEN '{often}' END",
        "inputs": f"""'{{"positionalArgs":["{arguments}"],"namedArgs":{{}}}}'""",
        "output": "'12'",
        "serialization": "'portable_json'",
        "output_serialization": "'portable_json'",
        "created_at": at,
        "updated_at": f"{at} + {LASTED_MS}",
        "started_at_epoch_ms": f"CASE WHEN {waits} THEN NULL ELSE {at} + 2 END",
        "completed_at": f"CASE WHEN {waits} OR {pending} THEN NULL ELSE {at} + {LASTED_MS} END",
        "owner_xid": "'token'",
        "incarnation": "'one'",
    }
