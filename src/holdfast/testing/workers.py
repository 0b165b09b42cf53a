"""Worker programs as child processes of a test: spoken to by lines of JSON, killed, paused and woken at will."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import IO, Self

    from holdfast.testing.nursery import Child, Nursery

T = TypeVar("T")

PATIENCE = 60.0
_LOOK_AGAIN = 0.02


def until(condition: Callable[[], T], *, patience: float = PATIENCE) -> T:
    """Ask *condition* until it says something true, and return that; fail when patience is over."""
    deadline = time.monotonic() + patience
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"This did not come true within {patience:g} s: {condition}"
        time.sleep(_LOOK_AGAIN)
    return answer


class Worker:
    """A program that is told what to do on its standard input and answers on its standard output, JSON by the line.

    It is born in the *nursery*, if there is one; with an *environment*, which is added to that of this process, it is
    a Python of its own, since some variables are read only when Python begins. Leaving the ``with`` block kills it, if
    it still lives.
    """

    def __init__(
        self,
        program: Path,
        nursery: Nursery | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> None:
        self._log = TemporaryFile("a+b")  # noqa: SIM115 -- closed with the worker; reading must not move its writes
        hears, tells = os.pipe()
        listens, says = os.pipe()
        self._mouth = os.fdopen(tells, "w")
        self._ears = os.fdopen(listens)
        try:
            self._process = _begin(program, nursery, environment, json.dumps(settings), (hears, says, self._log))
        finally:
            os.close(hears)
            os.close(says)
        self._heard: list[list[Any]] = []
        self._news = threading.Condition()
        self._ended = False
        self._ear = threading.Thread(target=self._listen, daemon=True)
        self._ear.start()

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended; a paused one lives."""
        return self._process.poll() is None

    def tell(self, *command: Any) -> None:
        """Send a command; one that has died meanwhile does not hear it."""
        try:
            self._mouth.write(json.dumps(command) + "\n")
            self._mouth.flush()
        except BrokenPipeError:
            return

    def hear(self, *beginning: Any, patience: float = PATIENCE) -> list[Any]:
        """Wait for an answer that begins so, and return the whole of it."""
        deadline = time.monotonic() + patience
        with self._news:
            while (answer := self._find(beginning)) is None:
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    raise AssertionError(f"Worker {self.pid} never said {beginning}; it said:\n{self.log()}")
                self._news.wait(left)
        return answer

    def heard(self, *beginning: Any) -> list[list[Any]]:
        """Return the answers so far that begin so."""
        with self._news:
            return [line for line in self._heard if line[: len(beginning)] == list(beginning)]

    def pause(self) -> None:
        """SIGSTOP; one that has died meanwhile does not hear it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT; one that has died meanwhile does not hear it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)

    def is_paused(self) -> bool:
        """Whether the operating system has stopped all of it."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8") as stat:  # noqa: PTH123 -- not a file of ours
                return stat.read().rpartition(")")[2].split()[0] == "T"
        except FileNotFoundError:
            return False

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.alive:
            self._process.kill()
        self.end()

    def end(self, *, patience: float = PATIENCE) -> int:
        """Wait until it has ended by itself; return its exit code."""
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"Worker {self.pid} does not end; it said:\n{self.log()}") from None
        self._ear.join(5)
        return code

    def log(self) -> str:
        """Return what it has answered, and the end of what it wrote to its standard error."""
        self._log.seek(0)
        return f"{self._heard[-50:]}\n{self._log.read().decode(errors='replace')[-6000:]}"

    def close(self) -> None:
        """Kill it if it still lives, and leave nothing open."""
        self.kill()
        for stream in (self._mouth, self._ears, self._log):
            with suppress(BrokenPipeError):  # it died before it was told all
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listen(self) -> None:
        for line in self._ears:
            with self._news:
                self._heard.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _find(self, beginning: tuple[Any, ...]) -> list[Any] | None:
        wanted = list(beginning)
        return next((line for line in self._heard if line[: len(wanted)] == wanted), None)


def _begin(
    program: Path,
    nursery: Nursery | None,
    environment: Mapping[str, str] | None,
    word: str,
    streams: tuple[int, int, IO[bytes]],
) -> subprocess.Popen[bytes] | Child:
    if nursery is not None and not environment:
        return nursery.start(program, word, streams=streams)
    stdin, stdout, stderr = streams
    whole = {**os.environ, **(environment or {})}
    command = [sys.executable, str(program), word]
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=whole)
