"""What is written beside a record: in the same commit, and only where the record itself was inserted (I1, I16).

A write is said by its kind and its row (``SideWrite``). There are two ways to hand one over:

- Code of a step speaks through the ``Voice`` of its attempt (``voice_of``). What it says is kept until the attempt has
  succeeded, and then committed with the step's record. An attempt that failed has said nothing, and one that is over
  can say nothing more: ``AttemptOver``, also in a thread that a timeout has left behind.
- An operation of a workflow that is nothing but writes goes through ``Recorder.say``.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from holdfast.errors import AttemptOver
from holdfast.workflows.operations.place import StepPlace, here, refuse_in_transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.facts import RecordSteps


class SideKind(Protocol):
    """Writes rows beside the records they belong to. Made once an engine: rows of one object are written together."""

    async def write(self, transaction: Transaction, rows: Sequence[Values]) -> None:
        """Write *rows*, in the order in which they were said; the runs' rows are locked against a change of token.

        It is called once for each row whose record was inserted, whatever became of replies: what an earlier commit
        has stored is found before. Raise ``WorkflowError`` if a row is refused: the whole transaction is rolled back,
        and tried without the others until the row that is to blame stands alone. Its operation is then recorded as
        failed with that error. Nothing else may be awaited than statements of *transaction*.
        """

    def written(self, rows: Sequence[Values]) -> None:
        """Tell those who wait for *rows* that they are committed. From any thread; must not raise or wait."""


class SideWrite(NamedTuple):
    """A row to be written, and what knows how."""

    kind: SideKind
    row: Values


class Voice:
    """What one attempt of a step has said so far. Any thread or task of the attempt may speak."""

    __slots__ = ("_count", "_lock", "_said", "_said_if_failed", "place")

    def __init__(self, place: StepPlace) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._count = 0
        self._said: list[SideWrite] = []
        self._said_if_failed: list[SideWrite] = []

    def add(self, write: SideWrite) -> None:
        """Have *write* committed with the step's record; ``AttemptOver`` if the attempt is over."""
        with self._lock:
            self.check()
            self._said.append(write)

    def speak_live(self, stays: SideWrite, goes: SideWrite) -> int:
        """Return a number, from 0 on, for what the attempt is about to write by itself, before its record.

        The first time *stays* is added for an attempt that succeeds, and *goes* for the record of a step whose attempts
        all fail. Raises ``AttemptOver`` if the attempt is over.
        """
        with self._lock:
            self.check()
            number = self._count
            self._count += 1
            if number == 0:
                self._said.append(stays)
                self._said_if_failed.append(goes)
        return number

    def check(self) -> None:
        """Raise ``AttemptOver`` if the attempt is over."""
        place = self.place
        if place.closed:
            raise AttemptOver(
                f"Attempt {place.attempt} of operation {place.identity} of run {place.run.id} is over, and this code "
                "was left behind by it: what it writes is refused."
            )

    def said(self) -> tuple[SideWrite, ...]:
        """Return all that was said; complete once the place is closed."""
        with self._lock:
            return tuple(self._said)

    def said_if_failed(self) -> tuple[SideWrite, ...]:
        """Return what is written if the step fails; complete once the place is closed."""
        with self._lock:
            return tuple(self._said_if_failed)


_making = threading.Lock()  # two threads of one attempt may begin to speak at the same moment


def voice_of(engine: Engine) -> Voice | None:
    """Return the voice of the attempt the running code belongs to; None if it is in no step of *engine*.

    Raises ``AttemptOver`` if the attempt is over, ``MisuseError`` inside a transaction of *engine*.
    """
    refuse_in_transaction(engine)
    place = here.get()
    if not isinstance(place, StepPlace) or place.run.engine is not engine:
        return None
    # Made before the place is looked at: whoever closes the place first closes it, then takes the voice.
    with _making:
        if place.voice is None:
            place.voice = Voice(place)
    place.voice.check()
    return place.voice


class RecordWrites:
    """Records, and what is written beside them: both or neither. Rows are (step row, side writes).

    Side writes take place where the record was inserted by this very call, once. So ``recall``, which comes first where
    the commit of an earlier call is in doubt, waits until that is over: it holds the runs, which the earlier call has
    locked until its end. What it does not find will not land any more.
    """

    name = "record with writes"
    one_statement = False

    def __init__(self, record: RecordSteps, queries: Queries) -> None:
        self._record = record
        self._hold = queries["runs_hold_to_ask"]

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        outcomes = await self._record.apply(transaction, [row[0] for row in rows])
        granted = [row[1] for row, outcome in zip(rows, outcomes, strict=True) if outcome is True]
        for kind, some in by_kind(write for writes in granted for write in writes):
            await kind.write(transaction, some)
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        ids = sorted({row[0][0] for row in rows})
        await transaction.fetch_batch(self._hold, [(each,) for each in ids])
        return await self._record.recall(transaction, [row[0] for row in rows])

    async def stands(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
        """Return what ``Witness.stands`` returns, by the records."""
        return await self._record.stands(transaction, [row[0] for row in rows])


def by_kind(writes: Iterable[SideWrite]) -> list[tuple[SideKind, list[Values]]]:
    """Return the rows of each kind in their order, kinds in the order of their first rows."""
    groups: dict[int, tuple[SideKind, list[Values]]] = {}
    for kind, row in writes:
        groups.setdefault(id(kind), (kind, []))[1].append(row)
    return list(groups.values())


def tell_written(writes: Sequence[SideWrite]) -> None:
    """Have each kind take notice that its rows are committed."""
    for kind, rows in by_kind(writes):
        kind.written(rows)
