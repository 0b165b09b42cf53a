"""A store that is handed a URL, where it wants the way to its database, says what to write instead."""

from __future__ import annotations

import re
from typing import Any

import pytest

import holdfast.stores as stores_
from holdfast.db import SyncConnectionManager
from holdfast.errors import ConfigurationError

SQL = [
    stores_.AsyncSQLCircuitBreakerStateRepository,
    stores_.AsyncSQLFailedOperationRepository,
    stores_.DBCheckpointStore,
    stores_.DBDeadLetterQueue,
    stores_.DBEventStoreBackend,
    stores_.DBExecutionStore,
    stores_.DBIdempotencyStore,
    stores_.SQLLockStore,
    stores_.SQLTaskQueue,
]
REDIS = [
    stores_.AsyncRedisCircuitBreakerStateRepository,
    stores_.AsyncRedisDLQRepository,
    stores_.RedisIdempotencyStore,
    stores_.RedisLockStore,
    stores_.RedisTaskQueue,
]


@pytest.mark.parametrize(
    ("kind", "wanted"), [*((each, "ConnectionManager") for each in SQL), *((each, "RedisLink") for each in REDIS)]
)
def test_url_in_place_of_the_way_to_a_database_is_refused_with_what_to_write(kind: Any, wanted: str) -> None:
    instead = re.escape(f"write {kind.__name__}({wanted}(url))")
    with pytest.raises(ConfigurationError, match=f"wants a {wanted}, not a URL or a path: {instead}") as caught:
        kind("postgresql://me:hunter2@localhost/shop")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="not a NoneType"):
        kind(None)


@pytest.mark.parametrize("kind", SQL)
def test_manager_of_the_other_colour_is_refused(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="wants a ConnectionManager, not a SyncConnectionManager"):
        kind(SyncConnectionManager("sqlite:///never.db"))
