"""A fleet opens and closes together: by word of each other where there is one, and by looking often enough if not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.model.breaker import CircuitBreakerStateData
from holdfast.stores.breakers.watching import POLL_EVERY, Sighting, Watching
from holdfast.testing.contract.store_breakers_shared import Process, play
from holdfast.testing.contract.store_breakers_stage import open_breakers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "redis")
CLOSED = CircuitBreakerStateData(service_name="api")


def test_fleet_that_never_polls_opens_and_closes_together_by_hints(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        one, other = [
            Process(ground, await open_breakers(ground, only_hints=True), open_for=0.1, successes=1) for _ in range(2)
        ]
        await one.call()
        await other.call()
        await one.fail(2)
        await other.until("open")
        await other.try_until_closed()
        await one.until("closed")
        await other.breakers.atomic_force_open("api", "maintenance")
        await one.until("open")

    play(store_venue, scene)


class _Hints:
    def __init__(self, *, alive: bool) -> None:
        self.alive = alive

    def tell(self) -> None:
        """Do nothing."""


async def _look(_: Any) -> Sequence[Sighting]:
    return []


@pytest.mark.parametrize(
    ("alive", "state", "away", "seldom"),
    [
        (None, "closed", False, False),  # MariaDB, or no application: nobody would tell
        (False, "closed", False, False),
        (True, "closed", False, True),
        (True, "open", False, False),  # waiting for the end of something: a hint that is lost must not cost much
        (True, "half_open", False, False),
        (True, "closed", True, False),  # waiting for the storage
    ],
)
def test_process_looks_within_a_second_unless_it_is_at_rest_and_would_be_told(
    alive: bool | None, state: str, away: bool, seldom: bool
) -> None:
    watching = Watching(_look)
    watching.hints = None if alive is None else _Hints(alive=alive)
    watching._last["api"] = Sighting("api", "1", replace(CLOSED, state=state), datetime.now(UTC))
    watching._away = away
    assert POLL_EVERY < 1
    assert watching.patience() == (5.0 if seldom else POLL_EVERY)
