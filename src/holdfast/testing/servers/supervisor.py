"""A process that stands between a test run and its database server, so that no server outlives the run.

It makes the server's folder, starts the server and, when the run closes the pipe to it *or is gone* (killed
with SIGKILL too), ends the server with all its children and removes the folder. It is run as a plain script
with nothing but the standard library, and must import nothing of ours.

Requests and answers are JSON lines on standard input and output; every request gets one answer.

``{"verb": "run", "argv": [...]}``    start the server or a tool; answers ``{}``, or ``{"error": "why not"}``
``{"verb": "poll"}``                  answers ``{"code": null}`` while it runs, then its exit code
``{"verb": "signal", "number": 2}``   send a signal to it; answers ``{}``
``{"verb": "kill"}``                  SIGKILL it and all it has started; answers ``{}`` when they are gone
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOOK_FOR_PARENT_EVERY = 0.5
_FAREWELL_SECONDS = 5.0


class Supervisor:
    """Owns one folder and at most one running server in it."""

    def __init__(self, base: str, account: tuple[int, int] | None, farewell: int) -> None:
        self._account = account
        self._farewell = farewell
        self._libc = ctypes.CDLL(None)
        # Adopt the children of a killed server (PostgreSQL's backends), so that they can be ended too.
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._child: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="hf-", dir=base))
        if account is not None:
            os.chown(self.folder, *account)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry *request* out."""
        match request["verb"]:
            case "run":
                return self._run(request["argv"])
            case "poll":
                return {"code": None if self._child is None else self._child.poll()}
            case "signal" if self._child is not None:
                self._child.send_signal(request["number"])
            case "kill":
                self._kill()
        return {}

    def end(self) -> None:
        """End whatever runs and remove the folder."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(self._farewell)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(_FAREWELL_SECONDS)
        self._kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, argv: list[str]) -> dict[str, Any]:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "HOME": str(self.folder)}
        with (self.folder / "log").open("ab") as log:
            try:
                self._child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    env=environment,
                    preexec_fn=self._become_account,  # noqa: PLW1509 -- this process has one thread
                )
            except (OSError, subprocess.SubprocessError) as error:
                return {"error": f"{argv[0]} could not be run: {error}"}
        return {}

    def _become_account(self) -> None:
        if self._account is not None:
            user, group = self._account
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
        # If the supervisor itself is killed, its server goes too. Only after setuid, which would clear it.
        self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    def _kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        while True:
            for orphan in _children():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(orphan, signal.SIGKILL)
            try:
                gone, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not gone:
                time.sleep(0.002)


def _children() -> list[int]:
    """Process ids whose parent is this process; /proc/self/.../children is not in every kernel."""
    mine = str(os.getpid())
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                after_name = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if after_name[1] == mine:
                    found.append(int(entry.name))
    return found


def _requests(parent: int) -> Iterator[dict[str, Any]]:
    """Yield requests until the pipe is closed or *parent* is gone.

    Both are watched: a process forked by the parent may hold the pipe open after the parent's death.
    """
    waiting = b""
    while os.getppid() == parent:
        if not select.select([sys.stdin], [], [], _LOOK_FOR_PARENT_EVERY)[0]:
            continue
        piece = os.read(sys.stdin.fileno(), 65536)
        if not piece:
            return
        *lines, waiting = (waiting + piece).split(b"\n")
        for line in lines:
            yield json.loads(line)


def _tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _ended(*_: object) -> None:
    raise SystemExit(0)


def main() -> None:
    """Serve one test run, whose order is the only argument (see ``keeper``)."""
    order = json.loads(sys.argv[1])
    account = None if order["account"] is None else (order["account"][0], order["account"][1])
    signal.signal(signal.SIGTERM, _ended)
    supervisor = Supervisor(order["base"], account, order["farewell"])
    try:
        _tell({"folder": str(supervisor.folder)})
        for request in _requests(order["parent"]):
            _tell(supervisor.answer(request))
    except BrokenPipeError:
        pass  # the parent went away between its request and our answer
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        supervisor.end()


if __name__ == "__main__":
    main()
