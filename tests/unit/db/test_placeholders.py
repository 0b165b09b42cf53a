"""Placeholders are found in code, and only there."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.db.queries.placeholders import Part, Translated, is_read, pieces, translate
from holdfast.db.url import DialectName
from holdfast.errors import QueryFailed

SQLITE, POSTGRES, MYSQL = DialectName.SQLITE, DialectName.POSTGRES, DialectName.MYSQL

# Characters that matter to some lexer come up often.
_INSIDE = st.text(
    st.sampled_from("?'\"`\\$-/*#[]%;E a1\n\r") | st.characters(exclude_characters="\x00", exclude_categories=["Cs"]),
    max_size=10,
)
_CODE = st.sampled_from(["SELECT", "a", "=", "1", "- 1", "(", ")", "%", "e", "x_E", "table$1", "::text", ","])


def _standard(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escaped(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _doubled(mark: str, text: str) -> str:
    return mark + text.replace(mark, mark * 2) + mark


_LITERALS: dict[DialectName, list[st.SearchStrategy[str]]] = {
    SQLITE: [
        _INSIDE.map(_standard),
        _INSIDE.map(lambda text: _doubled('"', text)),
        _INSIDE.map(lambda text: _doubled("`", text)),
        _INSIDE.map(lambda text: f"[{text.replace(']', '')}]"),
        _INSIDE.map(lambda text: f"--{text.replace(chr(10), '')}\n"),
        _INSIDE.map(lambda text: f"/*{text.replace('*', '')}*/"),
    ],
    POSTGRES: [
        _INSIDE.map(_standard),
        _INSIDE.map(lambda text: "E" + _escaped(text)),
        _INSIDE.map(lambda text: _doubled('"', text)),
        _INSIDE.map(lambda text: f"$${text.replace('$', '')}$$"),
        _INSIDE.map(lambda text: f"$tag$ {text.replace('tag', '')} $$ $other$ $tag$"),
        _INSIDE.map(lambda text: "--" + re.sub(r"[\r\n]", "", text) + "\n"),
        _INSIDE.map(lambda text: f"/* {text.replace('/', '')} /* ? */ ' ? */"),
    ],
    MYSQL: [
        _INSIDE.map(_standard).filter(lambda text: "\\" not in text),
        _INSIDE.map(_escaped),
        _INSIDE.map(lambda text: _doubled('"', text.replace("\\", ""))),
        _INSIDE.map(lambda text: _doubled("`", text)),
        _INSIDE.map(lambda text: f"#{text.replace(chr(10), '')}\n"),
        _INSIDE.map(lambda text: f"-- {text.replace(chr(10), '')}\n"),
        _INSIDE.map(lambda text: f"/* {text.replace('*', '')}*/"),
    ],
}


def _statement(dialect: DialectName) -> st.SearchStrategy[list[tuple[str, str]]]:
    return st.lists(
        st.one_of(
            st.just(("mark", "?")),
            _CODE.map(lambda text: ("code", text)),
            st.one_of(_LITERALS[dialect]).map(lambda text: ("literal", text)),
        ),
        max_size=12,
    )


def _native(kind: str, text: str, number: int, dialect: DialectName) -> str:
    if kind == "mark":
        return {SQLITE: "?", POSTGRES: f"${number}", MYSQL: "%s"}[dialect]
    return text.replace("%", "%%") if dialect is MYSQL else text


@pytest.mark.parametrize("dialect", DialectName)
@given(data=st.data())
def test_only_marks_in_code_are_translated(dialect: DialectName, data: st.DataObject) -> None:
    parts = data.draw(_statement(dialect))
    expected: list[str] = []
    count = 0
    for kind, text in parts:
        count += kind == "mark"
        expected.append(_native(kind, text, count, dialect))
    assert translate(" ".join(text for _, text in parts), dialect) == Translated(" ".join(expected), count)


@pytest.mark.parametrize("dialect", DialectName)
@given(data=st.data())
def test_pieces_joined_give_the_statement_back(dialect: DialectName, data: st.DataObject) -> None:
    parts = data.draw(_statement(dialect))
    sql = " ".join(text for _, text in parts)
    found = list(pieces(sql, dialect))
    assert "".join(piece.text for piece in found) == sql
    quoted = [piece.text for piece in found if piece.part is not Part.CODE]
    # The end of its line is no part of a comment.
    assert quoted == [
        text.removesuffix("\n") if text.startswith(("--", "#")) else text for kind, text in parts if kind == "literal"
    ]


@given(st.lists(st.none() | _INSIDE, min_size=1, max_size=8))
def test_sqlite_reads_literals_and_arguments_as_meant(values: list[str | None]) -> None:
    items = ["?" if value is None else f"{_standard(value)} /* ? */" for value in values]
    translated = translate(f"SELECT {', '.join(items)} -- ?", SQLITE)
    with closing(sqlite3.connect(":memory:")) as connection:
        row = connection.execute(translated.text, tuple(range(translated.count))).fetchone()
    numbers = iter(range(len(values)))
    assert list(row) == [next(numbers) if value is None else value for value in values]


@given(
    st.text(st.sampled_from("?'\"`\\$-/*#[]%;Ee a1\n") | st.characters(), max_size=30),
    st.sampled_from(DialectName),
)
def test_any_text_is_translated_or_refused_with_query_failed(sql: str, dialect: DialectName) -> None:
    try:
        translated = translate(sql, dialect)
    except QueryFailed:
        return
    if dialect is MYSQL:
        assert translated.text % (("?",) * translated.count) == sql
    else:
        assert 0 <= translated.count <= sql.count("?")


@pytest.mark.parametrize(
    ("sql", "native", "count"),
    [
        ("SELECT a ?? 'k', b ??| ?, c ??& ?", "SELECT a ? 'k', b ?| $1, c ?& $2", 2),
        ("SELECT a$b$, ?", "SELECT a$b$, $1", 1),
        ("SELECT xE'\\' , ?", "SELECT xE'\\' , $1", 1),
        ("SELECT E'a\\''\n  'b\\' ?', ?", "SELECT E'a\\''\n  'b\\' ?', $1", 1),
        ("SELECT 'a\\', ?", "SELECT 'a\\', $1", 1),
        ("SELECT $1", "SELECT $1", 0),
        ("SELECT a[?]", "SELECT a[$1]", 1),
        ("", "", 0),
    ],
)
def test_postgres_text_is_read_by_its_own_rules(sql: str, native: str, count: int) -> None:
    assert translate(sql, POSTGRES) == Translated(native, count)


@pytest.mark.parametrize(
    ("sql", "native", "count"),
    [
        ("SELECT 5 --? \n", "SELECT 5 --%s \n", 1),
        ("SELECT 5 --", "SELECT 5 --", 0),
        ("SELECT /*! ? */ 1", "SELECT /*! %s */ 1", 1),
        ("SELECT 'a\\'?', ? LIKE '50%'", "SELECT 'a\\'?', %s LIKE '50%%'", 1),
        ("SELECT 7 % 2", "SELECT 7 %% 2", 0),
    ],
)
def test_mysql_text_is_read_by_its_own_rules(sql: str, native: str, count: int) -> None:
    assert translate(sql, MYSQL) == Translated(native, count)


@pytest.mark.parametrize(
    ("sql", "dialect", "place"),
    [
        ("SELECT '", SQLITE, "line 1, column 8"),
        ("SELECT 1,\n  'abc''", SQLITE, "line 2, column 3"),
        ('SELECT "a', POSTGRES, "line 1, column 8"),
        ("SELECT E'a\\'", POSTGRES, "line 1, column 8"),
        ("SELECT $x$ $y$", POSTGRES, "line 1, column 8"),
        ("SELECT /* /* */", POSTGRES, "line 1, column 8"),
        ("SELECT 'a\\'", MYSQL, "line 1, column 8"),
        ("SELECT `a", MYSQL, "line 1, column 8"),
        ("SELECT /* a", MYSQL, "line 1, column 8"),
        ("SELECT [a", SQLITE, "line 1, column 8"),
    ],
)
def test_literal_without_end_is_refused_with_its_place(sql: str, dialect: DialectName, place: str) -> None:
    with pytest.raises(QueryFailed, match=place):
        translate(sql, dialect)


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("SELECT ?1", POSTGRES),
        ("SELECT ?1", SQLITE),
        ("SELECT ?, $1", POSTGRES),
        ("SELECT a ?? b", SQLITE),
        ("SELECT a ?? b", MYSQL),
    ],
)
def test_text_that_would_mean_something_else_is_refused(sql: str, dialect: DialectName) -> None:
    with pytest.raises(QueryFailed):
        translate(sql, dialect)


def test_translation_is_kept_but_not_that_of_very_long_text() -> None:
    assert translate("SELECT ?, 1", POSTGRES) is translate("SELECT ?, 1", POSTGRES)
    long = f"SELECT ?, '{'x' * 30_000}'"
    assert translate(long, POSTGRES) == translate(long, POSTGRES)
    assert translate(long, POSTGRES) is not translate(long, POSTGRES)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "  -- why\n select count(*) FROM t WHERE id IN (?, ?);",
        "SELECT 'delete', \"update\" FROM t -- into",
        "SELECT updated_at, deleted FROM t WHERE x = 'FOR UPDATE' ;  ",
        "SELECT replace(a, 'x', 'y') FROM t",
        "VALUES (1), (2)",
        "EXPLAIN SELECT 1",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c",
        "SELECT coalesce(max(n), 0) FROM t GROUP BY (a) HAVING (a > 1)",
    ],
)
def test_statement_that_only_reads_is_a_read(sql: str) -> None:
    assert is_read(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "INSERT INTO t VALUES (1)",
        "insert into t select 1 returning *",
        "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
        "WITH x AS (SELECT 1) REPLACE t SELECT * FROM x",
        "SELECT * FROM t FOR UPDATE SKIP LOCKED",
        "SELECT * FROM t FOR NO KEY UPDATE",
        "SELECT * FROM t for  share",
        "SELECT * FROM t FOR KEY SHARE",
        "SELECT * FROM t LOCK IN SHARE MODE",
        "SELECT * INTO copy FROM t",
        "EXPLAIN ANALYZE DELETE FROM t",
        "PRAGMA user_version = 3",
        "SELECT 1; DROP TABLE t",
        "SELECT nextval('s')",
        "SELECT holdfast.enqueue_workflow('x')",
        'SELECT "enqueue"(1)',
        "SELECT mine.lower('x')",
        "SELECT last_insert_rowid()",
        "SELECT changes()",
        "SELECT 1 /*! INTO OUTFILE 'x' */",
        "SELECT 'a\\' INTO t, b FROM c WHERE d = '",
        "SELECT 'no end",
        "CREATE TABLE t (a)",
        "BEGIN",
    ],
)
def test_statement_that_may_write_is_no_read(sql: str) -> None:
    assert not is_read(sql)


@pytest.mark.parametrize("dialect", list(DialectName))
@pytest.mark.parametrize(
    "sql",
    ["BEGIN", "begin immediate", " commit ", "ROLLBACK", "-- x\nCOMMIT", "END", "START  TRANSACTION", "rollback;"],
)
def test_translate_notices_what_begins_or_ends_a_transaction(sql: str, dialect: DialectName) -> None:
    assert translate(sql, dialect).controls_transaction


@pytest.mark.parametrize("dialect", list(DialectName))
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'COMMIT'",
        "ROLLBACK TO a",
        "rollback work to savepoint a",
        "SAVEPOINT commit_",
        "UPDATE begin_ SET x = 1",
    ],
)
def test_translate_lets_everything_else_pass(sql: str, dialect: DialectName) -> None:
    assert not translate(sql, dialect).controls_transaction
