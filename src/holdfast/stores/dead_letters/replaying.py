"""Replays: who may try a failed operation again, for how long, and what came of it."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from holdfast.core.dead_letters import (
    Acquire,
    Beat,
    Claim,
    Complete,
    GiveBack,
    Release,
    rests_on_standing,
    transition,
    was_completed,
)
from holdfast.core.durations import SHORTEST_LEASE, checked_seconds, minutes
from holdfast.model.dead_letter import ReplayEnd
from holdfast.stores import tokens
from holdfast.stores.dead_letters import door
from holdfast.stores.dead_letters.changing import PER_STEP, Changing, happening
from holdfast.stores.dead_letters.shelf import Wanted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.model.workflow import Duration

_said = attrgetter(*ReplayEnd.__struct_fields__)
_LEAST_MINUTES = -24 * 60  # below 0 is an age of what is yet to come: everything is older


class Replaying(Changing):
    """Replays hold a token. Nobody else ends them, and they end nothing after they have lost it."""

    async def try_acquire_for_replay(
        self,
        id: str,  # noqa: A002 -- the documented word
        max_retries: int,
        force: bool = False,
        *,
        lease: Duration | None = None,
    ) -> FailedOperationData | None:
        """Take a pending operation that was tried fewer than *max_retries* times, and count the attempt, in one step.

        Of several who try, one gets it; the others, and all who come when it is not to be had, get None. With *force*
        one that requires review is taken as well and the limit is not looked at: ``retry_count`` is 1 afterwards, and
        ``metadata`` holds ``previous_total_retries`` and ``force_redrive_count``. The token is in ``replay_token``, and
        held by the calling task or thread. *lease* is for how many seconds an operation with a ``retry_delay`` is kept
        from ``acquire_due``; another is kept until ``release_stale_replaying``.
        """
        event = Acquire(self._world.new_id(), door.cap(max_retries, "max_retries"), self._lease_of(lease), force)
        mine: FailedOperationData | None = None

        def decide(record: FailedOperationData, now: datetime) -> FailedOperationData | None:
            nonlocal mine
            if record.replay_token == event.token and record.status == "replaying":
                mine = record  # the reply to an earlier try was lost
                return None
            mine = None
            return transition(record, event, now)

        undo = GiveBack(event.token)  # if nobody is left to replay it
        changed = await self._change(id, decide, undo, on_standing=rests_on_standing(event))
        taken = changed or mine
        if taken is not None:
            tokens.hold(self._item(id), event.token)
        return taken

    async def acquire_many(
        self,
        ids: Sequence[str],
        max_retries: int | None = None,
        force: bool = False,
        *,
        lease: Duration | None = None,
    ) -> list[FailedOperationData]:
        """Do as ``try_acquire_for_replay`` for several operations in one step.

        Return those that were taken, in the order of *ids*. *max_retries* is a limit for all of them; if it is None,
        each has its own.
        """
        held_for = self._lease_of(lease)
        limit = None if max_retries is None else door.cap(max_retries, "max_retries")
        given = {id: self._world.new_id() for id in door.several(ids)}  # noqa: A001 -- the documented word

        def decide(record: FailedOperationData, now: datetime) -> FailedOperationData | None:
            below = record.max_retries if limit is None else limit
            return transition(record, Acquire(given[record.id], below, held_for, force), now)

        def undo(record: FailedOperationData, now: datetime) -> FailedOperationData | None:
            return transition(record, GiveBack(given[record.id]), now)

        taken = {record.id: record for record in await self._change_all(list(given), decide, undo)}
        tokens.hold_all({self._item(id): given[id] for id in taken})  # noqa: A001
        return [taken[id] for id in given if id in taken]  # noqa: A001

    async def return_replay_attempt(
        self,
        id: str,  # noqa: A002 -- the documented word
        *,
        token: str | None = None,
    ) -> bool:
        """Give an operation back whose replay was not begun: it is pending, and the attempt does not count.

        False, and nothing is changed, if it is not, or no longer, held by the caller.
        """
        mine = tokens.held(self._item(id), token)
        given = await self._happen(id, GiveBack(mine))
        tokens.let_go(self._item(id), mine)
        return given is not None

    async def acquire_due(
        self, limit: int = 10, *, domain: str | None = None, lease: Duration | None = None
    ) -> list[FailedOperationData]:
        """Take at most *limit* operations that are due, the longest due first, each for *lease* seconds.

        Due are those with a ``retry_delay`` whose time has come, and those whose holder has let its lease pass. One
        that has been tried ``max_retries`` times is not taken: it requires review from then on. What was taken for a
        call that is cancelled meanwhile is given back.
        """
        held_for = self._lease_of(lease)
        if not door.can_be(domain=domain) or not door.count(limit, "limit"):
            return []
        given: dict[str, str] = {}

        def decide(record: FailedOperationData, now: datetime) -> FailedOperationData | None:
            token = given.setdefault(record.id, self._world.new_id())
            return transition(record, Claim(token, held_for), now)

        def undo(record: FailedOperationData, now: datetime) -> FailedOperationData | None:
            return transition(record, GiveBack(given[record.id]), now)

        async def sweep() -> list[FailedOperationData]:
            taken: list[FailedOperationData] = []
            while len(taken) < limit:
                changed = await self._shelf.sweep(Wanted(due=True, domain=domain, limit=limit - len(taken)), decide)
                fresh = [record for record in changed if record.status == "replaying"]
                taken += fresh
                if len(fresh) == len(changed):  # otherwise some were retired, and others may be due behind them
                    break
            return taken

        taken = await self._carried(sweep(), undo)
        tokens.hold_all({self._item(record.id): given[record.id] for record in taken})
        return taken

    async def extend_replay(
        self,
        id: str,  # noqa: A002 -- the documented word
        *,
        lease: Duration | None = None,
        token: str | None = None,
    ) -> bool:
        """Say that the replay is alive; False if the operation is not, or no longer, held by the caller.

        A long replay says so now and then: ``release_stale_replaying`` and ``acquire_due`` reckon from here.
        """
        event = Beat(tokens.held(self._item(id), token), self._lease_of(lease))
        return await self._happen(id, event) is not None

    async def complete_replay(
        self,
        id: str,  # noqa: A002 -- the documented word
        success: bool,
        resolution_type: str = "",
        note: str = "",
        resolved_by_id: int | None = None,
        error_details: dict[str, Any] | None = None,
        *,
        token: str | None = None,
    ) -> bool:
        """End a replay: the operation is resolved; or pending again; or, tried as often as it may be, requires review.

        *token* is the one the caller holds, unless it is given. False, and nothing is changed, if somebody else holds
        the operation or has held it since, if it has ended, or if there is none. What nobody holds and nobody has ended
        may be ended by anyone. *note* is the resolution's, or the error's message; *error_details* go into
        ``metadata``. What is empty or None keeps its value.
        """
        event = self._ending(id, token, success, resolution_type, note, resolved_by_id, error_details)
        done = False

        def decide(record: FailedOperationData, now: datetime) -> FailedOperationData | None:
            nonlocal done
            done = was_completed(record, event)
            return None if done else transition(record, event, now)

        changed = await self._change(id, decide, whole=False)
        tokens.let_go(self._item(id), event.token)
        if changed is None and done:  # it had ended, as far as was known; it may have been deleted since
            done = await self._shelf.get(id) is not None
        return done or changed is not None

    async def complete_many(self, ends: Sequence[ReplayEnd]) -> list[bool]:
        """Do as ``complete_replay`` for several operations in one step; return of each whether it was ended.

        ``ValueError`` if one operation is named twice.
        """
        events = {end.id: self._ending(*_said(end)) for end in ends}
        if len(events) < len(ends):
            raise ValueError("One operation is named twice among the replays that have ended: a step ends each once.")
        done: dict[str, bool] = {}

        def decide(record: FailedOperationData, now: datetime) -> FailedOperationData | None:
            event = events[record.id]
            changed = None if was_completed(record, event) else transition(record, event, now)
            done[record.id] = changed is not None or was_completed(record, event)
            return changed

        await self._change_all(list(events), decide, whole=False)
        tokens.let_go_all((self._item(id), event.token) for id, event in events.items())  # noqa: A001
        return [done.get(end.id, False) for end in ends]

    def _ending(
        self,
        id: str,  # noqa: A002 -- the documented word
        token: str | None,
        success: bool,
        resolution_type: str,
        note: str,
        resolved_by_id: int | None,
        error_details: dict[str, Any] | None,
    ) -> Complete:
        return Complete(
            success,
            tokens.held(self._item(id), token),
            door.text(resolution_type or "", "resolution_type"),
            door.text(note or "", "note"),
            door.number(resolved_by_id, "resolved_by_id"),
            door.mapping(error_details, "error_details"),
            self._world.random.random(),
        )

    async def release_stale_replaying(self, older_than_minutes: int = 30) -> int:
        """Make operations pending again whose holder was last heard of longer ago than that; return how many."""
        age = minutes(older_than_minutes, "older_than_minutes", least=_LEAST_MINUTES)
        wanted = Wanted(status="replaying", unheard_for=age, limit=PER_STEP, whole=False)
        return await self._sweep(wanted, happening(Release()))

    def _lease_of(self, lease: Duration | None) -> float:
        return self._lease if lease is None else checked_seconds(lease, "lease", least=SHORTEST_LEASE)


__all__ = ["Replaying"]
