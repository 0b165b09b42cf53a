"""Looking for work in all queues this process listens to, and beginning what is claimed.

Polling is enough by itself; being woken only makes it sooner. A look claims from the queues in which something waits,
as the ``Outlook`` has it. After a look that found work the next one comes soon, and at once where more may wait; a
process at rest looks ever more seldom.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.limits import worker_room
from holdfast.core.outage import Outage
from holdfast.errors import DatabaseError
from holdfast.workflows.enqueueing.claims import Ride
from holdfast.workflows.ownership.launching import Launching
from holdfast.workflows.ownership.look import Hunger, Look
from holdfast.workflows.ownership.obstacles import tell_left_behind
from holdfast.workflows.ownership.rides import Rides
from holdfast.workflows.ownership.trial import Trial
from holdfast.workflows.queues import Claims
from holdfast.workflows.queues.claimed import in_order

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.queue import Queue
    from holdfast.model.world import World
    from holdfast.workflows.declaring.registry import Registry
    from holdfast.workflows.ownership.burden import Burden
    from holdfast.workflows.ownership.executor import Executor
    from holdfast.workflows.ownership.outlook import Hints, Outlook
    from holdfast.workflows.ownership.permit import Permit
    from holdfast.workflows.queues import QueueStore
    from holdfast.workflows.running.run import Outcome, Run
    from holdfast.workflows.running.runner import Runner
    from holdfast.workflows.running.threads import WorkflowThreads

logger = logging.getLogger("holdfast.dispatch")

_AT_ONCE = 200
_SOON = 0.05
_LAST_RIDE = 5.0  # how long a process that ends waits for a claim that rides with an entry


class Dispatch:
    """Claims what waits in the queues, within their limits and this process's capacity, and begins it."""

    def __init__(
        self,
        executor: Executor,
        versions: Sequence[str],
        queues: QueueStore,
        queries: Queries,
        registry: Registry,
        runner: Runner,
        threads: WorkflowThreads,
        permit: Permit,
        world: World,
        outlook: Outlook,
        *,
        own: Callable[[Run], None],
        taken_over: Callable[[Sequence[tuple[str, str]]], Awaitable[None]],
        give_up: Callable[[Row], Awaitable[None]],
        capacity: int,
        burden: Burden,
        hints: Hints,
    ) -> None:
        self._manager = queues.manager
        self._queries = queries
        self._versions = versions
        self._registry = registry
        self._runner = runner
        self._threads = threads
        self._permit = permit
        self._world = world
        self._outlook = outlook
        self._capacity = capacity
        self._burden = burden
        self._hints = hints
        self._claims = Claims(queues, executor, versions, registry, world)
        self._trial = Trial(world, executor.lease)
        self._launching = Launching(
            queues,
            queries,
            registry,
            runner,
            self._trial,
            burden,
            own=own,
            over=self._wake_from_anywhere,
            taken_over=taken_over,
            give_up=give_up,
        )
        self._outage = Outage()
        self._timers: set[asyncio.Task[None]] = set()
        self._hinted: set[str | None] = set()
        self._hunger = Hunger()
        self._woken = asyncio.Event()
        self._waits = False
        self._rides = Rides()
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for work; on the loop."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name="holdfast-dispatch")

    async def stop(self) -> None:
        """Claim nothing more. A claim under way ends first, so that nothing is owned and forgotten."""
        if self._task is not None:
            self._stopping = True
            self._woken.set()
            await self._task
            for timer in list(self._timers):
                timer.cancel()
            await asyncio.gather(*self._timers, return_exceptions=True)

    def wake(self, queue_name: str | None = None) -> None:
        """Look now: into one queue, if it is known that something waits there, or into all; on the loop."""
        self._hinted.add(queue_name)
        self._woken.set()

    def queue(self, name: str) -> Queue | None:
        """Return the settings of a queue as they were last read, if this process listens to it; from any thread."""
        return self._outlook.queues.get(name)

    def ride(self, queue_name: str | None) -> Ride | None:
        """Return a claim to ride with an entry of this queue, if this process would claim from it next; any thread.

        There is one ride at a time. Whoever gets it ends it, on the loop.
        """
        queue = self._outlook.queues.get(queue_name or "")
        if queue is None or queue.is_shared or queue.paused or not self._rides.take_seat():
            return None
        if self._waits and not self._woken.is_set() and self._may_claim():
            most, caps = self._room(queue)
            self._rides.wants(queue.name, most)
            if most and self._waits:  # else a look has begun meanwhile, which may not have counted this ride
                return Ride(queue, most, caps, self._claims.to_come(queue, most, caps), self._ride_over)
        self._rides.leave()
        return None

    def _ride_over(self, ride: Ride, rows: list[Row]) -> None:
        if rows:
            self._claims.came(ride.queue, ride.claim, rows)
        if len(rows) in (0, ride.most):
            self._hinted.add(ride.queue.name)
        self._rides.over(ride, rows)
        self._woken.set()

    def wake_in(self, seconds: float) -> None:
        """Look when so much time has passed: something becomes due then; on the loop."""
        timer = self._loop.create_task(self._wake_later(seconds), name="holdfast-due")
        self._timers.add(timer)
        timer.add_done_callback(self._timers.discard)

    async def _wake_later(self, seconds: float) -> None:
        await self._world.sleep(seconds)
        self.wake()

    def _wake_from_anywhere(self, queue_name: str | None = None) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody looks for work any more
            self._loop.call_soon_threadsafe(self.wake, queue_name)

    async def _run(self) -> None:
        await tell_left_behind(self._manager, self._queries, self._versions)
        wait = _SOON
        while not self._stopping:
            look = await self._looked()
            if look.more:
                wait = _SOON
                continue
            if look.ask:
                wait = _SOON / 2 if look.begun else wait
                continue
            longest = self._outlook.longest_wait()
            wait = min(longest, _SOON if look.begun or None in self._hunger.names else wait * 2)
            if await self._woken_within(min(wait, longest if look.again is None else look.again)):
                # A hint may come for nothing, as from this process's own beat: the wait is cut to a quarter.
                wait = max(_SOON, wait / 4)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_RIDE):
                while not self._rides.take_seat():
                    self._woken.clear()
                    await self._woken.wait()
        await self._looked()

    async def _looked(self) -> Look:
        self._woken.clear()
        try:
            look = await self._look()
        except DatabaseError as error:
            if self._outage.is_told(self._world.monotonic()):
                logger.warning("Looking for work fails and is tried again: %s", error)
        except Exception:
            # The service loop: what was claimed and not begun is handed back by the beat, the rest goes on.
            logger.exception("Looking for work failed and is tried again.")
        else:
            self._outage.is_over()
            return look
        return Look()

    async def _woken_within(self, seconds: float) -> bool:
        self._waits = True
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        finally:
            self._waits = False
        return True

    async def _look(self) -> Look:
        """Look once into the queues in which something waits; claim as much as there is room for, and begin it."""
        await self._clear_survivor()
        look = Look()
        ridden = self._rides.brought()
        for ride, rows in ridden:
            look.begun += await self._begin(in_order(rows, ride.queue), ride.caps, idle=False)
        hinted, self._hinted = self._hinted, set()
        if self._stopping or (ridden and not hinted):
            return look
        if not self._may_claim():
            if self._permit.is_valid() and self._registry.workflows:
                await self._outlook.keep_time(look)
            return look
        for name in self._outlook.in_turn(await self._outlook.where(hinted, look)):
            if not self._may_claim() or self._stopping:
                break
            await self._claim(self._outlook.queues[name], look)
        return look

    def _may_claim(self) -> bool:
        if len(self._runner.running) >= self._capacity or self._burden.is_full:
            self._hunger.names.add(None)
            return False
        return not self._trial.is_on() and self._permit.is_valid() and bool(self._registry.workflows)

    async def _claim(self, queue: Queue, look: Look) -> None:
        most, caps = self._room(queue)
        if not most:
            if self._rides.most():
                self._hinted.add(queue.name)  # the ride takes all the room: look into this queue when it has ended
            return
        idle = not self._runner.running
        claimed = await self._claims.claim(queue, most, caps, suspects=self._trial.takes_suspects(idle=idle))
        if claimed.full or claimed.more:
            self._hunger.names.add(queue.name)
        if claimed.more:
            self._hinted.add(queue.name)  # the next look need not ask where something waits
        look.add(claimed, await self._begin(claimed.rows, caps, idle=idle))

    def _room(self, queue: Queue) -> tuple[int, dict[str, int]]:
        """Return how many runs of *queue* can be begun here, and of which functions with which caps."""
        caps = self._caps()
        running = self._runner.running
        limit = queue.worker_concurrency
        here = 0 if limit is None else sum(run.queue_name == queue.name for run in list(running.values()))
        taken, here = len(running) + self._rides.most(), here + self._rides.most(queue.name)
        most = min(_AT_ONCE, worker_room(self._capacity, taken, limit, here)) if caps else 0
        if not most:
            self._hunger.names.add(queue.name)
        return most, caps

    async def _begin(self, rows: list[Row], caps: Mapping[str, int], *, idle: bool) -> int:
        """Begin what was claimed; return how many runs that came to."""
        return await self._launching.begin(rows, caps, idle=idle, begun=self._begun) if rows else 0

    def _begun(self, run: Run) -> None:
        run.watch(partial(self._over, run.queue_name))

    def _caps(self) -> dict[str, int]:
        """Return the functions that can be begun here, and their caps; sync ones only while a thread is free."""
        free = self._threads.free > 0
        if not free:
            self._hunger.names.add(None)
        return {
            name: each.max_recovery_attempts for name, each in self._registry.workflows.items() if each.is_async or free
        }

    def _over(self, queue_name: str | None, _: Outcome) -> None:
        self.left(queue_name)

    def left(self, queue_name: str | None) -> None:
        """Note that a run has ended here, or is put away: there is room for another; from any thread."""
        if self._hunger.is_fed_by(queue_name):
            self._wake_from_anywhere(queue_name)
        queue = self._outlook.queues.get(queue_name or "")
        if queue is not None and queue.is_shared:
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._hints.tell)

    async def _clear_survivor(self) -> None:
        run = self._trial.cleared()
        if run is not None:
            query = self._queries["runs_progressed"]

            async def work(transaction: Transaction) -> None:
                await transaction.execute_batch(query, [(run.id, run.token)])

            await self._manager.run(work)
            run.suspect = False
