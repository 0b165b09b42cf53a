"""What real servers' failures mean: each kind of error, and each reason why a connection cannot be made."""

from __future__ import annotations

import asyncio
import secrets
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, DatabaseURL, Pipeline, SyncConnectionManager
from holdfast.db.blocking.glances import until
from holdfast.errors import InvalidURL, QueryFailed, Retryable, TooLong, Unavailable
from holdfast.testing.ledger import Ledger
from holdfast.testing.servers.ports import free_port

if TYPE_CHECKING:
    from holdfast.db import Transaction
    from holdfast.testing.servers.server import Server

FreshDatabase = Callable[[str], str]
SERVERS = pytest.mark.parametrize("kind", ["postgres", "mariadb"])
_WRONG = "s3cret-wr0ng"


def play(url: str, scene: Callable[[ConnectionManager], Any], **options: Any) -> Any:
    async def main() -> Any:
        async with ConnectionManager(url, **options) as manager:
            return await scene(manager)

    return asyncio.run(main())


async def two_rows(manager: ConnectionManager) -> None:
    await manager.execute("CREATE TABLE t (k VARCHAR(20) NOT NULL PRIMARY KEY, v INTEGER NOT NULL)")
    await manager.execute("INSERT INTO t VALUES ('a', 0), ('b', 0)")


def told(error: BaseException) -> str:
    """Everything a log would show of *error*, causes included, except the source lines of this file."""
    lines = [repr(error), str(error)]
    lines += [line for line in traceback.format_exception(error) if not line.lstrip().startswith("File")]
    return "\n".join(lines)


@SERVERS
def test_deadlock_asks_one_of_the_two_to_try_again(kind: str, fresh_database: FreshDatabase) -> None:
    async def scene(manager: ConnectionManager) -> None:
        await two_rows(manager)
        both = asyncio.Barrier(2)

        async def one(first: str, second: str) -> None:
            async with manager.transaction() as transaction:
                await transaction.execute("UPDATE t SET v = v + 1 WHERE k = ?", first)
                await both.wait()
                await transaction.execute("UPDATE t SET v = v + 1 WHERE k = ?", second)

        outcomes = await asyncio.gather(one("a", "b"), one("b", "a"), return_exceptions=True)
        [loser] = [outcome for outcome in outcomes if outcome is not None]
        assert isinstance(loser, Retryable)
        assert loser.kind == "retry"
        assert loser.__cause__ is not None
        assert await manager.fetch("SELECT v FROM t") == [{"v": 1}, {"v": 1}]

    play(fresh_database(kind), scene)


@SERVERS
def test_deadlock_that_is_caught_inside_its_transaction_keeps_nothing(kind: str, fresh_database: FreshDatabase) -> None:
    async def scene(manager: ConnectionManager) -> None:
        await two_rows(manager)
        both = asyncio.Barrier(2)

        async def one(first: str, second: str) -> None:
            async with manager.transaction() as transaction:
                await transaction.execute("UPDATE t SET v = v + 1 WHERE k = ?", first)
                await both.wait()
                try:
                    await transaction.execute("UPDATE t SET v = v + 1 WHERE k = ?", second)
                except Retryable:
                    with pytest.raises(QueryFailed):
                        await transaction.execute("INSERT INTO t VALUES ('alone', 1)")

        outcomes = await asyncio.gather(one("a", "b"), one("b", "a"), return_exceptions=True)
        [loser] = [outcome for outcome in outcomes if outcome is not None]
        assert isinstance(loser, QueryFailed)
        assert await manager.fetch("SELECT k, v FROM t ORDER BY k") == [{"k": "a", "v": 1}, {"k": "b", "v": 1}]

    play(fresh_database(kind), scene)


@SERVERS
def test_serialization_failure_asks_to_try_again_and_run_does(kind: str, fresh_database: FreshDatabase) -> None:
    async def scene(manager: ConnectionManager) -> None:
        await two_rows(manager)
        both = asyncio.Barrier(2)
        tries = 0

        async def work(transaction: Transaction) -> None:
            nonlocal tries
            tries += 1
            [row] = await transaction.fetch("SELECT SUM(v) AS total FROM t")
            if tries <= 2:
                await both.wait()
            key = "a" if tries % 2 else "b"
            await transaction.execute("UPDATE t SET v = ? WHERE k = ?", int(row["total"]) + 1, key)

        await asyncio.gather(*(manager.run(work, isolation="SERIALIZABLE") for _ in range(2)))
        assert tries >= 3
        values = sorted(row["v"] for row in await manager.fetch("SELECT v FROM t"))
        assert values in ([0, 2], [1, 2])  # as if one had run after the other

    play(fresh_database(kind), scene)


@SERVERS
def test_serialization_failure_in_a_block_is_told(kind: str, fresh_database: FreshDatabase) -> None:
    async def scene(manager: ConnectionManager) -> None:
        await two_rows(manager)
        both = asyncio.Barrier(2)

        async def one(key: str) -> None:
            async with manager.transaction(isolation="SERIALIZABLE") as transaction:
                await transaction.fetch("SELECT SUM(v) AS total FROM t")
                await both.wait()
                await transaction.execute("UPDATE t SET v = v + 1 WHERE k = ?", key)

        outcomes = await asyncio.gather(one("a"), one("b"), return_exceptions=True)
        [loser] = [outcome for outcome in outcomes if outcome is not None]
        assert isinstance(loser, Retryable)
        assert loser.__cause__ is not None

    play(fresh_database(kind), scene)


def test_table_changed_under_a_prepared_statement_is_read_again(fresh_database: FreshDatabase) -> None:
    async def scene(manager: ConnectionManager) -> None:
        await two_rows(manager)

        async def work(transaction: Transaction) -> list[dict[str, Any]]:
            return await transaction.fetch("SELECT * FROM t WHERE k = ?", "a")

        assert await manager.run(work) == [{"k": "a", "v": 0}]
        await manager.execute("ALTER TABLE t ADD COLUMN w INTEGER")
        assert await manager.run(work) == [{"k": "a", "v": 0, "w": None}]

    play(fresh_database("postgres"), scene, pool_size=1)


def test_statement_larger_than_mariadb_takes_is_refused_before_it_is_sent(fresh_database: FreshDatabase) -> None:
    async def scene(manager: ConnectionManager) -> None:
        await manager.execute("CREATE TABLE t (v LONGTEXT)")
        before = await manager.fetch("SELECT CONNECTION_ID() AS id")
        with pytest.raises(TooLong, match="max_allowed_packet"):
            await manager.execute("INSERT INTO t VALUES (?)", "x" * (17 * 1024 * 1024))
        assert await manager.fetch("SELECT CONNECTION_ID() AS id") == before
        assert await manager.fetch("SELECT COUNT(*) AS n FROM t") == [{"n": 0}]

    play(fresh_database("mariadb"), scene, pool_size=1)


def test_what_mariadb_is_set_to_for_everybody_does_not_reach_a_session(own_server: Callable[..., Server]) -> None:
    """Rows would be cut in silence, writes refused, transactions chained, joins refused, and wrong rows taken."""
    server = own_server("mariadb")

    async def set_up(manager: ConnectionManager) -> None:
        await two_rows(manager)
        for setting in ("sql_select_limit = 1", "sql_safe_updates = 1", "completion_type = 1", "max_join_size = 1"):
            await manager.execute(f"SET GLOBAL {setting}")
        for setting in ("foreign_key_checks = 0", "unique_checks = 0"):
            await manager.execute(f"SET GLOBAL {setting}")

    async def scene(manager: ConnectionManager) -> None:
        assert len(await manager.fetch("SELECT a.k FROM t AS a JOIN t AS b ON a.v = b.v")) == 4
        for level in ("SERIALIZABLE", "READ COMMITTED"):
            async with manager.transaction(isolation=level) as transaction:
                assert await transaction.execute("UPDATE t SET v = v + 1") == 2
        await manager.execute("CREATE TABLE of_t (k VARCHAR(20) NOT NULL, FOREIGN KEY (k) REFERENCES t (k))")
        with pytest.raises(QueryFailed, match="1452"):
            await manager.execute("INSERT INTO of_t VALUES ('nobody')")

    play(server.url, set_up)
    play(server.url, scene, pool_size=1)


def test_backslash_in_a_literal_is_one_whatever_a_postgres_database_is_set_to(fresh_database: FreshDatabase) -> None:
    url = fresh_database("postgres")

    async def set_up(manager: ConnectionManager) -> None:
        await manager.execute(f"ALTER DATABASE {manager.url.database} SET standard_conforming_strings = off")

    async def scene(manager: ConnectionManager) -> None:
        assert await manager.fetch(r"SELECT '\u0000' AS text") == [{"text": r"\u0000"}]

    play(url, set_up)
    play(url, scene)


_GRANTS = {
    "postgres": ("CREATE ROLE {user} LOGIN PASSWORD 'w'", "DROP OWNED BY {user}", "DROP ROLE {user}"),
    "mariadb": ("CREATE USER {user} IDENTIFIED BY 'w'", "DO 0", "DROP USER {user}"),
}


@SERVERS
def test_durable_write_waits_for_a_right_that_was_taken_away(
    kind: str, fresh_database: FreshDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    url = DatabaseURL.parse(fresh_database(kind))
    user = f"u_{secrets.token_hex(6)}"
    create, disown, drop = (statement.format(user=user) for statement in _GRANTS[kind])

    async def writing() -> None:
        scheme = url.safe.partition(":")[0]
        async with ConnectionManager(f"{scheme}://{user}:w@{url.host}:{url.port}/{url.database}") as manager:
            ledger = Ledger(manager.dialect)
            async with Pipeline(manager) as pipeline:
                write = asyncio.create_task(pipeline.write(ledger, ("a", "", 0)))
                await until(lambda: "durable writes is tried again" in caplog.text)
                await asyncio.to_thread(owner.execute, f"GRANT ALL ON holdfast_ledger TO {user}")
                await write

    async def making(manager: ConnectionManager) -> None:
        await Ledger(manager.dialect).create(manager)

    play(url.secret_text(), making)
    with SyncConnectionManager(url.secret_text()) as owner:
        owner.execute(create)
        try:
            owner.execute(f"GRANT SELECT ON holdfast_ledger TO {user}")
            asyncio.run(writing())
            assert owner.fetch("SELECT entry_key FROM holdfast_ledger") == [{"entry_key": "a"}]
        finally:
            owner.execute(disown)
            owner.execute(drop)


@SERVERS
def test_statement_out_of_time_says_so_and_the_manager_lives_on(kind: str, fresh_database: FreshDatabase) -> None:
    slow = {"postgres": "SELECT pg_sleep(20)", "mariadb": "SELECT SLEEP(20)"}[kind]

    async def scene(manager: ConnectionManager) -> None:
        async with asyncio.timeout(15):
            with pytest.raises(Exception) as failure:  # noqa: PT011 -- its type is looked at below
                await manager.fetch(slow)
        assert failure.value.__class__.__name__ in {"ConnectionLost", "UnknownCommit", "QueryFailed", "Retryable"}
        assert await manager.fetch("SELECT 1 AS one") == [{"one": 1}]

    play(fresh_database(kind), scene, command_timeout=0.2)


def refusal_of(url: str, **options: Any) -> Unavailable:
    async def open_it() -> None:
        async with asyncio.timeout(20):
            await ConnectionManager(url, **options).initialize()

    with pytest.raises(Unavailable) as refusal:
        asyncio.run(open_it())
    with pytest.raises(Unavailable), SyncConnectionManager(url, **options):
        pass
    return refusal.value


def replaced(url: str, old: str, new: str) -> str:
    assert old in url
    return url.replace(old, new)


@SERVERS
def test_refused_login_names_the_remedy_and_no_password(kind: str, fresh_database: FreshDatabase) -> None:
    url = fresh_database(kind)
    password = DatabaseURL.parse(url).password or ""
    error = refusal_of(replaced(url, password, _WRONG))
    assert "refused the login" in str(error)
    assert "check the user and the password" in str(error)
    assert _WRONG not in told(error)
    assert error.__cause__ is not None


@SERVERS
def test_unknown_database_names_the_remedy_and_no_password(kind: str, fresh_database: FreshDatabase) -> None:
    url = DatabaseURL.parse(fresh_database(kind))
    error = refusal_of(url.with_database("no_such_database").secret_text())
    assert "has no database 'no_such_database'" in str(error)
    assert "create it" in str(error)
    assert (url.password or "?") not in told(error)


def test_server_without_tls_is_told_from_one_that_is_not_there(fresh_database: FreshDatabase) -> None:
    url = fresh_database("postgres")
    error = refusal_of(f"{url}{'&' if '?' in url else '?'}sslmode=require")
    assert "speaks no TLS, and the URL asks for it with sslmode" in str(error)
    assert (DatabaseURL.parse(url).password or "?") not in told(error)


@SERVERS
def test_unreachable_server_names_the_remedy_and_no_password(kind: str) -> None:
    scheme = {"postgres": "postgresql", "mariadb": "mysql"}[kind]
    error = refusal_of(f"{scheme}://someone:{_WRONG}@127.0.0.1:{free_port()}/db")
    assert "cannot be reached: check that it runs and listens there" in str(error)
    assert _WRONG not in told(error)
    error = refusal_of(f"{scheme}://someone:{_WRONG}@no-such-host.invalid/db")
    assert "check that it runs" in str(error)
    assert _WRONG not in told(error)


@SERVERS
def test_server_that_never_answers_is_given_up(kind: str) -> None:
    scheme = {"postgres": "postgresql", "mariadb": "mysql"}[kind]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://someone:{_WRONG}@127.0.0.1:{silent.getsockname()[1]}/db"
        error = refusal_of(url, connect_timeout=0.3)
    assert "did not answer within 0.3 s" in str(error)
    assert _WRONG not in told(error)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql:/u:{_WRONG}@h/db",
        f"postgres//u:{_WRONG}@h/db",
        f"oracle://u:{_WRONG}@h/db",
        f"postgresql://u:{_WRONG}@h:port/db",
        f"mysql://u:{_WRONG}@h",
    ],
)
def test_wrong_url_names_the_right_form_and_no_password(url: str) -> None:
    with pytest.raises(InvalidURL) as refusal:
        ConnectionManager(url)
    assert "://" in str(refusal.value) or "percent" in str(refusal.value)
    assert _WRONG not in told(refusal.value)


def test_sqlite_path_that_cannot_be_opened_names_the_remedy(tmp_path: Any) -> None:
    assert "does not exist, create it" in str(refusal_of(f"sqlite:///{tmp_path}/nowhere/db.sqlite"))
    (tmp_path / "text").write_text("no database, but long enough to be read as the head of one. " * 20)
    assert "cannot be used as a SQLite database" in str(refusal_of(f"sqlite:///{tmp_path}/text"))
    assert "it is a folder, name a file in it" in str(refusal_of(f"sqlite:///{tmp_path}"))
    assert "File name too long, so check its path" in str(refusal_of(f"sqlite:///{tmp_path}/{'x' * 300}"))


@pytest.mark.parametrize(
    ("module", "url", "remedy"),
    [
        ("asyncpg", "postgresql://u:p@h/db", "pip install 'holdfast[postgres]'"),
        ("asyncmy", "mysql://u:p@h/db", "pip install 'holdfast[mysql]'"),
    ],
)
def test_missing_driver_names_the_extra_and_sqlite_needs_none(module: str, url: str, remedy: str) -> None:
    script = f"""
import sys
sys.modules["{module}"] = None
from holdfast.db import SyncConnectionManager
from holdfast.errors import DriverMissing
with SyncConnectionManager("sqlite://") as manager:
    assert manager.fetch("SELECT 1 AS one") == [{{"one": 1}}]
try:
    SyncConnectionManager("{url}").initialize()
except DriverMissing as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert remedy in done.stdout
