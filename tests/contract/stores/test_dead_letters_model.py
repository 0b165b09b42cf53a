"""Repositories compared with the pure state machine over a dictionary: whatever is asked, both give the same answer."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.dead_letters import (
    Acquire,
    Archive,
    Claim,
    Complete,
    CountRetry,
    Event,
    GiveBack,
    Release,
    SetStatus,
    transition,
    was_completed,
)
from holdfast.model.dead_letter import IN_FLIGHT, FailedOperationData, ReplayEnd
from holdfast.testing.contract.store_dead_letters_stage import ALL_STATUSES, TABLES, open_letters

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("memory", "sqlite", "postgres", "mariadb", "redis")
JUMP = 100.0  # far enough from every wait and lease that what is due is not a matter of jitter
LEASE = 50.0

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from("ab"), st.booleans(), st.integers(0, 3)),
        st.tuples(st.just("acquire"), st.integers(0, 5), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("complete"), st.integers(0, 5), st.booleans(), st.integers(0, 3)),
        st.tuples(st.just("acquire_many"), st.integers(0, 3)),
        st.tuples(st.just("complete_many"), st.booleans()),
        st.tuples(st.just("give_back"), st.integers(0, 5)),
        st.tuples(st.just("say"), st.integers(0, 5), st.sampled_from(ALL_STATUSES)),
        st.tuples(st.just("count"), st.integers(0, 5)),
        st.tuples(st.just("due"), st.integers(1, 3)),
        st.tuples(st.just("release")),
        st.tuples(st.just("archive")),
        st.tuples(st.just("evict"), st.integers(0, 2)),
        st.tuples(st.just("wait")),
    ),
    min_size=10,
    max_size=40,
)  # fmt: skip


class Model:
    """Records in a dictionary, a clock, and the state machine."""

    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.records: dict[str, FailedOperationData] = {}

    def happen(self, entry: str, event: Event) -> FailedOperationData | None:
        record = self.records.get(entry)
        after = None if record is None else transition(record, event, self.now)
        if after is not None:
            self.records[entry] = after
        return after

    def due(self) -> list[str]:
        ready = [
            record for record in self.records.values() if record.next_retry_at and record.next_retry_at <= self.now
        ]
        return [record.id for record in ready]


class Pair:
    """A repository and the model, asked the same; they must agree on every answer."""

    def __init__(self, letters: Any, ground: Ground) -> None:
        self._letters = letters
        self._ground = ground
        self._model = Model()
        self._ids: list[str] = []
        self._tokens: dict[str, list[str]] = {}

    def _entry(self, place: int) -> str:
        return self._ids[place % len(self._ids)] if self._ids else "nobody"

    async def create(self, domain: str, due: bool, cap: int) -> None:
        delay = 60.0 if due else None
        record = await self._letters.create(domain, "t", max_retries=cap, retry_delay=delay)
        self._ids.append(record.id)
        self._model.records[record.id] = FailedOperationData(
            id=record.id, domain=domain, failure_type="t", max_retries=cap, retry_delay=delay,
            created_at=self._model.now, next_retry_at=self._model.now if due else None,
        )  # fmt: skip
        await self._ground.advance(0.01)

    async def acquire(self, place: int, limit: int, force: bool) -> None:
        entry = self._entry(place)
        taken = await self._letters.try_acquire_for_replay(entry, limit, force, lease=LEASE)
        token = "" if taken is None else taken.replay_token
        after = self._model.happen(entry, Acquire(token, limit, LEASE, force))
        assert (taken is None) == (after is None)
        if taken is not None:
            self._tokens.setdefault(entry, []).append(token)

    async def complete(self, place: int, success: bool, which: int) -> None:
        """End a replay with one of the tokens its entry had, the latest first, or with a wrong one."""
        entry = self._entry(place)
        tokens = [*reversed(self._tokens.get(entry, [])), "wrong"]
        event = Complete(success, tokens[min(which, len(tokens) - 1)], draw=0.5)
        known = self._model.records.get(entry)
        done = known is not None and was_completed(known, event)
        after = None if done else self._model.happen(entry, event)
        assert await self._letters.complete_replay(entry, success, token=event.token) is (done or after is not None)

    async def acquire_many(self, limit: int) -> None:
        taken = await self._letters.acquire_many(self._ids, limit, lease=LEASE)
        tokens = {record.id: record.replay_token for record in taken}
        for entry in self._ids:
            after = self._model.happen(entry, Acquire(tokens.get(entry, ""), limit, LEASE))
            assert (after is not None) == (entry in tokens)
            if entry in tokens:
                self._tokens.setdefault(entry, []).append(tokens[entry])

    async def complete_many(self, success: bool) -> None:
        """End every replay there was, with its last token."""
        ends = [ReplayEnd(id=entry, token=tokens[-1], success=success) for entry, tokens in self._tokens.items()]
        noted = await self._letters.complete_many(ends)
        for end, was_noted in zip(ends, noted, strict=True):
            event = Complete(success, end.token, draw=0.5)
            known = self._model.records.get(end.id)
            done = known is not None and was_completed(known, event)
            after = None if done else self._model.happen(end.id, event)
            assert was_noted is (done or after is not None)

    async def give_back(self, place: int) -> None:
        entry = self._entry(place)
        token = self._tokens.get(entry, ["wrong"])[-1]
        after = self._model.happen(entry, GiveBack(token))
        assert await self._letters.return_replay_attempt(entry, token=token) is (after is not None)

    async def say(self, place: int, status: str) -> None:
        entry = self._entry(place)
        after = self._model.happen(entry, SetStatus(status))
        assert await self._letters.update_status(entry, status) is (after is not None)

    async def count(self, place: int) -> None:
        entry = self._entry(place)
        after = self._model.happen(entry, CountRetry())
        assert await self._letters.increment_retry_count(entry) is (after is not None)

    async def due(self, limit: int) -> None:
        """Take what is due; which of those that are due at about the same time is not the point."""
        due = self._model.due()
        taken = await self._letters.acquire_due(limit, lease=LEASE)
        for entry in due:
            record = self._model.records[entry]
            if record.retry_count >= record.max_retries:
                read = await self._letters.get_by_id(entry)
                if read.status == "requires_review":
                    self._model.happen(entry, Claim("retired", LEASE))
        for each in taken:
            assert each.id in due
            assert self._model.happen(each.id, Claim(each.replay_token, LEASE)) is not None
            self._tokens.setdefault(each.id, []).append(each.replay_token)
        assert len(taken) == limit or self._model.due() == []

    async def release(self) -> None:
        held = [record for record in self._model.records.values() if record.replay_beat_at is not None]
        old = [
            each.id
            for each in held
            if self._model.now - (each.replay_beat_at or self._model.now) > timedelta(minutes=1)
        ]
        for entry in old:
            self._model.happen(entry, Release())
        assert await self._letters.release_stale_replaying(1) == len(old)

    async def archive(self) -> None:
        resolved = [each.id for each in self._model.records.values() if each.status == "resolved"]
        for entry in resolved:
            self._model.happen(entry, Archive())
        assert await self._letters.archive_old_resolved(-1) == len(resolved)

    async def evict(self, number: int) -> None:
        records = self._model.records
        gone = [entry for entry in self._ids if entry in records and records[entry].status not in IN_FLIGHT][:number]
        for entry in gone:
            del records[entry]
        assert await self._letters.evict_oldest(number) == len(gone)

    async def wait(self) -> None:
        self._model.now += timedelta(seconds=JUMP)
        await self._ground.advance(JUMP)

    async def agree(self) -> None:
        """Compare everything there is."""
        found = {record.id: record for record in await self._letters.find(limit=1000)}
        assert {entry: _shown(record) for entry, record in found.items()} == {
            entry: _shown(record) for entry, record in self._model.records.items()
        }
        counts = Counter(record.status for record in self._model.records.values())
        assert (await self._letters.get_statistics())["by_status"] == dict(counts)


def _shown(record: FailedOperationData) -> tuple[Any, ...]:
    return (
        record.status, record.retry_count, record.version, record.metadata, record.next_retry_at is None,
        record.resolved_at is None, record.last_retry_at is None, record.replay_beat_at is None,
    )  # fmt: skip


def _play(store_venue: StoreVenue, steps: list[Any]) -> None:
    async def scene(ground: Ground) -> None:
        pair = Pair(await open_letters(ground), ground)
        for verb, *given_ in steps:
            await getattr(pair, verb)(*given_)
        await pair.agree()

    store_venue.play(scene, empty=TABLES if store_venue.is_sql else ())


_SMALL = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@given(steps=STEPS)
@_SMALL
def test_repository_does_what_the_state_machine_says(store_venue: StoreVenue, steps: list[Any]) -> None:
    _play(store_venue, steps)


@pytest.mark.soak
@given(steps=STEPS)
@settings(_SMALL, max_examples=500)
def test_repository_does_what_the_state_machine_says_at_length(store_venue: StoreVenue, steps: list[Any]) -> None:
    _play(store_venue, steps)
