"""The tools that hold the documentation and the queries to what real servers say."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager, DatabaseURL, DialectName
from holdfast.db.queries.queries import Queries

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_TOOLS = Path(__file__).parents[2] / "tools"
KINDS = {"sqlite": DialectName.SQLITE, "postgres": DialectName.POSTGRES, "mariadb": DialectName.MYSQL}
EVERY_KIND = pytest.mark.parametrize("kind", list(KINDS))


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, _TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@EVERY_KIND
def test_page_of_the_schema_says_what_the_migrations_make(kind: str, fresh_database: Callable[[str], str]) -> None:
    snapshot = tool("schema_snapshot")
    path = snapshot.PAGES / f"{KINDS[kind]}.txt"
    written = asyncio.run(snapshot.page(fresh_database(kind)))
    assert snapshot.differences([(path, written)]) == [], "run python tools/schema_snapshot.py"


def test_page_that_is_out_of_date_is_shown_as_a_difference(tmp_path: Path) -> None:
    snapshot = tool("schema_snapshot")
    page = tmp_path / "sqlite.txt"
    page.write_text("table a\n    x text\n")
    rows = snapshot.differences([(page, "table a\n    x integer\n")])
    assert "-    x text" in rows
    assert "+    x integer" in rows
    assert snapshot.differences([(tmp_path / "missing.txt", "table a")]) != []


_EVERYTHING = {
    "sqlite": [
        "CREATE TABLE parent (a TEXT, b INT DEFAULT 7, PRIMARY KEY (b, a))",
        """CREATE TABLE child (
            id INTEGER PRIMARY KEY,
            a TEXT NOT NULL UNIQUE,
            b INT,
            CONSTRAINT a_too_long CHECK (length(a) <= 5),
            FOREIGN KEY (b, a) REFERENCES parent (b, a) ON DELETE CASCADE
        )""",
        "CREATE INDEX idx_child_b ON child (b) WHERE b > 1",
    ],
    "postgres": [
        "CREATE SCHEMA holdfast",
        "CREATE TABLE holdfast.parent (a TEXT, b INT DEFAULT 7, PRIMARY KEY (b, a))",
        """CREATE TABLE holdfast.child (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            a TEXT NOT NULL UNIQUE,
            b INT,
            CONSTRAINT a_too_long CHECK (length(a) <= 5),
            FOREIGN KEY (b, a) REFERENCES holdfast.parent (b, a) ON DELETE CASCADE
        )""",
        "CREATE INDEX idx_child_b ON holdfast.child (b) WHERE b > 1",
        "CREATE FUNCTION holdfast.twice(n INT) RETURNS INT AS 'SELECT n * 2' LANGUAGE sql",
    ],
    "mariadb": [
        "CREATE TABLE parent (a VARCHAR(9), b INT DEFAULT 7, PRIMARY KEY (b, a)) COLLATE utf8mb4_bin",
        """CREATE TABLE child (
            id BIGINT AUTO_INCREMENT PRIMARY KEY,
            a VARCHAR(9) NOT NULL UNIQUE,
            b INT,
            c VARCHAR(9) COLLATE utf8mb4_general_ci,
            CONSTRAINT a_too_long CHECK (length(a) <= 5),
            CONSTRAINT fk_child FOREIGN KEY (b, a) REFERENCES parent (b, a) ON DELETE CASCADE
        ) COLLATE utf8mb4_bin""",
        "CREATE INDEX idx_child_b ON child (b, c(3))",
    ],
}
_TOLD = {
    "sqlite": [
        "table child",
        "    id integer",
        "    a text not null",
        "    b int",
        "    - primary key (id)",
        "    - unique (a)",
        "    - foreign key (b, a) references parent (b, a) on delete CASCADE",
        "    - a_too_long: check (length(a) <= 5)",
        "    - CREATE INDEX idx_child_b ON child (b) WHERE b > 1",
        "",
        "table parent",
        "    a text",
        "    b int default 7",
        "    - primary key (b, a)",
        "",
    ],
    "postgres": [
        "table child",
        "    id bigint not null auto",
        "    a text not null",
        "    b integer",
        "    - a_too_long: CHECK ((length(a) <= 5))",
        "    - child_a_key: UNIQUE (a)",
        "    - child_b_a_fkey: FOREIGN KEY (b, a) REFERENCES parent(b, a) ON DELETE CASCADE",
        "    - child_pkey: PRIMARY KEY (id)",
        "    - CREATE INDEX idx_child_b ON child USING btree (b) WHERE (b > 1)",
        "",
        "table parent",
        "    a text not null",
        "    b integer not null default 7",
        "    - parent_pkey: PRIMARY KEY (b, a)",
        "",
        "function twice(n integer) returns integer",
        "",
    ],
    "mariadb": [
        "table child (InnoDB, utf8mb4_bin)",
        "    id bigint not null auto",
        "    a varchar(9) not null",
        "    b int",
        "    c varchar(9) collate utf8mb4_general_ci",
        "    - a: unique (a)",
        "    - fk_child: index (b, a)",
        "    - idx_child_b: index (b, c(3))",
        "    - PRIMARY: unique (id)",
        "    - foreign key (b, a) references parent (b, a) on delete CASCADE",
        "    - a_too_long: check (octet_length(`a`) <= 5)",
        "",
        "table parent (InnoDB, utf8mb4_bin)",
        "    a varchar(9) not null",
        "    b int not null default 7",
        "    - PRIMARY: unique (b, a)",
        "",
    ],
}


@EVERY_KIND
def test_catalog_tells_columns_keys_checks_and_indexes(kind: str, fresh_database: Callable[[str], str]) -> None:
    async def main() -> list[str]:
        async with ConnectionManager(fresh_database(kind)) as manager:
            for statement in _EVERYTHING[kind]:
                await manager.execute(statement)
            lines: list[str] = await tool("schema_snapshot").catalog(manager)
            return lines

    assert asyncio.run(main()) == _TOLD[kind]


@EVERY_KIND
def test_query_that_a_server_does_not_understand_is_named(
    kind: str, fresh_database: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "common.sql").write_text(
        "-- name: right_one\nSELECT version FROM @holdfast_migrations WHERE version > :least;\n"
        "-- name: wrong_column\nSELECT colour FROM @holdfast_migrations;\n"
        "-- name: wrong_word\nSELEKT 1;\n"
        "-- name: with_percent\nSELECT 1 AS one FROM @holdfast_meta WHERE \"value\" LIKE '%s%';\n"
        "-- name: wrong_batch\n-- rows: n1 int\nSELECT r.n1 FROM @nowhere JOIN {rows} AS r ON true;\n"
    )
    queries = list(Queries.load(KINDS[kind], "holdfast", folder=tmp_path))
    url = DatabaseURL.parse(fresh_database(kind))
    rows = asyncio.run(tool("check_queries").refused(url, queries))
    assert [row.split(":")[0] for row in rows] == [
        f"{KINDS[kind]} does not understand {name}" for name in ("wrong_batch", "wrong_column", "wrong_word")
    ]


def test_text_that_mariadb_would_compare_otherwise_than_keys_is_named(tmp_path: Path) -> None:
    (tmp_path / "mysql.sql").write_text(
        "-- name: of_the_table\n-- rows: id text\n"
        "SELECT t.id, count(*) FROM {rows} AS r JOIN @things AS t ON t.id = r.id GROUP BY t.id;\n"
        "-- name: given\n-- rows: id text\nSELECT r.id, count(*) FROM {rows} AS r GROUP BY r.id HAVING count(*) > 1;\n"
        "-- name: given_within\n-- rows: id text\nSELECT DISTINCT m.id FROM (SELECT r.id FROM {rows} AS r) AS m;\n"
        "-- name: as_bytes\n-- rows: id text\nSELECT r.id FROM {rows} AS r GROUP BY CAST(r.id AS BINARY), r.n;\n"
        "-- name: of_json\nSELECT j.k FROM JSON_TABLE(:keys, '$[*]' COLUMNS (k VARCHAR(9) PATH '$')) AS j;\n"
    )
    queries = Queries.load(DialectName.MYSQL, "holdfast", folder=tmp_path)
    check = tool("check_queries").in_another_collation
    told = [(query.name, row.rpartition(":")[2].split()) for query in queries for row in check(query)]
    assert [(name, [word for word in words if "." in word or word == "k"]) for name, words in sorted(told)] == [
        ("given", ["r.id"]),
        ("given_within", ["m.id"]),
        ("of_json", ["k"]),
    ]


def test_every_query_compares_texts_as_keys_are_compared() -> None:
    check = tool("check_queries")
    queries = [query for load in check.LOADERS.values() for query in load(DialectName.MYSQL, "holdfast")]
    assert [row for query in queries for row in check.in_another_collation(query)] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('x = "SELECT a FROM b"', ["stores/a.py:1 has SQL ('SELECT a')"]),
        ('def f(t):\n    return f"DELETE FROM {t}"', ["stores/a.py:2 has SQL ('DELETE FROM')"]),
        ('x = "CREATE UNIQUE INDEX i"', ["stores/a.py:1 has SQL ('CREATE UNIQUE INDEX')"]),
        ('"""SELECT a FROM b is what it does."""', []),
        ('x = "Select a file, update the set, delete from the list."', []),
    ],
)
def test_sql_in_a_python_file_is_found(text: str, told: list[str], tmp_path: Path) -> None:
    for place in ("stores", "testing"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "a.py").write_text(text)
    found = [row.partition(": ")[0] for row in tool("check_queries").sql_in_python(tmp_path)]
    assert found == told


def test_folder_of_queries_that_nobody_checks_is_named(tmp_path: Path) -> None:
    for place in ("db/queries/sql", "stores/sql", "testing/sql"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "common.sql").write_text("")
    [row] = tool("check_queries").unknown_folders(tmp_path)
    assert row.startswith("stores/sql is not checked")
