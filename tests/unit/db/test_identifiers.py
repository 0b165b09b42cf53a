"""Names that may stand in SQL text."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.db.queries.identifiers import LONGEST, check_identifier, qualified, quote
from holdfast.db.url import DialectName
from holdfast.errors import InvalidIdentifier


@pytest.mark.parametrize("name", ["t", "_t", "Table_2", "select", "a" * 63])
@pytest.mark.parametrize("dialect", DialectName)
def test_plain_name_is_allowed(name: str, dialect: DialectName) -> None:
    assert check_identifier(name, dialect) == name


@pytest.mark.parametrize("name", ["", "1a", "a b", "a-b", "a.b", 'a"b', "a`b", "a;b", "a\n", "ä", "a\x00", "a\u0661"])
@pytest.mark.parametrize("dialect", DialectName)
def test_unusual_name_is_refused(name: str, dialect: DialectName) -> None:
    with pytest.raises(InvalidIdentifier):
        check_identifier(name, dialect)


def test_refusal_says_what_it_is_about_and_not_the_name() -> None:
    with pytest.raises(InvalidIdentifier) as caught:
        check_identifier('x"; DROP TABLE y; --', DialectName.POSTGRES, "schema")
    assert "schema" in str(caught.value)
    assert "DROP" not in str(caught.value)


@pytest.mark.parametrize("dialect", DialectName)
def test_name_is_refused_when_one_character_too_long(dialect: DialectName) -> None:
    assert check_identifier("a" * LONGEST[dialect], dialect)
    with pytest.raises(InvalidIdentifier, match=str(LONGEST[dialect])):
        check_identifier("a" * (LONGEST[dialect] + 1), dialect)


def test_quotes_are_those_of_the_dialect() -> None:
    assert [quote("x", dialect) for dialect in DialectName] == ['"x"', '"x"', "`x`"]


def test_qualified_name_has_its_schema_before_it() -> None:
    assert qualified("s", "t", DialectName.POSTGRES) == '"s"."t"'
    assert qualified(None, "t", DialectName.MYSQL) == "`t`"


@pytest.mark.parametrize(("schema", "table"), [("s", 't"'), ('s"', "t")])
def test_qualified_checks_both_names(schema: str, table: str) -> None:
    with pytest.raises(InvalidIdentifier):
        qualified(schema, table, DialectName.POSTGRES)


@given(st.text(max_size=12))
def test_whatever_is_let_through_is_one_name_to_sqlite(name: str) -> None:
    try:
        quoted = quote(name, DialectName.SQLITE, "column")
    except InvalidIdentifier:
        return
    connection = sqlite3.connect(":memory:")
    try:
        cursor = connection.execute(f"SELECT 1 AS {quoted}")
        assert [column[0] for column in cursor.description] == [name]
    finally:
        connection.close()


def test_schema_that_postgres_keeps_for_itself_is_refused() -> None:
    with pytest.raises(InvalidIdentifier, match="pg_"):
        check_identifier("pg_mine", DialectName.POSTGRES, "schema")
    assert check_identifier("pg_mine", DialectName.POSTGRES, "table") == "pg_mine"
    assert check_identifier("pgmine", DialectName.POSTGRES, "schema") == "pgmine"
