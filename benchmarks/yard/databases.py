"""The databases a benchmark runs on: a SQLite file, and servers of its own, all with durable commits."""

from __future__ import annotations

import itertools
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.testing.servers import MariaDBServer, PostgresServer, RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.servers import Server

SQL = ("sqlite", "postgres", "mariadb")


@contextmanager
def databases(*names: str) -> Iterator[dict[str, str]]:
    """Give URLs of fresh databases by name: those of SQL and redis, or, if none is named, those of SQL."""
    with makers(*(names or SQL)) as made:
        yield {name: make() for name, make in made.items()}


@contextmanager
def makers(*names: str) -> Iterator[dict[str, Callable[[], str]]]:
    """Give by name what makes a fresh database and returns its URL. A server that is not named is not started."""
    with ExitStack() as afterwards:
        yield {name: _maker(name, afterwards) for name in dict.fromkeys(names)}


def _maker(name: str, afterwards: ExitStack) -> Callable[[], str]:
    if name == "sqlite":
        return _files(Path(afterwards.enter_context(tempfile.TemporaryDirectory())))
    servers: dict[str, type[Server]] = {"postgres": PostgresServer, "mariadb": MariaDBServer, "redis": RedisServer}
    return afterwards.enter_context(servers[name]()).create_database


def _files(folder: Path) -> Callable[[], str]:
    numbers = itertools.count()

    def make() -> str:
        place = folder / str(next(numbers))
        place.mkdir()
        return f"sqlite:///{place / 'bench.db'}"

    return make
