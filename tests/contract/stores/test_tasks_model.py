"""Task queues and locks compared with a small model, on every backend: whatever is asked, both give the same answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.testing.contract.store_locks import empty, open_locks
from holdfast.testing.contract.store_tasks import open_queue, tables_of

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb", "redis")

LEASE, DELAY, RETRY = 100, 60, 30
HANDS = 3  # as many claims are remembered, the latest first

TASK_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(-1, 1), st.booleans(), st.integers(1, 2)),
        st.tuples(st.just("take"), st.integers(1, 3)),
        st.tuples(st.sampled_from(["complete", "fail", "release", "extend"]), st.integers(0, HANDS - 1)),
        st.tuples(st.just("wait"), st.sampled_from([31, 61, 101])),
        st.tuples(st.just("stale")),
    ),
    min_size=15,
    max_size=40,
)
LOCK_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("acquire"), st.sampled_from("ab"), st.sampled_from([50, 100])),
        st.tuples(st.sampled_from(["release", "extend"]), st.integers(0, HANDS - 1)),
        st.tuples(st.just("wait"), st.sampled_from([31, 61, 101])),
        st.tuples(st.just("get"), st.sampled_from("ab")),
    ),
    min_size=15,
    max_size=40,
)


@dataclass
class ModelTask:
    """A task as the model has it."""

    number: int
    priority: int
    max_attempts: int
    due: float | None
    status: str = "pending"
    attempts: int = 0
    holder: int | None = None


class TaskModel:
    """Tasks in a list, and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.tasks: list[ModelTask] = []
        self.claims = 0

    def put(self, priority: int, max_attempts: int, *, delayed: bool) -> None:
        due = self.now + DELAY if delayed else None
        self.tasks.append(ModelTask(len(self.tasks), priority, max_attempts, due))

    def stale(self) -> int:
        over = [task for task in self.tasks if task.status == "processing" and (task.due or 0) <= self.now]
        for task in over:
            task.status = "dead_lettered" if task.attempts >= task.max_attempts else "pending"
            task.due = None
        return len(over)

    def take(self, most: int) -> list[tuple[int, int, int]]:
        self.stale()
        free = [task for task in self.tasks if task.status == "pending" and (task.due is None or task.due <= self.now)]
        taken = sorted(free, key=lambda task: (task.priority, task.number))[:most]
        for task in taken:
            self.claims += 1
            task.status, task.holder, task.due = "processing", self.claims, self.now + LEASE
            task.attempts += 1
        return [(task.number, task.attempts, task.holder or 0) for task in taken]

    def end(self, verb: str, number: int, claim: int) -> bool:
        task = self.tasks[number]
        is_mine = task.status == "processing" and task.holder == claim
        if verb == "complete" and (is_mine or (task.status == "pending" and task.holder == claim)):
            task.status, task.due = "completed", None
            return True
        if verb == "complete":
            return task.status == "completed" and task.holder == claim
        if not is_mine:
            return False
        if verb == "extend":
            task.due = self.now + LEASE
        elif verb == "release":
            task.status, task.due, task.holder = "pending", None, None
            task.attempts -= 1
        else:
            is_last = task.attempts >= task.max_attempts
            task.status, task.holder = ("dead_lettered" if is_last else "pending"), None
            task.due = None if is_last else self.now + RETRY
        return True


async def compare_tasks(ground: Ground, steps: list[tuple[Any, ...]]) -> None:
    """Do the steps with a queue and with the model."""
    queue, model = await open_queue(ground), TaskModel()
    ids: list[str] = []
    hands: list[tuple[Any, int, int]] = []  # a task that was taken, its number and its claim in the model
    for step in steps:
        verb, *args = step
        if verb == "put":
            priority, delayed, attempts = args
            options = {"priority": priority, "max_attempts": attempts, "visibility_timeout": LEASE}
            ids.append(await queue.enqueue(len(ids), delay=DELAY if delayed else 0, **options))
            model.put(priority, attempts, delayed=delayed)
        elif verb == "take":
            taken = await queue.dequeue_many(args[0])
            wanted = model.take(args[0])
            assert [(task.payload, task.attempts) for task in taken] == [each[:2] for each in wanted], step
            hands = [(task, number, claim) for task, (number, _, claim) in zip(taken, wanted, strict=True)] + hands
        elif verb == "wait":
            await ground.advance(args[0])
            model.now += args[0]
        elif verb == "stale":
            assert await queue.requeue_stale() == model.stale()
        elif args[0] < len(hands):
            task, number, claim = hands[args[0]]
            said = {"complete": (), "release": (), "fail": ("no",), "extend": (LEASE,)}[verb]
            more = {"retry_in": RETRY} if verb == "fail" else {}
            answer = await getattr(queue, verb)(task.task_id, *said, token=task.token, **more)
            assert answer is model.end(verb, number, claim), step
    found = [await queue.get(task_id) for task_id in ids]
    assert [(task.status, task.attempts) for task in found] == [(task.status, task.attempts) for task in model.tasks]


class LockModel:
    """Who holds which lock until when, and the last token of each."""

    def __init__(self) -> None:
        self.now = 0.0
        self.last: dict[str, int] = {}
        self.held: dict[str, tuple[int, float]] = {}

    def acquire(self, key: str, ttl: float) -> int | None:
        if key in self.held and self.held[key][1] > self.now:
            return None
        self.last[key] = token = self.last.get(key, 0) + 1
        self.held[key] = token, self.now + ttl
        return token

    def end(self, verb: str, key: str, token: int) -> bool:
        holder, until = self.held.get(key, (0, 0.0))
        if holder != token or (verb == "extend" and until <= self.now):
            return False
        if verb == "extend":
            self.held[key] = token, self.now + 100
        else:
            del self.held[key]
        return True

    def get(self, key: str) -> int | None:
        holder, until = self.held.get(key, (None, 0.0))
        return holder if until > self.now else None


async def compare_locks(ground: Ground, steps: list[tuple[Any, ...]]) -> None:
    """Do the steps with locks and with the model."""
    locks, model = await open_locks(ground), LockModel()
    leases: list[Any] = []
    for step in steps:
        verb, *args = step
        if verb == "acquire":
            lease = await locks.acquire(args[0], ttl=args[1], blocking=False)
            assert (lease.token if lease else None) == model.acquire(*args), step
            leases = ([lease] if lease else []) + leases
        elif verb == "wait":
            await ground.advance(args[0])
            model.now += args[0]
        elif verb == "get":
            found = await locks.get(args[0])
            assert (found.token if found else None) == model.get(args[0]), step
        elif args[0] < len(leases):
            lease = leases[args[0]]
            answer = await getattr(locks, verb)(lease, *([100] if verb == "extend" else []))
            assert answer is model.end(verb, lease.key, lease.token), step


def check_tasks(venue: StoreVenue, examples: int, *, derandomize: bool) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=derandomize, suppress_health_check=list(HealthCheck))
    @given(steps=TASK_STEPS)
    def check(steps: list[tuple[Any, ...]]) -> None:
        venue.play(lambda ground: compare_tasks(ground, steps), empty=tables_of(venue))

    check()


def check_locks(venue: StoreVenue, examples: int, *, derandomize: bool) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=derandomize, suppress_health_check=list(HealthCheck))
    @given(steps=LOCK_STEPS)
    def check(steps: list[tuple[Any, ...]]) -> None:
        venue.play(lambda ground: compare_locks(ground, steps), empty=empty(venue))

    check()


def test_tasks_do_as_the_model(store_venue: StoreVenue) -> None:
    check_tasks(store_venue, 4, derandomize=True)


def test_locks_do_as_the_model(store_venue: StoreVenue) -> None:
    check_locks(store_venue, 3, derandomize=True)


@pytest.mark.soak
def test_tasks_do_as_the_model_for_long(store_venue: StoreVenue) -> None:
    check_tasks(store_venue, 150, derandomize=False)


@pytest.mark.soak
def test_locks_do_as_the_model_for_long(store_venue: StoreVenue) -> None:
    check_locks(store_venue, 150, derandomize=False)
