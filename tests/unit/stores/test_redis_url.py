"""The URL of a Redis server: what cannot be meant is refused where the link is made, and no secret leaves it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ConfigurationError, InvalidURL
from holdfast.stores import (
    AsyncRedisCircuitBreakerStateRepository,
    AsyncRedisDLQRepository,
    RedisCheckpointBackend,
    RedisIdempotencyStore,
    RedisLockStore,
    RedisTaskQueue,
)
from holdfast.stores.redis import RedisLink
from holdfast.stores.redis_blocking import BlockingRedisLink
from holdfast.stores.redis_url import address_of

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "unspoken"


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost/prod",
        "redis://localhost/1/2",
        "redis://localhost/-1",
        "redis://localhost?db=x",
        "redis://localhost/0?decode_responses=True",
        "redis://[::1/0",
        None,
    ],
)
@pytest.mark.parametrize("link", [RedisLink, BlockingRedisLink, RedisCheckpointBackend.from_url])
def test_url_that_cannot_be_meant_is_refused_at_once(link: type[RedisLink], url: str) -> None:
    with pytest.raises(InvalidURL):
        link(url)


@pytest.mark.parametrize("link", [RedisLink, BlockingRedisLink])
@pytest.mark.parametrize("option", ["nonsense=1", "socket_timeout=abc"])
def test_option_that_the_driver_does_not_know_is_refused_without_the_password(
    link: type[RedisLink], option: str
) -> None:
    with pytest.raises(InvalidURL) as raised:
        asyncio.run(link(f"redis://:{SECRET}@localhost/0?{option}").initialize())
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (f"redis://app:{SECRET}@localhost:6380/2", "localhost:6380/2"),
        ("redis://localhost:6380?db=2", "localhost:6380/2"),
        (f"redis://localhost:6380/2?password={SECRET}&socket_timeout=5", "localhost:6380/2"),
        ("rediss://localhost", "localhost/0"),
        ("redis+cluster://localhost:7000/", "localhost:7000/0"),
        (f"unix://:{SECRET}@/run/redis.sock?db=1", "/run/redis.sock/1"),
    ],
)
def test_address_is_the_server_and_the_database_whoever_logs_in(url: str, address: str) -> None:
    assert address_of(url) == RedisLink(url).address == address


@pytest.mark.parametrize("prefix", ["", "}x", None, 5])
@pytest.mark.parametrize(
    "store",
    [
        *(RedisTaskQueue, RedisLockStore, RedisIdempotencyStore, AsyncRedisDLQRepository),
        AsyncRedisCircuitBreakerStateRepository,
    ],
)
def test_prefix_that_is_no_hash_tag_is_refused(store: Callable[..., object], prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="prefix"):
        store(RedisLink("redis://localhost"), prefix=prefix)


def test_backend_of_checkpoints_takes_decode_responses_as_its_document_has_it() -> None:
    RedisCheckpointBackend("localhost", 6379, decode_responses=True).close()
