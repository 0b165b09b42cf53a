"""Commands over a repository that is in a database or in Redis: how it is opened, and the options that say where."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.database import database_options, named_database, quietly
from holdfast.cli.failure import failures
from holdfast.cli.output import Output
from holdfast.db.manager import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.db.portal import Portal
from holdfast.workflows.remote.remote import refuse_foreign_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from holdfast.stores.opened import Closable

S = TypeVar("S", bound="Closable")
R = TypeVar("R")


def on_repository(
    in_redis: Callable[..., AbstractContextManager[R]],
    in_database: Callable[[ConnectionManager, str], S],
    blocking: Callable[[S, Portal], R],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for functions that take the repository and an ``Output`` first: a command body with options.

    *in_redis* opens it by URL, and by *prefix* if one was said; *in_database* over a manager and a schema; *blocking*
    is the latter's sync face. The tables of the database are not changed.
    """

    def opened(url: str | None, schema: str, prefix: str | None) -> AbstractContextManager[R]:
        if url is not None and url.startswith("redis"):
            return in_redis(url) if prefix is None else in_redis(url, prefix=prefix)
        return _opened(url, schema, in_database, blocking)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--prefix", help="Redis: what the names of its keys begin with, if the application says so.")
        @database_options
        @wraps(function)
        def command(*args: Any, as_json: bool, **options: Any) -> None:
            place = {name: options.pop(name) for name in ("url", "schema", "prefix")}
            with failures(), quietly(), opened(**place) as repository:
                function(repository, Output(as_json=as_json), *args, **options)

        return command

    return decorate


@contextmanager
def _opened(
    url: str | None, schema: str, in_database: Callable[[ConnectionManager, str], S], blocking: Callable[[S, Portal], R]
) -> Iterator[R]:
    place = named_database(url)
    portal = Portal("holdfast-cli")
    portal.start()
    manager = ConnectionManager(place.secret_text(), pool_size=2, application_name="holdfast-cli")
    try:
        refuse_foreign_file(manager.url)
        portal.call(manager.initialize())
        portal.call(Migrator(manager, schema=schema).check())
        store = in_database(manager, schema)
        try:
            yield blocking(store, portal)
        finally:
            portal.call(store.close())
    finally:
        portal.call(manager.close())
        portal.stop()
