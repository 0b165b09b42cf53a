"""Processes race for idempotency keys, and die between claim and result. On every shared backend."""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "claimer.py"
EVERY_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb", "redis"])
PROCESSES, CLAIMERS, ROUNDS = 4, 25, 50


@pytest.fixture
def claimer(nursery: Nursery) -> Iterator[Callable[..., Worker]]:
    """Call with settings for a process that claims; it is killed afterwards."""
    with ExitStack() as afterwards:

        def start(**settings: Any) -> Worker:
            return afterwards.enter_context(Worker(PROGRAM, nursery, **settings))

        yield start


@EVERY_KIND
def test_hundred_claimers_in_processes_have_one_winner_each_round(
    kind: str, fresh_database: Callable[[str], str], claimer: Callable[..., Worker]
) -> None:
    url = fresh_database(kind)
    workers = [claimer(url=url, name=str(number)) for number in range(PROCESSES)]
    for worker in workers:
        worker.hear("ready")
    for worker in workers:
        worker.tell("race", ROUNDS, CLAIMERS)
    won = Counter(number for worker in workers for number in worker.hear("won")[1])
    assert won == dict.fromkeys(range(ROUNDS), 1)


@pytest.mark.parametrize(
    ("kind", "point"),
    [
        *((kind, "key.claimed") for kind in ("sqlite", "postgres", "mariadb", "redis")),
        ("sqlite", "key.before_result"),
        *((kind, "key.result_stored") for kind in ("sqlite", "redis")),
        # The rest of the points, where the backends do not differ.
        *(pytest.param(k, "key.before_result", marks=pytest.mark.soak) for k in ("postgres", "mariadb", "redis")),
        *(pytest.param(k, "key.result_stored", marks=pytest.mark.soak) for k in ("postgres", "mariadb")),
    ],
)
def test_key_of_a_worker_that_died_is_done_once(
    kind: str, point: str, fresh_database: Callable[[str], str], claimer: Callable[..., Worker]
) -> None:
    url = fresh_database(kind)
    doomed = claimer(url=url, name="doomed", faults=[point])
    doomed.hear("ready")
    doomed.tell("work", 0, 1)
    assert doomed.end() == -signal.SIGKILL
    heir = claimer(url=url, name="heir")
    heir.hear("ready")
    tries = count()

    def answer() -> list[Any] | None:
        number = next(tries)
        heir.tell("work", number, 60)
        state, data = heir.hear("answer", number)[2:]
        return None if state == "in progress" else [state, data]

    assert until(answer) == (["stored", "doomed"] if point == "key.result_stored" else ["won", None])
    assert answer() == ["stored", "doomed" if point == "key.result_stored" else "heir"]
