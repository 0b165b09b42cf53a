"""Runs that are enqueued in a transaction of Django, on real servers."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pymysql  # type: ignore[import-untyped]
import pytest
from django.db import connections, transaction  # type: ignore[import-untyped]
from django.utils.connection import ConnectionProxy  # type: ignore[import-untyped]

from holdfast import Holdfast
from holdfast.db import DatabaseURL, SyncConnectionManager
from holdfast.errors import Deduplicated, MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENGINES = {"sqlite": "sqlite3", "postgres": "postgresql", "mariadb": "mysql"}


@pytest.fixture(autouse=True)
def _drivers(django_project: None) -> None:
    """In a project, with PyMySQL in the place of the driver that must be compiled."""
    pymysql.install_as_MySQLdb()


@contextmanager
def connected(url: str, kind: str) -> Iterator[Any]:
    """Give a connection of Django to the database at *url*."""
    parsed, alias = DatabaseURL.parse(url), f"shop{secrets.token_hex(4)}"
    place = {
        "NAME": str(parsed.path or parsed.database),
        "USER": parsed.user or "",
        "PASSWORD": parsed.password or "",
        "HOST": parsed.host or "",
        "PORT": parsed.port or "",
    }
    connections.databases[alias] = {
        **connections.databases["default"],
        **place,
        "ENGINE": f"django.db.backends.{ENGINES[kind]}",
    }
    try:
        yield connections[alias]
    finally:
        connections[alias].close()
        del connections[alias], connections.databases[alias]


def order(connection: Any, number: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (%s)", [number])


def prepared(url: str) -> None:
    with SyncConnectionManager(url) as manager:
        manager.execute("CREATE TABLE orders (number INTEGER)")


def written(url: str) -> list[int]:
    with SyncConnectionManager(url) as manager:
        return [row["number"] for row in manager.fetch("SELECT number FROM orders ORDER BY number")]


@pytest.mark.parametrize("kind", list(ENGINES))
def test_run_and_writes_of_an_atomic_block_are_one_commit(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database(kind)
    prepared(url)
    app = Holdfast(url)

    @app.workflow
    def double(number: int) -> int:
        return 2 * number

    with app, connected(url, kind) as connection:
        queued = double.options(queue_name="orders", attributes={"signs": ":p1 and %s and %% and $1 and ?"})
        with transaction.atomic(using=connection.alias):
            order(connection, 1)
            handle = queued.enqueue_in(connection, 4)
            once = queued.options(deduplication_id="once")
            first = once.enqueue_in(ConnectionProxy(connections, connection.alias), 5)
            with pytest.raises(Deduplicated):
                once.enqueue_in(connection, 6)
            again = once.options(on_duplicate="return_existing").enqueue_in(connection, 6)
            assert again.workflow_id == first.workflow_id
            assert app.list_workflows(queue_name="orders") == []
        with pytest.raises(ZeroDivisionError), transaction.atomic(using=connection.alias):
            order(connection, 2)
            queued.enqueue_in(connection, 7)
            raise ZeroDivisionError
        transaction.set_autocommit(False, using=connection.alias)
        order(connection, 3)
        third = queued.enqueue_in(connection, 8)
        transaction.commit(using=connection.alias)
        transaction.set_autocommit(True, using=connection.alias)
        assert written(url) == [1, 3]
        assert len(app.list_workflows(queue_name="orders")) == 3
        assert handle.status().attributes == {"signs": ":p1 and %s and %% and $1 and ?"}
        app.register_queue("orders")
        assert [each.result(timeout=60) for each in (handle, first, third)] == [8, 10, 16]


@pytest.mark.parametrize("kind", list(ENGINES))
def test_connection_in_no_transaction_or_in_another_database_is_refused(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    url, other = fresh_database(kind), fresh_database(kind)
    app = Holdfast(url)

    @app.workflow
    def double(number: int) -> int:
        return 2 * number

    queued = double.options(queue_name="orders")
    with app, connected(url, kind) as connection, connected(other, kind) as elsewhere:
        with pytest.raises(MisuseError, match=r"is in no transaction: call it inside `with transaction\.atomic\(\):`"):
            queued.enqueue_in(connection, 1)
        with (
            pytest.raises(MisuseError, match="a database without tables of Holdfast"),
            transaction.atomic(using=elsewhere.alias),
        ):
            queued.enqueue_in(elsewhere, 1)
        assert app.list_workflows(queue_name="orders") == []


def test_connection_to_another_kind_of_database_is_refused(fresh_database: Callable[[str], str]) -> None:
    app = Holdfast(fresh_database("postgres"))

    @app.workflow
    def double(number: int) -> int:
        return 2 * number

    told = "in sqlite, but the application's runs are in postgres"
    with app, connected(fresh_database("sqlite"), "sqlite") as connection, pytest.raises(MisuseError, match=told):
        double.options(queue_name="orders").enqueue_in(connection, 1)
