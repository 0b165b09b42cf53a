"""A backend of flow checkpoints that somebody has written by the document: six calls, and all the rest is there."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import MisuseError
from holdfast.stores import CheckpointBackend, CheckpointStatus, FlowCheckpoint, NotFoundError, run_steps

if TYPE_CHECKING:
    from collections.abc import Callable

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DONE = CheckpointStatus.COMPLETED


class Drawer(CheckpointBackend):
    """What the document asks of a backend, and no more."""

    def __init__(self) -> None:
        self.kept: dict[str, FlowCheckpoint] = {}
        self.threads: set[int] = set()

    def save(self, checkpoint: FlowCheckpoint) -> str:
        self.threads.add(threading.get_ident())
        self.kept[checkpoint.id] = checkpoint
        return checkpoint.id

    def load(self, checkpoint_id: str) -> FlowCheckpoint | None:
        return self.kept.get(checkpoint_id)

    def update(self, checkpoint: FlowCheckpoint) -> None:
        if checkpoint.id not in self.kept:
            raise NotFoundError(checkpoint.id)
        self.save(checkpoint)

    def delete(self, checkpoint_id: str) -> bool:
        return self.kept.pop(checkpoint_id, None) is not None

    def list_by_flow(
        self,
        flow_id: str,
        *,
        status: CheckpointStatus | None = None,
        limit: int | None = 10,
        before: datetime | None = None,
    ) -> list[FlowCheckpoint]:
        found = [
            each
            for each in self.kept.values()
            if each.flow_id == flow_id and status in {None, each.status} and (not before or each.created_at < before)
        ]
        return sorted(found, key=lambda each: each.created_at, reverse=True)[:limit]

    def get_latest(self, flow_id: str, *, status: CheckpointStatus | None = None) -> FlowCheckpoint | None:
        return next(iter(self.list_by_flow(flow_id, status=status, limit=1)), None)


def filled(count: int, **fields: Any) -> Drawer:
    drawer = Drawer()
    for number in range(count):
        made = FlowCheckpoint("f", f"r{number}", id=str(number), created_at=NOON + timedelta(minutes=number), **fields)
        drawer.save(made)
    return drawer


@pytest.mark.parametrize(("keep", "left"), [(3, 3), (0, 0), (None, 2500), (2400, 2400)])
def test_cleaning_up_keeps_the_newest_of_any_number(keep: int | None, left: int) -> None:
    drawer = filled(2500, status=DONE)
    assert drawer.cleanup("f", keep_count=keep) == 2500 - left
    assert drawer.kept.keys() == {str(number) for number in range(2500 - left, 2500)}


def test_cleaning_up_spares_what_is_not_over_and_goes_by_age_too() -> None:
    drawer = filled(3, status=CheckpointStatus.PENDING_INPUT)
    assert drawer.cleanup("f", keep_count=0, older_than_days=0) == 0
    assert drawer.cleanup("nobody", keep_count=0) == 0
    fresh = FlowCheckpoint("f", "fresh", status=DONE)
    old = FlowCheckpoint("f", "old", status=DONE, created_at=datetime.now(UTC) - timedelta(days=2))
    drawer.save(fresh)
    drawer.save(old)
    assert drawer.cleanup("f", older_than_days=1) == 1
    assert old.id not in drawer.kept


def test_calls_for_tasks_are_those_for_threads_and_keep_no_loop_waiting() -> None:
    async def scene() -> None:
        async with Drawer() as drawer:
            made = FlowCheckpoint("f", "r")
            assert await drawer.asave(made) == made.id
            assert await drawer.aload(made.id) is made
            await drawer.aupdate(made)
            with pytest.raises(NotFoundError):
                await drawer.aupdate(FlowCheckpoint("f", "r"))
            assert await drawer.alist_by_flow("f", limit=1) == [made]
            assert await drawer.aget_latest("f", status=DONE) is None
            assert await drawer.adelete(made.id)
            assert not await drawer.adelete(made.id)
            assert await drawer.acleanup("f") == 0
            assert threading.get_ident() not in drawer.threads

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("claim", lambda drawer: drawer.claim("c")),
        ("due", lambda drawer: drawer.due()),
        ("list_by_run", lambda drawer: asyncio.run(drawer.alist_by_run("r"))),
        ("claim", lambda drawer: run_steps("f", [str], drawer)),
    ],
)
def test_what_six_calls_cannot_do_is_told_by_its_name(name: str, call: Callable[[Drawer], Any]) -> None:
    with Drawer() as drawer, pytest.raises(MisuseError, match=rf"Drawer has no {name}\(\)"):
        call(drawer)


def test_backend_that_lacks_one_of_the_six_is_not_made() -> None:
    six = {"save", "load", "update", "delete", "list_by_flow", "get_latest"}
    assert CheckpointBackend.__abstractmethods__ == six
    with pytest.raises(TypeError, match="abstract"):
        type("Half", (CheckpointBackend,), {name: lambda *_: None for name in six - {"load"}})()
