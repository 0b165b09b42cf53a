"""Requests deduplicated by hand: each defect of the usual implementations, and the documented rules."""

from __future__ import annotations

import asyncio
import inspect
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.errors import ConfigurationError, KeyConflict, KeyInUse
from holdfast.stores import DBIdempotencyStore
from holdfast.testing.world import VirtualWorld
from holdfast.web import RequestDeduplicator

if TYPE_CHECKING:
    from pathlib import Path

PAY: tuple[str, str, None, dict[str, int]] = ("POST", "/pay", None, {"cents": 8900})


def test_defaults_are_an_hour_and_ten_thousand_entries() -> None:
    parameters = inspect.signature(RequestDeduplicator).parameters
    assert (parameters["ttl_seconds"].default, parameters["max_cache_size"].default) == (3600, 10_000)


def test_second_request_gets_the_first_answer_until_its_time_is_over() -> None:
    async def scene() -> None:
        world = VirtualWorld()
        dedup = RequestDeduplicator(world=world)
        assert await dedup.check_duplicate(*PAY, idempotency_key="k") is None
        stored = await dedup.cache_response(
            *PAY, idempotency_key="k", response_data={"id": 1}, status_code=201, response_headers={"X-A": "b"}
        )
        assert stored is True
        await world.advance(60)
        assert await dedup.check_duplicate(*PAY, idempotency_key="k") == {
            "data": {"id": 1},
            "status_code": 201,
            "headers": {"X-A": "b"},
            "cached": True,
            "cache_age_seconds": 60.0,
        }
        await world.advance(3541)
        assert await dedup.check_duplicate(*PAY, idempotency_key="k") is None
        assert dedup.get_stats() == {"hits": 1, "misses": 2}
        await dedup.close()

    asyncio.run(scene())


def test_key_may_come_in_the_header() -> None:
    async def scene() -> None:
        dedup = RequestDeduplicator()
        headers = {"idempotency-key": "k"}
        assert await dedup.check_duplicate(*PAY, headers) is None
        await dedup.cache_response(*PAY, headers, response_data=1)
        cached = await dedup.check_duplicate(*PAY, {"Idempotency-Key": "k"})
        assert cached is not None
        assert cached["data"] == 1

    asyncio.run(scene())


def test_quoted_and_bare_headers_are_one_key() -> None:
    async def scene() -> None:
        requests = RequestDeduplicator()
        for header in ('"k"', "k"):
            found = await requests.check_duplicate("POST", "/pay", headers={"Idempotency-Key": header})
            assert (found is None) == (header == '"k"')
            if found is None:
                await requests.cache_response("POST", "/pay", headers={"Idempotency-Key": header}, response_data=1)
        for key in (5, b"k"):
            with pytest.raises(ValueError, match="is a text"):
                await requests.check_duplicate("POST", "/pay", idempotency_key=key)  # type: ignore[arg-type]

    asyncio.run(scene())


def test_request_that_is_under_way_is_not_carried_out_twice() -> None:
    async def scene() -> None:
        dedup = RequestDeduplicator()

        async def ask() -> Any:
            return await dedup.check_duplicate(*PAY, idempotency_key="k")

        answers = await asyncio.gather(*(asyncio.create_task(ask()) for _ in range(5)), return_exceptions=True)
        assert sorted(map(type, answers), key=str) == sorted([type(None), *[KeyInUse] * 4], key=str)

    asyncio.run(scene())


def test_key_with_a_changed_request_is_a_conflict() -> None:
    async def scene() -> None:
        dedup = RequestDeduplicator()
        assert await dedup.check_duplicate(*PAY, idempotency_key="k") is None
        for method, path, cents in (("PUT", "/pay", 8900), ("POST", "/other", 8900), ("POST", "/pay", 1)):
            with pytest.raises(KeyConflict) as raised:
                await dedup.check_duplicate(method, path, None, {"cents": cents}, idempotency_key="k")
            assert isinstance(raised.value, ValueError)
            assert "different request" in str(raised.value)

    asyncio.run(scene())


def test_requests_without_a_key_are_merged_only_when_asked() -> None:
    async def scene() -> None:
        dedup = RequestDeduplicator()
        assert await dedup.check_duplicate(*PAY) is None
        assert await dedup.cache_response(*PAY, response_data=1) is False
        assert await dedup.check_duplicate(*PAY) is None
        merging = RequestDeduplicator(merge_keyless=True)
        assert await merging.check_duplicate(*PAY) is None
        assert await merging.cache_response(*PAY, response_data=1) is True
        cached = await merging.check_duplicate(*PAY)
        assert cached is not None
        assert cached["data"] == 1
        assert await merging.check_duplicate("POST", "/pay", None, {"cents": 2}) is None

    asyncio.run(scene())


def test_empty_key_is_none() -> None:
    async def scene() -> None:
        dedup = RequestDeduplicator()
        for cents in (1, 2, 2):
            sent = {"Idempotency-Key": ""}
            request: Any = {"method": "POST", "path": "/pay", "body": {"cents": cents}, "headers": sent}
            assert await dedup.check_duplicate(**request) is None
            assert not await dedup.cache_response(**request, idempotency_key="", response_data=1)

    asyncio.run(scene())


@pytest.mark.parametrize(
    "settings",
    [
        {"ttl_seconds": "an hour"},
        {"ttl_seconds": 0},
        {"lease_seconds": float("nan")},
        {"max_cache_size": 0},
        {"include_headers": "X-Tenant"},
        {"include_headers": [b"X-Tenant"]},
        {"storage_backend": object()},
    ],
)
def test_setting_that_cannot_be_meant_is_refused_where_it_is_made(settings: dict[str, Any]) -> None:
    with pytest.raises((ValueError, ConfigurationError)):
        RequestDeduplicator(**settings)


def test_keys_of_different_scopes_never_meet() -> None:
    async def scene() -> None:
        dedup = RequestDeduplicator()
        for scope in ("tenant-a", "tenant-b", None):
            assert await dedup.check_duplicate(*PAY, idempotency_key="k", scope=scope) is None
            await dedup.cache_response(*PAY, idempotency_key="k", response_data=scope, scope=scope)
        cached = await dedup.check_duplicate(*PAY, idempotency_key="k", scope="tenant-a")
        assert cached is not None
        assert cached["data"] == "tenant-a"
        forged = f"{sha256(b'tenant-a').hexdigest()[:32]}:k"
        for key in (forged, f"of:{forged}"):
            assert await dedup.check_duplicate(*PAY, idempotency_key=key) is None

    asyncio.run(scene())


def test_failed_and_released_requests_may_be_tried_again() -> None:
    async def scene() -> None:
        dedup = RequestDeduplicator()
        assert await dedup.check_duplicate(*PAY, idempotency_key="k") is None
        assert await dedup.cache_response(*PAY, idempotency_key="k", response_data="no", status_code=503) is False
        assert await dedup.check_duplicate(*PAY, idempotency_key="k") is None
        assert await dedup.release(*PAY, idempotency_key="k") is True
        assert await dedup.check_duplicate(*PAY, idempotency_key="k") is None

    asyncio.run(scene())


def test_least_recently_used_answers_are_dropped_first() -> None:
    async def scene() -> None:
        dedup = RequestDeduplicator(max_cache_size=2)
        for key in ("a", "b"):
            await dedup.check_duplicate(*PAY, idempotency_key=key)
            await dedup.cache_response(*PAY, idempotency_key=key, response_data=key)
        assert await dedup.check_duplicate(*PAY, idempotency_key="a")
        await dedup.check_duplicate(*PAY, idempotency_key="c")
        await dedup.cache_response(*PAY, idempotency_key="c", response_data="c")
        assert await dedup.check_duplicate(*PAY, idempotency_key="a")
        assert await dedup.check_duplicate(*PAY, idempotency_key="b") is None

    asyncio.run(scene())


def test_cookies_of_the_first_client_are_not_stored() -> None:
    async def scene() -> None:
        dedup = RequestDeduplicator()
        await dedup.check_duplicate(*PAY, idempotency_key="k")
        await dedup.cache_response(*PAY, idempotency_key="k", response_headers={"Set-Cookie": "id=1", "X-A": "b"})
        cached = await dedup.check_duplicate(*PAY, idempotency_key="k")
        assert cached is not None
        assert cached["headers"] == {"X-A": "b"}

    asyncio.run(scene())


def test_durable_backend_answers_in_a_second_process_and_sees_its_conflicts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/keys.db"

    async def first() -> None:
        async with ConnectionManager(url) as manager, DBIdempotencyStore(manager) as store:
            dedup = RequestDeduplicator(storage_backend=store)
            assert await dedup.check_duplicate(*PAY, idempotency_key="k") is None
            await dedup.cache_response(*PAY, idempotency_key="k", response_data={"id": 1})

    async def second() -> None:
        async with ConnectionManager(url) as manager, DBIdempotencyStore(manager) as store:
            dedup = RequestDeduplicator(storage_backend=store)
            cached = await dedup.check_duplicate(*PAY, idempotency_key="k")
            assert cached is not None
            assert cached["data"] == {"id": 1}
            assert cached["cache_age_seconds"] >= 0
            with pytest.raises(KeyConflict):
                await dedup.check_duplicate("POST", "/other", idempotency_key="k")

    asyncio.run(first())
    asyncio.run(second())
