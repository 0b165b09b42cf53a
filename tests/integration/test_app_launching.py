"""A launch that is cut short leaves nothing behind: no beat, no executor, and an application that can be launched."""

from __future__ import annotations

import asyncio
import gc
import secrets
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.db import DatabaseURL, SyncConnectionManager
from holdfast.errors import ConfigurationError, MisuseError, Unavailable
from holdfast.workflows.ownership.beats import Beats

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def beats() -> list[str]:
    """Return the threads that beat."""
    return [each.name for each in threading.enumerate() if each.name == "holdfast-beat"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_launch_that_is_cancelled_while_it_registers_leaves_no_beat(
    kind: str, fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        app = AsyncHoldfast(fresh_database(kind), lease=1)

        @app.workflow
        async def one() -> int:
            return 1

        real, reached, cancelled = Beats._join, asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        async def join(beat: Beats) -> None:
            loop.call_soon_threadsafe(reached.set)
            assert cancelled.wait(60)  # on the beat's own thread: without it the launch may be over by then
            await real(beat)

        monkeypatch.setattr(Beats, "_join", join)
        for _ in range(3):
            reached.clear()
            cancelled.clear()
            launching = asyncio.create_task(app.launch())
            await reached.wait()
            launching.cancel()
            cancelled.set()
            with pytest.raises(asyncio.CancelledError):
                await launching
            assert beats() == []
        async with app:
            assert await one() == 1
            assert len(await app.list_executors()) == 1
            assert len(beats()) == 1
        assert beats() == []

    asyncio.run(scene())


def test_launch_that_fails_when_all_runs_already_closes_all(
    fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        app = AsyncHoldfast(fresh_database("sqlite"))

        async def away(_: object) -> None:
            raise Unavailable("The database is away.")

        async with app:
            hints = type(app._engine.wakeups)
        with monkeypatch.context() as patched:
            patched.setattr(hints, "start", away)
            with pytest.raises(Unavailable):
                await app.launch()
        assert beats() == []
        async with app:
            assert len(await app.list_executors()) == 1

    asyncio.run(scene())


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_two_launches_at_once_are_one(kind: str, fresh_database: Callable[[str], str]) -> None:
    async def scene() -> None:
        app = AsyncHoldfast(fresh_database(kind))
        await asyncio.gather(app.launch(), app.launch(), app.launch())
        assert len(beats()) == 1
        assert len(await app.list_executors()) == 1
        await app.close()
        assert beats() == []

    asyncio.run(scene())


# asyncio warns of connections whose loop ended before them, as it should: nobody can close them any more.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_application_whose_loop_ended_before_it_was_closed_is_closed_on_another_and_launched_there(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    app = AsyncHoldfast(fresh_database(kind), lease=1)

    @app.workflow
    async def one() -> int:
        return 1

    async def forgetful() -> None:
        await app.launch()
        assert await one() == 1

    async def careful() -> None:
        with pytest.raises(MisuseError, match="another event loop"):
            await app.launch()
        await app.close()
        assert beats() == []
        async with app:
            assert await one() == 1

    asyncio.run(forgetful())
    asyncio.run(careful())
    gc.collect()  # so that asyncio warns now


_FEW = {
    "postgres": (
        "CREATE ROLE {user} LOGIN PASSWORD 'w' CONNECTION LIMIT 3",
        "GRANT USAGE ON SCHEMA holdfast TO {user}",
        "GRANT ALL ON ALL TABLES IN SCHEMA holdfast TO {user}",
    ),
    "mariadb": (
        "CREATE USER {user} IDENTIFIED BY 'w' WITH MAX_USER_CONNECTIONS 3",
        "GRANT ALL ON {database}.* TO {user}",
    ),
}
_NO_MORE = {"postgres": ("DROP OWNED BY {user}", "DROP ROLE {user}"), "mariadb": ("DROP USER {user}",)}


def test_launch_among_greenlets_says_why_it_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patched = SimpleNamespace(is_module_patched=lambda name: name == "threading")
    app = Holdfast(tmp_path / "app.db")
    with monkeypatch.context() as here:
        here.setitem(sys.modules, "gevent.monkey", patched)
        with pytest.raises(ConfigurationError, match="greenlets in the place of threads"):
            app.launch()
    assert beats() == []
    with app:
        assert app.list_workflows() == []


@pytest.mark.parametrize("kind", list(_FEW))
def test_application_with_three_connections_has_one_for_its_writes(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    """The pool would take what is left of them, one for each of those who read at once, and keep them."""
    url = DatabaseURL.parse(fresh_database(kind))
    user = f"u_{secrets.token_hex(6)}"
    with Holdfast(url.secret_text()):
        pass
    with SyncConnectionManager(url.secret_text()) as owner:
        for statement in _FEW[kind]:
            owner.execute(statement.format(user=user, database=url.database))
        app = Holdfast(f"{url.safe.partition(':')[0]}://{user}:w@{url.host}:{url.port}/{url.database}", lease=2)

        @app.workflow
        def double(number: int) -> int:
            return 2 * number

        try:
            with app:
                assert double(4) == 8
        finally:
            for statement in _NO_MORE[kind]:
                owner.execute(statement.format(user=user))
