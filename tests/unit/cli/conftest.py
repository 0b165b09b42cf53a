"""Commands on a SQLite file with runs in it that nobody runs."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from holdfast.cli import main
from holdfast.client import Client
from holdfast.db import ConnectionManager
from holdfast.db.migrations.migrator import Migrator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Shop:
    """A database, a client of it, and the command line."""

    def __init__(self, path: Path, client: Client) -> None:
        self.path = path
        self.client = client

    def run(self, *words: str, input: str | None = None) -> Result:  # noqa: A002 -- click's name
        return CliRunner().invoke(main, list(words), input=input)

    def json(self, *words: str, code: int = 0) -> Any:
        done = self.run(*words, "--json")
        assert (done.exit_code, done.stderr) == (code, ""), done.output
        return json.loads(done.stdout)

    def start(self, *ids: str, **options: Any) -> None:
        for each in ids:
            self.client.start_workflow("checkout", [each], workflow_id=each, **options)

    def statuses(self) -> dict[str, str]:
        return {run.workflow_id: run.status.value for run in self.client.list_workflows()}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    path = tmp_path / "shop.sqlite"
    asyncio.run(_migrate(path))
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", f"sqlite:///{path}")
    with Client(path) as client:
        yield Shop(path, client)


async def _migrate(path: Path) -> None:
    async with ConnectionManager(path) as manager:
        await Migrator(manager).migrate()
