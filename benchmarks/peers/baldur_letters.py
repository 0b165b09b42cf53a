"""Dead letters of Baldur, one call after the other.

memory | sqlite:///... | postgresql://... | redis://..., then how many CALLS.
"""

import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

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
ids: list[str] = []
data = {"x": "y" * 200}
create = timed(
    lambda _: ids.append(letters.create(domain="d", failure_type="t", error_message="boom", request_data=data).id),
    range(calls),
)


def replay(entry: str) -> None:
    assert letters.try_acquire_for_replay(entry, 3) is not None
    assert letters.complete_replay(entry, True, resolution_type="replayed")


print(json.dumps({"create": create, "replay": timed(replay, ids)}))
os._exit(0)
