"""Idempotency stores do what a small model in memory does, whatever is asked of them in whatever order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import ClaimLost
from holdfast.stores import InMemoryIdempotencyStore
from holdfast.testing.contract.store_ground import elsewhere
from holdfast.testing.contract.store_idempotency import TABLES, open_store

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb", "redis")
KEYS, MARKS, TOKENS = st.sampled_from("ab"), st.sampled_from("fg"), st.sampled_from(["t1", "t2"])
SPANS = st.sampled_from([10, 100])
CALLS = st.one_of(
    st.tuples(st.just("claim"), KEYS, MARKS, TOKENS, SPANS),
    st.tuples(st.just("store"), KEYS, st.one_of(st.none(), TOKENS), st.integers(0, 1), SPANS),
    st.tuples(st.just("release"), KEYS, st.one_of(st.none(), TOKENS)),
    st.tuples(st.just("extend"), KEYS, TOKENS, SPANS),
    st.tuples(st.just("set"), KEYS, MARKS, SPANS),
    st.tuples(st.just("get"), KEYS),
    st.tuples(st.just("advance"), st.sampled_from([6, 60, 90_000])),
    st.tuples(st.just("cleanup")),
)


async def answer(store: Any, verb: str, *given_: Any) -> Any:  # noqa: PLR0911 -- one line a call
    """Do one call and return what can be compared."""
    match verb, given_:
        case "claim", (key, mark, token, span):
            claim = await store.claim(key, mark, token=token, lease_seconds=span, note=f"{token}'s")
            return claim.state, claim.note, _shown(claim.entry)
        case "store", (key, token, data, span):
            try:
                await store.store_result(key, data, token=token, ttl_seconds=span)
            except ClaimLost:
                return "lost"
            return "stored"
        case "release", (key, token):
            return await store.release_claim(key, token=token)
        case "extend", (key, token, span):
            return await store.extend_claim(key, token=token, lease_seconds=span)
        case "set", (key, mark, span):
            return await store.set(key, mark, "set", ttl_seconds=span)
        case "get", (key,):
            return _shown(await store.get(key))
        case _:
            return await store.cleanup()


def _shown(entry: Any) -> Any:
    return entry and [entry[name] for name in ("fingerprint", "response_data", "status_code", "headers")]


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(CALLS, min_size=10, max_size=40))
def test_every_store_does_as_the_model(store_venue: StoreVenue, calls: list[tuple[Any, ...]]) -> None:
    async def scene(ground: Ground) -> None:
        store, model = await open_store(ground), InMemoryIdempotencyStore(world=ground.world)
        for number, (verb, *more) in enumerate(calls):
            if verb == "advance":
                await ground.advance(more[0])
                continue
            theirs = await elsewhere(answer(store, verb, *more))
            ours = await elsewhere(answer(model, verb, *more))
            assert theirs == ours, f"call {number}: {verb} {more}"

    store_venue.play(scene, empty=TABLES if store_venue.is_sql else ())
