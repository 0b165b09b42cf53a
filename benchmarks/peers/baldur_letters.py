"""Dead letters of Baldur, one call after the other, then by a hundred threads at once.

memory | sqlite:///... | postgresql://... | redis://..., then how many CALLS. The threads make ten times as many.
"""

import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from threading import Thread
from typing import Any

THREADS, PATIENCE = 100, 5.0
url, calls = sys.argv[1], int(sys.argv[2])
kind = url.split(":")[0]
logging.disable(logging.CRITICAL)
if kind == "redis":
    os.environ.setdefault("BALDUR_REDIS_URL", url)
import structlog  # noqa: E402 -- what follows reads the environment

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def repository() -> Any:
    """Make the peer's repository; its parts are imported where they are needed, since each needs other drivers."""
    if kind == "memory":
        from baldur.adapters.memory.failed_operation import InMemoryFailedOperationRepository

        return InMemoryFailedOperationRepository()
    if kind == "redis":
        from baldur.adapters.redis.dlq import RedisDLQRepository
        from baldur.adapters.resilient.backend import ResilientStorageBackend
        from baldur.settings.resilient_storage import ResilientStorageSettings

        backend = ResilientStorageBackend(ResilientStorageSettings(redis_url=url))
        assert backend.ensure_redis()
        assert not backend.is_degraded, backend.mode
        return RedisDLQRepository(backend)
    from baldur.adapters.sql import SQLFailedOperationRepository
    from baldur.adapters.sql.connection import build_connection_factory
    from baldur.settings.sql import infer_dialect

    made = SQLFailedOperationRepository(build_connection_factory(url), dialect=infer_dialect(url))
    for name in ("ensure_schema", "initialize"):
        if hasattr(made, name):
            getattr(made, name)()
    return made


def timed(work: Callable[[Any], Any], given: Iterable[Any]) -> float:
    spans = []
    for each in given:
        begun = time.perf_counter()
        work(each)
        spans.append(time.perf_counter() - begun)
    return statistics.median(spans) * 1000


letters = repository()
data = {"x": "y" * 200}


def create(_: object = None) -> str:
    made = letters.create(domain="d", failure_type="t", error_message="boom", request_data=data)
    return str(made.id)


def replay(entry: str) -> None:
    assert letters.try_acquire_for_replay(entry, 3) is not None
    assert letters.complete_replay(entry, True, resolution_type="replayed")


class AtOnce:
    """Calls by a hundred threads: milliseconds of each that went well, and the share of those that failed."""

    def __init__(self, work: Callable[[Any], Any], given: Iterable[Any]) -> None:
        self.work, self.left = work, iter(given)
        self.done: list[Any] = []
        self.failed = 0
        self.until = time.monotonic() + PATIENCE
        threads = [Thread(target=self._run) for _ in range(THREADS)]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.ms = (time.perf_counter() - begun) * 1000 / max(1, len(self.done))

    def _run(self) -> None:
        for each in self._mine():
            try:
                self.done.append(self.work(each))
            except Exception:  # noqa: BLE001 -- whatever the peer raises: it is counted
                self.failed += 1

    def _mine(self) -> Iterator[Any]:
        while time.monotonic() < self.until:
            try:
                yield next(self.left)
            except StopIteration:
                return


ids: list[str] = []
alone = {"create": timed(lambda _: ids.append(create()), range(calls)), "replay": timed(replay, ids)}
made = AtOnce(create, range(10 * calls))
replayed = AtOnce(replay, list(made.done))
failed = (made.failed + replayed.failed) / max(1, made.failed + replayed.failed + len(made.done) + len(replayed.done))
together = {"create, at once": made.ms, "replay, at once": replayed.ms, "failed": failed}
print(json.dumps(alone | together))
os._exit(0)
