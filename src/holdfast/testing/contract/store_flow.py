"""What every backend of flow checkpoints must do, in both colours: keep, find, refuse."""

from __future__ import annotations

import asyncio
import copy
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from holdfast.errors import CannotSerialize, ConfigurationError, NotFoundError, StaleCheckpoint, StorageError, TooLong
from holdfast.stores import CheckpointStatus, FlowCheckpoint, NodeCheckpointState
from holdfast.testing.contract.store_flow_stage import NOON, checkpoint, open_backend, open_two, saved

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

ODD_IDS = (
    "../../escaped", "/etc/passwd", "a/b", "a_b", "a:b", "a:status:active", "x__b", "b", "B", ".", "..", "a b ", "a b",
    "é", "🦀", "%2e", "{tag}", "a\nb", "x" * 300, "x" * 299 + "y", "ä" * 512,
)  # fmt: skip


class FlowContract:
    """The documented calls, and what their sketches got wrong."""

    def test_documented_calls_run_as_written(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            made = FlowCheckpoint(flow_id="f1", run_id="r1")
            checkpoint_id = await backend.save(made)
            assert checkpoint_id == made.id
            loaded = await backend.load(checkpoint_id)
            assert (loaded.flow_id, loaded.run_id, loaded.status) == ("f1", "r1", CheckpointStatus.ACTIVE)
            loaded.status = CheckpointStatus.COMPLETED
            assert await backend.update(loaded) is None
            assert (await backend.get_latest("f1")).status is CheckpointStatus.COMPLETED
            assert [each.id for each in await backend.list_by_flow("f1")] == [made.id]
            assert await backend.cleanup("f1") == 0
            assert await backend.delete(checkpoint_id) is True
            assert await backend.delete(checkpoint_id) is False
            assert await backend.load(checkpoint_id) is None
            assert await backend.get_latest("f1") is None

        store_venue.play(scene)

    def test_what_was_saved_comes_back_as_it_was(self, store_venue: StoreVenue) -> None:
        values: dict[str, Any] = {
            "bytes": b"\xff\x00\x01", "nul": "a\0b", "inf": float("inf"), "big": 2**80, "set": {1, 2},
            "tuple": (1, (2,)),
            "when": datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "decimal": Decimal("1.10"), "keys": {1: "a", (2, 3): "b"},
            "uuid": UUID(int=7), "status": CheckpointStatus.PAUSED, "marker": {"$tuple": [1]}, "text": "ü🦀\u2028'\"\\",
            "order": {"z": 1, "a": 2},
        }  # fmt: skip

        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            made = checkpoint(original_input=values, metadata=values, original_config={"x": values})
            made.mark_node_complete("n", NodeCheckpointState("n", "T", "success", values, values, ValueError("no")))
            made.mark_pending_input("m", "Sure?", values, resume_at=NOON)
            await backend.save(made)
            [loaded] = await backend.list_by_flow("flow")
            error = loaded.node_states["n"].error
            assert (type(error), error.args) == (ValueError, ("no",))
            loaded.node_states["n"].error = made.node_states["n"].error
            assert list(loaded.metadata["order"]) == ["z", "a"]
            loaded.updated_at = made.updated_at
            assert loaded == made

        store_venue.play(scene)

    def test_what_cannot_be_kept_is_refused_with_its_path(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            with pytest.raises(CannotSerialize, match=r"metadata\.inner\[1\]"):
                await backend.save(checkpoint(metadata={"inner": [1, object()]}))
            assert await backend.list_by_flow("flow") == []

        store_venue.play(scene)

    def test_saving_changes_nothing_but_the_revision(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            made = checkpoint(metadata={"a": [1]})
            before = copy.deepcopy(made)
            await backend.save(made)
            assert made.revision == 1
            before.revision = 1
            assert made == before
            await ground.advance(60)
            await backend.save(made)
            first, again = before.updated_at, (await backend.load(made.id)).updated_at
            assert again > first
            assert again.tzinfo is not None

        store_venue.play(scene)

    def test_every_id_is_a_place_of_its_own(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            for each in ODD_IDS:
                await backend.save(checkpoint(each, each, id=each))
            for each in ODD_IDS:
                assert (await backend.load(each)).id == each
                assert [found.id for found in await backend.list_by_flow(each)] == [each]
                assert [found.id for found in await backend.list_by_run(each)] == [each]
                for status in ("active", "paused"):
                    found = await backend.list_by_flow(each, status=status)
                    assert [one.flow_id for one in found] == [each] * (status == "active")
            for each in ODD_IDS:
                assert await backend.delete(each) is True
                assert await backend.list_by_flow(each) == []

        store_venue.play(scene)

    def test_ids_that_no_backend_keeps_are_refused(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            for bad in ("", "a\0b", "\ud800"):
                for made in (FlowCheckpoint("f", "r", id=bad), FlowCheckpoint(bad, "r"), FlowCheckpoint("f", bad)):
                    with pytest.raises(ValueError, match="id"):
                        await backend.save(made)
            with pytest.raises(TooLong):
                await backend.save(checkpoint("x" * 513))

        store_venue.play(scene)

    def test_update_of_one_that_is_not_there_stores_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            never, deleted = checkpoint(), checkpoint()
            await backend.save(deleted)
            await backend.delete(deleted.id)
            for missing, said in ((never, r"save\(\) it first"), (deleted, "revision 1 and is gone")):
                with pytest.raises(NotFoundError, match=said):
                    await backend.update(missing)
                assert await backend.load(missing.id) is None
            with pytest.raises(NotFoundError, match="revision to 0"):
                await backend.save(deleted)
            deleted.revision = 0
            await backend.save(deleted)
            assert await backend.load(deleted.id) is not None
            assert issubclass(NotFoundError, StorageError)

        store_venue.play(scene)

    def test_a_late_writer_does_not_overwrite_a_newer_one(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, two = await open_two(ground)
            made = checkpoint()
            await one.save(made)
            late = await two.load(made.id)
            made.metadata["by"] = "one"
            await one.update(made)
            late.metadata["by"] = "two"
            for call in (two.update, two.save):
                with pytest.raises(StaleCheckpoint):
                    await call(late)
            with pytest.raises(StaleCheckpoint):
                await two.save(checkpoint(id=made.id))
            assert (await two.load(made.id)).metadata == {"by": "one"}
            assert (await two.load(made.id)).revision == 2

        store_venue.play(scene)

    def test_one_of_many_writers_of_a_revision_wins(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, two = await open_two(ground)
            made = checkpoint()
            await one.save(made)

            async def write(number: int) -> bool:
                mine = copy.deepcopy(made)
                mine.metadata["by"] = number
                try:
                    await (one, two)[number % 2].update(mine)
                except StaleCheckpoint:
                    return False
                return True

            assert sum(await asyncio.gather(*(write(number) for number in range(20)))) == 1

        store_venue.play(scene)

    def test_a_checkpoint_never_changes_its_flow(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            made = checkpoint("a")
            await backend.save(made)
            made.flow_id = "b"
            with pytest.raises(StaleCheckpoint):
                await backend.save(made)
            assert await backend.list_by_flow("b") == []
            assert len(await backend.list_by_flow("a")) == 1

        store_venue.play(scene)

    def test_the_newest_is_the_one_created_last_whatever_was_saved_again(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            old, new = checkpoint(minute=0), checkpoint(minute=1)
            await saved(backend, new, old)
            await backend.save(old)
            assert (await backend.get_latest("flow")).id == new.id
            assert [each.id for each in await backend.list_by_flow("flow")] == [new.id, old.id]

        store_venue.play(scene)

    def test_order_is_that_of_time_in_any_zone_and_of_saving_within_a_moment(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            east = timezone(timedelta(hours=5))
            moments = [
                datetime(2026, 3, 1, 12, 0),  # noqa: DTZ001 -- one without a zone is in UTC
                datetime(2026, 3, 1, 16, 59, tzinfo=east),
                NOON + timedelta(seconds=1),
                NOON,
                NOON,
            ]
            made = [FlowCheckpoint("flow", "run", created_at=moment, id=str(n)) for n, moment in enumerate(moments)]
            await saved(backend, *made)
            listed = await backend.list_by_flow("flow")
            assert [each.id for each in listed] == ["2", "4", "3", "0", "1"]
            assert [each.created_at for each in listed] == [NOON + timedelta(seconds=1), *[NOON] * 3, moments[1]]
            assert {each.created_at.utcoffset() for each in listed} == {timedelta(0)}

        store_venue.play(scene)

    def test_moment_of_creation_is_the_one_that_lists_go_by_whatever_is_set_later(
        self, store_venue: StoreVenue
    ) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            early, late = checkpoint(minute=0, id="early"), checkpoint(minute=1, id="late")
            await saved(backend, early, late)
            early.created_at = NOON + timedelta(minutes=2)
            await backend.update(early)
            listed = await backend.list_by_flow("flow")
            assert [(each.id, each.created_at) for each in listed] == [("late", late.created_at), ("early", NOON)]
            assert (await backend.load("early")).created_at == NOON
            assert await backend.list_by_flow("flow", before=listed[-1].created_at) == []

        store_venue.play(scene)

    def test_before_is_exclusive_and_takes_any_zone(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            await saved(backend, *(checkpoint(minute=minute, id=str(minute)) for minute in range(3)))
            second = NOON + timedelta(minutes=1)
            for before in (second, second.replace(tzinfo=None), second.astimezone(timezone(timedelta(hours=-3)))):
                assert [each.id for each in await backend.list_by_flow("flow", before=before)] == ["0"]
            assert [each.id for each in await backend.list_by_run("run", before=second)] == ["0"]

        store_venue.play(scene)

    def test_limits_are_exact(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            await saved(backend, *(checkpoint(minute=minute, id=f"{minute:02}") for minute in range(12)))
            assert await backend.list_by_flow("flow", limit=0) == []
            assert [each.id for each in await backend.list_by_flow("flow", limit=2)] == ["11", "10"]
            assert len(await backend.list_by_flow("flow")) == 10
            assert len(await backend.list_by_flow("flow", limit=None)) == 12
            with pytest.raises(ConfigurationError):
                await backend.list_by_flow("flow", limit=-1)

        store_venue.play(scene)

    def test_status_filter_is_never_stale_and_fills_its_limit(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            made = [checkpoint(minute=minute, id=str(minute)) for minute in range(6)]
            await saved(backend, *made)
            for each in made[3:]:
                each.status = CheckpointStatus.COMPLETED
                await backend.update(each)
            active = await backend.list_by_flow("flow", status=CheckpointStatus.ACTIVE, limit=3)
            assert [each.id for each in active] == ["2", "1", "0"]
            latest = await backend.get_latest("flow", status=CheckpointStatus.ACTIVE)
            assert latest.id == "2"
            assert {each.id for each in await backend.list_by_flow("flow", status="completed")} == {"3", "4", "5"}
            await backend.delete("5")
            assert (await backend.get_latest("flow", status=CheckpointStatus.COMPLETED)).id == "4"

        store_venue.play(scene)

    def test_a_run_is_found_by_its_attempt_and_as_a_whole(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            first = checkpoint(run_id="r1", wf_run_id="whole", id="1")
            second = checkpoint(run_id="r2", wf_run_id="whole", id="2", minute=1, parent_checkpoint_id="1")
            other = checkpoint(run_id="r3", id="3", minute=2)
            await saved(backend, first, second, other)
            assert [each.id for each in await backend.list_by_run("whole")] == ["2", "1"]
            assert [each.id for each in await backend.list_by_run("r1")] == ["1"]
            assert [each.id for each in await backend.list_by_run("r3")] == ["3"]
            second.run_id = "r4"
            await backend.update(second)
            assert await backend.list_by_run("r2") == []
            assert [each.id for each in await backend.list_by_run("r4")] == ["2"]
            assert [each.id for each in await backend.get_chain("2")] == ["2", "1"]
            assert await backend.get_chain("nobody") == []

        store_venue.play(scene)

    def test_what_waits_is_found_and_found_no_more_when_it_goes_on(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            waits, other, active = checkpoint("a", id="1"), checkpoint("b", id="2"), checkpoint("a", id="3")
            waits.mark_pending_input("node", "Approve?")
            other.status = CheckpointStatus.PAUSED
            await saved(backend, waits, other, active)
            assert {each.id for each in await backend.pending_inputs()} == {"1", "2"}
            [found] = await backend.pending_inputs("a")
            assert found.get_pending_input("node").prompt == "Approve?"
            found.clear_pending_input("node")
            await backend.update(found)
            assert [each.id for each in await backend.pending_inputs()] == ["2"]
            await backend.delete("2")
            assert await backend.pending_inputs() == []

        store_venue.play(scene)

    def test_timers_are_found_when_they_are_due_the_earliest_first(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            now = datetime.fromtimestamp(ground.world.now(), UTC)
            for name, delay in (("late", 90), ("soon", 60), ("far", 3600)):
                made = checkpoint(id=name)
                made.mark_pending_input("node", resume_at=now + timedelta(seconds=delay))
                await backend.save(made)
            assert await backend.due() == []
            await ground.advance(100)
            assert [each.id for each in await backend.due()] == ["soon", "late"]
            assert [each.id for each in await backend.due(limit=1)] == ["soon"]
            soon = await backend.load("soon")
            soon.clear_pending_input("node")
            await backend.update(soon)
            assert [each.id for each in await backend.due()] == ["late"]

        store_venue.play(scene)

    def test_one_that_is_too_large_is_refused_and_the_old_one_stays(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground, max_bytes=2000)
            made = checkpoint(metadata={"v": 1})
            await backend.save(made)
            made.metadata = {"v": "x" * 3000}
            with pytest.raises(StorageError, match="2000"):
                await backend.update(made)
            assert (await backend.load(made.id)).metadata == {"v": 1}

        store_venue.play(scene)

    def test_many_tasks_and_threads_lose_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, two = await open_two(ground)

            async def write(number: int) -> None:
                backend = (one, two)[number % 2]
                made = checkpoint(minute=number, id=str(number))
                await backend.save(made)
                made.status = CheckpointStatus.COMPLETED
                await backend.update(made)

            await asyncio.gather(*(write(number) for number in range(40)))
            found = await one.list_by_flow("flow", limit=None, status="completed")
            assert [each.id for each in found] == [str(number) for number in reversed(range(40))]

        store_venue.play(scene)


__all__ = ["ODD_IDS", "FlowContract"]
