"""A ledger of effects that the engine knows nothing of: a file that steps append to.

It stands for the world outside, where an e-mail was sent or a card charged. A line is appended in one write, so that
lines of many processes do not mix and the order of the file is the order of the effects.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path


class Effect(NamedTuple):
    """One line: which run did what, by which token, in which process."""

    run_id: str
    what: str
    token: str
    pid: int


class Effects:
    """The ledger at *path*. A line that was appended stays, also when its process is killed right after."""

    def __init__(self, path: Path | str) -> None:
        self._path = path

    def append(self, run_id: str, what: str, token: str) -> None:
        """Have an effect."""
        line = f"{run_id}\t{what}\t{token}\t{os.getpid()}\n".encode()
        ledger = os.open(self._path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        try:
            os.write(ledger, line)
        finally:
            os.close(ledger)

    def all(self) -> list[Effect]:
        """Return everything that happened, in order; not what is being written just now, whose line is not whole."""
        try:
            with open(self._path, encoding="utf-8") as ledger:  # noqa: PTH123 -- a Path or a text
                lines = ledger.read().rpartition("\n")[0].splitlines()
        except FileNotFoundError:
            return []
        return [Effect(run, what, token, int(pid)) for run, what, token, pid in (line.split("\t") for line in lines)]

    def of(self, run_id: str) -> list[Effect]:
        """Return what one run did, in order."""
        return [effect for effect in self.all() if effect.run_id == run_id]
