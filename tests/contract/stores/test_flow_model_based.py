"""Flow checkpoints beside a dictionary: whatever is done in whatever order, every backend agrees with it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.errors import NotFoundError, StaleCheckpoint
from holdfast.stores import CheckpointStatus, FlowCheckpoint, from_url
from holdfast.stores.flow.retention import deletable
from holdfast.stores.flow.shelf import Card
from holdfast.testing.contract.store_flow_stage import NOON

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.stores import CheckpointBackend

IDS, FLOWS, RUNS = ("1", "2", "3", "4"), ("f", "g"), ("r", "s")
ACTIONS = st.one_of(
    st.tuples(
        st.just("save"),
        st.sampled_from(IDS),
        st.sampled_from(FLOWS),
        st.sampled_from(RUNS),
        st.sampled_from(CheckpointStatus),
        st.integers(0, 3),
    ),
    st.tuples(st.just("update"), st.sampled_from(IDS), st.sampled_from(CheckpointStatus), st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from(IDS)),
    st.tuples(st.just("claim"), st.sampled_from(IDS)),
    st.tuples(st.just("cleanup"), st.sampled_from(FLOWS), st.integers(0, 3)),
)


class Model:
    """What should be there."""

    def __init__(self) -> None:
        self.cards: dict[str, Card] = {}
        self.held: set[str] = set()
        self.count = 0

    def save(self, made: FlowCheckpoint) -> str:
        there = self.cards.get(made.id)
        if there is None and made.revision:
            return "missing"
        if there is not None and (there.revision, there.flow_id) != (made.revision, made.flow_id):
            return "stale"
        self.count += there is None
        sequence = self.count if there is None else there.sequence
        created = made.created_at.isoformat() if there is None else there.created_at
        fields = (made.id, made.flow_id, made.run_id, made.run_id, made.status.value, None, created, "", None)
        self.cards[made.id] = Card(*fields, made.revision + 1, b"", sequence)
        return "stored"

    def delete(self, checkpoint_id: str) -> bool:
        self.held.discard(checkpoint_id)
        return self.cards.pop(checkpoint_id, None) is not None

    def claim(self, checkpoint_id: str) -> bool:
        there = self.cards.get(checkpoint_id)
        if there is None or checkpoint_id in self.held or there.status in {"completed", "canceled"}:
            return False
        self.held.add(checkpoint_id)
        self.cards[checkpoint_id] = there._replace(revision=there.revision + 1)
        return True

    def listed(self, **wanted: str) -> list[Card]:
        found = [card for card in self.cards.values() if all(getattr(card, key) == wanted[key] for key in wanted)]
        return sorted(found, key=lambda card: (card.created_at, card.sequence), reverse=True)

    def cleanup(self, flow: str, keep: int) -> int:
        going = deletable(self.listed(flow_id=flow), keep_count=keep, older_than=None)
        return sum(self.delete(card.id) for card in going if card.id not in self.held)  # somebody goes on from those


async def save(call: Callable[[FlowCheckpoint], Any], made: FlowCheckpoint) -> str:
    try:
        await call(made)
    except NotFoundError:
        return "missing"
    except StaleCheckpoint:
        return "stale"
    return "stored"


async def act(backend: CheckpointBackend, model: Model, action: tuple[Any, ...]) -> None:
    match action:
        case ("save", checkpoint_id, flow, run, status, minute):
            made = FlowCheckpoint(
                flow, run, id=checkpoint_id, status=status, created_at=NOON + timedelta(minutes=minute)
            )
            expected = model.save(made)
            assert await save(backend.asave, made) == expected
        case ("update", checkpoint_id, status, late):
            loaded = await backend.aload(checkpoint_id)
            assert (loaded is None) == (checkpoint_id not in model.cards)
            if loaded is not None:
                loaded.status = status
                loaded.revision -= late
                if loaded.revision:
                    expected = model.save(loaded)
                    assert await save(backend.aupdate, loaded) == expected
        case ("delete", checkpoint_id):
            assert await backend.adelete(checkpoint_id) == model.delete(checkpoint_id)
        case ("claim", checkpoint_id):
            assert (await backend.aclaim(checkpoint_id) is not None) == model.claim(checkpoint_id)
        case ("cleanup", flow, keep):
            assert await backend.acleanup(flow, keep_count=keep) == model.cleanup(flow, keep)


async def compare(backend: CheckpointBackend, model: Model) -> None:
    for flow in FLOWS:
        found = [(each.id, each.revision, each.status) for each in await backend.alist_by_flow(flow)]
        assert found == [(card.id, card.revision, card.status) for card in model.listed(flow_id=flow)]
        for status in CheckpointStatus:
            latest = await backend.aget_latest(flow, status=status)
            expected = model.listed(flow_id=flow, status=status.value)
            assert (latest and latest.id) == (expected[0].id if expected else None)
    for run in RUNS:
        assert [each.id for each in await backend.alist_by_run(run)] == [card.id for card in model.listed(run_id=run)]
    waiting = {card.id for card in model.cards.values() if card.status in {"paused", "pending_input"}}
    assert {each.id for each in await backend.apending_inputs()} == waiting


async def play(backend: CheckpointBackend, actions: list[tuple[Any, ...]]) -> None:
    model = Model()
    try:
        for checkpoint_id in IDS:
            await backend.adelete(checkpoint_id)
        for action in actions:
            await act(backend, model, action)
        await compare(backend, model)
    finally:
        await backend.aclose()


def agree(kind: str, fresh_database: Callable[[str], str], tmp_path: Path, examples: int) -> None:
    urls = {"memory": "memory://", "file": f"file://{tmp_path}/flows"}
    url = urls[kind] if kind in urls else fresh_database(kind)

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    @given(st.lists(ACTIONS, min_size=5, max_size=25))
    def check(actions: list[tuple[Any, ...]]) -> None:
        asyncio.run(play(from_url(url), actions))

    check()


KINDS = pytest.mark.parametrize("kind", ["memory", "file", "sqlite", "postgres", "mariadb", "redis"])


@KINDS
def test_backend_agrees_with_the_model(kind: str, fresh_database: Callable[[str], str], tmp_path: Path) -> None:
    agree(kind, fresh_database, tmp_path, 15)


@pytest.mark.soak
@KINDS
def test_backend_agrees_with_the_model_for_long(
    kind: str, fresh_database: Callable[[str], str], tmp_path: Path
) -> None:
    agree(kind, fresh_database, tmp_path, 300)
