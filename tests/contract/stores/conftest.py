"""The backends of the stores: a module of tests names its own in ``BACKENDS``, each is tried in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.contract import Colour
from holdfast.testing.contract.store_ground import StoreVenue
from holdfast.testing.servers import databases_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test that asks for a ``store_venue`` all backends of its module, in both colours."""
    if "store_venue" in metafunc.fixturenames:
        backends: tuple[str, ...] = metafunc.module.BACKENDS
        columns = [(name, colour) for name in backends for colour in Colour]
        metafunc.parametrize(
            "store_venue", columns, indirect=True, ids=[f"{name}-{colour}" for name, colour in columns]
        )


@pytest.fixture(scope="session")
def store_databases() -> Iterator[dict[str, str]]:
    """Databases of this worker alone, by the name of their backend, made when first asked for."""
    made: dict[str, str] = {}
    yield made
    for name, url in made.items():
        if name in {"postgres", "mariadb", "redis"}:
            databases_of(url).drop(url)


@pytest.fixture
def store_venue(
    request: pytest.FixtureRequest, store_databases: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> StoreVenue:
    """A backend in a colour."""
    name, colour = request.param
    if name == "memory":
        return StoreVenue(name, "", colour)
    if name == "file":
        return StoreVenue(name, str(tmp_path_factory.mktemp("files")), colour)
    if name not in store_databases:
        if name == "sqlite":
            store_databases[name] = f"sqlite:///{tmp_path_factory.mktemp('stores')}/db.sqlite"
        else:
            server = request.getfixturevalue(f"{name}_url")
            store_databases[name] = databases_of(server).create(server)
    return StoreVenue(name, store_databases[name], colour)
