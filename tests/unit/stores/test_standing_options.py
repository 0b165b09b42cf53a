"""Options of the repositories for threads: they are of those that are made from a URL, and go nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.db.portal import Portal
from holdfast.errors import ConfigurationError, InvalidURL
from holdfast.stores import (
    AsyncRedisCircuitBreakerStateRepository,
    AsyncRedisDLQRepository,
    AsyncSQLCircuitBreakerStateRepository,
    AsyncSQLFailedOperationRepository,
    RedisCircuitBreakerStateRepository,
    RedisDLQRepository,
    RedisLink,
    SQLCircuitBreakerStateRepository,
    SQLFailedOperationRepository,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def _manager() -> ConnectionManager:
    return ConnectionManager(":memory:")


def _link() -> RedisLink:
    return RedisLink("redis://localhost")


@pytest.mark.parametrize(
    ("kind", "given", "base"),
    [
        (SQLFailedOperationRepository, AsyncSQLFailedOperationRepository, _manager),
        (RedisDLQRepository, AsyncRedisDLQRepository, _link),
        (SQLCircuitBreakerStateRepository, AsyncSQLCircuitBreakerStateRepository, _manager),
        (RedisCircuitBreakerStateRepository, AsyncRedisCircuitBreakerStateRepository, _link),
    ],
)
def test_options_beside_a_repository_that_is_there_are_refused(
    kind: Callable[..., Any], given: Callable[..., Any], base: Callable[[], Any]
) -> None:
    store = given(base())
    kind(store, Portal())
    with pytest.raises(ConfigurationError, match=rf"lease, world: .* the {type(store).__name__} is there already"):
        kind(store, Portal(), world=None, lease=5)


def test_url_that_is_none_is_refused_as_one() -> None:
    nothing: Any = None
    with pytest.raises(InvalidURL, match="URL of Redis"):
        RedisDLQRepository(nothing)
