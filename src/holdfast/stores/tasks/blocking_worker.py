"""The worker for code without an event loop."""

from __future__ import annotations

import signal
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from holdfast.db.signals import telling
from holdfast.stores.blocking import Blocking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.db.portal import Portal
    from holdfast.stores.tasks.worker import TaskWorker


class SyncTaskWorker(Blocking):
    """A worker whose ``run`` blocks the calling thread; its loop is *portal*'s."""

    def __init__(self, store: TaskWorker, portal: Portal) -> None:
        super().__init__(portal)
        self._store = store

    def run(self, *, signals: bool = False) -> None:
        """Work until ``stop`` is called; a worker runs once.

        With *signals* SIGTERM and SIGINT stop it too, and a second one ends the grace. Cancelling stops it without
        grace.
        """
        with self._signalled() if signals else nullcontext():
            self._call(self._store.run())

    def stop(self, *, now: bool = False) -> None:
        """Take no more tasks, and return from ``run`` when those at hand are done; with *now* without grace.

        From any thread, and as often as you like.
        """
        self._store.stop(now=now)

    @contextmanager
    def _signalled(self) -> Iterator[None]:
        """Stop when signals come; only the main thread can ask for them."""
        heard = 0

        def stop(_number: int) -> None:
            nonlocal heard
            heard += 1
            self._store.stop(now=heard > 1)

        with telling((signal.SIGTERM, signal.SIGINT), stop):
            yield


__all__ = ["SyncTaskWorker"]
