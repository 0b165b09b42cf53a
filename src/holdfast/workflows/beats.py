"""The heartbeat of this executor and its eye on the others, on a thread and a connection of its own.

User code may block the event loop for minutes; the beat goes on, and the blocked function is named in the log. What
stops the beat is what must stop it: the database cannot be written to for longer than a lease.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from holdfast import faults
from holdfast.core.liveness import Beat, Watch
from holdfast.errors import DatabaseError
from holdfast.workflows.release import Releases

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries import Queries
    from holdfast.model.world import World
    from holdfast.workflows.permit import Permit

logger = logging.getLogger("holdfast.executor")

_BEATS_PER_LEASE = 3
_MARGIN = 0.2  # part of the lease before whose end no user code is started any more


@dataclass(slots=True)
class Identity:
    """Who this executor is. The incarnation changes when the database has forgotten or taken back the old one."""

    executor_id: str
    application_version: str
    incarnation: str
    lease: float


class Engine(Protocol):
    """What the beat needs of the engine; called from the beat's thread."""

    def oldest_write_age(self) -> float:
        """Return for how many seconds the oldest durable write has been under way; 0 if there is none."""

    def tokens(self) -> set[str]:
        """Return the tokens of the runs that are really running here."""

    def forgotten(self) -> None:
        """Stop all runs and drop their results: the database no longer knows this incarnation."""

    def work_released(self) -> None:
        """Look for work: runs have been put into the internal queue."""

    def ping(self, answer: Callable[[], None]) -> None:
        """Have *answer* called on the event loop."""

    def loop_thread(self) -> int:
        """Return the identifier of the event loop's thread."""

    def database_time(self, now_ms: int) -> None:
        """Note what time the database has at this moment."""


class Beats:
    """Registers the executor, beats, notices who is gone and releases their runs."""

    def __init__(
        self,
        identity: Identity,
        manager: ConnectionManager,
        queries: Queries,
        engine: Engine,
        permit: Permit,
        world: World,
    ) -> None:
        self.identity = identity
        self._manager = manager
        self._queries = queries
        self._engine = engine
        self._permit = permit
        self._world = world
        self._watch = Watch()
        self._releases = Releases(manager, queries)
        self._sequence = 0
        self._unknown: set[str] = set()
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._answered = True
        self._stalled_since: int | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-beat", daemon=True)

    def start(self) -> None:
        """Register, and beat from then on; raise what kept it from registering."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Beat no more and leave the table, so that nobody has to wait for a lease to end."""
        if self._thread.is_alive() and self._ready.is_set() and self._failure is None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            if self._ready.is_set():
                logger.exception("The beat of executor %s has ended.", self.identity.executor_id)
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with self._manager:
            await self._register()
            await self._look_at_others()
            self._ready.set()
            while not await self._stopped_within(self.identity.lease / _BEATS_PER_LEASE):
                try:
                    await self._tick()
                except DatabaseError as error:
                    logger.warning("The beat of executor %s failed: %s", self.identity.executor_id, error)
            await self._leave()

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return False
        return True

    async def _register(self) -> None:
        identity = self.identity
        sent = self._world.monotonic()
        await self._execute(
            "executor_register",
            incarnation=identity.incarnation,
            executor_id=identity.executor_id,
            hostname=socket.gethostname(),
            pid=os.getpid(),
            application_version=identity.application_version,
            queues="[]",
            lease_ms=int(identity.lease * 1000),
        )
        self._sequence = 0
        self._acknowledged(sent)

    async def _leave(self) -> None:
        try:
            await self._execute("executor_leave", incarnation=self.identity.incarnation)
        except DatabaseError as error:
            logger.warning("Executor %s could not sign off: %s", self.identity.executor_id, error)

    async def _tick(self) -> None:
        """Beat once, then look after the others and after what the database thinks is running here."""
        age = self._engine.oldest_write_age()
        if age > self.identity.lease:
            # Stuck is not alive: whoever cannot write for a whole lease must be taken over.
            logger.warning(
                "Executor %s does not beat: a write has been under way for %.1f s.",
                self.identity.executor_id,
                age,
            )
            self._watch.forget()
            return
        self._look_at_loop()
        if await self._beat():
            await self._look_at_others()
            await self._look_at_self()

    async def _beat(self) -> bool:
        sent = self._world.monotonic()
        beaten = await self._execute(
            "executor_beat",
            incarnation=self.identity.incarnation,
            acknowledged=self._sequence,
            beat_seq=self._sequence + 1,
            stalled_since=self._stalled_since,
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
        rows = await self._manager.fetch(self._queries["executors_see"])
        return any(
            row["incarnation"] == self.identity.incarnation and row["beat_seq"] == self._sequence + 1 for row in rows
        )

    async def _begin_anew(self) -> None:
        """Somebody removed this executor, or the database went back in time: its runs are not its own any more."""
        logger.warning(
            "Executor %s was taken for gone; it stops its runs and registers anew.", self.identity.executor_id
        )
        self._watch.forget()
        self.identity.incarnation = self._world.new_id()
        self._engine.forgotten()
        await self._register()

    def _acknowledged(self, sent: float) -> None:
        self._permit.renew(sent + self.identity.lease * (1 - _MARGIN))

    async def _look_at_others(self) -> None:
        now = self._world.monotonic()
        rows = await self._manager.fetch(self._queries["executors_see"])
        if rows:
            self._engine.database_time(rows[0]["now_ms"])
        others = [
            Beat(row["incarnation"], row["beat_seq"], row["lease_ms"] / 1000)
            for row in rows
            if row["beat_seq"] is not None and row["incarnation"] != self.identity.incarnation
        ]
        gone = [row["incarnation"] for row in rows if row["beat_seq"] is None]
        gap = self.identity.lease * 2 / _BEATS_PER_LEASE
        for beat in self._watch.look(others, now, longest_gap=gap):
            logger.warning("Executor %s has not beaten for %.1f s and is taken for gone.", beat.incarnation, beat.lease)
            await self._execute("executor_remove", incarnation=beat.incarnation, beat_seq=beat.sequence)
            gone.append(beat.incarnation)
            faults.point("release.begun")
        for incarnation in gone:
            await self._releases.release(incarnation)
            self._engine.work_released()
            faults.point("release.done")

    async def _look_at_self(self) -> None:
        """Hand back what the database thinks runs here and does not: a claim whose reply was lost, for instance."""
        rows = await self._manager.fetch(self._queries["runs_of_incarnation"], incarnation=self.identity.incarnation)
        known = self._engine.tokens()
        strange = {row["owner_xid"] for row in rows} - known
        twice = strange & self._unknown
        self._unknown = strange
        back = [(row["workflow_uuid"], row["owner_xid"]) for row in rows if row["owner_xid"] in twice]
        if back:
            logger.warning("%s runs that nobody runs here are handed back.", len(back))
            await self._releases.hand_back(back)
            self._engine.work_released()

    def _look_at_loop(self) -> None:
        """Note when the event loop does not answer between two beats, and who blocks it."""
        if not self._answered and self._stalled_since is None:
            self._stalled_since = int(self._world.now() * 1000)
            frame = sys._current_frames().get(self._engine.loop_thread())  # noqa: SLF001 -- the only way to see another thread
            where = traceback.extract_stack(frame)[-1] if frame is not None else "unknown"
            logger.warning("The event loop is blocked, by %s: no async workflow can go on here.", where)
        elif self._answered:
            self._stalled_since = None
        self._answered = False
        self._engine.ping(self._answer)

    def _answer(self) -> None:
        self._answered = True

    async def _execute(self, name: str, **values: object) -> int:
        return await self._manager.execute(self._queries[name], **values)
