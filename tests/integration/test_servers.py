"""The private servers keep what they were given, and nothing of them outlives the run that started them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import asyncmy
import asyncpg
import pytest
import redis

from holdfast.errors import ConfigurationError, InvalidURL, MisuseError, Unavailable
from holdfast.testing.servers import KINDS, Fleet, GivenServer, PostgresServer, databases_of, newest_postgres
from holdfast.testing.servers import server as server_module
from holdfast.testing.servers.ports import free_port
from holdfast.testing.skips import SkipReason, skip

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.servers import Server

EVERY_KIND = pytest.mark.parametrize("kind", list(KINDS))


def write(url: str, text: str) -> None:
    """Commit *text* so that a server that keeps its promise has it after a kill."""
    if url.startswith("redis"):
        with redis.Redis.from_url(url) as client:
            client.set("kept", text)
        return
    asyncio.run(_sql(url, "CREATE TABLE kept (word VARCHAR(20))", f"INSERT INTO kept VALUES ('{text}')"))


def read(url: str) -> str:
    if url.startswith("redis"):
        with redis.Redis.from_url(url, decode_responses=True) as client:
            return str(client.get("kept"))
    return str(asyncio.run(_sql(url, "SELECT word FROM kept")))


async def _sql(url: str, *statements: str) -> Any:
    """Run *statements* and return the first value of the last one."""
    if url.startswith("postgresql"):
        connection = await asyncpg.connect(url)
        for statement in statements:
            value = await connection.fetchval(statement)
        await connection.close()
        return value
    parts = urlsplit(url)
    connection = await asyncmy.connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=parts.password,
        database=parts.path[1:],
        autocommit=True,
    )
    async with connection.cursor() as cursor:
        for statement in statements:
            await cursor.execute(statement)
        row = await cursor.fetchone()
    await connection.ensure_closed()
    return row[0] if row else None


@EVERY_KIND
def test_server_killed_and_started_keeps_its_port_and_data(kind: str, own_server: Callable[..., Server]) -> None:
    server = own_server(kind)
    port, url = server.port, server.create_database()
    write(url, "before the kill")

    server.kill()
    assert not server.running
    with pytest.raises(Unavailable):
        databases_of(url).ping(url)
    server.start()

    assert server.port == port
    assert read(url) == "before the kill"


@EVERY_KIND
@pytest.mark.parametrize("immediate", [False, True])
def test_server_restarted_keeps_its_port_and_data(
    kind: str, immediate: bool, own_server: Callable[..., Server]
) -> None:
    server = own_server(kind)
    port, url = server.port, server.create_database()
    write(url, "before the stop")

    server.restart(immediate=immediate)

    assert server.port == port
    assert read(url) == "before the stop"


def test_postgres_of_the_wheel_is_eighteen_or_newer(own_server: Callable[..., Server]) -> None:
    binaries = newest_postgres()
    if binaries is None:
        skip(SkipReason.NO_NEWEST_POSTGRES)
    server = own_server("postgres", binaries=binaries)
    assert int(asyncio.run(_sql(server.url, "SHOW server_version_num"))) >= 180000


def test_postgres_settings_are_durable_and_may_be_added_to(own_server: Callable[..., Server]) -> None:
    server = own_server("postgres", settings={"max_connections": "17"})
    assert asyncio.run(_sql(server.url, "SHOW fsync")) == "on"
    assert asyncio.run(_sql(server.url, "SHOW synchronous_commit")) == "on"
    assert asyncio.run(_sql(server.url, "SHOW max_connections")) == "17"


def test_mariadb_of_the_run_flushes_at_every_commit(mariadb_url: str) -> None:
    assert asyncio.run(_sql(mariadb_url, "SELECT @@innodb_flush_log_at_trx_commit")) == 1


def test_redis_of_the_run_syncs_every_write(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        assert client.config_get("append*")["appendfsync"] == "always"


@EVERY_KIND
def test_login_with_a_wrong_password_is_refused(kind: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(f"{kind}_url")
    password = urlsplit(url).password or ""
    with pytest.raises(Unavailable) as refused:
        databases_of(url).ping(url.replace(password, "wrong"))
    assert "wrong" not in str(refused.value)


@EVERY_KIND
def test_fresh_databases_do_not_see_each_other(kind: str, fresh_database: Callable[[str], str]) -> None:
    first, second = fresh_database(kind), fresh_database(kind)
    write(first, "first")
    write(second, "second")
    assert (read(first), read(second)) == ("first", "second")


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_database_is_dropped_under_an_open_transaction(kind: str, request: pytest.FixtureRequest) -> None:
    server: str = request.getfixturevalue(f"{kind}_url")
    url = databases_of(server).create(server)
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD_TRANSACTION, url],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        databases_of(server).drop(url)
        holder.kill()
    with pytest.raises(Unavailable):
        databases_of(url).ping(url)


_HOLD_TRANSACTION = """
import asyncio, sys
from urllib.parse import urlsplit
async def main(url):
    if url.startswith("postgresql"):
        import asyncpg
        connection = await asyncpg.connect(url)
        await connection.execute("CREATE TABLE held (n INT)")
        await connection.execute("BEGIN")
        await connection.execute("INSERT INTO held VALUES (1)")
    else:
        import asyncmy
        at = urlsplit(url)
        connection = await asyncmy.connect(
            host=at.hostname, port=at.port, user=at.username, password=at.password, database=at.path[1:])
        async with connection.cursor() as cursor:
            await cursor.execute("CREATE TABLE held (n INT)")
            await cursor.execute("BEGIN")
            await cursor.execute("INSERT INTO held VALUES (1)")
    print("open", flush=True)
    await asyncio.sleep(600)
asyncio.run(main(sys.argv[1]))
"""


@EVERY_KIND
def test_database_that_was_not_made_for_a_test_is_not_dropped(kind: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(f"{kind}_url")
    with pytest.raises(InvalidURL, match="not dropped"):
        databases_of(url).drop(url)


def test_databases_of_an_unknown_scheme_names_the_known_ones() -> None:
    with pytest.raises(InvalidURL, match="postgresql, mysql, redis"):
        databases_of("oracle://somewhere")


def test_start_takes_another_port_when_the_first_is_taken(
    own_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        taken = holder.getsockname()[1]
        offers = iter([taken, free_port()])
        monkeypatch.setattr(server_module, "free_port", lambda: next(offers))
        assert own_server("redis").port != taken


def test_start_of_a_running_server_is_refused(own_server: Callable[..., Server]) -> None:
    server = own_server("redis")
    with pytest.raises(MisuseError, match="is running"):
        server.start()


def test_start_that_fails_shows_the_log_and_leaves_nothing(postgres_url: str) -> None:
    server = PostgresServer(settings={"no_such_setting": "1"})
    with pytest.raises(Unavailable, match="no_such_setting"), server:
        pass
    assert server._keeper is not None
    assert not server._keeper.folder.exists()


def test_server_not_started_says_so() -> None:
    if not PostgresServer.installed():
        skip(SkipReason.NO_POSTGRES)
    server = PostgresServer()
    with pytest.raises(MisuseError, match="has not been started"):
        _ = server.url
    with pytest.raises(MisuseError, match="is not running"):
        server.kill()


def test_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="initdb could not be run"),
        PostgresServer(binaries=_emptied(tmp_path / "package" / "installation" / "bin")),
    ):
        pass


def _emptied(folder: Path) -> Path:
    folder.mkdir(parents=True)  # whose neighbours would be copied with it
    return folder


_START_ALL = """
import json, os, sys
from holdfast.testing.servers import Fleet
fleet = Fleet().start()
folders = [str(server._keeper.folder) for server in fleet._servers]
if "fork" in sys.argv and os.fork() == 0:
    import time
    time.sleep(600)  # holds every pipe of its parent open
print(json.dumps({"folders": folders, "urls": fleet.urls}), flush=True)
sys.stdin.read()
"""


def _start_all(*words: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_TEST_")}
    process = subprocess.Popen(
        [sys.executable, "-c", _START_ALL, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=plain,
        start_new_session=True,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


@pytest.mark.parametrize("ending", ["kill", "terminate", "end", "kill with a fork alive"])
def test_nothing_outlives_the_process_that_started_the_servers(ending: str) -> None:
    process, started = _start_all(*(["fork"] if "fork" in ending else []))
    with process:
        folders = started["folders"]
        before = _processes_in(folders)
        assert len(before) >= len(folders) > 0
        {"end": lambda: process.stdin and process.stdin.close(), "terminate": process.terminate}.get(
            ending, process.kill
        )()
        process.wait()
        _eventually(lambda: not _processes_in(folders) and not any(Path(folder).exists() for folder in folders))
        assert not set(before) & set(_processes_in(folders))
        if "fork" in ending:
            os.killpg(process.pid, signal.SIGKILL)


def test_server_ends_with_its_supervisor() -> None:
    process, started = _start_all()
    with process:
        supervisors = [pid for pid in _processes() if _parent(pid) == process.pid]
        assert len(supervisors) == len(started["folders"])
        for pid in supervisors:
            os.kill(pid, signal.SIGKILL)
        _eventually(lambda: not _processes_in(started["folders"]))
        process.kill()
    for folder in started["folders"]:
        subprocess.run(["rm", "-r", folder], check=True)


def test_two_runs_at_once_have_servers_of_their_own() -> None:
    first, of_first = _start_all()
    second, of_second = _start_all()
    with first, second:
        assert not set(of_first["folders"]) & set(of_second["folders"])
        first.kill()
        _eventually(lambda: not _processes_in(of_first["folders"]))
        for url in of_second["urls"].values():
            databases_of(url).ping(url)
        second.kill()
        _eventually(lambda: not any(Path(folder).exists() for folder in of_second["folders"]))


def test_given_server_is_used_and_not_killed(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_POSTGRES_URL", postgres_url)
    server = GivenServer.from_environment("postgres")
    assert server is not None
    server.start()
    url = server.create_database()
    databases_of(url).drop(url)
    for refused in (server.kill, server.stop, server.restart):
        with pytest.raises(MisuseError, match="HOLDFAST_TEST_POSTGRES_URL"):
            refused()


def test_given_server_that_is_not_there_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")
    with pytest.raises(Unavailable, match="HOLDFAST_TEST_REDIS_URL"):
        Fleet().start()


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _parent(pid: int) -> int | None:
    try:
        return int(Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _processes_in(folders: list[str]) -> list[int]:
    """Processes that work in one of *folders*: servers, and the backends that PostgreSQL renames."""
    found = []
    for pid in _processes():
        try:
            where = str(Path("/proc", str(pid), "cwd").readlink())
        except OSError:
            continue
        if any(where.startswith(folder) for folder in folders):
            found.append(pid)
    return found


def _eventually(true: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.02)
