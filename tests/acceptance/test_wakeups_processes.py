"""Hints between processes that never poll: what one commits, the other sees because it was hinted at, and only then."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from holdfast.testing.nursery import Nursery
    from holdfast.testing.servers import Server

FreshDatabase = Callable[[str], str]
Recruit = Callable[..., Worker]
PROGRAM = Path(__file__).parent / "programs" / "ear.py"
HINTING = pytest.mark.parametrize("kind", ["postgres", "sqlite"])


@pytest.fixture
def recruit(nursery: Nursery) -> Iterator[Recruit]:
    """Call with a URL for a process that is ready; all are killed afterwards."""
    with ExitStack() as afterwards:

        def start(url: str, *, enabled: bool = True) -> Worker:
            worker = afterwards.enter_context(Worker(PROGRAM, nursery, url=url, enabled=enabled))
            worker.hear("ready")
            return worker

        yield start


def prepare(url: str) -> str:
    async def make() -> None:
        async with ConnectionManager(url) as manager:
            await manager.execute("CREATE TABLE heard (n INTEGER)")

    asyncio.run(make())
    return url


class Questions:
    """Asks a worker for its report, each time under another name."""

    def __init__(self) -> None:
        self._asked = 0

    def ask(self, worker: Worker) -> tuple[bool, int]:
        self._asked += 1
        worker.tell("report", str(self._asked))
        _, _, alive, reads = worker.hear("report", str(self._asked))
        return alive, reads

    def alive(self, worker: Worker) -> bool:
        return self.ask(worker)[0]


def wait_until_alive(*workers: Worker) -> None:
    questions = Questions()
    until(lambda: all(questions.alive(worker) for worker in workers))


@HINTING
def test_commit_in_one_process_is_seen_in_another_that_never_polls(
    kind: str, fresh_database: FreshDatabase, recruit: Recruit
) -> None:
    url = prepare(fresh_database(kind))
    teller, listener = recruit(url), recruit(url)
    wait_until_alive(teller, listener)
    delays = []
    for number in range(40):
        teller.tell("put", number)
        _, _, put = teller.hear("put", number)
        _, _, saw = listener.hear("saw", number)
        delays.append((saw - put) * 1000)
    assert [number for _, number, _ in listener.heard("saw")] == list(range(40))
    print(f"{kind}: from commit to seen p50 {statistics.median(delays):.1f} ms, longest {max(delays):.1f} ms")


@HINTING
def test_all_processes_see_what_many_commit_at_once(kind: str, fresh_database: FreshDatabase, recruit: Recruit) -> None:
    url = prepare(fresh_database(kind))
    workers = [recruit(url) for _ in range(3)]
    wait_until_alive(*workers)
    for number in range(90):
        workers[number % 3].tell("put", number)
    for number in range(90):
        workers[number % 3].hear("put", number)
    # One more after all of them: a number that was committed late stands behind one that was seen, and is passed over.
    workers[0].tell("put", 1000)
    for worker in workers:
        worker.hear("saw", 1000)
        seen = [number for _, number, _ in worker.heard("saw")]
        assert seen == sorted(set(seen))


@HINTING
def test_paused_process_hears_after_it_wakes(kind: str, fresh_database: FreshDatabase, recruit: Recruit) -> None:
    url = prepare(fresh_database(kind))
    teller, listener = recruit(url), recruit(url)
    wait_until_alive(teller, listener)
    listener.pause()
    until(listener.is_paused)
    teller.tell("put", 1)
    teller.hear("put", 1)
    listener.wake()
    assert listener.hear("saw", 1)


@HINTING
def test_death_of_a_teller_disturbs_nobody(kind: str, fresh_database: FreshDatabase, recruit: Recruit) -> None:
    url = prepare(fresh_database(kind))
    doomed, teller, listener = recruit(url), recruit(url), recruit(url)
    wait_until_alive(doomed, teller, listener)
    doomed.tell("put", 1)
    doomed.hear("put", 1)
    doomed.kill()
    teller.tell("put", 2)
    assert listener.hear("saw", 2)
    assert listener.hear("saw", 1)


@HINTING
def test_process_that_wants_no_hints_is_never_woken(kind: str, fresh_database: FreshDatabase, recruit: Recruit) -> None:
    url = prepare(fresh_database(kind))
    teller, listener, deaf = recruit(url), recruit(url), recruit(url, enabled=False)
    wait_until_alive(teller, listener)
    for number in range(5):
        teller.tell("put", number)
        listener.hear("saw", number)
    assert Questions().ask(deaf) == (False, 0)


def test_hints_come_back_after_a_restart_of_the_server(own_server: Callable[..., Server], recruit: Recruit) -> None:
    server = own_server("postgres")
    url = prepare(server.create_database())
    teller, listener = recruit(url), recruit(url)
    wait_until_alive(teller, listener)
    server.restart(immediate=True)
    begun = time.monotonic()
    wait_until_alive(teller, listener)
    print(f"hints are back {time.monotonic() - begun:.2f} s after the server")
    teller.tell("put", 1)
    assert listener.hear("saw", 1)
