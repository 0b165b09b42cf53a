"""I5: the database keeps one record of an operation, whoever writes another."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.db import ConnectionManager
from holdfast.errors import Conflict
from holdfast.testing.run_rows import RunRows
from holdfast.workflows.facts import RecordSteps


@pytest.mark.parametrize(
    ("position", "identity"),
    [
        pytest.param(3, "2", id="of the workflow function"),
        pytest.param(4, "~0.0", id="of a branch"),
        pytest.param(9, "~0.0", id="of a branch, as if it came later"),
        pytest.param(9, "1.0", id="about another operation, as if it came later"),
        pytest.param(3, "7", id="another one at its position"),
    ],
)
@pytest.mark.parametrize("beside", [0, 1], ids=["alone", "beside a new one"])
def test_i5_operation_is_recorded_once(migrated_url: str, position: int, identity: str, beside: int) -> None:
    async def scene(rows: RunRows) -> None:
        run_id = await rows.insert(steps=3)
        await rows.manager.execute(
            f"INSERT INTO {rows.operations} (workflow_uuid, function_id, function_name, identity, owner_xid) "
            "VALUES (?, 4, 'step', '~0.0', 'an earlier one'), (?, 5, 'step', '1.0', 'an earlier one')",
            *(run_id, run_id),
        )
        await rows.manager.execute(f"UPDATE {rows.runs} SET owner_xid = 'a later one' WHERE workflow_uuid = ?", run_id)
        before = await rows.steps(run_id)

        def row(position: int, identity: str) -> tuple[object, ...]:
            return run_id, "a later one", position, "step", identity, "m", "2", None, None, "portable_json", 0

        batch = [row(position, identity), row(20, "20")][: 1 + beside]
        record = RecordSteps(rows.queries)
        outcomes = await rows.manager.run(lambda transaction: record.apply(transaction, batch))
        assert [isinstance(outcomes[0], Conflict), *outcomes[1:]] == [True, True][: 1 + beside]
        assert [each for each in await rows.steps(run_id) if each["function_id"] != 20] == before

    async def played() -> None:
        async with ConnectionManager(migrated_url) as manager:
            await scene(RunRows(manager))

    asyncio.run(played())
