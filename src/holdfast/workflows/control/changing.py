"""How a change is carried through: some ids a transaction, their runs held, the outcome known even if a reply is lost.

Every change carries a key that is stored with it. After a commit whose reply was lost the same work is done again with
the same key, and finds what the first time has done: a run that has the key is not changed twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast import faults
from holdfast.core.transitions import Event, allowed
from holdfast.db.in_doubt import made_sure
from holdfast.db.session import Row, Transaction
from holdfast.errors import ConfigurationError, UnknownCommit
from holdfast.model.workflow import Changes, WorkflowStatus
from holdfast.workflows.control.refusals import Refusals, not_found, refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.db.joined import Verbs
    from holdfast.db.queries.queries import Queries, Query
    from holdfast.model.world import World
    from holdfast.workflows.operations.recorded_change import Ownership

T = TypeVar("T")
Work = Callable[[Transaction], Coroutine[Any, Any, T]]
# Makes the work for some ids and a key; what it returns is why runs were refused, all others are changed.
Begin = Callable[[Sequence[str], str], Work[Refusals]]
# Writes the change with a key to runs, given as rows of their ids.
Write = Callable[[Transaction, Sequence[tuple[str]], str], Awaitable[None]]
Further = Callable[[Row], Exception | None]

AT_ONCE = 500


class Changing:
    """The way of every change to the database; *ownership* is that of the run whose workflow asks for it."""

    def __init__(self, verbs: Verbs, queries: Queries, world: World, ownership: Ownership | None = None) -> None:
        self._verbs = verbs
        self._ownership = ownership
        self._hold = queries["runs_hold"]
        self.world = world

    async def each(self, ids: Sequence[str], begin: Begin) -> Changes:
        """Change runs, so many a transaction; what an earlier transaction has changed stays if a later one fails.

        All have one key: a child that was changed with its parent is asked for later perhaps, and has it already.
        """
        asked = distinct(ids)
        key = self.world.new_id()
        why: Refusals = {}
        for some in portions(asked):
            why |= await self.settled(begin(some, key))
            faults.point("control.changed")
        return Changes(
            tuple(each for each in asked if each not in why), {each: why[each] for each in asked if each in why}
        )

    def simply(self, event: Event, write: Write, further: Further | None = None) -> Begin:
        """Return how runs are changed one by one: held, sorted out by *event* and by *further*, and those left written.

        *further* returns why a run whose status allows the event is refused all the same, or None.
        """

        def begin(ids: Sequence[str], key: str) -> Work[Refusals]:
            async def work(transaction: Transaction) -> Refusals:
                held = await self.hold(transaction, ids)
                ready, why = sort_out(held, ids, event, key)
                if further is not None:
                    why |= {each: error for each in ready if (error := further(held[each])) is not None}
                await write(transaction, [(each,) for each in ready if each not in why], key)
                return why

            return work

        return begin

    async def settled(self, work: Work[T]) -> T:
        """Run *work* in one transaction until its outcome is known.

        READ COMMITTED is asked for whatever the server's default is: each statement of *work* must see what was
        committed before its rows could be held. Raises UnknownCommit if the database stays away after a lost reply.
        """
        try:
            return await self._verbs.run(work, isolation="READ COMMITTED")
        except UnknownCommit as error:
            return await made_sure(lambda: self._verbs.run(work, isolation="READ COMMITTED"), error, self.world)

    async def hold(self, transaction: Transaction, ids: Sequence[str]) -> dict[str, Row]:
        """Lock the rows of runs until the end of the transaction, and return those that are there by their ids.

        The run of the workflow that asks is locked among them, in the order of ids: two that change each other would
        else wait for each other. Raises ``Superseded`` if it has another owner.
        """
        wanted, ownership = set(ids), self._ownership
        asking = {ownership.run.id} if ownership is not None and not ownership.is_sure else set()
        rows = await fetch_each(transaction, self._hold, [(each,) for each in sorted(wanted | asking)])
        held = {row["workflow_uuid"]: row for row in rows}
        if ownership is not None and asking:
            ownership.check(held.get(ownership.run.id))
        return {each: row for each, row in held.items() if each in wanted}


def distinct(ids: Sequence[str]) -> list[str]:
    """Return *ids* in their order, each once; a single text is refused, which would be taken for its letters."""
    if isinstance(ids, str):
        raise ConfigurationError(f"Ids of runs are a list; to change one run give [{ids!r}].")
    return list(dict.fromkeys(ids))


def portions(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut *items* into parts that one statement takes."""
    for first in range(0, len(items), AT_ONCE):
        yield items[first : first + AT_ONCE]


def sort_out(held: dict[str, Row], ids: Sequence[str], event: Event, key: str) -> tuple[list[str], Refusals]:
    """Return which of *ids* are to be changed, and why others are refused; those that have the key are in neither."""
    ready: list[str] = []
    why: Refusals = {}
    for each in ids:
        row = held.get(each)
        if row is None:
            why[each] = not_found(each)
        elif row["change_key"] != key:
            status = WorkflowStatus(row["status"])
            if allowed(status, event):
                ready.append(each)
            else:
                why[each] = refused(each, status, event)
    return ready, why


async def fetch_each(
    transaction: Transaction, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any
) -> list[Row]:
    """Run a batch query that answers, portion by portion."""
    return [row for some in portions(rows) for row in await transaction.fetch_batch(query, some, **named)]


async def write_each(transaction: Transaction, query: Query, rows: Sequence[tuple[Any, ...]], **named: Any) -> int:
    """Run a batch query that writes, portion by portion; return how many rows it touched."""
    return sum([await transaction.execute_batch(query, some, **named) for some in portions(rows)])
