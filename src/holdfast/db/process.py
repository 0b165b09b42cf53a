"""Which process this is, without asking the system: the question comes before every durable write."""

from __future__ import annotations

import os


class _Process:
    """The running process. A child made by ``os.fork`` is another one."""

    def __init__(self) -> None:
        self.inherited: list[object] = []  # what a parent has open, kept here so that nothing closes it
        self._look()
        os.register_at_fork(after_in_child=self._look)

    def _look(self) -> None:
        self.pid = os.getpid()


this_process = _Process()

__all__ = ["this_process"]
