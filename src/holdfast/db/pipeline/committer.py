"""Writes what gathers in the mailbox, batch by batch, until every operation has its outcome.

It runs on a lane and is driven either by the event loop or, on SQLite, straight through on the writer's thread; so it
waits for nothing but statements and the lane's own pauses.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from holdfast import faults
from holdfast.db.pipeline.look_back import LookBack
from holdfast.db.pipeline.operation import Counted, Fleeting, ThreadWaiter, grouped, written
from holdfast.db.pipeline.pace import Pace
from holdfast.db.queries.text import together
from holdfast.db.session import Transaction, commit, run_sync
from holdfast.db.url import DialectName
from holdfast.errors import (
    BrokenOff,
    Conflict,
    NotPermitted,
    PipelineClosed,
    PipelineError,
    Retryable,
    UnknownCommit,
    WentBack,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.db.pipeline.lane import Lane
    from holdfast.db.pipeline.mailbox import Mailbox
    from holdfast.db.pipeline.operation import Groups, Kind, Operation, Values
    from holdfast.db.session import Session
    from holdfast.model.world import World

logger = logging.getLogger("holdfast.pipeline")

_BATCH_BYTES = 4 * 1024 * 1024  # well below MariaDB's default max_allowed_packet of 16 MiB


@dataclass(slots=True)
class Part:
    """Operations that are tried together; *asks* once the outcome of their commit is unknown."""

    operations: list[Operation]
    asks: bool = False
    failures: int = 0

    def halves(self) -> tuple[Part, Part]:
        """Split in the middle; order is kept."""
        middle = len(self.operations) // 2
        first, second = self.operations[:middle], self.operations[middle:]
        return Part(first, self.asks, self.failures), Part(second, self.asks, self.failures)


class Committer:
    """Takes batches out of *mailbox* and settles every operation in them."""

    def __init__(
        self,
        mailbox: Mailbox,
        lane: Lane,
        dialect: DialectName,
        world: World,
        went_back: Callable[[], None] | None = None,
    ) -> None:
        self._past = LookBack(lane, dialect, went_back)
        self._pace = Pace(overlaps=lane.overlaps)
        self._texts: dict[tuple[Counted, ...], str] = {}  # of statements that write several kinds
        self._mailbox = mailbox
        self._lane = lane
        self.wake = lane.wake
        self.hurry = lane.hurry
        self._dialect = dialect
        self._world = world
        self._busy_since: float | None = None
        self._parts: deque[Part] = deque()
        self._giving_up = False
        self._rested = True
        self._one_statement = True  # whether the last batch was
        self.commits = 0

    async def drain(self) -> bool:
        """Write one batch to its end; return whether more is waiting."""
        operations = self._mailbox.take(self._pace.most(self._mailbox.waiting, rested=self._rested), _BATCH_BYTES)
        more = self._mailbox.waiting > 0  # of what comes from now on the lane is told: the box was empty
        if operations:
            faults.point("pipeline.taken")
            self._busy_since = begun = self._world.monotonic()
            self._parts.append(Part(operations))
        while self._parts and not self._giving_up:
            await self._try(self._parts[0])
        if operations:
            seconds = self._world.monotonic() - begun
            self._pace.note(len(operations), seconds, one_statement=self._one_statement)
        self._busy_since = None
        self._rested = self._mailbox.waiting == 0
        return more and not self._giving_up

    def write_here(self, operation: Operation) -> bool:
        """Write one operation on the calling thread, which waits for it anyway, if nothing else is under way.

        Return whether its waiter is told, now or later: what must be tried again is left to the lane. If the thread is
        interrupted meanwhile it is written, or it is not.
        """
        turn = None if isinstance(operation.kind, Fleeting) else self._lane.turn()
        if turn is None or not self._mailbox.enter_alone(operation):
            return False
        part = Part([operation])
        settled = True
        try:
            with turn:
                settled = self._tried_here(part)
        finally:
            if settled:
                self._mailbox.settled(part.operations)
        return True

    def _tried_here(self, part: Part) -> bool:
        """Try a part of one operation once; return whether it is settled. The caller has the turn: nothing drains."""
        faults.point("pipeline.taken")
        self._busy_since = self._world.monotonic()
        try:
            [outcome] = run_sync(self._write(part))
        except (Retryable, UnknownCommit, Conflict) as error:
            part.asks = not isinstance(error, Retryable)
            self._parts.append(part)
            self.wake()
            if self._giving_up:  # nobody drains any more
                self.give_up()
            return False
        except Exception as error:  # noqa: BLE001 -- as in the service loop: told to whoever handed the row over
            outcome = error
        finally:
            self._busy_since = None
        cast("ThreadWaiter", part.operations[0].waiter).settle(outcome)
        faults.point("pipeline.acknowledged")
        return True

    def busy_for(self) -> float:
        """Return for how many seconds the batch in flight has been under way; 0 if there is none."""
        since = self._busy_since
        return 0.0 if since is None else self._world.monotonic() - since

    async def stop(self) -> None:
        """Stop the lane, then fail everything that has no outcome yet."""
        self._giving_up = True
        await self._lane.stop()
        self.give_up()

    def give_up(self) -> None:
        """Fail everything that has no outcome yet; nothing is being written."""
        self._giving_up = True
        self._mailbox.close()
        self._parts.append(Part(self._mailbox.take(self._mailbox.unsettled or 1, 1 << 62)))
        while self._parts:
            part = self._parts.popleft()
            unknown = "it may or may not be written" if part.asks else "it was not confirmed"
            error = PipelineClosed(f"The pipeline was closed while the database was away; {unknown}.")
            self._settle(part, [error] * len(part.operations))

    async def _try(self, part: Part) -> None:
        """Try the first part once: it is settled, split, or stays first for another try."""
        try:
            outcomes = await self._write(part)
        except WentBack as error:
            self._parts.popleft()
            self._settle(part, [error] * len(part.operations))
        except UnknownCommit as error:
            part.asks = True
            await self._pause(part, error)
        except (Retryable, NotPermitted) as error:  # no row is to blame for a right that was taken away
            await self._pause(part, error)
            if isinstance(error, BrokenOff) and len(part.operations) > 1:
                self._split(part, error)  # it may have been too much for the time that the server gives a statement
        except Conflict as error:
            if part.asks:
                self._split(part, error)
            part.asks = True  # something of it is there already, and is told from the rest by its key
        except Exception as error:  # noqa: BLE001 -- the service loop: the fault is told to whoever handed the row over
            self._split(part, error)
        else:
            self._parts.popleft()
            self._settle(part, outcomes)

    def _split(self, part: Part, error: Exception) -> None:
        """Try the halves of the first part by themselves; a lone operation is to blame for *error*, and told so."""
        self._parts.popleft()
        if len(part.operations) == 1:
            self._settle(part, [error])
        else:
            self._parts.extendleft(reversed(part.halves()))

    async def _pause(self, part: Part, error: Exception) -> None:
        part.failures += 1
        if part.failures == 1 or part.failures % 20 == 0:
            logger.warning("A batch of %s durable writes is tried again: %s", len(part.operations), error)
        await self._lane.pause(part.failures)

    async def _write(self, part: Part) -> Sequence[Any]:
        """Write *part* in one transaction and return the outcomes in order."""
        session = await self._lane.session()
        if self._lane.can_go_back:
            await self._past.look(session)
        first = part.operations[0]
        if len(part.operations) == 1 and first.kind.one_statement and not part.asks:
            self._one_statement = True
            outcomes = await self._write_alone(session, first)
        else:
            outcomes = await self._write_together(session, part)
        self.commits += 1
        if self._lane.can_go_back and any(map(written, outcomes)):
            self._past.last = part.operations, outcomes
        faults.point("pipeline.after_commit")
        return outcomes

    async def _write_alone(self, session: Session, operation: Operation) -> Sequence[Any]:
        """Write one operation with one statement, which commits by itself."""
        self._lane.wait_for_disk(not isinstance(operation.kind, Fleeting))
        faults.point("pipeline.before_commit")
        return await self._apply(Transaction(session, self._dialect), operation.kind, (operation.row,))

    async def _write_together(self, session: Session, part: Part) -> Sequence[Any]:
        groups = grouped(part.operations)
        self._lane.wait_for_disk(not all(isinstance(kind, Fleeting) for kind in groups))
        self._one_statement = not part.asks and self._is_one_statement(groups)
        if not self._one_statement:
            return await self._write_in_transaction(session, part, groups)
        faults.point("pipeline.before_commit")
        return await self._write_at_once(session, groups, len(part.operations))

    def readmit(self) -> None:
        """Write again: the owner has dropped what stood on the writes that were lost."""
        self._past.readmit()

    def _is_one_statement(self, groups: Groups) -> bool:
        """Whether one statement writes them all, so that it needs no BEGIN and COMMIT around it."""
        if len(groups) == 1:
            [kind] = groups
            return kind.one_statement
        if self._dialect is not DialectName.POSTGRES:
            return False
        if not all(isinstance(kind, Counted) and kind.one_statement for kind in groups):
            return False
        # A statement cannot touch a row twice: a step's guard would pass over a run that ends in the same statement.
        ids = [{row[0] for row in rows} for _, rows in groups.values()]
        return len(set().union(*ids)) == sum(map(len, ids))

    async def _write_at_once(self, session: Session, groups: Groups, count: int) -> Sequence[Any]:
        """Write everything with one statement, which commits by itself."""
        transaction = Transaction(session, self._dialect)
        kinds = tuple(sorted(groups, key=_name))
        if not all(isinstance(kind, Counted) for kind in kinds):
            [(kind, (_, rows))] = groups.items()
            return await self._apply(transaction, kind, rows)
        outcomes: list[Any] = [None] * count
        counts = await self._count_at_once(session, groups, cast("tuple[Counted, ...]", kinds))
        for counted, number in counts:
            places, rows = groups[counted]
            _put(outcomes, places, _one_each(counted, rows, await counted.judge(transaction, rows, number)))
        return outcomes

    async def _count_at_once(
        self, session: Session, groups: Groups, kinds: tuple[Counted, ...]
    ) -> Iterable[tuple[Counted, int]]:
        """Send one statement for all *kinds*; return how many rows each has touched."""
        calls = [counted.at_once.batch(groups[counted][1], counted.constants, one_text=True)[0] for counted in kinds]
        if len(kinds) == 1:
            return [(kinds[0], await session.execute(*calls[0]))]
        if kinds not in self._texts:
            self._texts[kinds] = together([(text, len(values)) for text, values in calls])
        [touched] = await session.fetch(self._texts[kinds], [value for _, values in calls for value in values])
        return zip(kinds, touched.values(), strict=True)

    async def _write_in_transaction(self, session: Session, part: Part, groups: Groups) -> Sequence[Any]:
        await session.begin(with_next=True)
        transaction = Transaction(session, self._dialect)
        try:
            outcomes = await self._apply_all(transaction, part, groups)
            faults.point("pipeline.before_commit")
            await commit(session, transaction)
        except BaseException:
            await session.rollback()
            raise
        return outcomes

    async def _apply_all(self, transaction: Transaction, part: Part, groups: Groups) -> Sequence[Any]:
        outcomes: list[Any] = [None] * len(part.operations)
        for kind, (places, rows) in groups.items():
            results = await (self._ask_then_apply if part.asks else self._apply)(transaction, kind, rows)
            _put(outcomes, places, results)
        return outcomes

    async def _apply(self, transaction: Transaction, kind: Kind[Any], rows: Sequence[Values]) -> Sequence[Any]:
        return _one_each(kind, rows, await self._lane.finish(kind.apply(transaction, rows)))

    async def _ask_then_apply(self, transaction: Transaction, kind: Kind[Any], rows: Sequence[Values]) -> Sequence[Any]:
        """Keep what an earlier commit has stored after all; write the rest."""
        found = await self._lane.finish(kind.recall(transaction, rows))
        outcomes = list(_one_each(kind, rows, found))
        missing = [place for place, outcome in enumerate(outcomes) if outcome is None]
        if missing:
            results = await self._apply(transaction, kind, [rows[place] for place in missing])
            for place, result in zip(missing, results, strict=True):
                outcomes[place] = result
        return outcomes

    def _settle(self, part: Part, outcomes: Sequence[Any]) -> None:
        """Tell everybody who waits, then make room."""
        told: list[tuple[Operation, Any]] = []
        for operation, outcome in zip(part.operations, outcomes, strict=True):
            waiter = operation.waiter
            if isinstance(waiter, ThreadWaiter):
                waiter.settle(outcome)
            else:
                told.append((operation, outcome))
        if told:
            # The server is not to wait while those are told for whom it has done its work.
            self._lane.on_loop(partial(_tell, told), later=self._mailbox.waiting > 0)
        faults.point("pipeline.acknowledged")
        self._mailbox.settled(part.operations)


def _name(kind: Kind[Any]) -> str:
    return kind.name


def _put(outcomes: list[Any], places: Sequence[int], results: Sequence[Any]) -> None:
    for place, result in zip(places, results, strict=True):
        outcomes[place] = result


def _one_each(kind: Kind[Any], rows: Sequence[Values], outcomes: Sequence[Any]) -> Sequence[Any]:
    if len(outcomes) != len(rows):
        raise PipelineError(
            f"The kind {kind.name!r} gave {len(outcomes)} outcomes for {len(rows)} rows; it must give one for each."
        )
    return outcomes


def _tell(told: list[tuple[Operation, Any]]) -> None:
    """Tell tasks; on the loop, where alone they change whom to tell."""
    for operation, outcome in told:
        future: Any = operation.waiter
        if future.done():  # its task is being cancelled; one that waits to the end comes back for this
            operation.missed = (outcome,)
        elif isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
