"""Any sequence of calls does the same on every backend as in memory: the storages add nothing of their own."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.stores import AsyncInMemoryCircuitBreakerStateRepository, OpenTime
from holdfast.testing.contract.store_breakers_stage import TABLES, open_breakers

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb", "redis")

NAMES = st.sampled_from(["one", "two"])
TOKENS = st.sampled_from(["a", "b", "c"])
STATES = st.sampled_from(["closed", "open", "half_open"])
TIMES = OpenTime(base=timedelta(seconds=10), backoff=2)
CALLS = st.one_of(
    st.tuples(
        st.sampled_from(["get_or_create", "record_failure", "record_success", "reset", "delete_state", "atomic_reset"]),
        NAMES,
        st.just({}),
    ),
    st.tuples(
        st.just("update_state"),
        NAMES,
        st.fixed_dictionaries(
            {"state": STATES},
            optional={
                "failure_count": st.integers(0, 9),
                "half_open_request_count": st.integers(0, 4),
                "reset_half_open_count": st.booleans(),
            },
        ),
    ),
    st.tuples(st.just("trip_to_open"), NAMES, st.just({"failure_count": 5, "open_time": TIMES})),
    st.tuples(
        st.just("try_acquire_half_open_slot"),
        NAMES,
        st.fixed_dictionaries({"limit": st.integers(0, 3), "stuck_timeout_seconds": st.just(3600), "token": TOKENS}),
    ),
    st.tuples(
        st.just("record_success_with_close_check"),
        NAMES,
        st.fixed_dictionaries({"success_threshold": st.integers(1, 3)}, optional={"token": TOKENS}),
    ),
    st.tuples(
        st.just("record_failure_with_open_check"),
        NAMES,
        st.fixed_dictionaries({"open_time": st.just(TIMES)}, optional={"token": TOKENS}),
    ),
    st.tuples(st.just("release_half_open_slot"), NAMES, st.fixed_dictionaries({"token": TOKENS})),
    st.tuples(st.just("atomic_force_open"), NAMES, st.fixed_dictionaries({"ttl_minutes": st.sampled_from([None, 5])})),
    st.tuples(
        st.sampled_from(["atomic_force_close", "clear_manual_control", "reset_half_open_count"]), NAMES, st.just({})
    ),
    st.tuples(
        st.just("set_manual_control"), NAMES, st.fixed_dictionaries({"state": STATES}, optional={"reason": st.text()})
    ),
)


def _timeless(answer: Any) -> Any:
    """Return what an answer says apart from the moments in it, which no two clocks share."""
    if hasattr(answer, "state") and hasattr(answer.state, "version"):
        return (
            type(answer).__name__,
            _timeless(answer.state),
            getattr(answer, "did_close", None) or getattr(answer, "did_open", None),
        )
    if not hasattr(answer, "version"):
        return answer
    moments = ("last_failure_at", "opened_at", "manual_override_expires_at", "half_open_window_started_at", "retry_at")
    plain = ("state", "failure_count", "success_count", "manually_controlled", "control_reason", "epoch", "version")
    return (
        [getattr(answer, name) for name in (*plain, "half_open_request_count", "open_count")],
        [getattr(answer, name) is None for name in moments],
        [slot.token for slot in answer.slots],
    )


def test_any_sequence_of_calls_does_the_same_as_in_memory(store_venue: StoreVenue) -> None:
    @settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
    @given(calls=st.lists(CALLS, min_size=20, max_size=30))
    def same(calls: list[tuple[str, str, dict[str, Any]]]) -> None:
        async def scene(ground: Ground) -> None:
            stored, model = await open_breakers(ground), AsyncInMemoryCircuitBreakerStateRepository()
            for verb, name, options in calls:
                expected = _timeless(await getattr(model, verb)(name, **options))
                assert _timeless(await getattr(stored, verb)(name, **options)) == expected, (verb, name, options)
            for listing in ("get_all_states", "get_open_states"):
                found, wanted = [
                    [(each.service_name, _timeless(each)) for each in await getattr(repository, listing)()]
                    for repository in (stored, model)
                ]
                assert found == wanted
            for name in ("one", "two"):
                told = [
                    [
                        (each.event, each.from_state, each.to_state, each.epoch)
                        for each in await repository.get_history(name)
                    ]
                    for repository in (stored, model)
                ]
                assert told[0] == told[1]

        store_venue.play(scene, empty=TABLES if store_venue.is_sql else ())

    same()
