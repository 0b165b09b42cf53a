"""The contract of the commit pipeline: told after the commit, alone in failure, bounded, flushed."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from holdfast.db import ConnectionManager, Pipeline
from holdfast.errors import Conflict, DatabaseError, MisuseError, NestedTransaction, PipelineClosed
from holdfast.testing.colours import Colour
from holdfast.testing.contract.kinds import Counter, Dreamer, Miscounter
from holdfast.testing.contract.venue import apart, until
from holdfast.testing.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from holdfast.db import Kind
    from holdfast.testing.contract.venue import Venue

T = TypeVar("T")

_WRITERS = 200


@dataclass(frozen=True)
class Stage:
    """An open pipeline over an empty ledger."""

    venue: Venue
    manager: ConnectionManager
    pipeline: Pipeline
    ledger: Ledger
    threads: ThreadPoolExecutor

    async def write(self, key: str, note: str = "", amount: int = 0) -> str:
        """Have an entry written, in the venue's colour."""
        return await self.hand_over(self.ledger, (key, note, amount))

    async def hand_over(self, kind: Kind[T], row: tuple[Any, ...]) -> T:
        """Have a row of any kind written, in the venue's colour."""
        if self.venue.colour is Colour.ASYNC:
            return await self.pipeline.write(kind, row)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, self.pipeline.write_blocking, kind, row)

    async def keys(self) -> list[str]:
        """Return what is in the ledger."""
        return [row["entry_key"] for row in await self.ledger.entries(self.manager)]

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep the pipeline from committing the entry "gate" until the block ends, by a transaction that has it."""
        async with self.manager.transaction() as transaction:
            await self.ledger.apply(transaction, [("gate", "another", 0)])
            yield


@asynccontextmanager
async def stage(venue: Venue, **options: Any) -> AsyncIterator[Stage]:
    """Open a manager and a pipeline with *options* over an empty ledger."""
    ledger = Ledger(venue.dialect)
    async with ConnectionManager(venue.url) as manager:
        await manager.execute("DROP TABLE IF EXISTS holdfast_ledger")
        await ledger.create(manager)
        with ThreadPoolExecutor(_WRITERS) as threads:
            async with Pipeline(manager, **options) as pipeline:
                yield Stage(venue, manager, pipeline, ledger, threads)


def play(venue: Venue, scene: Callable[[Stage], Coroutine[Any, Any, T]], **options: Any) -> T:
    """Run *scene* on a stage, on a loop of its own."""

    async def main() -> T:
        async with stage(venue, **options) as made:
            return await scene(made)

    return asyncio.run(main())


class PipelineContract:
    """The pipeline keeps its word on every backend and in both colours."""

    def test_acknowledged_operation_is_seen_by_another_client_at_once(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            async with ConnectionManager(venue.url) as second:
                other = second if venue.shared else made.manager

                async def one(number: int) -> None:
                    key = await made.write(f"k{number}")
                    assert await other.fetch("SELECT entry_key FROM holdfast_ledger WHERE entry_key = ?", key) != []

                await asyncio.gather(*(one(number) for number in range(30)))

        play(venue, scene)

    def test_lone_operations_are_each_committed_at_once(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            for number in range(20):
                assert await made.write(f"k{number:02}") == f"k{number:02}"
                assert made.pipeline.commits == number + 1
            assert await made.keys() == [f"k{number:02}" for number in range(20)]

        play(venue, scene)

    def test_operations_that_come_together_commit_together(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            async with made.held():  # threads that write to memory would be done before the next one comes
                writes = [asyncio.create_task(apart(made.write(f"k{number:03}"))) for number in range(_WRITERS)]
                await until(lambda: made.pipeline.unsettled + sum(each.done() for each in writes) == _WRITERS)
            await asyncio.gather(*writes)
            assert made.pipeline.commits < _WRITERS
            assert await made.keys() == ["gate", *(f"k{number:03}" for number in range(_WRITERS))]

        play(venue, scene)

    @pytest.mark.parametrize("poisoned", [{0}, {15}, {7, 8}, {0, 3, 4, 9, 15}, set(range(16))])
    def test_failing_operation_fails_alone(self, venue: Venue, poisoned: set[int]) -> None:
        async def scene(made: Stage) -> None:
            outcomes = await asyncio.gather(
                *(made.write(f"k{number:02}", amount=-(number in poisoned)) for number in range(16)),
                return_exceptions=True,
            )
            assert {number for number, outcome in enumerate(outcomes) if isinstance(outcome, DatabaseError)} == poisoned
            good = [f"k{number:02}" for number in range(16) if number not in poisoned]
            assert [outcome for outcome in outcomes if isinstance(outcome, str)] == good
            assert await made.keys() == good

        play(venue, scene)

    def test_operation_whose_key_is_taken_by_another_fails_alone(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            await made.write("taken", "first")
            outcomes = await asyncio.gather(
                made.write("a"), made.write("taken", "second"), made.write("b"), return_exceptions=True
            )
            assert outcomes[0] == "a"
            assert isinstance(outcomes[1], Conflict)
            assert outcomes[2] == "b"

        play(venue, scene)

    def test_same_operation_handed_over_twice_is_written_once(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            assert await asyncio.gather(*(made.write("same", "note") for _ in range(10))) == ["same"] * 10
            assert await made.keys() == ["same"]

        play(venue, scene)

    def test_kinds_that_come_together_each_get_their_own_outcomes(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            counter = Counter()
            results = await asyncio.gather(
                *(
                    made.write(f"k{number}") if number % 2 else made.hand_over(counter, (number,))
                    for number in range(40)
                )
            )
            assert results == [f"k{number}" if number % 2 else number * 10 for number in range(40)]

        play(venue, scene)

    def test_kind_that_miscounts_or_waits_fails_and_blocks_nobody(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            outcomes = await asyncio.gather(
                made.hand_over(Miscounter(one_statement=True), (1,)),
                made.hand_over(Miscounter(one_statement=False), (1,)),
                made.hand_over(Dreamer(), (1,)),
                made.write("innocent"),
                return_exceptions=True,
            )
            assert "must give one for each" in str(outcomes[0])
            assert "must give one for each" in str(outcomes[1])
            if not venue.pooled:
                assert isinstance(outcomes[2], MisuseError)
            assert outcomes[3] == "innocent"
            assert await made.write("after") == "after"

        play(venue, scene)

    def test_full_pipeline_makes_callers_wait_and_then_serves_them_all(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            writers = 1000 if venue.colour is Colour.ASYNC else 100
            peak = 0
            async with made.held():
                tasks = [asyncio.create_task(apart(made.write("gate", "another")))]
                tasks += [asyncio.create_task(apart(made.write(f"k{number}"))) for number in range(writers)]
                await until(lambda: made.pipeline.unsettled == 10)
                for _ in range(50):
                    await asyncio.sleep(0)
                    peak = max(peak, made.pipeline.unsettled)
            assert peak == 10
            assert len(await asyncio.gather(*tasks)) == writers + 1
            assert len(await made.keys()) == writers + 1

        play(venue, scene, max_pending=10)

    def test_full_by_bytes_makes_callers_wait_and_one_however_large_passes(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            async with made.held():
                tasks = [asyncio.create_task(apart(made.write("gate", "another")))]
                tasks += [asyncio.create_task(apart(made.write(f"k{n}", "x" * 1000))) for n in range(50)]
                tasks.append(asyncio.create_task(apart(made.write("huge", "x" * 50_000))))
                await until(lambda: made.pipeline.unsettled >= 8)
                assert made.pipeline.unsettled <= 9
            assert len(await asyncio.gather(*tasks)) == 52
            assert len(await made.keys()) == 52

        play(venue, scene, max_pending_bytes=10_000)

    def test_close_writes_what_is_at_hand(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            tasks = [asyncio.create_task(made.write(f"k{number}")) for number in range(100)]
            await tasks[0]
            await made.pipeline.close()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            told = {outcome for outcome in outcomes if isinstance(outcome, str)}
            assert all(isinstance(outcome, str | PipelineClosed) for outcome in outcomes)
            assert told == set(await made.keys())
            assert told

        play(venue, scene)

    def test_close_that_cannot_flush_in_time_says_what_is_not_confirmed(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            async with made.held():
                tasks = [asyncio.create_task(apart(made.write("gate", "another")))]
                tasks += [asyncio.create_task(apart(made.write(f"k{number}"))) for number in range(5)]
                await until(lambda: made.pipeline.unsettled == 6)
                await apart(made.pipeline.close(timeout=0.05))
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(outcome, PipelineClosed) for outcome in outcomes)
            assert all("not confirmed" in str(outcome) for outcome in outcomes)

        play(venue, scene)

    def test_write_after_close_or_before_open_is_refused(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            await made.pipeline.close()
            await made.pipeline.close()
            with pytest.raises(PipelineClosed, match="is closed"):
                await made.write("late")
            with pytest.raises(PipelineClosed, match="not open"):
                await Pipeline(made.manager).write(made.ledger, ("early", "", 0))
            assert await made.keys() == []

        play(venue, scene)

    def test_manager_that_is_closed_first_flushes_its_pipeline(self, venue: Venue) -> None:
        async def scene(made: Stage) -> list[Any]:
            tasks = [asyncio.create_task(made.write(f"k{number}")) for number in range(10)]
            await tasks[0]
            await made.manager.close()
            with pytest.raises(PipelineClosed):
                await made.write("late")
            return await asyncio.gather(*tasks, return_exceptions=True)

        outcomes = play(venue, scene)
        assert all(isinstance(outcome, str | PipelineClosed) for outcome in outcomes)
        assert isinstance(outcomes[0], str)

    def test_operation_whose_awaiter_is_cancelled_is_still_carried_out(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            async with made.held():
                gate = asyncio.create_task(apart(made.write("gate", "another")))
                tasks = [asyncio.create_task(made.write(f"k{n}"), context=Context()) for n in range(5)]
                await until(lambda: made.pipeline.unsettled == 6)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                assert all(task.cancelled() for task in tasks)
            await gate
            await made.pipeline.close()
            assert await made.keys() == ["gate", *(f"k{number}" for number in range(5))]

        play(venue, scene)

    def test_write_inside_a_transaction_is_refused(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            async with made.manager.transaction():
                with pytest.raises(NestedTransaction, match="write"):
                    await made.pipeline.write(made.ledger, ("k", "", 0))
                with pytest.raises(NestedTransaction, match="write"):
                    await asyncio.to_thread(made.pipeline.write_blocking, made.ledger, ("k", "", 0))
            assert await made.keys() == []

        play(venue, scene)

    def test_blocking_write_on_the_loop_is_refused(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            with pytest.raises(MisuseError, match="wait for itself"):
                made.pipeline.write_blocking(made.ledger, ("k", "", 0))
            assert made.pipeline.unsettled == 0

        play(venue, scene)

    def test_blocking_write_out_of_time_leaves_the_operation_under_way(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            async with made.held():
                with pytest.raises(TimeoutError, match="still under way"):
                    await apart(_blocking(made, "gate", timeout=0.02))
                with pytest.raises(TimeoutError, match="not handed over"):
                    await apart(_blocking(made, "beyond", timeout=0.02))
            await made.pipeline.close()
            assert await made.keys() == ["gate"]

        play(venue, scene, max_pending=1)

    def test_many_threads_and_tasks_write_at_once(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            def thread(number: int) -> None:
                for count in range(20):
                    made.pipeline.write_blocking(made.ledger, (f"thread-{number}-{count}", "", count))

            threads = [threading.Thread(target=thread, args=(number,)) for number in range(16)]
            for each in threads:
                each.start()
            await asyncio.gather(
                *(made.pipeline.write(made.ledger, (f"task-{n}-{c}", "", c)) for n in range(200) for c in range(2))
            )
            for each in threads:
                await asyncio.to_thread(each.join)
            assert len(await made.keys()) == 16 * 20 + 400
            assert made.pipeline.unsettled == 0

        play(venue, scene, max_pending=100)

    def test_transactions_beside_the_pipeline_have_their_turn(self, venue: Venue) -> None:
        async def scene(made: Stage) -> None:
            async def interactive(number: int) -> None:
                async with made.manager.transaction() as transaction:
                    await transaction.execute(
                        "INSERT INTO holdfast_ledger (entry_key, note, amount) VALUES (?, '', 0)", f"block-{number}"
                    )

            writes = [made.write(f"k{number}") for number in range(100)]
            blocks = [interactive(number) for number in range(10)]
            await asyncio.gather(*writes, *blocks)
            assert len(await made.keys()) == 110

        play(venue, scene)


async def _blocking(made: Stage, key: str, *, timeout: float) -> str:  # noqa: ASYNC109 -- handed on to the thread
    row = (key, "another", 0)
    return await asyncio.to_thread(made.pipeline.write_blocking, made.ledger, row, timeout=timeout)
