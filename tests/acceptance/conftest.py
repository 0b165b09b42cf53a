"""What the acceptance tests share: stages whose worker processes never outlive a test."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.testing.servers import databases_of
from holdfast.testing.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "worker.py"


@pytest.fixture
def stage(
    request: pytest.FixtureRequest, fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery
) -> Iterator[Callable[[str], Stage]]:
    """Call with "sqlite", "postgres" or "mariadb", or with a URL, for a stage; its workers are killed afterwards.

    They run the PROGRAM of the module that asks, if it has one.
    """
    program = getattr(request.module, "PROGRAM", PROGRAM)
    with ExitStack() as afterwards:
        yield lambda kind: Stage(
            program, kind if "://" in kind else fresh_database(kind), tmp_path / "effects", afterwards, nursery
        )


@pytest.fixture(scope="module", params=["sqlite", "postgres", "mariadb"])
def migrated_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A migrated database that the tests of a module share: each has runs, queues and executors of its own."""

    async def migrate(url: str) -> None:
        async with ConnectionManager(url) as manager:
            await Migrator(manager).migrate()

    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('migrated')}/db.sqlite"
        asyncio.run(migrate(url))
        yield url
        return
    server = request.getfixturevalue(f"{request.param}_url")
    url = databases_of(server).create(server)
    try:
        asyncio.run(migrate(url))
        yield url
    finally:
        databases_of(server).drop(url)
