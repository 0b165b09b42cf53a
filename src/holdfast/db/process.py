"""Which process this is, without asking the system: the question comes before every durable write."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Heir(Protocol):
    """What a forked child inherits and could not use as it is: threads and locks of its parent, places on its loop."""

    def forked(self) -> None:
        """Be fit for the child; called there before anything else runs, so on its only thread. Must not wait."""


class _Process:
    """The running process. A child made by ``os.fork`` is another one."""

    def __init__(self) -> None:
        self.inherited: list[object] = []  # what a parent has open, kept here so that nothing closes it
        self._heirs: WeakSet[Heir] = WeakSet()
        self.pid = os.getpid()
        os.register_at_fork(after_in_child=self._forked)

    def tell(self, heir: Heir) -> None:
        """Have ``heir.forked()`` called in every forked child for as long as *heir* lives."""
        self._heirs.add(heir)

    def _forked(self) -> None:
        self.pid = os.getpid()
        for heir in list(self._heirs):
            heir.forked()


this_process = _Process()

__all__ = ["Heir", "this_process"]
