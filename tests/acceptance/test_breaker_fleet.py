"""Circuit breakers of several processes: what they count is counted, one wins, and they open and close together."""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.stores import RedisCircuitBreakerStateRepository, SQLCircuitBreakerStateRepository
from holdfast.testing.servers import databases_of
from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import OwnServer

    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "breaker_process.py"
BACKENDS = ("sqlite", "postgres", "mariadb", "redis")


class Stage:
    """A storage that processes of a fleet share."""

    def __init__(self, url: str, prefix: str, nursery: Nursery) -> None:
        self.url = url
        self.prefix = prefix
        self._nursery = nursery

    def repository(self) -> Any:
        """Return the repository, as this process has it."""
        if self.url.startswith("redis"):
            return RedisCircuitBreakerStateRepository(self.url, prefix=self.prefix)
        return SQLCircuitBreakerStateRepository(self.url)

    def process(self, **options: Any) -> Worker:
        """Start one more process."""
        return Worker(PROGRAM, self._nursery, url=self.url, prefix=self.prefix, **options)


OPTIONS: dict[str, Any] = {"failures": 3, "open_for": 0.5, "successes": 2}


@pytest.fixture(params=BACKENDS, scope="module")
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, nursery: Nursery
) -> Iterator[Stage]:
    """A storage of each kind."""
    prefix = f"t{secrets.token_hex(6)}"
    if request.param == "sqlite":
        yield Stage(f"sqlite:///{tmp_path_factory.mktemp('fleet')}/breakers.sqlite", prefix, nursery)
        return
    server = request.getfixturevalue(f"{request.param}_url")
    url = databases_of(server).create(server)
    yield Stage(url, prefix, nursery)
    databases_of(url).drop(url)


@pytest.fixture(scope="module")
def fleet(shared: Stage) -> Iterator[list[Worker]]:
    """Four processes that share a storage."""
    with ExitStack() as stack:
        workers = [stack.enter_context(shared.process(**OPTIONS)) for _ in range(4)]
        for worker in workers:
            worker.hear("ready")
        yield workers


def _raced(workers: list[Worker], kind: str, rounds: int) -> list[int]:
    """Have all of them race; return how many won in each round."""
    for worker in workers:
        worker.tell("race", kind, rounds)
    won = [worker.hear("raced", kind)[2] for worker in workers]
    return [sum(each) for each in zip(*won, strict=True)]


def test_four_processes_lose_no_count_and_have_one_winner(shared: Stage, fleet: list[Worker]) -> None:
    rounds = 15
    with shared.repository() as repository:
        for number in range(rounds):
            for kind in ("close", "slot"):
                repository.trip_to_open(f"{kind}-{number}")
            repository.try_acquire_half_open_slot(f"close-{number}", 1, 60, token="t")
        assert sum(_raced(fleet, "count", 10)) == 4 * 1000
        assert repository.get_by_service_name("counted").failure_count == 4 * 1000
        assert _raced(fleet, "open", rounds) == [1] * rounds
        assert _raced(fleet, "close", rounds) == [1] * rounds
        assert _raced(fleet, "slot", rounds) == [3] * rounds
        assert _raced(fleet, "create", rounds) == [4 * 8] * rounds


def test_fleet_of_four_opens_and_closes_together_and_obeys_its_operator(shared: Stage, fleet: list[Worker]) -> None:
    for worker in fleet:
        worker.tell("call", 1, True)
        worker.hear("called", 1, "fine")
    fleet[0].tell("calls", False)
    for worker in fleet:
        worker.hear("event", "opened")
    fleet[1].tell("calls", True)
    for worker in fleet:
        worker.hear("event", "closed")
    with shared.repository() as repository, shared.process(**OPTIONS) as late:
        repository.atomic_force_open("api", "maintenance", ttl_minutes=60)
        for number, worker in enumerate((*fleet, late), 100):
            if worker is not late:
                until(lambda worker=worker: len(worker.heard("event", "opened")) >= 2)  # type: ignore[misc]
            worker.tell("call", number, True)
            assert worker.hear("called", number)[2:] == ["refused", "open"]
        events = [each.event for each in repository.get_history("api")]
        assert events == ["forced_open", "closed", "half_opened", "opened"]


def test_trial_of_a_process_that_is_killed_gives_its_slot_up(shared: Stage) -> None:
    with shared.repository() as repository:
        repository.trip_to_open("slot-99")
        with shared.process() as doomed:
            doomed.tell("slots", "slot-99")
            doomed.hear("slots", 3)
        assert repository.try_acquire_half_open_slot("slot-99", 3, 3600)[0] is False
        assert until(lambda: repository.try_acquire_half_open_slot("slot-99", 3, 0.01)[0])
        # Those of the three that were silent for so long have gone, and one has come.
        assert repository.get_by_service_name("slot-99").half_open_request_count in {1, 2, 3}


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_storage_that_is_killed_loses_no_count_and_the_fleet_goes_on_by_itself_until_it_is_back(
    kind: str, own_server: OwnServer, nursery: Nursery
) -> None:
    server = own_server(kind)
    stage = Stage(server.url if kind == "redis" else server.create_database(), "killed", nursery)
    options: dict[str, Any] = {"failures": 3, "open_for": 0.5, "successes": 1, "storage_timeout": 1}
    with ExitStack() as stack:
        with stage.repository():
            pass  # the tables are there before anything is killed
        workers = [stack.enter_context(stage.process(**options)) for _ in range(2)]
        for worker in workers:
            worker.hear("ready")
        _counts_are_kept(stage, server, workers)
        _goes_on_by_itself(server, workers)


def _counts_are_kept(stage: Stage, server: Any, workers: list[Worker]) -> None:
    for worker in workers:
        worker.tell("count_blindly", 80)
    for acknowledged in (10, 40):
        until(lambda least=acknowledged: all(len(each.heard("counted")) > least for each in workers))  # type: ignore[misc]
        server.kill()
        server.start()
    until(lambda: all(len(each.heard("counted")) == 80 for each in workers))
    done = [worker.heard("counted")[-1][1:] for worker in workers]
    with stage.repository() as repository:
        counted = repository.get_by_service_name("counted").failure_count
    # What was not acknowledged may have happened; what was, happened once.
    assert sum(each[0] for each in done) <= counted <= sum(sum(each) for each in done)


def _goes_on_by_itself(server: Any, workers: list[Worker]) -> None:
    for worker in workers:
        worker.tell("call", 1, True)
        worker.hear("called", 1, "fine")
    server.kill()
    for worker in workers:
        worker.hear("event", "storage_away")
    workers[0].tell("calls", False)
    workers[0].hear("reached", "open")
    workers[1].tell("call", 2, True)
    assert workers[1].hear("called", 2)[2] == "fine"
    workers[0].tell("calls", True)
    workers[0].hear("reached", "closed")
    server.start()
    for worker in workers:
        worker.hear("event", "storage_back")
    workers[0].tell("calls", False)
    workers[1].hear("event", "opened")
