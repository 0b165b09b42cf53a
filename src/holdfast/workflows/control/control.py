"""``Control``: everything that can be asked of runs that are there, always for many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.core.options import check_attributes
from holdfast.core.transitions import Event
from holdfast.errors import ConfigurationError, Conflict, WorkflowConflict
from holdfast.model.workflow import INTERNAL_QUEUE, WorkflowStatus
from holdfast.serialize import PortableJSON
from holdfast.workflows.control.cancelling import Cancelling
from holdfast.workflows.control.changing import Changing, distinct, write_each
from holdfast.workflows.control.deleting import Deleting
from holdfast.workflows.control.forking import Forking, Place
from holdfast.workflows.control.refusals import not_found, refused_because
from holdfast.workflows.control.resuming import Resuming
from holdfast.workflows.messaging.going_back import GoingBack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.db.joined import Verbs
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.workflow import Changes
    from holdfast.model.world import World
    from holdfast.workflows.control.changing import Work
    from holdfast.workflows.control.refusals import Refusals
    from holdfast.workflows.operations.recorded_change import Ownership


class Control:
    """Changes runs by their ids, whoever runs them.

    500 ids go into a transaction: those are changed together, and what was committed stays if a later transaction
    fails. Only ``fork``, and whatever a workflow asks for, is one transaction whatever the number. A run that cannot be
    changed is in ``Changes.refused`` with WorkflowNotFound or TransitionRefused, and keeps nobody else from being
    changed. A reply that is lost during a commit is settled by asking for the change's key; UnknownCommit is raised
    only if the database stays away.
    """

    def __init__(
        self,
        verbs: Verbs,
        queries: Queries,
        world: World,
        *,
        names: Callable[[int], str] | None = None,
        ownership: Ownership | None = None,
    ) -> None:
        self._names = names
        self._verbs = verbs
        self._queries = queries
        self._world = world
        self._changing = Changing(verbs, queries, world, ownership)
        self._cancelling = Cancelling(self._changing, queries)
        self._resuming = Resuming(self._changing, queries)
        self._forking = Forking(self._changing, queries)
        self._deleting = Deleting(self._changing, queries)
        self._json = PortableJSON()

    @property
    def cancelling(self) -> Cancelling:
        """What cancels runs within a transaction of somebody else's."""
        return self._cancelling

    def within(self, verbs: Verbs, names: Callable[[int], str], ownership: Ownership) -> Control:
        """Return a control for one change of a workflow, all of it through *verbs*; the ids of forks are *names*."""
        return Control(verbs, self._queries, self._world, names=names, ownership=ownership)

    async def cancel(self, ids: Sequence[str], *, children: bool = True) -> Changes:
        """Cancel runs that have not ended: their executions can write nothing more, and lose their queue places.

        With *children* also what they have started, and so on, in the same transaction.
        """
        return await self._changing.each(ids, lambda some, key: self._cancelling.runs(some, key, children=children))

    async def cancel_overdue(self, most: int = 500) -> list[str]:
        """Cancel at most *most* runs whose deadline has passed, the longest overdue first; return their ids."""
        found = await self._verbs.fetch(self._queries["runs_overdue"], most=most)
        ids = [row["workflow_uuid"] for row in found]
        if not ids:
            return []
        cancelled = await self._changing.settled(self._cancelling.overdue(ids, self._world.new_id()))
        faults.point("control.changed")
        return cancelled

    async def resume(
        self, ids: Sequence[str], *, queue_name: str | None = None, queue_partition_key: str | None = None
    ) -> Changes:
        """Let cancelled and given-up runs go on where they stopped, with all attempts anew and no deadline.

        The children that were cancelled together with them go on too, in the same transaction.
        """
        return await self._changing.each(
            ids,
            lambda some, key: self._resuming.runs(some, key, queue_name=queue_name, partition_key=queue_partition_key),
        )

    async def rewind(
        self,
        ids: Sequence[str],
        start_step: int = 1,
        *,
        application_version: str | None = None,
        queue_name: str | None = None,
        queue_partition_key: str | None = None,
    ) -> Changes:
        """Run ended runs again from the step *start_step* on, under their ids; what is recorded from there on is lost.

        Raises ConfigurationError for a step below 1.
        """
        place = Place(start_step, application_version, queue_name or INTERNAL_QUEUE, queue_partition_key)
        place.check()
        where = place._asdict()
        where.pop("start_step")
        going_back = GoingBack(self._queries)

        async def write(transaction: Transaction, rows: Sequence[tuple[str]], key: str) -> None:
            await write_each(transaction, self._queries["runs_rewind"], rows, key=key, **where)
            await write_each(transaction, self._queries["steps_cut"], rows, start_step=start_step)
            await write_each(transaction, self._queries["streams_cut"], rows, start_step=start_step)
            await going_back.cut(transaction, [(each, start_step) for (each,) in rows])

        return await self._changing.each(ids, self._changing.simply(Event.REWIND, write))

    async def fork(
        self,
        ids: Sequence[str],
        start_step: int = 1,
        *,
        application_version: str | None = None,
        queue_name: str | None = None,
        queue_partition_key: str | None = None,
        new_ids: Sequence[str] | None = None,
    ) -> dict[str, str]:
        """Start a new run for each of *ids*, with its history below *start_step*; return old ids and new ones.

        All in one transaction. Raises WorkflowNotFound if one of *ids* is not there, WorkflowConflict if one of
        *new_ids* is taken, ConfigurationError for a step below 1 or new ids that do not fit; nothing is written then.
        """
        place = Place(start_step, application_version, queue_name or INTERNAL_QUEUE, queue_partition_key)
        place.check()
        wanted = distinct(ids)
        if new_ids is None:
            new_ids = [self._world.new_id() if self._names is None else self._names(n) for n in range(len(wanted))]
        forks = _paired(wanted, new_ids)
        if forks:
            try:
                await self._changing.settled(self._forking.runs(forks, self._world.new_id(), place))
            except Conflict as error:
                raise WorkflowConflict(
                    "One of the new ids of the forks was taken at the same moment by another run. Choose others."
                ) from error
            faults.point("control.changed")
        return forks

    async def delete(self, ids: Sequence[str], *, children: bool = False) -> Changes:
        """Delete ended runs and their records; whoever waits for one learns that it is not there.

        Refused while a run's parent has not ended. With *children* all below goes too, and a run is refused if
        anything below it has not ended.
        """
        return await self._changing.each(ids, self._deleting.begin(children=children))

    async def set_delay(self, ids: Sequence[str], until_ms: int | None, *, delay_ms: int | None) -> Changes:
        """Let delayed runs that have never started wait until *until_ms*, or for *delay_ms* from now on.

        Both are by the database's clock. A moment that has passed makes a run due at the next poll. Raises
        ConfigurationError unless exactly one is given.
        """
        if (until_ms is None) is (delay_ms is None):
            raise ConfigurationError("A delay is either a moment or a duration: give exactly one of the two.")

        async def write(transaction: Transaction, rows: Sequence[tuple[str]], key: str) -> None:
            query = self._queries["runs_set_delay"]
            await write_each(transaction, query, rows, key=key, until_ms=until_ms, delay_ms=delay_ms)

        return await self._changing.each(ids, self._changing.simply(Event.SET_DELAY, write, _waits_for_no_moment))

    async def update_attributes(
        self, ids: Sequence[str], attributes: Mapping[str, Any] | None, *, merge: bool = False
    ) -> Changes:
        """Replace the attributes of runs in any status; None clears them.

        With *merge* those not named are kept, and those that are None are removed. Raises CannotSerialize.
        """
        check_attributes(attributes)
        given = None if attributes is None else self._json.serialize(dict(attributes))

        def change(there: str | None) -> str | None:
            return self._merged(there, given) if merge and given is not None else given

        def begin(some: Sequence[str], key: str) -> Work[Refusals]:
            async def work(transaction: Transaction) -> Refusals:
                held = await self._changing.hold(transaction, some)
                rows = [(each, change(row["attributes"])) for each, row in held.items() if row["change_key"] != key]
                await write_each(transaction, self._queries["runs_attributes"], rows, key=key)
                return {each: not_found(each) for each in some if each not in held}

            return work

        return await self._changing.each(ids, begin)

    def _merged(self, there: str | None, given: str) -> str:
        """Merge at the top level. In Python, on a row that is held: the databases' own merges go deeper, or differ."""
        merged = self._json.deserialize(there or "{}") | self._json.deserialize(given)
        return self._json.serialize({name: value for name, value in merged.items() if value is not None})


def _paired(ids: Sequence[str], new_ids: Sequence[str]) -> dict[str, str]:
    chosen = distinct(new_ids)
    if len(chosen) != len(ids):
        raise ConfigurationError(
            f"{len(ids)} runs are to be forked and {len(chosen)} different new ids were given: give one a run."
        )
    return dict(zip(ids, chosen, strict=True))


def _waits_for_no_moment(row: Row) -> Exception | None:
    if row["executions"]:
        why, goes_on = "it has started already, and waits to go on", "go on"
    elif row["wait_kind"] is not None:
        why, goes_on = "it waits until the runs of its schedule before it have ended, and for no moment", "begin"
    else:
        return None
    advice = f"Cancel and resume it to let it {goes_on} at once."
    return refused_because(row["workflow_uuid"], WorkflowStatus(row["status"]), Event.SET_DELAY, why, advice)
