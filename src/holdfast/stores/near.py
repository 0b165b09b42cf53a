"""Stores in a SQLite file, for threads that wait anyway: a single write they make themselves, and wake no other thread.

To wake the thread of the store's loop, which wakes the writer's, and to be woken by it, takes longer than the write.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from holdfast.stores.opened import Opened

if TYPE_CHECKING:
    from typing import Self

    from holdfast.stores.commits import Commits, ThreadCommits


class Near(Opened):
    """A store that writes through its ``_commits``."""

    _commits: Commits | ThreadCommits
    _nearby: tuple[ThreadCommits, Self] | None = None

    def _near(self) -> Self | None:
        commits = self._commits.near()
        if commits is None:
            return None
        made = self._nearby
        if made is None or made[0] is not commits:
            made = self._nearby = commits, self._on(commits)  # of two threads each may make one: they are alike
        return made[1]

    def _on(self, commits: ThreadCommits) -> Self:
        """Return this store, writing through *commits*."""
        nearby = copy(self)
        nearby._commits = commits  # noqa: SLF001 -- one of this class
        return nearby


__all__ = ["Near"]
