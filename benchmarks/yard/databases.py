"""The databases a benchmark runs on: a SQLite file, and servers of its own, all with durable commits."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.testing.servers import MariaDBServer, PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def databases(*names: str) -> Iterator[dict[str, str]]:
    """Give URLs of fresh databases by name: sqlite, postgres, mariadb."""
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as postgres, MariaDBServer() as mariadb:
        urls = {
            "sqlite": f"sqlite:///{Path(folder) / 'bench.db'}",
            "postgres": postgres.create_database(),
            "mariadb": mariadb.create_database(),
        }
        yield {name: urls[name] for name in names or urls}
