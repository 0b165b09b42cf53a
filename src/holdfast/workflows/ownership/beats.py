"""The heartbeat of this executor and its eye on the others, on a thread and a connection of its own.

User code may block the event loop for minutes; the beat goes on, and the blocked function is named in the log. What
stops the beat is what must stop it: a loop that is free and yet cannot write to the database for longer than a lease.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast import faults
from holdfast.core.liveness import Beat, Watch
from holdfast.core.outage import Outage
from holdfast.db.blocking.glances import until
from holdfast.db.outlast import outlast
from holdfast.errors import DatabaseError, NotInitialized
from holdfast.workflows.ownership.loop_watch import Loop, LoopWatch
from holdfast.workflows.ownership.release import Releases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row
    from holdfast.model.world import World
    from holdfast.workflows.ownership.executor import Executor
    from holdfast.workflows.ownership.permit import Permit

logger = logging.getLogger("holdfast.executor")

_BEATS_PER_LEASE = 3
_TRIES_PER_LEASE = 12  # after a beat that failed: once an outage is over, others must soon hear that we live
_MARGIN = 0.2  # in this last part of a lease no user code is started


class Engine(Loop, Protocol):
    """What the beat needs of the engine; called from the beat's thread."""

    def oldest_write_age(self) -> float:
        """Return for how many seconds the oldest durable write has been under way; 0 if there is none."""

    def tokens(self) -> set[str]:
        """Return the tokens of the runs that are really running here."""

    def not_owned(self, tokens: set[str]) -> None:
        """Stop the runs with these tokens, which the database does not know as running here any more."""

    def forgotten(self) -> None:
        """Stop all runs and drop their results: the database no longer knows this incarnation."""

    def registered(self) -> None:
        """Start runs for the new incarnation from now on: it has a row, and the old one has none."""

    def reborn(self) -> None:
        """Write and claim again: nothing of an earlier incarnation is left."""

    def work_released(self) -> None:
        """Look for work: runs have been put into the internal queue."""

    def database_time(self, now_ms: int) -> None:
        """Note what time the database has at this moment."""


class Beats:
    """Registers the executor, beats, notices who is gone and releases their runs.

    *manager* gives up on anything well within a lease, since an executor that owns runs must know soon that it cannot
    beat. One that joins owns none yet: registering is tried again for *patience* seconds.
    """

    def __init__(
        self,
        executor: Executor,
        manager: ConnectionManager,
        queries: Queries,
        engine: Engine,
        permit: Permit,
        world: World,
        *,
        patience: float,
    ) -> None:
        self._executor = executor
        self._manager = manager
        self._queries = queries
        self._engine = engine
        self._permit = permit
        self._world = world
        self._patience = patience
        self._told_stuck = 0.0
        self._outage = Outage()
        self._watch = Watch()
        self._releases = Releases(manager, queries)
        self._sequence = 0
        self._registered_at = 0.0  # on the monotonic clock
        self._lost = ""  # the incarnation for which the database has lost writes, or whose row is gone
        self._left: set[str] = set()  # earlier incarnations whose runs are not all released
        self._unknown: set[str] = set()  # tokens that the last look found to be ours, and that nothing runs here
        self._is_over = False
        self._begun = threading.Event()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop_watch = LoopWatch(engine, world, patience=executor.lease / _BEATS_PER_LEASE / 2)
        self._thread = threading.Thread(target=self._run, name="holdfast-beat", daemon=True)

    async def start(self) -> None:
        """Register, and beat from then on; raise what kept it from registering.

        If it is cancelled the beat is stopped again: left behind, it would stop the runs of the next launch.
        """
        if self._is_over:
            raise NotInitialized("The executor was stopped before it had begun to beat.")
        self._thread.start()
        try:
            await until(self._ready.is_set)
            if self._failure is not None:
                raise self._failure
        except BaseException:
            await outlast(self.stop())
            raise

    def begin_anew(self, incarnation: str) -> None:
        """Register as a new incarnation soon: the database has lost what *incarnation* has written. From any thread.

        Nothing happens if that one has been given up already: the beat finds such losses, too, and may have been first.
        """
        self._lost = incarnation
        with suppress(RuntimeError):  # the beat has ended
            self._loop.call_soon_threadsafe(self._hurry.set)

    async def stop(self) -> None:
        """Beat no more and leave the table, so that nobody has to wait for a lease to end; also while it registers."""
        self._is_over = True
        if self._thread.is_alive():
            await until(self._begun.is_set)
            with suppress(RuntimeError):  # the beat has ended by itself
                self._loop.call_soon_threadsafe(self._end)
            await until(lambda: not self._thread.is_alive())

    def _end(self) -> None:
        self._stop.set()
        self._hurry.set()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            if self._ready.is_set():
                logger.exception("The beat of executor %s has ended.", self._executor.executor_id)
            self._failure = error
        finally:
            self._begun.set()
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._begun.set()
        try:
            await self._join()
            self._ready.set()
            wait = self._executor.lease / _BEATS_PER_LEASE
            while not await self._stopped_within(wait):
                wait = self._executor.lease / (_BEATS_PER_LEASE if await self._ticked() else _TRIES_PER_LEASE)
            await self._leave()
        finally:
            await self._manager.close()

    async def _join(self) -> None:
        """Register for the first time, and look who is there."""
        deadline = self._world.monotonic() + self._patience
        tries = 0
        while True:
            try:
                await self._manager.initialize()
                if tries:  # an earlier try may have succeeded, and only its answer been lost
                    await self._execute("executor_leave", incarnation=self._executor.incarnation)
                await self._register(self._executor.incarnation)
                await self._look()
            except DatabaseError:
                tries += 1
                if self._world.monotonic() > deadline or await self._stopped_within(
                    self._executor.lease / _TRIES_PER_LEASE
                ):
                    raise
            else:
                self._acknowledged(self._registered_at)
                return

    async def _ticked(self) -> bool:
        """Beat once; False if that failed and is to be tried again soon."""
        try:
            await self._tick()
        except DatabaseError as error:
            if self._outage.is_told(self._world.monotonic()):
                logger.warning("The beat of executor %s fails: %s", self._executor.executor_id, error)
            return False
        except Exception:
            # The service loop: an executor whose beat has ended can never run anything again.
            logger.exception("The beat of executor %s failed and is tried again.", self._executor.executor_id)
            return False
        self._outage.is_over()
        return True

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            return False
        self._hurry.clear()
        return self._stop.is_set()

    async def _register(self, incarnation: str) -> None:
        executor = self._executor
        sent = self._world.monotonic()
        await self._execute(
            "executor_register",
            incarnation=incarnation,
            executor_id=executor.executor_id,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            application_version=executor.application_version,
            queues=msgspec.json.encode(sorted(executor.queues)).decode(),
            lease_ms=int(executor.lease * 1000),
        )
        self._sequence = 0
        self._registered_at = sent

    async def _leave(self) -> None:
        try:
            await self._execute("executor_leave", incarnation=self._executor.incarnation)
        except DatabaseError as error:
            logger.warning("Executor %s could not sign off: %s", self._executor.executor_id, error)

    async def _tick(self) -> None:
        """Beat once, then look after the others and after what the database thinks is running here."""
        if self._lost == self._executor.incarnation:
            await self._begin_anew()
            return
        if self._left:
            await self._release_left()
            return
        self._loop_watch.look()
        age = min(self._engine.oldest_write_age(), self._loop_watch.free_for())
        if age > self._executor.lease:
            # Stuck is not alive: whoever cannot write for a whole lease must be taken over. Writes that wait for a
            # loop that user code blocks are another matter.
            self._tell_stuck(age)
            self._watch.forget()
            return
        self._told_stuck = 0.0
        if await self._beat():
            await self._look()

    def _tell_stuck(self, age: float) -> None:
        """Say so at once, and then ever more rarely."""
        if age >= 2 * self._told_stuck:
            self._told_stuck = age
            logger.warning(
                "Executor %s does not beat: a write has been under way for %.1f s.", self._executor.executor_id, age
            )

    async def _beat(self) -> bool:
        sent = self._world.monotonic()
        beaten = await self._execute(
            "executor_beat",
            incarnation=self._executor.incarnation,
            acknowledged=self._sequence,
            beat_seq=self._sequence + 1,
            stalled_since=self._loop_watch.stalled_since,
        )
        if not beaten and not await self._was_beaten():
            await self._begin_anew()
            return False
        self._sequence += 1
        self._acknowledged(sent)
        faults.point("beat")
        return True

    async def _was_beaten(self) -> bool:
        """Whether the beat is there after all, because an earlier try of it had been carried out."""
        rows = await self._see()
        return any(
            row["incarnation"] == self._executor.incarnation and row["beat_seq"] == self._sequence + 1 for row in rows
        )

    async def _begin_anew(self) -> None:
        """Somebody removed this executor, or the database went back in time: its runs are not its own any more.

        The new incarnation is registered before it owns anything: runs of one that has no row may be released by
        anyone. It takes the place of the old one before the runs of that are released: a run that is claimed here at
        that moment would otherwise be the old one's, and be released once more.
        """
        logger.warning(
            "Executor %s was taken for gone; it stops its runs and registers anew.", self._executor.executor_id
        )
        self._watch.forget()
        self._permit.withdraw()
        self._engine.forgotten()
        old, new = self._executor.incarnation, self._world.new_id()
        self._lost = old  # until there is another: the database may go away in the middle
        await self._execute("executor_leave", incarnation=old)
        await self._register(new)
        self._left.add(old)
        self._executor.incarnation = new
        self._engine.registered()
        await self._release_left()

    async def _release_left(self) -> None:
        """Release what earlier incarnations had, then go on.

        Their tokens must be void before anything is written again: a thread may be just about to use one.
        """
        for incarnation in list(self._left):
            await self._releases.release(incarnation, lambda: False)
            self._left.discard(incarnation)
        self._acknowledged(self._registered_at)
        self._engine.reborn()

    def _acknowledged(self, sent: float) -> None:
        self._permit.renew(sent + self._executor.lease * (1 - _MARGIN))

    async def _see(self) -> list[Row]:
        """Return everybody's last beat, the runs that the database has as this executor's, and who is gone."""
        return await self._manager.fetch(self._queries["executors_see"], incarnation=self._executor.incarnation)

    async def _look(self) -> None:
        """Ask once, and look after the others and after what the database thinks is running here."""
        asked = self._world.monotonic()
        running = self._engine.tokens()  # before the rows are read: whatever is started meanwhile is not missed there
        rows = await self._see()
        answered = self._world.monotonic()
        if rows:
            self._engine.database_time(rows[0]["now_ms"])
        own = {row["owner_xid"]: row["workflow_uuid"] for row in rows if row["workflow_uuid"] is not None}
        back = self._strangers(running, own)
        gone = [row["incarnation"] for row in rows if row["beat_seq"] is None and row["workflow_uuid"] is None]
        await self._look_at_others(rows, gone, asked, answered)
        if back:
            logger.warning("%s runs that nobody runs here are handed back.", len(back))
            await self._releases.hand_back([(own[token], token) for token in back])
            self._engine.work_released()

    async def _look_at_others(self, rows: list[Row], gone: list[str], asked: float, answered: float) -> None:
        """Remove those who have not beaten for a lease, and release what they and those who are *gone* have left."""
        others = [
            Beat(row["incarnation"], row["beat_seq"], row["lease_ms"] / 1000)
            for row in rows
            if row["beat_seq"] is not None and row["incarnation"] != self._executor.incarnation
        ]
        gap = self._executor.lease * 2 / _BEATS_PER_LEASE
        for beat in self._watch.look(others, asked, answered=answered, longest_gap=gap):
            logger.warning("Executor %s has not beaten for %.1f s and is taken for gone.", beat.incarnation, beat.lease)
            await self._execute("executor_remove", incarnation=beat.incarnation, beat_seq=beat.sequence)
            gone.append(beat.incarnation)
            faults.point("release.begun")
        # One's own beat must not wait for a large release: what is left is seen, and released, after the next beat.
        until = answered + self._executor.lease / _BEATS_PER_LEASE
        for incarnation in gone:
            await self._releases.release(incarnation, lambda: self._world.monotonic() > until)
            self._engine.work_released()
            faults.point("release.done")

    def _strangers(self, running: set[str], own: Mapping[str, str]) -> set[str]:
        """Return the tokens of runs that are to be handed back: a claim whose reply was lost, for instance.

        They are those that the database has here and nobody runs, twice in a row. What runs here and is not this
        executor's any more is stopped: it was cancelled, by another process perhaps. A loop that is blocked may not
        have come round to beginning what was started: nothing is strange then.
        """
        if self._loop_watch.free_for() < self._executor.lease / _BEATS_PER_LEASE:
            self._unknown = set()
            return set()
        self._engine.not_owned(running - own.keys())
        strange = own.keys() - self._engine.tokens()
        twice = strange & self._unknown
        self._unknown = strange
        return twice

    async def _execute(self, name: str, **values: object) -> int:
        return await self._manager.execute(self._queries[name], **values)
