"""The test's end of the line to a mother."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

from holdfast.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

# What nearly every program has imported by the time it does anything.
_NEEDED = ("holdfast", "asyncpg", "asyncmy", "redis.asyncio", "holdfast.testing.effects")


class Child:
    """A process of a nursery, to be used as a ``subprocess.Popen`` is, by one thread at a time.

    It has been waited for when ``poll`` or ``wait`` has returned its exit code, and its id is free only then.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._code: int | None = None
        self.pid = self._hear(None)

    def poll(self) -> int | None:
        """Return its exit code, or None if it lives; minus the signal that ended it, if one did."""
        try:
            return self._end(0)
        except BlockingIOError:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its exit code; ``subprocess.TimeoutExpired`` if it does not."""
        try:
            return self._end(timeout)
        except TimeoutError:
            assert timeout is not None
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout) from None

    def kill(self) -> None:
        """SIGKILL, if it lives."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _end(self, timeout: float | None) -> int:
        if self._code is None:
            self._code = self._hear(timeout)
            self._channel.close()
        return self._code

    def _hear(self, timeout: float | None) -> int:
        self._channel.settimeout(timeout)
        heard = self._channel.recv(64)
        if not heard:
            self._channel.close()
            raise Unavailable(
                "The nursery has ended, and nobody knows what becomes of its children. Was it killed? Make a new one."
            )
        return int(heard)


class Nursery:
    """Starts Python programs by forking a process that has imported what they import.

    They are processes like any other, with signals and exit codes of their own, and share nothing but what importing
    leaves behind. Not so that they could be told from a new interpreter: *options* of the interpreter are those of the
    nursery, and a variable that Python or the loader reads when a process begins (``PYTHON...``, ``LD_PRELOAD``) comes
    too late. What is to be shown about the start of a process needs an interpreter of its own.
    """

    def __init__(self, *options: str) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, *options, str(Path(__file__).with_name("mother.py")), str(theirs.fileno())]
            self._process = subprocess.Popen(
                [*command, *_NEEDED],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    @property
    def pid(self) -> int:
        """The id of the process that forks."""
        return self._process.pid

    def start(
        self,
        program: Path,
        *words: str,
        streams: tuple[IO[bytes] | int, IO[bytes] | int, IO[bytes] | int],
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Child:
        """Run *program* with *words* as its arguments; *streams* are its standard input, output and error."""
        order = {
            "program": str(program),
            "words": words,
            "environment": dict(os.environ if environment is None else environment),
            "folder": str(folder or Path.cwd()),
        }
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            numbers = [each if isinstance(each, int) else each.fileno() for each in streams]
            socket.send_fds(self._line, [json.dumps(order).encode()], [*numbers, theirs.fileno()])
        return Child(ours)

    def run(
        self,
        program: Path,
        *words: str,
        given: str = "",
        timeout: float,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run *program* to its end; one that is not done after *timeout* is killed."""
        with ExitStack() as files:
            stdin, stdout, stderr = (files.enter_context(TemporaryFile()) for _ in range(3))
            stdin.write(given.encode())
            stdin.seek(0)
            streams = (stdin, stdout, stderr)
            child = self.start(program, *words, streams=streams, environment=environment, folder=folder)
            try:
                code = child.wait(timeout)
            finally:
                child.kill()
                child.wait()
            stdout.seek(0)
            stderr.seek(0)
            return subprocess.CompletedProcess(
                [str(program), *words], code, stdout.read().decode(), stderr.read().decode()
            )

    def close(self) -> None:
        """Take no more orders. Children that live go on, and nobody learns how they end."""
        self._line.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
