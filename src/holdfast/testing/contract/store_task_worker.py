"""What a worker must do with any task queue, in any colour."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import Unavailable, UnknownCommit
from holdfast.stores import SyncTaskWorker, TaskStatus, TaskWorker
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_ground import Threaded, elsewhere
from holdfast.testing.contract.store_tasks import make_queue, tables_of
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.stores import Task
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

PATIENCE = 60.0


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Ask *condition* until it says something true, and return that."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if answer := await condition():
                return answer
            await asyncio.sleep(0.01)


class Staff:
    """A worker that runs beside a test, and the queue it works on, seen from the test's own loop."""

    def __init__(self, ground: Ground, queue: Any, worker: TaskWorker) -> None:
        self.queue = queue
        self._ground = ground
        self._worker = worker
        self._face = Threaded(SyncTaskWorker(worker, ground.portal)) if ground.colour is Colour.SYNC else None
        run = worker.run() if self._face is None else self._face.run()
        self.running = asyncio.ensure_future(run)

    async def call(self, verb: str, *args: Any, **options: Any) -> Any:
        """Call the queue on its own loop."""
        return await self._ground.on_loop(getattr(self.queue, verb)(*args, **options))

    async def status_of(self, task_id: str) -> TaskStatus:
        """Return where a task stands."""
        status: TaskStatus = (await self.call("get", task_id)).status
        return status

    async def ended(self, task_id: str, status: TaskStatus = TaskStatus.COMPLETED) -> None:
        """Wait until a task has come to *status*."""

        async def has_come() -> bool:
            return await self.status_of(task_id) == status

        await until(has_come)

    async def stop(self, *, now: bool = False) -> None:
        """Stop the worker and wait for it."""
        self._worker.stop(now=now)
        async with asyncio.timeout(PATIENCE):
            await self.running
        if self._face is not None:
            self._face.end()


async def staffed(ground: Ground, handlers: Any, *, world: VirtualWorld | None = None, **options: Any) -> Staff:
    """Begin a worker with a queue of its own."""
    queue = await make_queue(ground, **({} if world is None else {"world": world}))
    return Staff(ground, queue, TaskWorker(queue, handlers, **{"poll_interval": 0.02, **options}))


def _sleepers(venue: StoreVenue) -> int:
    """Return how many tasks of a worker are asleep while its one handler runs: rest, lease, and presence in SQL."""
    return 3 if venue.is_sql else 2


class TaskWorkerContract:
    """Tasks are worked on, kept, ended, and given back."""

    def test_tasks_of_several_queues_are_worked_on(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            seen: list[tuple[str, Any, bool]] = []
            loop_thread = threading.get_ident()

            async def mail(task: Task) -> None:
                seen.append(("mail", task.payload, False))

            def report(task: Task) -> str:
                seen.append(("report", task.payload, threading.get_ident() != loop_thread))
                return "not kept"

            staff = await staffed(ground, {"mail": mail, "report": report}, concurrency=3)
            ids = [
                *await staff.call("enqueue_many", range(10), "mail"),
                *await staff.call("enqueue_many", range(5), "report"),
            ]
            for task_id in ids:
                await staff.ended(task_id)
            await staff.stop()
            assert sorted(seen) == [
                *[("mail", n, False) for n in range(10)],
                *[("report", n, True) for n in range(5)],
            ]

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_error_fails_the_task(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            async def handler(task: Task) -> None:
                if task.payload == "cancel":
                    raise asyncio.CancelledError
                raise ZeroDivisionError(task.payload)

            staff = await staffed(ground, {"default": handler})
            one, two = await staff.call("enqueue_many", ["x", "cancel"], max_attempts=1)
            await staff.ended(one, TaskStatus.DEAD_LETTERED)
            await staff.ended(two, TaskStatus.DEAD_LETTERED)
            await staff.stop()
            assert (await staff.call("get", one)).error == "ZeroDivisionError: x"
            assert "cancelled" in (await staff.call("get", two)).error

        store_venue.play(scene, empty=tables_of(store_venue))

    @pytest.mark.parametrize("error", [StopIteration, SystemExit, KeyboardInterrupt])
    def test_error_that_no_future_takes_fails_the_task_alone(
        self, store_venue: StoreVenue, error: type[BaseException]
    ) -> None:
        async def scene(ground: Ground) -> None:
            def handler(task: Task) -> None:
                if task.payload == "bad":
                    raise error

            staff = await staffed(ground, {"default": handler})
            bad, good = await staff.call("enqueue_many", ["bad", "good"], max_attempts=1)
            await staff.ended(bad, TaskStatus.DEAD_LETTERED)
            await staff.ended(good)
            await staff.stop()
            assert error.__name__ in (await staff.call("get", bad)).error

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_no_more_are_taken_than_can_be_worked_on(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            gate, most, now = threading.Event(), 0, 0
            lock = threading.Lock()

            def handler(_: Task) -> None:
                nonlocal most, now
                with lock:
                    now += 1
                    most = max(most, now)
                assert gate.wait(PATIENCE)
                with lock:
                    now -= 1

            staff = await staffed(ground, {"default": handler}, concurrency=2)
            ids = await staff.call("enqueue_many", range(6))

            async def two_at_work() -> bool:
                return now == 2

            await until(two_at_work)
            assert (await staff.call("get_stats"))["processing"] == 2
            gate.set()
            for task_id in ids:
                await staff.ended(task_id)
            await staff.stop()
            assert most == 2

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_lease_is_extended_while_the_handler_runs(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            world, gate = VirtualWorld(), threading.Event()
            staff = await staffed(ground, {"default": lambda _: gate.wait(PATIENCE)}, world=world, concurrency=1)
            task_id = await staff.call("enqueue", "long", visibility_timeout=30)
            await staff.ended(task_id, TaskStatus.PROCESSING)
            lease = (await staff.call("get", task_id)).lease_until
            for _ in range(4):
                await ground.on_loop(world.until_asleep(_sleepers(store_venue)))
                await ground.advance(11)
                await ground.on_loop(world.advance(11))

                async def is_later(before: Any = lease) -> Any:
                    found = (await staff.call("get", task_id)).lease_until
                    return found if found > before else None

                lease = await until(is_later)
            assert await elsewhere(staff.call("dequeue")) is None
            gate.set()
            await staff.ended(task_id)
            assert (await staff.call("get", task_id)).attempts == 1
            await staff.stop()

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_lost_task_is_dropped(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            world, ended = VirtualWorld(), threading.Event()

            async def handler(_: Task) -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.set()

            # With room for another it might take the task itself, as soon as its lease is over.
            staff = await staffed(ground, {"default": handler}, world=world, concurrency=1)
            task_id = await staff.call("enqueue", "x", visibility_timeout=30)
            await staff.ended(task_id, TaskStatus.PROCESSING)
            await ground.on_loop(world.until_asleep(_sleepers(store_venue)))
            await ground.advance(31)
            thief = await make_queue(ground)
            taken = await ground.on_loop(thief.dequeue(worker_id="thief"))
            assert taken.attempts == 2
            await ground.on_loop(world.advance(11))
            assert await asyncio.to_thread(ended.wait, PATIENCE)
            await staff.stop()
            found = await staff.call("get", task_id)
            assert (found.worker_id, found.error) == ("thief", taken.error)

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_stop_lets_the_work_at_hand_finish(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            gate = threading.Event()
            staff = await staffed(ground, {"default": lambda _: gate.wait(PATIENCE)}, concurrency=1)
            first, second = await staff.call("enqueue_many", range(2))
            await staff.ended(first, TaskStatus.PROCESSING)
            stopping = asyncio.ensure_future(staff.stop())
            await asyncio.sleep(0)
            gate.set()
            await stopping
            assert await staff.status_of(first) == TaskStatus.COMPLETED
            assert await staff.status_of(second) == TaskStatus.PENDING

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_stop_without_grace_gives_tasks_back(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            async def handler(_: Task) -> None:
                await asyncio.Event().wait()

            staff = await staffed(ground, {"default": handler})
            task_id = await staff.call("enqueue", "x")
            await staff.ended(task_id, TaskStatus.PROCESSING)
            await staff.stop(now=True)
            found = await staff.call("get", task_id)
            assert (found.status, found.attempts) == (TaskStatus.PENDING, 0)

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_worker_outlives_what_its_database_refuses(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            done = threading.Event()
            queue = await make_queue(ground)
            take, refusals = queue.dequeue_many, [1, 2, 3]

            async def unsteady(*args: Any) -> Any:
                if refusals:
                    refusals.pop()
                    raise Unavailable("away")
                return await take(*args)

            queue.dequeue_many = unsteady
            staff = Staff(ground, queue, TaskWorker(queue, {"default": lambda _: done.set()}, poll_interval=0.01))
            await staff.call("enqueue", "x")
            assert await asyncio.to_thread(done.wait, PATIENCE)
            await staff.stop()
            assert refusals == []

        store_venue.play(scene, empty=tables_of(store_venue))

    @pytest.mark.parametrize("fails", [False, True])
    def test_end_that_could_not_be_told_is_told_when_the_queue_is_back(
        self, store_venue: StoreVenue, *, fails: bool
    ) -> None:
        async def scene(ground: Ground) -> None:
            queue = await make_queue(ground)
            calls, refusals = [], [Unavailable("away"), UnknownCommit("away")]
            verb = "fail" if fails else "complete"
            tell = getattr(queue, verb)

            async def unsteady(*args: Any, **options: Any) -> Any:
                if refusals:
                    raise refusals.pop()
                return await tell(*args, **options)

            async def handler(task: Task) -> None:
                calls.append(task.attempts)
                if fails:
                    raise ValueError("no good")

            setattr(queue, verb, unsteady)
            staff = Staff(ground, queue, TaskWorker(queue, {"default": handler}, poll_interval=0.01))
            task_id = await staff.call("enqueue", "x", max_attempts=1)
            await staff.ended(task_id, TaskStatus.DEAD_LETTERED if fails else TaskStatus.COMPLETED)
            await staff.stop()
            assert (calls, refusals) == ([1], [])

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_worker_ends_though_its_queue_stays_away(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await make_queue(ground)
            told = threading.Event()

            async def away(*_: Any, **__: Any) -> Any:
                told.set()
                raise Unavailable("away")

            async def handler(_: Task) -> None:
                pass

            queue.complete = away
            staff = Staff(ground, queue, TaskWorker(queue, {"default": handler}, poll_interval=0.01))
            task_id = await staff.call("enqueue", "x")
            assert await asyncio.to_thread(told.wait, PATIENCE)
            await staff.stop(now=True)
            assert await staff.status_of(task_id) == TaskStatus.PROCESSING

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_worker_needs_a_handler(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            queue = await make_queue(ground)
            with pytest.raises(ValueError, match="handler"):
                TaskWorker(queue, {})

        store_venue.play(scene)


__all__ = ["TaskWorkerContract"]
