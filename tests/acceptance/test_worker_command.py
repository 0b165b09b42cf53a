"""``holdfast worker`` as a process: what it claims, and what becomes of its runs when it is told to stop."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import pytest

from holdfast.client import Client
from holdfast.db import DatabaseURL
from holdfast.testing.workers import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    from holdfast.testing.nursery import Nursery

PROGRAMS = Path(__file__).with_name("programs")
COMMAND = Path(sys.executable).with_name("holdfast")


class Served:
    """A worker process and its log; leaving the ``with`` block kills it if it still lives."""

    def __init__(self, url: str, *words: str, folder: Path = PROGRAMS) -> None:
        self._log = TemporaryFile("a+b")  # noqa: SIM115 -- closed with the worker; reading must not move its writes
        self._url = url
        self.process = subprocess.Popen(
            [COMMAND, "worker", *words],
            cwd=folder,
            env={**os.environ, "HOLDFAST_DATABASE_URL": url, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=self._log,
            stderr=self._log,
        )

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode()

    def hear(self, word: str, times: int = 1) -> None:
        def heard() -> bool:
            assert self.process.poll() is None, self.log()
            return self.log().count(word) >= times

        until(heard)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        code = self.process.wait(PATIENCE)
        password = DatabaseURL.parse(self._url).password
        assert not password or password not in self.log()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        if error is not None:
            print(self.log())
        self._log.close()


@pytest.fixture(autouse=True)
def hang_up_is_not_ignored() -> Iterator[None]:
    """A test run that was started with nohup hands its deafness down, and a worker respects it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def url(fresh_database: Callable[[str], str], nursery: Nursery) -> str:
    return _with_queues(fresh_database("sqlite"), nursery)


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


def _with_queues(url: str, nursery: Nursery) -> str:
    nursery.run(COMMAND, "migrate", url, timeout=PATIENCE).check_returncode()
    with Client(url) as client:
        for name in ("mails", "reports"):
            client.register_queue(name)
    return url


def _at_work(gate: Path) -> bool:
    """Whether the function has begun that waits for *gate*: a run may be claimed, and its process not have it yet."""
    return Path(f"{gate}.begun").exists()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_worker_runs_what_is_enqueued_and_stops_when_told(
    kind: str, fresh_database: Callable[[str], str], nursery: Nursery
) -> None:
    url = _with_queues(fresh_database(kind), nursery)
    with Served(url, "served:app") as worker, Client(url) as client:
        worker.hear("Ready: executor porter")
        assert client.enqueue("double", [21], queue_name="mails").result(PATIENCE) == 42
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0
        assert "queues mails, reports" in worker.log()
        # One that has ended may be told to its client before the worker has done with it.
        assert re.search(r"Stopped: [01] runs ended, 0 go on elsewhere\.", worker.log())
        assert client.list_executors() == []


def test_worker_of_an_application_without_workflows_says_so(url: str, tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("from holdfast import Holdfast\napp = Holdfast()\n")
    with Served(url, "bare:app", folder=tmp_path) as worker:
        worker.hear("The application has no workflows, so nothing is begun here")
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0


def test_worker_takes_from_the_queues_it_is_told_alone(url: str, client: Client) -> None:
    with Served(url, "--queues", "mails,letters", "served:app") as worker:
        worker.hear("The queue letters is not registered.")
        other = client.enqueue("double", [1], queue_name="reports")
        assert client.enqueue("double", [2], queue_name="mails").result(PATIENCE) == 4
        client.register_queue("letters")
        assert client.enqueue("double", [3], queue_name="letters").result(PATIENCE) == 6
        assert other.status().status == "ENQUEUED"


def test_run_that_ends_within_the_drain_is_not_interrupted(url: str, client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Served(url, "served:app", "--drain", "60s") as worker:
        run = client.enqueue("held", [str(gate)], queue_name="mails")
        until(lambda: _at_work(gate))
        worker.signal(signal.SIGTERM)
        worker.hear("Stopping: SIGTERM")
        late = client.enqueue("double", [1], queue_name="mails")
        gate.touch()
        assert worker.end() == 0
        assert "Stopped: 1 runs ended, 0 go on elsewhere." in worker.log()
    assert run.status().status == "SUCCESS"
    assert late.status().status == "ENQUEUED"


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_run_that_does_not_end_within_the_drain_is_handed_over(
    kind: str, fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery
) -> None:
    url = _with_queues(fresh_database(kind), nursery)
    with Served(url, "served:app", "--drain", "0.1s") as worker, Client(url) as client:
        run = client.enqueue("held", [str(tmp_path / "gate")], queue_name="mails")
        until(lambda: _at_work(tmp_path / "gate"))
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0
        assert "Stopped: 0 runs ended, 1 go on elsewhere." in worker.log()
        left = run.status()
        assert (left.status, left.recovery_attempts) == ("ENQUEUED", 0)


@pytest.mark.parametrize(
    ("number", "code", "app", "workflow"),
    [(signal.SIGTERM, 143, "app", "held"), (signal.SIGINT, 130, "aio", "idle")],
)
def test_second_signal_hands_over_at_once(
    url: str, client: Client, tmp_path: Path, number: signal.Signals, code: int, app: str, workflow: str
) -> None:
    with Served(url, f"served:{app}", "--drain", "1h") as worker:
        run = client.enqueue(workflow, [str(tmp_path / "gate")], queue_name="mails")
        until(lambda: _at_work(tmp_path / "gate"))
        worker.signal(number)
        worker.hear("Stopping")
        worker.signal(number)
        assert worker.end() == code
        assert "Handing over at once" in worker.log()
    assert run.status().status == "ENQUEUED"


def test_step_that_cannot_be_interrupted_does_not_keep_the_process(url: str, client: Client, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with Served(url, "served:aio", "--drain", "0.1s") as worker:
        run = client.enqueue("stuck_step", [str(begun)], queue_name="mails")
        until(begun.exists)
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0
        assert "leaving without it" in worker.log()
    assert run.status().status == "ENQUEUED"


def test_third_signal_ends_even_a_process_whose_loop_is_blocked(url: str, client: Client, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with Served(url, "served:aio") as worker:
        run = client.enqueue("blocked_loop", [str(begun)], queue_name="mails")
        until(begun.exists)
        for word in ("Stopping", "Handing over", "Leaving"):
            worker.signal(signal.SIGTERM)
            until(lambda word=word: word in worker.log())  # type: ignore[misc]
        assert worker.end() == 143
    assert run.status().status == "PENDING"


def test_hang_up_starts_the_same_process_anew(url: str, client: Client) -> None:
    with Served(url, "served:app") as worker:
        worker.hear("Ready")
        worker.signal(signal.SIGHUP)
        worker.hear("Ready", times=2)
        first, second = re.findall(r"executor porter \((\S+)\)", worker.log())
        assert first != second
        assert [each.pid for each in client.list_executors()] == [worker.process.pid]
        assert client.enqueue("double", [21], queue_name="mails").result(PATIENCE) == 42
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0


def test_hang_ups_while_it_starts_anew_end_nothing(url: str, client: Client) -> None:
    with Served(url, "served:app") as worker:
        worker.hear("Ready")
        worker.signal(signal.SIGHUP)
        worker.hear("Stopped")
        while worker.log().count("Ready") < 2:  # without a pause, so that some come between the two programs
            assert worker.process.poll() is None, worker.log()
            worker.signal(signal.SIGHUP)
        worker.signal(signal.SIGHUP)  # those that came before it was ready have it start no further time
        worker.hear("Ready", times=3)
        assert client.enqueue("double", [21], queue_name="mails").result(PATIENCE) == 42
        worker.signal(signal.SIGTERM)
        assert worker.end() == 0


def test_changed_files_are_loaded_once_they_can_be(url: str, client: Client, tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    text = (
        "from holdfast import Holdfast\n"
        "app = Holdfast(application_version='v1')\n"
        "@app.workflow(name='answer')\n"
        "def answer() -> int:\n"
        "    return {}\n"
    )
    module.write_text(text.format(1))
    with Served(url, "mine:app", "--reload", folder=tmp_path) as worker:
        assert client.enqueue("answer", queue_name="mails").result(PATIENCE) == 1
        module.write_text("def broken(:")
        worker.hear("What is loaded goes on until")
        assert client.enqueue("answer", queue_name="mails").result(PATIENCE) == 1
        module.write_text("raise RuntimeError('not yet')")
        worker.hear("Waiting for a change.")
        assert "RuntimeError: not yet" in worker.log()
        module.write_text(text.format(2))
        assert client.enqueue("answer", queue_name="mails").result(PATIENCE) == 2


def test_worker_that_is_told_to_stop_while_it_begins_leaves(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://me:secret@127.0.0.1:{silent.getsockname()[1]}/x"
        silent.settimeout(PATIENCE)
        with Served(url, "served:app") as worker, silent.accept()[0]:
            worker.signal(signal.SIGTERM)
            assert worker.end() == 143


class TestSeveralProcesses:
    def test_each_is_an_executor_and_all_stop_together(self, url: str, client: Client) -> None:
        with Served(url, "served:app", "--processes", "2") as workers:
            workers.hear("Ready", times=2)
            pids = {each.pid for each in client.list_executors()}
            assert len(pids - {workers.process.pid}) == 2
            assert client.enqueue("double", [21], queue_name="mails").result(PATIENCE) == 42
            workers.signal(signal.SIGINT)
            assert workers.end() == 0
            assert workers.log().count("Stopped: ") == 2

    def test_one_that_is_killed_is_replaced(self, url: str, client: Client) -> None:
        with Served(url, "served:app", "--processes", "2") as workers:
            workers.hear("Ready", times=2)
            victim = client.list_executors()[0].pid
            assert victim is not None
            os.kill(victim, signal.SIGKILL)
            workers.hear(f"Process {victim} ended with 137")
            workers.hear("Ready", times=3)
            workers.signal(signal.SIGTERM)
            assert workers.end() == 0

    def test_second_signal_reaches_all(self, url: str, client: Client, tmp_path: Path) -> None:
        with Served(url, "served:app", "--processes", "2", "--drain", "1h") as workers:
            run = client.enqueue("held", [str(tmp_path / "gate")], queue_name="mails")
            workers.hear("Ready", times=2)
            until(lambda: _at_work(tmp_path / "gate"))
            workers.signal(signal.SIGTERM)
            workers.hear("Stopping", times=2)  # a signal that comes while the same one waits is none
            workers.signal(signal.SIGTERM)
            assert workers.end() == 143
        assert run.status().status == "ENQUEUED"

    def test_hang_up_replaces_one_after_the_other(self, url: str, client: Client) -> None:
        with Served(url, "served:app", "--processes", "2") as workers:
            workers.hear("Ready", times=2)
            before = {each.incarnation for each in client.list_executors()}
            workers.signal(signal.SIGHUP)
            workers.hear("Ready", times=4)
            until(lambda: len(client.list_executors()) == 2)
            assert not before & {each.incarnation for each in client.list_executors()}
            told = re.findall("Ready|Stopped", workers.log())
            assert told == ["Ready", "Ready", "Stopped", "Ready", "Stopped", "Ready"]

    def test_a_program_that_a_step_starts_finds_nothing_to_read(self, url: str, client: Client) -> None:
        with Served(url, "served:app", "--processes", "2") as workers:
            workers.hear("Ready", times=2)
            assert client.enqueue("piped", ["cat"], queue_name="mails").result(PATIENCE) == ""

    def test_that_none_can_begin_ends_all(self, url: str) -> None:
        with Served(url, "served:missing", "--processes", "2") as workers:
            assert workers.end() == 2
            assert "has no missing" in workers.log()

    def test_those_whose_parent_is_gone_stop(self, url: str, client: Client) -> None:
        with Served(url, "served:app", "--processes", "2") as workers:
            workers.hear("Ready", times=2)
            workers.process.kill()
            until(lambda: workers.log().count("Stopped: ") == 2)
            assert client.list_executors() == []


def test_run_of_a_worker_that_was_stopped_goes_on_in_another(url: str, client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Served(url, "served:app", "--drain", "0.1s") as first:
        run = client.enqueue("held", [str(gate)], queue_name="mails")
        until(lambda: _at_work(gate))
        with Served(url, "served:app") as second:
            second.hear("Ready")
            Path(f"{gate}.begun").unlink()
            first.signal(signal.SIGTERM)
            assert first.end() == 0
            until(lambda: _at_work(gate))
            gate.touch()
            assert run.result(PATIENCE) == str(gate)
