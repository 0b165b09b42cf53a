"""What is read from the files of migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.db.migrations.files import FOLDER, Migration, read_migrations, statements
from holdfast.db.url import DialectName
from holdfast.errors import ConfigurationError, QueryFailed

if TYPE_CHECKING:
    from pathlib import Path


def written(text: str, dialect: DialectName, **fragments: str) -> list[str]:
    return statements(Migration(1, "0001_one", text), dialect, "durable", fragments)


def folder_of(place: Path, *names: str) -> Path:
    (place / "sqlite").mkdir()
    for name in names:
        (place / "sqlite" / name).write_text("SELECT 1;")
    return place


def test_migrations_have_the_same_names_in_every_dialect() -> None:
    names = {dialect: [each.name for each in read_migrations(FOLDER, dialect)] for dialect in DialectName}
    assert names[DialectName.SQLITE] == names[DialectName.POSTGRES] == names[DialectName.MYSQL]
    assert names[DialectName.SQLITE][0] == "0001_foundation"


def test_migrations_are_read_in_order(tmp_path: Path) -> None:
    found = read_migrations(folder_of(tmp_path, "0002_b.sql", "0001_a.sql"), DialectName.SQLITE)
    assert [(each.version, each.name) for each in found] == [(1, "0001_a"), (2, "0002_b")]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["0001_a.sql", "0003_c.sql"], "without gaps"),
        (["0001_a.sql", "0001_b.sql"], "without gaps"),
        (["0002_b.sql"], "without gaps"),
        (["0001_a.sql", "2_b.sql"], "name it like"),
        ([], "no migrations"),
    ],
)
def test_migrations_that_are_not_numbered_from_one_are_refused(names: list[str], told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=told):
        read_migrations(folder_of(tmp_path, *names), DialectName.SQLITE)


def test_statements_are_cut_at_semicolons_outside_of_literals() -> None:
    text = "CREATE TABLE @a (x TEXT DEFAULT ';'); -- not; here\nCREATE INDEX i ON @a (x) /* ; */;\n-- the end\n"
    assert written(text, DialectName.SQLITE) == [
        "CREATE TABLE \"a\" (x TEXT DEFAULT ';')",
        '-- not; here\nCREATE INDEX i ON "a" (x) /* ; */',
    ]


def test_statements_of_a_file_with_nothing_but_comments_are_none() -> None:
    assert written("-- nothing to do here\n;\n", DialectName.SQLITE) == []


def test_statements_need_no_last_semicolon() -> None:
    assert written("SELECT 1; SELECT 'x'", DialectName.SQLITE) == ["SELECT 1", "SELECT 'x'"]


def test_statements_name_tables_also_in_the_body_of_a_function() -> None:
    text = "CREATE FUNCTION f() RETURNS void AS $f$ DELETE FROM @a; DELETE FROM b; $f$ LANGUAGE sql; SELECT '@a'"
    assert written(text, DialectName.POSTGRES) == [
        'CREATE FUNCTION f() RETURNS void AS $f$ DELETE FROM "durable"."a"; DELETE FROM b; $f$ LANGUAGE sql',
        "SELECT '@a'",
    ]


def test_statements_have_the_quotes_of_their_dialect() -> None:
    text = 'CREATE TABLE @a ("key" INT) COLLATE {key_collation};'
    assert written(text, DialectName.MYSQL, key_collation="some_bin") == [
        "CREATE TABLE `a` (`key` INT) COLLATE some_bin"
    ]


def test_statements_with_an_unknown_fragment_are_refused() -> None:
    with pytest.raises(QueryFailed, match="no fragment"):
        written("SELECT {nothing}", DialectName.SQLITE)
