"""What an application finds and makes in a database before it runs anything."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.db import SyncConnectionManager
from holdfast.errors import ConfigurationError
from holdfast.testing.servers import databases_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def answer() -> int:
    return 42


def test_missing_postgres_database_and_schema_are_created(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("postgres")
    databases_of(url).drop(url)
    app = Holdfast(url, schema="durable")
    flow = app.workflow(answer)
    with app:
        assert flow() == 42
    with SyncConnectionManager(url) as manager:
        assert manager.fetch("SELECT status FROM durable.workflow_status") == [{"status": "SUCCESS"}]
        assert manager.fetch("SELECT nspname AS name FROM pg_namespace WHERE nspname = 'holdfast'") == []


def test_schema_is_holdfast_by_default(fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("postgres")
    app = Holdfast(url)
    flow = app.workflow(answer)
    with app:
        assert flow() == 42
    with SyncConnectionManager(url) as manager:
        assert manager.fetch("SELECT status FROM holdfast.workflow_status") == [{"status": "SUCCESS"}]


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_two_applications_in_one_process_share_nothing(fresh_database: Callable[[str], str], kind: str) -> None:
    one, two = Holdfast(fresh_database(kind)), Holdfast(fresh_database(kind))
    first, second = one.workflow(answer), two.workflow(answer)
    with one, two:
        assert first.options(workflow_id="same")() == 42
        assert second.options(workflow_id="same")() == 42
        assert one.retrieve_workflow("same").status().name == "answer"


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_application_works_without_a_pool_and_without_prepared_statements(
    fresh_database: Callable[[str], str], kind: str
) -> None:
    app = Holdfast(fresh_database(kind), pooled=False, prepared=False)
    flow = app.workflow(answer)
    with app:
        assert [flow() for _ in range(3)] == [42] * 3


def test_url_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", f"sqlite:///{tmp_path}/from-environment.sqlite")
    app = Holdfast()
    flow = app.workflow(answer)
    with app:
        assert flow() == 42
    assert (tmp_path / "from-environment.sqlite").exists()


def test_without_a_url_the_file_is_named_after_the_application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DATABASE_URL", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with Holdfast(name="shop"):
        assert (tmp_path / "shop.sqlite").exists()


def test_database_in_memory_is_refused_with_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///app\.sqlite"), Holdfast("sqlite://"):
        pass

    async def main() -> None:
        async with AsyncHoldfast(":memory:"):
            pass

    with pytest.raises(ConfigurationError, match=r"sqlite:///app\.sqlite"):
        asyncio.run(main())


def test_version_that_is_not_the_latest_is_warned_of(
    fresh_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    url = fresh_database("sqlite")
    for version in ("old", "new", "old"):
        assert "the latest is" not in caplog.text
        with Holdfast(url, application_version=version):
            pass
    assert "This process runs application version old; the latest is new." in caplog.text
