"""The gate for applications without an event loop: the same one, on a loop in a thread of its own."""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING

from holdfast.db.portal import Portal
from holdfast.stores.idempotency.blocking import SyncIdempotencyStore
from holdfast.web.gate import Gate, Pass

if TYPE_CHECKING:
    from holdfast.web.core import Answer, Request, Rules


class BlockingGate:
    """A ``Gate`` called from threads. A store that is named by a URL is opened in each process that asks for it.

    So a server may fork its workers after the application was made. It is closed when its process ends, at the latest:
    servers do not tell a WSGI application, nor a middleware of Django, that all is over.
    """

    def __init__(self, rules: Rules, store: SyncIdempotencyStore | str | os.PathLike[str]) -> None:
        self.rules = rules
        self._given = store
        self._gate()  # a store that cannot be is refused here, and not at the first request
        self._opening = threading.Lock()
        self._open: tuple[int, Portal, Gate] | None = None

    def enter(self, key: str, request: Request, body: bytes) -> Pass | Answer:
        """Claim the key of a request; return the pass with which it may happen, or the answer it gets without that."""
        portal, gate = self._here()
        return portal.call(gate.enter(key, request, body))

    def leave(self, granted: Pass, answer: Answer, *, keep: bool = True) -> None:
        """Store the application's answer, or free the key if answers of its status are not stored."""
        self._here()[0].call(granted.leave(answer, keep=keep))

    def abandon(self, granted: Pass) -> None:
        """Free the key; nothing after ``leave``."""
        self._here()[0].call(granted.abandon())

    def close(self) -> None:
        """Close what was opened here; it opens again when needed."""
        with self._opening:
            opened, self._open = self._open, None
        if opened is None or isinstance(self._given, SyncIdempotencyStore):
            return
        atexit.unregister(self.close)
        if opened[0] == os.getpid():
            opened[1].call(opened[2].close())
            opened[1].stop()

    def _here(self) -> tuple[Portal, Gate]:
        with self._opening:
            if self._open is None or self._open[0] != os.getpid():
                self._open = (os.getpid(), *self._made())
            return self._open[1:]

    def _made(self) -> tuple[Portal, Gate]:
        if isinstance(self._given, SyncIdempotencyStore):
            return self._given.portal, self._gate()
        portal = Portal("holdfast-web")
        portal.start()
        atexit.register(self.close)
        return portal, self._gate()

    def _gate(self) -> Gate:
        return Gate(self.rules, self._given.store if isinstance(self._given, SyncIdempotencyStore) else self._given)


__all__ = ["BlockingGate"]
