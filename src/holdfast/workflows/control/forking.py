"""Forking: a new run that begins with a part of another one's history."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.numbers import MOST_COUNTED
from holdfast.errors import ConfigurationError, WorkflowConflict
from holdfast.workflows.control.changing import fetch_each, write_each
from holdfast.workflows.control.refusals import not_found
from holdfast.workflows.messaging.going_back import GoingBack
from holdfast.workflows.streams.entries import CLOSED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction
    from holdfast.workflows.control.changing import Changing, Work


class Place(NamedTuple):
    """Where a forked or rewound run goes on: from which step, as which version, and in which queue it waits."""

    start_step: int
    application_version: str | None
    queue_name: str
    partition_key: str | None

    def check(self) -> None:
        """Refuse a step that no run has."""
        if type(self.start_step) is not int or not 1 <= self.start_step <= MOST_COUNTED:
            raise ConfigurationError(
                f"start_step is the position of the first step that runs again, from 1 on, not {self.start_step!r}."
            )


class Forking:
    """Any status -> a new run, ENQUEUED; the original stays as it is."""

    def __init__(self, changing: Changing, queries: Queries) -> None:
        self._changing = changing
        self._queries = queries
        self._stand = queries["runs_stand"]
        self._fork = queries["runs_fork"]
        self._copy = queries["steps_copy"]
        self._copy_streams = queries["streams_copy"]
        self._forked = queries["runs_forked"]

    def runs(self, new_ids: Mapping[str, str], key: str, place: Place) -> Work[None]:
        """Return the work that forks the runs that *new_ids* maps to the ids of their forks: all of them or none.

        The originals are held while their records are copied: a record under way is committed before and copied, a
        later one comes after. A branch records an operation before it begins the next, and an operation gets its
        position when it begins, so that the records below a position are a prefix of every branch.
        """
        pairs = list(new_ids.items())
        originals = [(old,) for old, _ in pairs]
        going_back = GoingBack(self._queries)

        async def work(transaction: Transaction) -> None:
            if await self._are_there(transaction, list(new_ids.values()), key):
                return
            held = await self._changing.hold(transaction, list(new_ids))
            for old in new_ids:
                if old not in held:
                    raise not_found(old)
            await write_each(
                transaction,
                self._fork,
                [(old, new, key) for old, new in pairs],
                **place._asdict(),
            )
            await write_each(transaction, self._copy, pairs, start_step=place.start_step)
            await write_each(transaction, self._copy_streams, pairs, start_step=place.start_step, closed=CLOSED)
            await going_back.copy(transaction, pairs, place.start_step)
            await write_each(transaction, self._forked, originals)

        return work

    async def _are_there(self, transaction: Transaction, new_ids: Sequence[str], key: str) -> bool:
        """Whether an earlier attempt, whose reply was lost, has made the forks; all in one commit, so one tells."""
        for row in await fetch_each(transaction, self._stand, [(each,) for each in new_ids]):
            if row["creation_key"] != key:
                raise WorkflowConflict(
                    f"A fork cannot have the id {row['workflow_uuid']}: it belongs to a run. Choose another one."
                )
            return True
        return False
