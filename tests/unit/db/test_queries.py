"""Named queries: their files, their translation, and what they do on real databases."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.db.queries.queries import Call, Column, Queries, Query, compare
from holdfast.db.url import DatabaseURL, DialectName
from holdfast.errors import ConfigurationError, InvalidIdentifier, MisuseError, QueryFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SQLITE, POSTGRES, MYSQL = DialectName.SQLITE, DialectName.POSTGRES, DialectName.MYSQL
ROWS: list[tuple[Any, ...]] = [
    ("a", 1, 2**40, 0.5, True, b"\x00%s", '{"k": "it\'s 5%"}'),
    ("b\\'%?", -2, -(2**40), -0.25, False, b"", "[]"),
    (None, None, None, None, None, None, None),
]


def _load(folder: Path, dialect: DialectName = SQLITE, common: str = "", **options: Any) -> Queries:
    (folder / "common.sql").write_text(common, encoding="utf-8")
    return Queries.load(dialect, folder=folder, **options)


def _one(folder: Path, dialect: DialectName, sql: str, **options: Any) -> Query:
    folder.mkdir(exist_ok=True)
    return _load(folder, dialect, f"-- name: it\n{sql}", **options)["it"]


def _texts(query: Query) -> list[str]:
    return [statement.text for statement in query.statements]


def test_file_holds_queries_with_their_documentation(tmp_path: Path) -> None:
    queries = _load(
        tmp_path,
        common="-- What this file is.\n\n-- name: first\n-- Says one.\n--\n-- Really.\nSELECT 1; -- one\n\n"
        "--name: second\nSELECT 2\n",
    )
    assert queries.names() == ("first", "second")
    assert queries["first"].doc == "Says one.\n\nReally."
    assert _texts(queries["first"]) == ["SELECT 1"]
    assert _texts(queries["second"]) == ["SELECT 2"]


def test_dialect_file_stands_before_the_common_one(tmp_path: Path) -> None:
    (tmp_path / "mysql.sql").write_text("-- name: a\nSELECT 'mysql'\n")
    common = "-- name: a\nSELECT 'common'\n-- name: b\nSELECT 'b'\n"
    assert _texts(_load(tmp_path, MYSQL, common)["a"]) == ["SELECT 'mysql'"]
    assert _texts(_load(tmp_path, SQLITE, common)["a"]) == ["SELECT 'common'"]
    assert _texts(_load(tmp_path, MYSQL, common)["b"]) == ["SELECT 'b'"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT 1\n-- name: a\nSELECT 1", "before the first query"),
        ("-- name: a\nSELECT 1\n-- name: a\nSELECT 2", r"common.sql:3: .* twice"),
        ("-- name: A\nSELECT 1", "lower_snake_case"),
        ("-- name: a b\nSELECT 1", "lower_snake_case"),
        ("-- name: a\n-- only words\n", "no SQL"),
        ("-- name: a\n-- rows: x\nSELECT 1", "column type"),
        ("-- name: a\n-- rows: x varchar\nSELECT 1", "column type"),
        ("-- name: a\n-- rows: x int, x int\nSELECT 1", "x is there twice"),
        ("-- name: a\n-- rows: n int\nSELECT 1", "n is there twice"),
        ("-- name: a\n-- only: oracle\nSELECT 1", "list of dialects"),
    ],
)
def test_file_outside_the_grammar_is_refused_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(QueryFailed, match=told) as caught:
        _load(tmp_path, common=text)
    assert str(caught.value).startswith("common.sql")


def test_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"common\.sql"):
        Queries.load(SQLITE, folder=tmp_path / "nowhere")


def test_unknown_query_is_refused_with_a_hint(tmp_path: Path) -> None:
    queries = _load(tmp_path, common="-- name: record_step\nSELECT 1")
    with pytest.raises(MisuseError, match="did you mean record_step"):
        queries["record_steps"]
    with pytest.raises(MisuseError, match="names"):
        queries["zzz"]


def test_parameters_take_the_form_of_the_dialect(tmp_path: Path) -> None:
    sql = "SELECT :b, :a, :b, 7 % 2"
    expected = {
        SQLITE: ("SELECT ?, ?, ?, 7 % 2", ("b", "a", "b")),
        POSTGRES: ("SELECT $1, $2, $1, 7 % 2", ("b", "a")),
        MYSQL: ("SELECT %s, %s, %s, 7 %% 2", ("b", "a", "b")),
    }
    for dialect, (text, order) in expected.items():
        query = _one(tmp_path, dialect, sql)
        assert query.parameters == ("a", "b")
        [statement] = query.statements
        assert (statement.text, statement.order) == (text, order)
        assert query.bind({"a": 1, "b": 2}) == ((text, tuple({"a": 1, "b": 2}[name] for name in order)),)


@pytest.mark.parametrize("dialect", DialectName)
def test_marks_in_literals_and_comments_are_left_alone(tmp_path: Path, dialect: DialectName) -> None:
    query = _one(tmp_path, dialect, "SELECT ':a @b {c} ; ?' /* :a @b {c} ; ? */ -- :a ;\n, 1")
    assert query.parameters == ()
    assert [re.sub(r"\s+", " ", text) for text in _texts(query)] == ["SELECT ':a @b {c} ; ?' , 1"]


@pytest.mark.parametrize(
    ("sql", "native"),
    [
        ("SELECT :a::bigint, x::text", "SELECT $1::bigint, x::text"),
        ("SELECT a <@b, a @> c, a @@d, x[1:2]", "SELECT a <@b, a @> c, a @@d, x[1:2]"),
        ("SELECT a ? 'k', a ?| :b", "SELECT a ? 'k', a ?| $1"),
        ("SELECT E'\\':a', $$ :b $$", "SELECT E'\\':a', $$ :b $$"),
    ],
)
def test_postgres_operators_are_no_marks(tmp_path: Path, sql: str, native: str) -> None:
    assert _texts(_one(tmp_path, POSTGRES, sql)) == [native]


def test_tables_and_names_are_quoted_by_the_dialect(tmp_path: Path) -> None:
    sql = 'SELECT "order" FROM @runs'
    expected = [
        'SELECT "order" FROM "runs"',
        'SELECT "order" FROM "app"."runs"',
        "SELECT `order` FROM `runs`",
    ]
    assert [_texts(_one(tmp_path, dialect, sql, schema="app"))[0] for dialect in DialectName] == expected


def test_schema_is_checked(tmp_path: Path) -> None:
    with pytest.raises(InvalidIdentifier):
        _one(tmp_path, POSTGRES, "SELECT 1", schema='a"b')


def test_query_of_several_statements_is_cut_at_semicolons(tmp_path: Path) -> None:
    query = _one(tmp_path, POSTGRES, "UPDATE a SET b = :x;\n-- then\nSELECT :y, :x, ';';\n;")
    assert query.parameters == ("x", "y")
    assert query.bind({"x": 1, "y": 2}) == (
        ("UPDATE a SET b = $1", (1,)),
        ("SELECT $1, $2, ';'", (2, 1)),
    )


@pytest.mark.parametrize(
    ("dialect", "sql", "told"),
    [
        (SQLITE, "SELECT ?", "name the parameter"),
        (MYSQL, "SELECT ?", "name the parameter"),
        (POSTGRES, "SELECT $1", "name the parameter"),
        (SQLITE, "SELECT 'x", "has no end"),
        (SQLITE, "SELECT {nothing}", "no fragment"),
        (SQLITE, "SELECT 1 FROM {rows} AS r", "no `-- rows:` line"),
        (SQLITE, "-- rows: a int\nSELECT 1", "never reads"),
        (SQLITE, "-- rows: a int\nSELECT 1 FROM {rows}", "AS alias"),
        (MYSQL, 'SELECT "a b"', "not allowed"),
    ],
)
def test_text_that_cannot_be_written_is_refused(tmp_path: Path, dialect: DialectName, sql: str, told: str) -> None:
    with pytest.raises(QueryFailed, match=told) as caught:
        _one(tmp_path, dialect, sql)
    assert str(caught.value).startswith("common.sql:1, query it: ")


def test_fragments_may_hold_marks_and_each_other(tmp_path: Path) -> None:
    fragments = {"due": "at <= {limit}", "limit": "(SELECT max(x) FROM @t WHERE y = :y AND z = '{due}')"}
    query = _one(tmp_path, SQLITE, "SELECT 1 WHERE {due}", fragments=fragments)
    assert _texts(query) == ["SELECT 1 WHERE at <= (SELECT max(x) FROM \"t\" WHERE y = ? AND z = '{due}')"]
    assert query.parameters == ("y",)


def test_fragments_without_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(QueryFailed, match="deep"):
        _one(tmp_path, SQLITE, "SELECT {a}", fragments={"a": "{b}", "b": "{a}"})


def test_built_in_fragments_cannot_be_replaced(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="built in"):
        _one(tmp_path, SQLITE, "SELECT {now_ms}", fragments={"now_ms": "0"})


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"a": 1}, "lacks b"),
        ({"a": 1, "b": 2, "c": 3}, "has no parameter c"),
        ({"a": 1, "c": 3}, "lacks b and has no parameter c"),
        ({}, "lacks a, b"),
    ],
)
def test_bind_wants_exactly_the_parameters(tmp_path: Path, values: dict[str, Any], told: str) -> None:
    query = _one(tmp_path, SQLITE, "SELECT :a; SELECT :b")
    with pytest.raises(QueryFailed, match=f"query it {told}; its parameters are: a, b"):
        query.bind(values)


def test_bind_and_batch_are_not_confused(tmp_path: Path) -> None:
    with pytest.raises(QueryFailed, match=r"bind\(\)"):
        _one(tmp_path, SQLITE, "SELECT :a").batch([(1,)], {"a": 1})
    with pytest.raises(QueryFailed, match=r"batch\(\)"):
        _one(tmp_path / "other", SQLITE, "-- rows: a int\nSELECT a FROM {rows} AS r").bind({})


BATCH = """-- rows: a text,
-- rows: b int
INSERT INTO @t (x) SELECT r.a, :p FROM {rows} AS r WHERE r.b > :q; SELECT :q"""


WIDE = """-- rows: a text, b int, c text, d text, e bigint, f bool, g text
INSERT INTO @t (x) SELECT r.a, :p FROM {rows} AS r WHERE r.b > :q; SELECT :q"""


def test_batch_of_wide_rows_on_postgres_is_one_call_with_json(tmp_path: Path) -> None:
    query = _one(tmp_path, POSTGRES, WIDE)
    rows = [("x", 1, "c", None, 5, True, "g"), (None, 2, "c", "d", 6, False, "g")]
    assert query.batch(rows, {"p": 8, "q": 9}) == [
        (
            (
                'INSERT INTO "t" (x) SELECT r.a, $1 FROM (SELECT "0" AS "n", "1" AS "a", "2" AS "b", "3" AS "c", '
                '"4" AS "d", "5" AS "e", "6" AS "f", "7" AS "g" FROM json_to_recordset($2::json) AS j("0" integer, '
                '"1" text, "2" integer, "3" text, "4" text, "5" bigint, "6" boolean, "7" text) '
                'WHERE "0" BETWEEN 0 AND 2147483647) AS "r" WHERE r.b > $3'
            ),
            (
                8,
                (
                    '[{"0":0,"1":"x","2":1,"3":"c","5":5,"6":true,"7":"g"},'
                    '{"0":1,"2":2,"3":"c","4":"d","5":6,"6":false,"7":"g"}]'
                ),
                9,
            ),
        ),
        ("SELECT $1", (9,)),
    ]


def test_batch_of_narrow_rows_on_postgres_is_one_call_with_arrays(tmp_path: Path) -> None:
    query = _one(tmp_path, POSTGRES, BATCH)
    assert query.rows == (Column("a", "text"), Column("b", "int"))
    assert [(text, _plain(args)) for text, args in query.batch([("x", 1), ("y", 2)], {"p": 8, "q": 9})] == [
        (
            (
                'INSERT INTO "t" (x) SELECT r.a, $1 FROM (SELECT * FROM unnest($2::integer[], $3::text[], '
                '$4::integer[]) AS "r"("n", "a", "b") WHERE "n" BETWEEN 0 AND 2147483647) AS "r" WHERE r.b > $5'
            ),
            [8, [0, 1], ["x", "y"], [1, 2], 9],
        ),
        ("SELECT $1", [9]),
    ]


def test_batch_on_postgres_takes_arrays_for_what_json_does_not_keep(tmp_path: Path) -> None:
    query = _one(tmp_path, POSTGRES, "-- rows: a bytes, b float\nSELECT r.a, :p FROM {rows} AS r")
    assert [(text, _plain(args)) for text, args in query.batch([(b"x", 1.0), (b"y", 2.0)], {"p": 8})] == [
        (
            (
                "SELECT r.a, $1 FROM (SELECT * FROM unnest($2::integer[], $3::bytea[], $4::double precision[]) AS "
                '"r"("n", "a", "b") WHERE "n" BETWEEN 0 AND 2147483647) AS "r"'
            ),
            [8, [0, 1], [b"x", b"y"], [1.0, 2.0]],
        )
    ]


@pytest.mark.parametrize("text", [BATCH, WIDE])
def test_batch_of_one_row_on_postgres_has_plain_parameters(tmp_path: Path, text: str) -> None:
    query = _one(tmp_path, POSTGRES, text)
    assert query.rows is not None
    row = tuple(range(2, len(query.rows) + 2))
    [(insert, values), second] = query.batch([row], {"p": 8, "q": 9})
    types = {"text": "text", "int": "integer", "bigint": "bigint", "bool": "boolean"}
    fields = [f'${at}::{types[column.type]} AS "{column.name}"' for at, column in enumerate(query.rows, 2)]
    assert insert == (
        f'INSERT INTO "t" (x) SELECT r.a, $1 FROM (SELECT 0 AS "n", {", ".join(fields)}) AS "r"'
        f" WHERE r.b > ${len(row) + 2}"
    )
    assert values == (8, *row, 9)
    assert second == ("SELECT $1", (9,))


@pytest.mark.parametrize("text", [BATCH, WIDE])
def test_batch_on_postgres_is_one_text_for_any_number_of_rows_where_that_is_asked_for(
    tmp_path: Path, text: str
) -> None:
    query = _one(tmp_path, POSTGRES, text)
    assert query.rows is not None
    rows = [(None,) * len(query.rows)] * 3
    texts = [[text for text, _ in query.batch(rows[:some], {"p": 8, "q": 9}, one_text=True)] for some in (1, 2, 3)]
    assert texts == [[statement.text for statement in query.statements]] * 3


def test_batch_on_mysql_is_one_call_with_a_union(tmp_path: Path) -> None:
    query = _one(tmp_path, MYSQL, BATCH)
    assert query.batch([("x", 1), ("y", 2)], {"p": 8, "q": 9}) == [
        (
            (
                "INSERT INTO `t` (x) SELECT r.a, %s FROM (SELECT 0 AS `n`, %s AS `a`, %s AS `b`"
                " UNION ALL SELECT 1, %s, %s) AS `r` WHERE r.b > %s"
            ),
            (8, "x", 1, "y", 2, 9),
        ),
        ("SELECT %s", (9,)),
    ]
    [first, _] = query.statements
    assert query.batch([("x", 1)], {"p": 8, "q": 9})[0][0] == first.text
    assert first.order == ("p", "rows.a", "rows.b", "q")


def test_batch_statement_gets_the_columns_that_it_reads(tmp_path: Path) -> None:
    text = """-- rows: a text, b int, c text
INSERT INTO @t (x) SELECT r.c || r.a FROM {rows} AS r; SELECT r.B FROM {rows} AS r"""
    rows = [("x", 1, "z"), ("y", 2, "w")]
    on_sqlite = _one(tmp_path / "sqlite", SQLITE, text).batch(rows)
    assert [values for _, values in on_sqlite] == [(0, "x", "z", "y", "w", 2), (0, 1, 2, 2)]
    on_mysql = _one(tmp_path / "mysql", MYSQL, text).batch(rows)
    assert on_mysql[1] == ("SELECT r.B FROM (SELECT 0 AS `n`, %s AS `b` UNION ALL SELECT 1, %s) AS `r`", (1, 2))


@pytest.mark.parametrize("all_of_them", ["*", "r.*", "DISTINCT *"])
def test_batch_statement_that_names_no_columns_gets_them_all(tmp_path: Path, all_of_them: str) -> None:
    query = _one(tmp_path, SQLITE, f"-- rows: a text, b int\nSELECT {all_of_them} FROM {{rows}} AS r")
    assert [values for _, values in query.batch([("x", 1)])] == [("x", 1)]


def test_batch_statement_may_read_no_column(tmp_path: Path) -> None:
    text = "-- rows: a text, b int\nSELECT count(*) FROM {rows} AS r"
    assert [values for _, values in _one(tmp_path / "sqlite", SQLITE, text).batch([("x", 1), ("y", 2)])] == [(0, 2)]
    assert [values for _, values in _one(tmp_path / "mysql", MYSQL, text).batch([("x", 1), ("y", 2)])] == [()]


def test_batch_on_sqlite_is_one_call_in_a_text_for_some_rows_more(tmp_path: Path) -> None:
    query = _one(tmp_path, SQLITE, BATCH)
    insert = 'INSERT INTO "t" (x) SELECT r.a, ? FROM ({rows}) AS "r" WHERE r.b > ?'
    fields = 'column1 + ? AS "n", column2 AS "a", column3 AS "b"'
    six = f"SELECT {fields} FROM (VALUES {', '.join(f'({at}, ?, ?)' for at in range(6))}) WHERE column1 < ?"
    rows = [("v", 1), ("w", 2), ("x", 3), ("y", 4), ("z", 5)]
    assert query.batch(rows, {"p": 8, "q": 9}) == [
        (insert.format(rows=six), (8, 0, "v", 1, "w", 2, "x", 3, "y", 4, "z", 5, 0, 0, 5, 9)),
        ("SELECT ?", (9,)),
    ]
    one = 'SELECT 0 AS "n", ? AS "a", ? AS "b"'
    assert query.batch(rows[:1], {"p": 8, "q": 9})[0] == (insert.format(rows=one), (8, "v", 1, 9))


def test_batch_on_sqlite_is_handed_nothing_for_columns_without_a_value(tmp_path: Path) -> None:
    query = _one(tmp_path, SQLITE, BATCH)
    [(text, values), _] = query.batch([("x", None), ("y", None)], {"p": 8, "q": 9})
    assert 'SELECT column1 + ? AS "n", column2 AS "a", NULL AS "b" FROM (VALUES (0, ?), (1, ?))' in text
    assert values == (8, 0, "x", "y", 2, 9)
    [(text, values), _] = query.batch([("x", None)], {"p": 8, "q": 9})
    assert '(SELECT 0 AS "n", ? AS "a", NULL AS "b")' in text
    assert values == (8, "x", 9)


@pytest.mark.parametrize("count", [1, 2, 5, 771])
def test_batch_on_sqlite_has_each_value_wherever_there_is_none(tmp_path: Path, count: int) -> None:
    query = _one(tmp_path, SQLITE, "-- rows: a int, b text, c int\nSELECT r.n, r.a, r.b, r.c FROM {rows} AS r")
    with closing(sqlite3.connect(":memory:")) as connection:
        for empty in product((False, True), repeat=4):
            rows = [
                tuple(None if gone and (at or not empty[3]) else at + column for column, gone in enumerate(empty[:3]))
                for at in range(count)
            ]
            found = [row for text, values in query.batch(rows) for row in connection.execute(text, values)]
            assert found == [(at, *row) for at, row in enumerate(rows)]


@pytest.mark.parametrize("count", [1, 2])
def test_batch_on_sqlite_has_few_texts_however_often_other_columns_are_without_a_value(
    tmp_path: Path, count: int
) -> None:
    columns = [f"c{at}" for at in range(8)]
    query = _one(tmp_path, SQLITE, f"-- rows: {' int, '.join(columns)} int\nSELECT r.* FROM {{rows}} AS r")
    patterns = [tuple(None if gone else 1 for gone in empty) for empty in product((False, True), repeat=8)]
    texts = {text for row in patterns for text, _ in query.batch([row] * count)}
    assert len(texts) == 6


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (2, [2]), (3, [3]), (5, [6]), (65, [96]), (97, [128]), (768, [768]), (771, [768, 3])]
)
def test_batch_on_sqlite_has_each_row_once(tmp_path: Path, count: int, sizes: list[int]) -> None:
    query = _one(tmp_path, SQLITE, "-- rows: a int\nSELECT r.a, row_number() OVER (ORDER BY r.n) FROM {rows} AS r")
    calls = query.batch([(count - n,) for n in range(count)], {})
    assert [max(1, text.count("?") - 2) for text, _ in calls] == sizes
    with closing(sqlite3.connect(":memory:")) as connection:
        found = [row for text, values in calls for row in connection.execute(text, values)]
    places = [place for size in sizes for place in range(1, size + 1)]
    assert found == [(count - n, place) for n, place in zip(range(count), places, strict=False)]


def test_batch_that_sqlite_could_not_take_at_once_is_refused(tmp_path: Path) -> None:
    columns = [f"c{at} int" for at in range(43)]
    text = f"-- rows: {', '.join(columns)}\nSELECT r.* FROM {{rows}} AS r"
    with pytest.raises(QueryFailed, match=r"43 columns of its rows 1 times: 768 rows"):
        _one(tmp_path, SQLITE, text)


@pytest.mark.parametrize("dialect", DialectName)
def test_batch_of_no_rows_is_no_call(tmp_path: Path, dialect: DialectName) -> None:
    assert _one(tmp_path, dialect, BATCH).batch([], {"p": 8, "q": 9}) == []


@pytest.mark.parametrize("dialect", DialectName)
@pytest.mark.parametrize(
    ("rows", "values", "told"),
    [
        ([("x", 1)], {"p": 1}, "lacks q"),
        ([("x", 1)], {"p": 1, "q": 2, "a": 3}, "has no parameter a"),
        ([("x", 1), ("y",)], {"p": 1, "q": 2}, r"rows of 2 values \(a, b\)"),
        ([("x",), ("y",)], {"p": 1, "q": 2}, r"rows of 2 values \(a, b\)"),
        ([("x", 1, 2), ("y",)], {"p": 1, "q": 2}, r"rows of 2 values \(a, b\)"),
    ],
)
def test_batch_wants_exactly_its_columns_and_parameters(
    tmp_path: Path, dialect: DialectName, rows: list[tuple[Any, ...]], values: dict[str, Any], told: str
) -> None:
    with pytest.raises(QueryFailed, match=told):
        _one(tmp_path, dialect, BATCH).batch(rows, values)


@given(
    names=st.lists(st.sampled_from("abc"), min_size=1, max_size=6),
    dialect=st.sampled_from(DialectName),
    literals=st.lists(st.text(st.sampled_from(":ab'%{}@; ?"), max_size=6), min_size=6, max_size=6),
)
def test_every_placeholder_has_its_parameter(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], dialect: DialectName, literals: list[str]
) -> None:
    items = [
        f":{name}, '{literal.replace(chr(39), chr(39) * 2)}'" for name, literal in zip(names, literals, strict=False)
    ]
    query = _one(tmp_path_factory.mktemp("queries"), dialect, f"SELECT {', '.join(items)}")
    [(text, args)] = query.bind({name: name for name in names})
    if dialect is POSTGRES:
        outside = re.sub(r"'(?:[^']|'')*'", "", text)
        assert [args[int(number) - 1] for number in re.findall(r"\$([0-9])", outside)] == names
    else:
        assert list(args) == names
    if dialect is MYSQL:
        text %= ("?",) * len(args)
    if dialect is not POSTGRES:
        with closing(sqlite3.connect(":memory:")) as connection:
            row = connection.execute(text, args).fetchone()
        assert list(row) == [value for pair in zip(names, literals, strict=False) for value in pair]


def test_dialects_that_agree_have_no_differences(tmp_path: Path) -> None:
    (tmp_path / "postgres.sql").write_text("-- name: a\nSELECT :x::text\n-- name: p\n-- only: postgres\nSELECT 1\n")
    common = f"-- name: a\nSELECT :x\n-- name: b\n{BATCH}\n-- name: c\n-- only: sqlite, mysql\nSELECT 1\n"
    loaded = [_load(tmp_path, dialect, common) for dialect in DialectName]
    assert compare(*loaded) == []
    assert [queries.names() for queries in loaded] == [("a", "b", "c"), ("a", "b", "p"), ("a", "b", "c")]
    assert [query.name for query in loaded[0]] == ["a", "b", "c"]


def test_differences_between_dialects_are_told(tmp_path: Path) -> None:
    (tmp_path / "sqlite.sql").write_text(
        "-- name: alone\nSELECT 1\n-- name: other\nSELECT :y\n-- name: rows\n-- rows: a int\nSELECT 1 FROM {rows} AS r"
    )
    common = "-- name: other\nSELECT :x\n-- name: rows\n-- rows: a text\nSELECT 1 FROM {rows} AS r"
    loaded = [_load(tmp_path, dialect, common) for dialect in (SQLITE, POSTGRES)]
    assert compare(*loaded) == [
        "alone: postgres does not have it, sqlite does",
        "other: sqlite and postgres differ in parameters: (y) / (x)",
        "rows: sqlite and postgres differ in rows: (a int) / (a text)",
    ]


def test_text_of_a_dialect_takes_the_rows_of_the_common_one(tmp_path: Path) -> None:
    (tmp_path / "mysql.sql").write_text("-- name: it\nSELECT r.a + 1 FROM {rows} AS r\n")
    common = "-- name: it\n-- rows: a int, b text\nSELECT r.a FROM {rows} AS r"
    query, theirs = (_load(tmp_path, dialect, common)["it"] for dialect in (SQLITE, MYSQL))
    assert theirs.rows == query.rows
    assert [text for text, _ in theirs.batch([(5, "x")])] == ["SELECT r.a + 1 FROM (SELECT 0 AS `n`, %s AS `a`) AS `r`"]


def test_query_in_the_file_of_a_dialect_it_excludes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sqlite.sql").write_text("-- name: a\n-- only: postgres\nSELECT 1")
    with pytest.raises(QueryFailed, match="excludes"):
        Queries.load(SQLITE, folder=tmp_path)


@pytest.mark.parametrize("dialect", DialectName)
def test_files_of_the_package_are_in_the_grammar(dialect: DialectName) -> None:
    assert Queries.load(dialect, "holdfast").names()


# On real databases.

KINDS = {"sqlite": SQLITE, "postgres": POSTGRES, "mariadb": MYSQL}


def _run(url: str, calls: Sequence[Call]) -> list[tuple[Any, ...]]:
    """Make *calls* on one connection; return the rows of all of them."""
    where = DatabaseURL.parse(url)
    if where.dialect is POSTGRES:
        return asyncio.run(_run_postgres(where, calls))
    if where.dialect is MYSQL:
        return asyncio.run(_run_mysql(where, calls))
    with closing(sqlite3.connect(str(where.path))) as connection, connection:
        return [row for text, args in calls for row in connection.execute(text, args).fetchall()]


async def _run_postgres(where: DatabaseURL, calls: Sequence[Call]) -> list[tuple[Any, ...]]:
    import asyncpg

    connection = await asyncpg.connect(where.secret_text())
    try:
        return [tuple(row) for text, args in calls for row in await connection.fetch(text, *args)]
    finally:
        await connection.close()


async def _run_mysql(where: DatabaseURL, calls: Sequence[Call]) -> list[tuple[Any, ...]]:
    import asyncmy

    connection = await asyncmy.connect(
        host=where.host,
        port=where.port,
        user=where.user,
        password=where.password or "",
        database=where.database,
        autocommit=True,
        init_command="SET time_zone = '+05:00'",
    )
    found: list[tuple[Any, ...]] = []
    try:
        async with connection.cursor() as cursor:
            for text, args in calls:
                await cursor.execute(text, args)
                found += await cursor.fetchall() if cursor.description else ()
    finally:
        await connection.ensure_closed()
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_batch_brings_every_type_to_the_database_and_back(
    kind: str, tmp_path: Path, fresh_database: Callable[[str], str]
) -> None:
    binary, big, double = {
        "sqlite": ("BLOB", "INTEGER", "REAL"),
        "postgres": ("BYTEA", "BIGINT", "DOUBLE PRECISION"),
        "mariadb": ("LONGBLOB", "BIGINT", "DOUBLE"),
    }[kind]
    queries = _load(
        tmp_path,
        KINDS[kind],
        f"""-- name: create
        CREATE TABLE @t (n INTEGER, "key" TEXT, i INTEGER, b {big}, f {double}, ok BOOLEAN, raw {binary},
            j TEXT, p TEXT)
        -- name: put
        -- rows: key text, i int, b bigint, f float, ok bool, raw bytes, j json
        INSERT INTO @t (n, "key", i, b, f, ok, raw, j, p)
        SELECT r.n, r."key", r.i, r.b, r.f, r.ok, r.raw, r.j, :p FROM {{rows}} AS r
        -- name: empty
        DELETE FROM @t
        -- name: get
        SELECT n, "key", i, b, f, ok, raw, j, p FROM @t WHERE 5 % 3 = 2 AND p LIKE '%p' ORDER BY n
        """.replace("\n        ", "\n"),
    )
    url = fresh_database(kind)
    put, get = queries["put"], queries["get"].bind({})
    found = _run(url, [*queries["create"].bind({}), *put.batch(ROWS, {"p": "%p"}), *get])
    assert found == [(n, *row, "%p") for n, row in enumerate(ROWS)]
    for row in ROWS:
        assert _run(url, [*queries["empty"].bind({}), *put.batch([row], {"p": "%p"}), *get]) == [(0, *row, "%p")]


@pytest.mark.parametrize("kind", KINDS)
def test_clock_is_the_time_now_and_moves_by_the_offset(
    kind: str, tmp_path: Path, fresh_database: Callable[[str], str]
) -> None:
    common = '-- name: now\nSELECT {now_ms} AS "ms", {now_iso} AS "iso", {later_iso} AS "later"'
    url = fresh_database(kind)
    for offset, expected in (
        (None, 0),
        ("SELECT 90000", 90_000),
        ("-86400000", -86_400_000),
        ("NULLIF(1, 1)", 0),
    ):
        before = time.time_ns() // 1_000_000
        queries = _load(tmp_path, KINDS[kind], common, clock_offset_ms=offset)
        [(ms, iso, later)] = _run(url, queries["now"].bind({"later_ms": -61_500}))
        after = time.time_ns() // 1_000_000
        assert before + expected - 1 <= ms <= after + expected + 1
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", iso)
        said = datetime.fromisoformat(iso)
        assert said.tzinfo == UTC
        assert abs(said.timestamp() * 1000 - ms) <= 1
        assert said - datetime.fromisoformat(later) == timedelta(seconds=61.5)
        assert len(later) == len(iso)


def _plain(args: tuple[Any, ...]) -> list[Any]:
    return [list(arg) if isinstance(arg, (range, tuple)) else arg for arg in args]


OPTIONAL = "SELECT id FROM runs WHERE true [[ AND name = :name ]] [[ AND age > :low AND age < :high ]] LIMIT :most"


@pytest.mark.parametrize("dialect", DialectName)
@pytest.mark.parametrize(
    ("given", "words", "sent"),
    [
        ({}, [], ()),
        ({"name": None}, [], ()),
        ({"name": "x"}, ["name ="], ("x",)),
        ({"low": 1}, [], ()),
        ({"low": 1, "high": 0}, ["age >", "age <"], (1, 0)),
        ({"name": "", "low": 0, "high": False}, ["name =", "age >", "age <"], ("", 0, False)),
    ],
)
def test_optional_part_stands_when_all_it_asks_for_is_given(
    tmp_path: Path, dialect: DialectName, given: dict[str, Any], words: list[str], sent: tuple[Any, ...]
) -> None:
    query = _one(tmp_path, dialect, OPTIONAL)
    [(text, values)] = query.bind({**given, "most": 7})
    assert [word for word in ("name =", "age >", "age <") if word in text] == words
    assert values == (*sent, 7)
    assert "[" not in text
    assert "]" not in text


def test_query_with_optional_parts_shows_itself_with_all_of_them(tmp_path: Path) -> None:
    query = _one(tmp_path, SQLITE, OPTIONAL)
    assert query.parameters == ("high", "low", "most", "name")
    assert query.optional == {"high", "low", "name"}
    assert _texts(query) == ["SELECT id FROM runs WHERE true AND name = ? AND age > ? AND age < ? LIMIT ?"]
    assert _texts(query.variant(())) == ["SELECT id FROM runs WHERE true LIMIT ?"]
    assert query.variant({"name"}) is query.variant({"name"})


def test_query_with_optional_parts_refuses_what_it_does_not_know_and_what_it_lacks(tmp_path: Path) -> None:
    query = _one(tmp_path, SQLITE, OPTIONAL)
    with pytest.raises(QueryFailed, match="has no parameter nam;"):
        query.bind({"nam": 1, "most": 1})
    with pytest.raises(QueryFailed, match="lacks most"):
        query.bind({"name": "x"})


@pytest.mark.parametrize("dialect", DialectName)
def test_switch_decides_and_is_not_sent(tmp_path: Path, dialect: DialectName) -> None:
    query = _one(tmp_path, dialect, "SELECT 1 [[ loud? , 2 ]] [[ far? , :far_away ]]")
    assert query.parameters == ("far", "far_away", "loud")
    assert query.bind({"loud": True}) == (("SELECT 1 , 2", ()),)
    assert query.bind({"loud": False, "far_away": 3}) == (("SELECT 1", ()),)
    [(text, values)] = query.bind({"far": True, "far_away": 0})
    assert (text[:10], values) == ("SELECT 1 ,", (0,))


def test_optional_parts_stand_in_one_another_and_in_fragments(tmp_path: Path) -> None:
    text = (
        "-- fragment: narrow\n-- For the reader.\n[[ AND a = :a ]]\n"
        "-- name: it\nSELECT 1 WHERE true {narrow} [[ both? UNION SELECT 2 WHERE :b = 1 {narrow} ]]"
    )
    query = _load(tmp_path, SQLITE, text)["it"]
    assert query.bind({"b": 1}) == (("SELECT 1 WHERE true", ()),)
    assert query.bind({"both": True}) == (("SELECT 1 WHERE true", ()),)
    assert query.bind({"both": True, "b": 5})[0][1] == (5,)
    assert query.bind({"both": True, "b": 5, "a": 4})[0] == (
        "SELECT 1 WHERE true AND a = ? UNION SELECT 2 WHERE ? = 1 AND a = ?",
        (4, 5, 4),
    )


@pytest.mark.parametrize("dialect", DialectName)
def test_brackets_in_literals_and_comments_are_no_optional_parts(tmp_path: Path, dialect: DialectName) -> None:
    query = _one(tmp_path, dialect, "SELECT '[[ :a ]]' -- [[ :a ]]\n /* [[ :a ]] */ , 1")
    assert query.optional == frozenset()
    assert [re.sub(r"\s+", " ", text) for text in _texts(query)] == ["SELECT '[[ :a ]]' , 1"]


def test_arrays_of_postgres_are_no_optional_parts(tmp_path: Path) -> None:
    sql = "SELECT ARRAY[[1,2],[3,4]], a[b[1]], :c"
    assert _texts(_one(tmp_path, POSTGRES, sql)) == ["SELECT ARRAY[[1,2],[3,4]], a[b[1]], $1"]


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT 1 [[ , :a", "no end"),
        ("SELECT 1 , :a ]]", "no beginning"),
        ("SELECT 1 [[ , 2 ]]", "asks for nothing"),
        ("-- rows: a int\nSELECT r.a FROM {rows} AS r [[ WHERE r.a = :b ]]", "takes rows"),
    ],
)
@pytest.mark.parametrize("dialect", DialectName)
def test_optional_part_that_cannot_be_read_is_refused_with_its_place(
    tmp_path: Path, dialect: DialectName, sql: str, told: str
) -> None:
    with pytest.raises(QueryFailed, match=told) as caught:
        _one(tmp_path, dialect, sql)
    assert str(caught.value).startswith("common.sql:1, query it")


def test_fragment_of_a_dialect_stands_before_the_common_one_and_may_be_empty(tmp_path: Path) -> None:
    (tmp_path / "mysql.sql").write_text("-- fragment: hint\n")
    common = "-- fragment: hint\nNOW\n-- name: it\nSELECT 1 {hint}"
    assert _texts(_load(tmp_path, MYSQL, common)["it"]) == ["SELECT 1"]
    assert _texts(_load(tmp_path, SQLITE, common)["it"]) == ["SELECT 1 NOW"]


def test_fragment_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QueryFailed, match="the fragment a is there twice"):
        _load(tmp_path, common="-- fragment: a\n1\n-- fragment: a\n2")
