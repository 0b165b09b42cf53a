"""The contract of transactions: all or nothing, and nobody else's business until they end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import DialectName
from holdfast.errors import ConfigurationError, Conflict, MisuseError, NestedTransaction, QueryFailed, Unavailable
from holdfast.testing.colours import ThreadedManager
from holdfast.testing.contract.venue import apart

if TYPE_CHECKING:
    from holdfast.db import Transaction
    from holdfast.testing.colours import Manager
    from holdfast.testing.contract.venue import Venue


class Refused(Exception):
    """Raised by a scene inside a transaction."""


class TransactionContract:
    """Transactions are atomic and isolated on every backend."""

    def test_rolled_back_transaction_leaves_nothing_whatever_others_do(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)

            async def other(number: int) -> None:
                await manager.execute(f"INSERT INTO {table} VALUES (?, 0)", f"other-{number}")

            async def undone(number: int) -> None:
                with pytest.raises(Refused):
                    async with manager.transaction() as transaction:
                        await transaction.execute(f"INSERT INTO {table} VALUES (?, 1)", f"undone-{number}")
                        if venue.pooled:
                            await apart(other(100 + number))
                        await transaction.execute(f"INSERT INTO {table} VALUES (?, 1)", f"undone-too-{number}")
                        raise Refused

            async with asyncio.TaskGroup() as tasks:
                for number in range(10):
                    tasks.create_task(undone(number))
                    tasks.create_task(other(number))
            found = await manager.fetch(f"SELECT v, COUNT(*) AS n FROM {table} GROUP BY v")
            assert found == [{"v": 0, "n": 20 if venue.pooled else 10}]

        venue.play(scene)

    def test_fetchone_in_a_transaction_gives_its_own_row_or_none(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            async with manager.transaction() as transaction:
                await transaction.execute(f"INSERT INTO {table} VALUES (?, 1)", "mine")
                assert await transaction.fetchone(f"SELECT k FROM {table} WHERE k = ?", "mine") == {"k": "mine"}
                assert await transaction.fetchone(f"SELECT k FROM {table} WHERE k = ?", "other") is None

        venue.play(scene)

    def test_statement_that_begins_or_ends_a_transaction_is_refused(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            with pytest.raises(MisuseError, match="BEGIN was given"):
                await manager.execute("BEGIN")
            async with manager.transaction() as transaction:
                await transaction.execute(f"INSERT INTO {table} VALUES (?, 1)", "kept")
                with pytest.raises(MisuseError, match="COMMIT was given"):
                    await transaction.execute("commit")
            assert await manager.fetch(f"SELECT k FROM {table}") == [{"k": "kept"}]

        venue.play(scene)

    def test_uncommitted_writes_are_seen_by_nobody_else(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            query = f"SELECT k FROM {table}"
            async with manager.transaction() as transaction:
                await transaction.execute(f"INSERT INTO {table} VALUES ('a', 1)")
                assert await transaction.fetch(query) == [{"k": "a"}]
                if venue.shared:
                    assert await apart(manager.fetch(query)) == []
                if venue.pooled:
                    assert await apart(_read_in_transaction(manager, query)) == []
            assert await manager.fetch(query) == [{"k": "a"}]

        venue.play(scene)

    def test_read_sees_what_another_client_committed_again_and_again(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            async with venue.manager() as other:
                if not venue.shared:
                    with pytest.raises(QueryFailed):  # a database in memory is its manager's own
                        await other.fetch(f"SELECT k FROM {table}")
                    return
                for number in range(5):
                    await other.execute(f"INSERT INTO {table} VALUES (?, ?)", f"k{number}", number)
                    assert await manager.fetch(f"SELECT COUNT(*) AS n FROM {table}") == [{"n": number + 1}]
                    await manager.execute(f"UPDATE {table} SET v = v + 100 WHERE k = ?", f"k{number}")
                    [row] = await other.fetch(f"SELECT v FROM {table} WHERE k = ?", f"k{number}")
                    assert row == {"v": number + 100}

        venue.play(scene)

    @pytest.mark.parametrize("verb", ["execute", "fetch", "fetchone", "transaction", "run", "close"])
    def test_second_way_inside_a_transaction_is_refused(self, venue: Venue, verb: str) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            async with manager.transaction() as transaction:
                await transaction.execute(f"INSERT INTO {table} VALUES ('a', 1)")
                with pytest.raises(NestedTransaction, match=verb if verb != "fetchone" else "fetch"):
                    await _try_verb(manager, verb)
            assert await manager.fetch(f"SELECT k FROM {table}") == [{"k": "a"}]

        venue.play(scene, pool_size=1)

    @pytest.mark.parametrize("verb", ["execute", "fetch", "transaction", "run"])
    def test_second_way_inside_run_is_refused(self, venue: Venue, verb: str) -> None:
        async def scene(manager: Manager) -> None:
            async def work(_: Transaction) -> None:
                if isinstance(manager, ThreadedManager):
                    _block(manager, verb)
                else:
                    await _try_verb(manager, verb)

            # On a pool, work of the sync colour runs on the library's own loop, where any blocking call is refused.
            with pytest.raises(NestedTransaction if venue.colour == "async" else MisuseError):
                await manager.run(work)
            assert await manager.fetch("SELECT 1 AS one") == [{"one": 1}]

        venue.play(scene, pool_size=1)

    def test_task_begun_inside_a_transaction_is_free_after_it(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            go_on = asyncio.Event()

            async def later() -> list[dict[str, Any]]:
                await go_on.wait()
                return await manager.fetch("SELECT 1 AS one")

            async with manager.transaction() as transaction:
                await transaction.fetch("SELECT 1 AS one")
                task = asyncio.create_task(later())
            if venue.colour == "async":  # in the other colour a thread that was inside is over with its block
                go_on.set()
                assert await task == [{"one": 1}]
            else:
                task.cancel()

        venue.play(scene)

    def test_transaction_goes_no_further_after_a_failed_statement(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            with pytest.raises(QueryFailed, match="rolled back"):
                async with manager.transaction() as transaction:
                    await transaction.execute(f"INSERT INTO {table} VALUES ('a', 1)")
                    with pytest.raises(Conflict):
                        await transaction.execute(f"INSERT INTO {table} VALUES ('a', 2)")
                    with pytest.raises(QueryFailed, match="earlier statement"):
                        await transaction.execute(f"INSERT INTO {table} VALUES ('b', 1)")
            assert await manager.fetch(f"SELECT k FROM {table}") == []

        venue.play(scene)

    def test_statement_after_the_block_is_refused(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            async with manager.transaction() as transaction:
                await transaction.fetch("SELECT 1 AS one")
            with pytest.raises(MisuseError, match="has ended"):
                await transaction.execute("SELECT 1")

        venue.play(scene)

    def test_run_commits_its_work_and_returns_its_result(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)

            async def work(transaction: Transaction) -> int:
                await transaction.execute(f"INSERT INTO {table} VALUES ('a', 1)")
                [row] = await transaction.fetch(f"SELECT v FROM {table}")
                return int(row["v"]) + 41

            assert await manager.run(work) == 42
            assert await manager.fetch(f"SELECT k FROM {table}") == [{"k": "a"}]

        venue.play(scene)

    def test_run_that_raises_leaves_nothing(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)

            async def work(transaction: Transaction) -> None:
                await transaction.execute(f"INSERT INTO {table} VALUES ('a', 1)")
                raise Refused

            with pytest.raises(Refused):
                await manager.run(work)
            assert await manager.fetch(f"SELECT k FROM {table}") == []

        venue.play(scene)

    @pytest.mark.parametrize("seconds", [0, 0.001])
    @pytest.mark.parametrize("stubborn", [False, True])
    def test_run_that_waits_is_refused_where_it_holds_the_only_writer(
        self, venue: Venue, seconds: float, stubborn: bool
    ) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)

            async def work(transaction: Transaction) -> None:
                await transaction.execute(f"INSERT INTO {table} VALUES ('a', 1)")
                try:
                    await asyncio.sleep(seconds)
                finally:
                    if stubborn:
                        await asyncio.sleep(0)

            if venue.pooled:
                await manager.run(work)
                assert await manager.fetch(f"SELECT k FROM {table}") == [{"k": "a"}]
                return
            with pytest.raises(MisuseError, match="tried to wait"):
                await manager.run(work)
            assert await manager.fetch(f"SELECT k FROM {table}") == []
            await manager.execute(f"INSERT INTO {table} VALUES ('b', 1)")
            assert await manager.fetch(f"SELECT k FROM {table}") == [{"k": "b"}]

        venue.play(scene)

    def test_isolation_level_holds_for_its_transaction(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            for level in ("READ COMMITTED", "repeatable read", "SERIALIZABLE"):
                async with manager.transaction(isolation=level) as transaction:
                    await transaction.execute(f"INSERT INTO {table} VALUES (?, 1)", level)
                    if venue.dialect is DialectName.POSTGRES:
                        found = await transaction.fetch("SHOW transaction_isolation")
                        assert found == [{"transaction_isolation": level.lower()}]
            with pytest.raises(ConfigurationError, match="CHAOS"):
                manager.transaction(isolation="CHAOS")
                async with manager.transaction(isolation="CHAOS"):
                    pass
            assert len(await manager.fetch(f"SELECT k FROM {table}")) == 3

        venue.play(scene)

    def test_repeatable_read_sees_one_moment(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            query = f"SELECT COUNT(*) AS n FROM {table}"
            async with manager.transaction(isolation="REPEATABLE READ") as transaction:
                before = await transaction.fetch(query)
                if venue.pooled:
                    await apart(manager.execute(f"INSERT INTO {table} VALUES ('a', 1)"))
                assert await transaction.fetch(query) == before
            async with manager.transaction() as transaction:
                before = await transaction.fetch(query)
                if venue.pooled:  # the next one is at READ COMMITTED again
                    await apart(manager.execute(f"INSERT INTO {table} VALUES ('b', 1)"))
                    assert await transaction.fetch(query) == [{"n": before[0]["n"] + 1}]

        venue.play(scene)

    def test_pool_of_one_serves_many_in_turn(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)

            async def one(number: int) -> None:
                async with manager.transaction() as transaction:
                    await transaction.execute(f"INSERT INTO {table} VALUES (?, 1)", f"k{number}")
                await manager.fetch(f"SELECT k FROM {table}")

            await asyncio.gather(*(one(number) for number in range(20)))
            assert await manager.fetch(f"SELECT COUNT(*) AS n FROM {table}") == [{"n": 20}]

        venue.play(scene, pool_size=1)

    def test_used_up_pool_says_what_to_do_and_recovers(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            async with manager.transaction() as transaction:
                await transaction.fetch("SELECT 1 AS one")
                if venue.pooled:
                    with pytest.raises(Unavailable, match=r"1 connections were busy .* Raise pool_size"):
                        await apart(manager.fetch("SELECT 1 AS one"))
                else:  # there is no pool: reads go on beside the writer, other writers wait for it
                    waiting = asyncio.ensure_future(
                        apart(manager.execute("CREATE TABLE IF NOT EXISTS waited (x INTEGER)"))
                    )
                    await transaction.fetch("SELECT 1 AS one")
                    assert not waiting.done()
            if not venue.pooled:
                assert await waiting == 0
            assert await manager.fetch("SELECT 1 AS one") == [{"one": 1}]

        venue.play(scene, pool_size=1, pool_timeout=0.05)

    @pytest.mark.parametrize("options", [{"pooled": False}, {"prepared": False}])
    def test_without_pool_or_prepared_statements_all_is_the_same(self, venue: Venue, options: dict[str, bool]) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            async with manager.transaction() as transaction:
                await transaction.execute(f"INSERT INTO {table} VALUES (?, ?)", "a", 1)
            for _ in range(3):
                assert await manager.fetch(f"SELECT v FROM {table} WHERE k = ?", "a") == [{"v": 1}]
            assert await manager.execute(f"DELETE FROM {table} WHERE k = ?", "a") == 1

        venue.play(scene, **options)


async def _read_in_transaction(manager: Manager, query: str) -> list[dict[str, Any]]:
    async with manager.transaction() as transaction:
        return await transaction.fetch(query)


def _block(manager: ThreadedManager, verb: str) -> None:
    if verb == "transaction":
        with manager.blocking.transaction():
            pass
    elif verb == "run":
        manager.blocking.run(_nothing)
    else:
        getattr(manager.blocking, verb)("SELECT 1 AS one")


async def _nothing(_: Transaction) -> None:
    return


async def _try_verb(manager: Manager, verb: str) -> None:
    if verb == "transaction":
        async with manager.transaction():
            pass
    elif verb == "run":
        await manager.run(_nothing)
    elif verb == "close":
        await manager.close()
    else:
        await getattr(manager, verb)("SELECT 1 AS one")
