"""Listings that no plain index leads to: a text in payloads is looked for bit by bit, attributes have a table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, DialectName
from holdfast.db.migrations.migrator import Migrator
from holdfast.serialize import Serialization
from holdfast.workflows.looking import Filters, Looking, looking, looking_queries
from holdfast.workflows.payloads import Payloads

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 17
AT_ONCE = 4


async def _insert(manager: ConnectionManager, number: int, **columns: Any) -> None:
    schema = "holdfast." if manager.dialect is DialectName.POSTGRES else ""
    row = {
        "workflow_uuid": f"r{number:02}",
        "name": "flow",
        "status": "PENDING" if number == 3 else "SUCCESS",
        "created_at": 1000 + number // 2,  # two of each moment: the id decides
        "updated_at": 1000 + number,
        "inputs": "a needle" if number % 5 == 3 else "hay",
        **columns,
    }
    places = ", ".join("?" * len(row))
    await manager.execute(f"INSERT INTO {schema}workflow_status ({', '.join(row)}) VALUES ({places})", *row.values())


def _looking(manager: ConnectionManager) -> Looking:
    return Looking(manager, looking_queries(manager.dialect, "holdfast"), Payloads(Serialization()))


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_text_is_looked_for_in_some_runs_at_a_time_until_the_page_is_full(
    fresh_database: Callable[[str], str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_SEARCHED", AT_ONCE)

    async def scene(url: str) -> None:
        async with ConnectionManager(url) as manager:
            await Migrator(manager).migrate()
            for number in range(RUNS):
                await _insert(manager, number)
            for newest_first, limit in ((True, 50), (False, 50), (True, 1)):
                pages, cursor = list[list[str]](), None
                while not pages or cursor is not None:
                    page = await _looking(manager).list(
                        Filters(search="needle"), limit=limit, newest_first=newest_first, cursor=cursor
                    )
                    pages.append([run.workflow_id for run in page])
                    cursor = page.cursor
                assert [each for page in pages for each in page] == sorted(["r03", "r08", "r13"], reverse=newest_first)
                assert all(len(page) == limit for page in pages[:-1])
            named = await _looking(manager).list(Filters(search="needle", workflow_ids=["r08", "r09"]))
            assert ([run.workflow_id for run in named], named.cursor) == (["r08"], None)

    asyncio.run(scene(fresh_database(kind)))


def test_attributes_on_sqlite_are_found_by_a_table_that_follows_every_change(
    fresh_database: Callable[[str], str],
) -> None:
    async def scene(url: str) -> None:
        async with ConnectionManager(url) as manager:
            await Migrator(manager).migrate()

            async def found(**attributes: Any) -> list[str]:
                page = await _looking(manager).list(Filters(attributes=attributes), newest_first=False)
                return [run.workflow_id for run in page]

            async def kept() -> int:
                rows = await manager.fetch("SELECT name FROM workflow_attributes")
                return len(rows)

            long = "x" * 300
            given = ['{"a": 1, "b": "t"}', '{"a": 1.0, "b": null}', '{"a": true, "c": [1]}', None, '{"a": "1"}', "{}"]
            for number, attributes in enumerate([*given, f'{{"d": "{long}"}}', f'{{"d": "{long}y"}}']):
                await _insert(manager, number, attributes=attributes)
            assert await kept() == 7  # neither null nor a list
            assert [await found(a=1), await found(a=True), await found(a="1"), await found(b="t", a=1)] == [
                ["r00", "r01"],
                ["r02"],
                ["r04"],
                ["r00"],
            ]
            assert [await found(b=None), await found(b="nobody"), await found(d=long)] == [["r01"], [], ["r06"]]
            await manager.execute(
                """UPDATE workflow_status SET attributes = '{"b": "t"}' WHERE workflow_uuid = 'r04'"""
            )
            await manager.execute("UPDATE workflow_status SET attributes = NULL WHERE workflow_uuid = 'r00'")
            assert [await found(b="t"), await found(a="1"), await kept()] == [["r04"], [], 5]
            await manager.execute("DELETE FROM workflow_status")
            assert await kept() == 0

    asyncio.run(scene(fresh_database("sqlite")))
