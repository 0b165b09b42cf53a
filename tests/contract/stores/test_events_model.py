"""The event log against a model of lists: whatever is done to it, in whatever order, both say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import SequenceConflict
from holdfast.testing.contract.store_events import empty, open_store

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

_STREAMS = st.sampled_from(["a", "b"])
_APPEND = st.tuples(st.just("append"), _STREAMS, st.lists(st.integers(), max_size=3), st.sampled_from([None, 0, 1]))
_READ = st.tuples(st.just("read"), _STREAMS, st.integers(-1, 9), st.sampled_from([None, 0, 2]))
_DELETE = st.tuples(st.just("delete"))
_WORK = st.lists(st.one_of(_APPEND, _APPEND, _READ, _DELETE), max_size=12)


BACKENDS = ("sqlite", "postgres", "mariadb", "file")


class _Model:
    """Streams as lists of what is left, and how far they have counted."""

    def __init__(self) -> None:
        self.events: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
        self.last = {"a": 0, "b": 0}

    def append(self, key: str, data: list[int], behind: int | None) -> list[int] | int:
        """Return the numbers, or the number that is there if *behind* so many others was expected and is not so."""
        if behind:
            return self.last[key]
        first = self.last[key] + 1
        self.last[key] += len(data)
        self.events[key] += [(first + at, each) for at, each in enumerate(data)]
        return list(range(first, first + len(data)))

    def delete(self) -> int:
        deleted = sum(len(events) for events in self.events.values())
        self.events = {"a": [], "b": []}
        return deleted


async def _agree(store: Any, model: _Model, step: tuple[Any, ...]) -> None:
    verb, *rest = step
    if verb == "append":
        key, data, behind = rest
        expected = None if behind is None else max(0, model.last[key] - behind)
        behind = None if expected is None else model.last[key] - expected
        try:
            events = await store.append(key, [{"type": "e", "data": each} for each in data], expected_sequence=expected)
            told: Any = [event["sequence"] for event in events]
        except SequenceConflict as conflict:
            told = conflict.present
        assert told == model.append(key, data, behind)
    elif verb == "read":
        key, after, limit = rest
        found = await store.get_after(key, after, limit=limit)
        wanted = [each for each in model.events[key] if each[0] > after][:limit]
        assert [(event["sequence"], event["data"]) for event in found] == wanted
    else:
        assert await store.delete_before("2999-01-01T00:00:00Z") == model.delete()
    for key, events in model.events.items():
        assert (await store.count(key), await store.last_sequence(key)) == (len(events), model.last[key])
    assert await store.stream_keys() == sorted(key for key, events in model.events.items() if events)


def test_event_log_agrees_with_its_model(store_venue: StoreVenue) -> None:
    @settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(_WORK)
    def compare(work: list[tuple[Any, ...]]) -> None:
        async def scene(ground: Ground) -> None:
            store, model = await open_store(ground), _Model()
            if not ground.venue.is_sql:
                await store.delete_before("2999-01-01T00:00:00Z")
                model.last = {key: await store.last_sequence(key) for key in model.last}
            for step in work:
                await _agree(store, model, step)

        store_venue.play(scene, empty=empty(store_venue))

    compare()
