"""The test run's end of the line to a supervisor."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigurationError, Unavailable

if TYPE_CHECKING:
    import signal

    from holdfast.testing.servers.account import Account

_POLL_SECONDS = 0.01
_LOG_TAIL_BYTES = 4000


class Keeper:
    """One folder, and the one process that runs in it, in the care of a supervisor.

    The folder and the process are gone after ``close``, and also when this process ends in any way without
    it.
    """

    def __init__(self, base: Path, account: Account | None, farewell: signal.Signals) -> None:
        order = {
            "parent": os.getpid(),
            "base": str(base),
            "account": None if account is None else [account.user, account.group],
            "farewell": int(farewell),
        }
        script = Path(__file__).with_name("supervisor.py")
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script), json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C in the terminal is for the run, which then closes us
        )
        self.folder = Path(self._answer()["folder"])
        self._log_begins = 0

    def run(self, argv: list[str]) -> None:
        """Start *argv* in the folder, under the server's account, with its output in the log."""
        log = self.folder / "log"
        self._log_begins = log.stat().st_size if log.exists() else 0
        self._ask("run", argv=argv)

    def run_to_end(self, argv: list[str], *, seconds: float) -> None:
        """Run a tool; ``ConfigurationError`` with its output if it fails or takes longer than *seconds*."""
        self.run(argv)
        if self.wait(seconds) is None:
            self.kill()
            raise ConfigurationError(f"{argv[0]} was not done after {seconds:g} s. Its last output:\n{self.log_tail()}")
        if code := self.exit_code():
            raise ConfigurationError(f"{argv[0]} ended with code {code}. Its last output:\n{self.log_tail()}")

    def wait(self, seconds: float) -> int | None:
        """Return the exit code of what was started, or None if it still runs after *seconds*."""
        deadline = time.monotonic() + seconds
        while (code := self.exit_code()) is None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return code

    def exit_code(self) -> int | None:
        """Return None while the process runs, its exit code afterwards."""
        code: int | None = self._ask("poll")["code"]
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send *number* to the process."""
        self._ask("signal", number=int(number))

    def kill(self) -> None:
        """SIGKILL the process and all it has started; return when they are gone. The folder stays."""
        self._ask("kill")

    def log_tail(self) -> str:
        """Return the last that the process has written since it was started."""
        log = self.folder / "log"
        if not log.exists():
            return "(nothing was written)"
        with log.open("rb") as file:
            file.seek(max(self._log_begins, log.stat().st_size - _LOG_TAIL_BYTES))
            return file.read().decode(errors="replace")

    def close(self) -> None:
        """End the process and remove the folder; return when that is done. Closing again does nothing."""
        with self._lock, contextlib.suppress(BrokenPipeError):
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
        self._process.wait()

    def _ask(self, verb: str, **rest: Any) -> dict[str, Any]:
        with self._lock:
            if self._process.stdin is None or self._process.stdin.closed:
                raise Unavailable("The server's supervisor has been closed. Make a new server.")
            self._process.stdin.write(json.dumps({"verb": verb, **rest}) + "\n")
            self._process.stdin.flush()
            answer = self._answer()
        if "error" in answer:
            raise ConfigurationError(str(answer["error"]))
        return answer

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise Unavailable("The server's supervisor has ended. Was it killed? Make a new server.")
        answer: dict[str, Any] = json.loads(line)
        return answer
