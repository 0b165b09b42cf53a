"""Both colours of the repositories of breakers have the same methods, signatures and docstrings."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

import pytest

from holdfast.db import ConnectionManager
from holdfast.stores import (
    AsyncCircuitBreakerStateRepository,
    AsyncInMemoryCircuitBreakerStateRepository,
    AsyncSQLCircuitBreakerStateRepository,
    CircuitBreakerStateRepository,
    InMemoryCircuitBreakerStateRepository,
    RedisCircuitBreakerStateRepository,
    SQLCircuitBreakerStateRepository,
)

if TYPE_CHECKING:
    from pathlib import Path

SYNC = (
    CircuitBreakerStateRepository,
    InMemoryCircuitBreakerStateRepository,
    RedisCircuitBreakerStateRepository,
    SQLCircuitBreakerStateRepository,
)
METHODS = sorted(name for name in vars(AsyncCircuitBreakerStateRepository) if not name.startswith("_"))


def test_sync_face_lacks_only_what_needs_a_loop() -> None:
    sync = {name for name in vars(CircuitBreakerStateRepository) if not name.startswith("_")}
    assert sync == set(METHODS) - {"watch"}
    assert len(sync) > 18


@pytest.mark.parametrize("kind", SYNC)
@pytest.mark.parametrize("name", [name for name in METHODS if name != "watch"])
def test_method_is_the_same_in_both_colours(kind: type, name: str) -> None:
    sync, asynchronous = getattr(kind, name), getattr(AsyncCircuitBreakerStateRepository, name)
    assert inspect.signature(sync) == inspect.signature(asynchronous)
    assert inspect.getdoc(sync) == inspect.getdoc(asynchronous)
    assert inspect.iscoroutinefunction(asynchronous)
    assert not inspect.iscoroutinefunction(sync)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("atomic_force_open", "service_name, reason='', controlled_by_id=None, ttl_minutes=90"),
        ("atomic_force_close", "service_name, reason='', controlled_by_id=None"),
        ("atomic_reset", "service_name, reason='', controlled_by_id=None"),
        ("set_manual_control", "service_name, state, controlled_by_id=None, reason='', expires_at=None"),
        ("clear_manual_control", "service_name, preserve_reason=False"),
        ("try_acquire_half_open_slot", "service_name, limit, stuck_timeout_seconds"),
        ("record_success_with_close_check", "service_name, success_threshold"),
        ("get_open_states", "limit=None"),
    ],
)
def test_documented_parameters_come_first_and_in_order(name: str, parameters: str) -> None:
    positional = [
        str(each.replace(annotation=each.empty)).replace("'", "'")
        for each in inspect.signature(getattr(CircuitBreakerStateRepository, name)).parameters.values()
        if each.kind is each.POSITIONAL_OR_KEYWORD and each.name != "self"
    ]
    assert ", ".join(positional) == parameters


def test_repositories_are_open_within_a_block(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/breakers.db"
    for made in (InMemoryCircuitBreakerStateRepository(), SQLCircuitBreakerStateRepository(url)):
        with made as breakers:
            assert breakers is made
            assert breakers.get_or_create("mail").is_closed

    async def scene() -> None:
        async with ConnectionManager(url) as manager:
            for made in (AsyncInMemoryCircuitBreakerStateRepository(), AsyncSQLCircuitBreakerStateRepository(manager)):
                async with made as breakers:
                    assert breakers is made
                    assert (await breakers.get_or_create("mail")).is_closed

    asyncio.run(scene())


def test_repository_of_ones_own_must_have_every_method() -> None:
    class Half(CircuitBreakerStateRepository):
        """Has none of them."""

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]
