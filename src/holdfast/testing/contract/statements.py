"""The contract of single statements: their counts, their values, their text."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db.queries.identifiers import quote
from holdfast.db.queries.queries import Queries
from holdfast.errors import Conflict, InvalidIdentifier, QueryFailed, TooLong

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.testing.colours import Manager
    from holdfast.testing.contract.venue import Venue

_TEXTS = [
    "",
    " ",
    "plain",
    "it's",
    'say "so"',
    "back\\slash",
    "\\'",
    "100 %",
    "%s %d %%",
    "?",
    "?1 $1 :a",
    "line\nfeed\ttab",
]
_TEXTS += [
    "grüße",
    "日本語",
    "🦀🪸",
    "a\u0301",
    "trailing ",
    "-- no comment",
    "/* none */",
    "\\0 \\n \\Z",
    "'; DROP TABLE x; --",
]
_TEN_MEGABYTES = 10 * 1024 * 1024


class StatementContract:
    """Single statements mean the same on every backend."""

    def test_counts_of_insert_update_and_delete_are_true(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            assert await manager.execute(f"INSERT INTO {table} VALUES (?, ?), (?, ?)", "a", 1, "b", 2) == 2
            assert await manager.execute(f"UPDATE {table} SET v = v + 1") == 2
            assert await manager.execute(f"UPDATE {table} SET v = 0 WHERE k = ?", "nobody") == 0
            assert await manager.execute(f"DELETE FROM {table} WHERE k = ?", "a") == 1
            assert await manager.execute(f"DELETE FROM {table} WHERE k = ?", "a") == 0

        venue.play(scene)

    def test_count_of_an_update_that_changes_nothing_is_of_found_rows(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            await manager.execute(f"INSERT INTO {table} VALUES ('a', 1)")
            assert await manager.execute(f"UPDATE {table} SET v = 1 WHERE k = 'a'") == 1
            async with manager.transaction() as transaction:
                assert await transaction.execute(f"UPDATE {table} SET v = 1 WHERE k = 'a'") == 1

        venue.play(scene)

    def test_count_of_a_statement_that_returns_rows_is_theirs(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            assert await manager.execute(f"INSERT INTO {table} VALUES ('a', 1), ('b', 2) RETURNING k") == 2
            assert await manager.fetch(f"SELECT v FROM {table} ORDER BY k") == [{"v": 1}, {"v": 2}]
            returned = await manager.fetch(f"DELETE FROM {table} WHERE k = 'a' RETURNING k, v")
            assert returned == [{"k": "a", "v": 1}]
            assert await manager.fetch(f"SELECT k FROM {table}") == [{"k": "b"}]

        venue.play(scene)

    def test_fetch_gives_rows_as_dicts_in_order_and_fetchone_the_first(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            assert await manager.fetch(f"SELECT * FROM {table}") == []
            assert await manager.fetchone(f"SELECT * FROM {table}") is None
            await manager.execute(f"INSERT INTO {table} VALUES ('a', 1), ('b', NULL)")
            rows = await manager.fetch(f"SELECT k, v FROM {table} ORDER BY k DESC")
            assert rows == [{"k": "b", "v": None}, {"k": "a", "v": 1}]
            assert await manager.fetchone(f"SELECT k FROM {table} ORDER BY k DESC") == {"k": "b"}

        venue.play(scene)

    def test_batch_query_reads_for_none_one_and_many_rows(self, venue: Venue, tmp_path: Path) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            await manager.execute(f"INSERT INTO {table} VALUES ('a', 1), ('b', 2), ('c', 3)")
            (tmp_path / "common.sql").write_text(
                "-- name: look\n-- rows: k text\n"
                f"SELECT t.k FROM {{rows}} AS r JOIN @{table} AS t ON t.k = r.k WHERE t.v >= :least;\n"
            )
            look = Queries.load(venue.dialect, folder=tmp_path)["look"]
            assert await manager.fetch_batch(look, [], least=1) == []
            assert await manager.fetch_batch(look, [("b",)], least=1) == [{"k": "b"}]
            many = [("c",), ("a",), *((f"none {number}",) for number in range(300)), ("b",)]
            found = await manager.fetch_batch(look, many, least=2)
            assert sorted(row["k"] for row in found) == ["b", "c"]
            with pytest.raises(QueryFailed, match="takes rows of 1 values"):
                await manager.fetch_batch(look, [("b", 1)], least=1)

        venue.play(scene)

    def test_batch_query_gets_every_row_as_it_was_given(self, venue: Venue, tmp_path: Path) -> None:
        (tmp_path / "common.sql").write_text(
            "-- name: echo\n-- rows: t text, v bigint, u text\n"
            "SELECT r.n AS n, r.t AS t, r.v AS v, r.u AS u FROM {rows} AS r ORDER BY r.n;\n"
        )
        echo = Queries.load(venue.dialect, folder=tmp_path)["echo"]
        texts = [*_TEXTS, None, "last"]
        numbers = [None, 0, -1, 2**63 - 1, -(2**63)]
        plain: list[tuple[Any, ...]] = [(text, numbers[at % 5], texts[-1 - at]) for at, text in enumerate(texts)]
        # What a way of sending many values as one may take for the end of one, or for none.
        odd: list[tuple[Any, ...]] = [(text, 1, None) for text in ("\x1e", "\x1f", "a\x1fb", "\x1e\x1e", None, "")]
        batches: list[list[tuple[Any, ...]]] = [
            plain,
            odd,
            plain + odd,
            plain[:2],
            [("", None, "")],
            [(None, None, None)] * 2,
            [("", 1, "")] * 2,
        ]

        async def scene(manager: Manager) -> list[Any]:
            return [await manager.fetch_batch(echo, batch) for batch in batches]

        for batch, found in zip(batches, venue.play(scene), strict=True):
            assert [tuple(row.values()) for row in found] == [(n, *row) for n, row in enumerate(batch)]

    def test_texts_come_back_as_they_were_given(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> list[Any]:
            table = await venue.table(manager, f"n INTEGER, t {venue.type('text')}")
            for number, text in enumerate([*_TEXTS, None]):
                await manager.execute(f"INSERT INTO {table} VALUES (?, ?)", number, text)
            return [row["t"] for row in await manager.fetch(f"SELECT t FROM {table} ORDER BY n")]

        assert venue.play(scene) == [*_TEXTS, None]

    def test_bytes_come_back_as_they_were_given(self, venue: Venue) -> None:
        values = [b"", bytes(range(256)), b"\x00", b"'\\\"%s?", None]

        async def scene(manager: Manager) -> list[Any]:
            table = await venue.table(manager, f"n INTEGER, b {venue.type('bytes')}")
            for number, value in enumerate(values):
                await manager.execute(f"INSERT INTO {table} VALUES (?, ?)", number, value)
            return [row["b"] for row in await manager.fetch(f"SELECT b FROM {table} ORDER BY n")]

        assert venue.play(scene) == values

    def test_ten_megabytes_of_text_and_of_bytes_come_back(self, venue: Venue) -> None:
        text = "0123456789abcdeé" * (_TEN_MEGABYTES // 17)
        data = bytes(range(32, 96)) * (_TEN_MEGABYTES // 64)

        async def scene(manager: Manager) -> dict[str, Any] | None:
            table = await venue.table(manager, f"t {venue.type('text')}, b {venue.type('bytes')}")
            await manager.execute(f"INSERT INTO {table} (t) VALUES (?)", text)
            await manager.execute(f"UPDATE {table} SET b = ?", data)
            return await manager.fetchone(f"SELECT t, b FROM {table}")

        found = venue.play(scene)
        assert found is not None
        assert found["t"] == text
        assert found["b"] == data

    def test_epoch_seconds_keep_their_microseconds(self, venue: Venue) -> None:
        times = [1_800_000_000.123456, 1_800_000_000.000001, 0.1 + 0.2, -1.5, 1e300, 4_102_444_800.999999]

        async def scene(manager: Manager) -> list[float]:
            table = await venue.table(manager, f"n INTEGER, d {venue.type('double')}")
            for number, time in enumerate(times):
                await manager.execute(f"INSERT INTO {table} VALUES (?, ?)", number, time)
            return [row["d"] for row in await manager.fetch(f"SELECT d FROM {table} ORDER BY n")]

        assert venue.play(scene) == times

    def test_moments_keep_their_microseconds_and_their_place_in_time(self, venue: Venue) -> None:
        east = timezone(timedelta(hours=5, minutes=30))
        moments = [
            datetime(2027, 1, 15, 8, 0, 0, 123456, tzinfo=UTC),
            datetime(2027, 1, 15, 8, 0, 0, 1, tzinfo=east),
        ]

        async def scene(manager: Manager) -> list[datetime]:
            table = await venue.table(manager, f"n INTEGER, t {venue.type('time')}")
            for number, moment in enumerate(moments):
                await manager.execute(f"INSERT INTO {table} VALUES (?, ?)", number, moment)
            return [_moment(row["t"]) for row in await manager.fetch(f"SELECT t FROM {table} ORDER BY n")]

        assert venue.play(scene) == moments

    def test_keys_that_differ_in_case_or_a_trailing_space_are_different(self, venue: Venue) -> None:
        keys = ["key", "KEY", "key ", "Key", " key", "kéy"]

        async def scene(manager: Manager) -> set[str]:
            table = await venue.table(manager)
            for key in keys:
                await manager.execute(f"INSERT INTO {table} VALUES (?, 0)", key)
            found = [await manager.fetch(f"SELECT k FROM {table} WHERE k = ?", key) for key in keys]
            assert found == [[{"k": key}] for key in keys]
            return {row["k"] for row in await manager.fetch(f"SELECT k FROM {table}")}

        assert venue.play(scene) == set(keys)

    def test_key_longer_than_its_column_is_refused_and_not_cut(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            with pytest.raises(TooLong) as refusal:
                await manager.execute(f"INSERT INTO {table} VALUES (?, 0)", "k" * 41)
            assert refusal.value.__cause__ is not None
            assert await manager.fetch(f"SELECT k FROM {table}") == []
            assert await manager.execute(f"INSERT INTO {table} VALUES (?, 0)", "🪸" * 40) == 1

        venue.play(scene)

    def test_second_row_under_a_key_is_a_conflict(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            await manager.execute(f"INSERT INTO {table} VALUES ('a', 1)")
            with pytest.raises(Conflict) as refusal:
                await manager.execute(f"INSERT INTO {table} VALUES ('a', 2)")
            assert refusal.value.kind == "conflict"
            assert refusal.value.__cause__ is not None
            assert await manager.fetch(f"SELECT v FROM {table}") == [{"v": 1}]

        venue.play(scene)

    @pytest.mark.parametrize("sql", ["SELEKT 1", "SELECT * FROM no_such_table", "SELECT 1 FROM WHERE"])
    def test_wrong_statement_is_fatal_and_harms_nobody(self, venue: Venue, sql: str) -> None:
        async def scene(manager: Manager) -> None:
            with pytest.raises(QueryFailed) as refusal:
                await manager.fetch(sql)
            assert refusal.value.kind == "fatal"
            assert refusal.value.__cause__ is not None
            assert await manager.fetch("SELECT 1 AS one") == [{"one": 1}]

        venue.play(scene)

    def test_question_marks_in_literals_and_comments_are_left_alone(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> dict[str, Any] | None:
            return await manager.fetchone(
                "SELECT '?' AS a, 'it''s ? %s' AS b, /* ? */ COUNT(*) AS c FROM (SELECT 1 AS x) y -- ?\n WHERE 1 = ?",
                1,
            )

        assert venue.play(scene) == {"a": "?", "b": "it's ? %s", "c": 1}

    @pytest.mark.parametrize("arguments", [(), (1,), (1, 2, 3)])
    def test_wrong_number_of_arguments_is_refused_before_anything_is_sent(
        self, venue: Venue, arguments: tuple[int, ...]
    ) -> None:
        async def scene(manager: Manager) -> None:
            with pytest.raises(QueryFailed, match=f"2 placeholders but {len(arguments)} arguments") as refusal:
                await manager.execute("no SQL at all, ? and ?", *arguments)
            assert refusal.value.__cause__ is None

        venue.play(scene)

    def test_names_are_quoted_or_refused(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            select, order = quote("select", venue.dialect), quote("order", venue.dialect, "column")
            await manager.execute(f"CREATE TABLE {select} ({order} INTEGER)")
            try:
                await manager.execute(f"INSERT INTO {select} ({order}) VALUES (7)")
                assert await manager.fetch(f"SELECT {order} FROM {select}") == [{"order": 7}]
            finally:
                await manager.execute(f"DROP TABLE {select}")

        venue.play(scene)
        for name in ("a b", 'a"b', "a`b", "", "1a", "a;b", "é", "a" * 200):
            with pytest.raises(InvalidIdentifier):
                quote(name, venue.dialect)

    def test_hundred_tasks_use_one_manager(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)

            async def one(number: int) -> None:
                await manager.execute(f"INSERT INTO {table} VALUES (?, 0)", f"plain-{number}")
                async with manager.transaction() as transaction:
                    await transaction.execute(f"INSERT INTO {table} VALUES (?, 1)", f"block-{number}")
                    await transaction.execute(f"UPDATE {table} SET v = 2 WHERE k = ?", f"block-{number}")
                assert await manager.fetch(f"SELECT v FROM {table} WHERE k = ?", f"block-{number}") == [{"v": 2}]

            await asyncio.gather(*(one(number) for number in range(100)))
            counted = await manager.fetch(f"SELECT v, COUNT(*) AS n FROM {table} GROUP BY v ORDER BY v")
            assert counted == [{"v": 0, "n": 100}, {"v": 2, "n": 100}]

        venue.play(scene)


def _moment(stored: str | datetime) -> datetime:
    """Read what a backend keeps for a moment: an aware time, a naive one in UTC, or ISO-8601 text."""
    moment = datetime.fromisoformat(stored) if isinstance(stored, str) else stored
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
