"""What flow checkpoints refuse at the door, the same on every backend and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.errors import ConfigurationError
from holdfast.stores import FlowCheckpoint
from holdfast.testing.contract.store_flow_stage import checkpoint, ended, open_backend, saved
from holdfast.testing.contract.store_wrong_values import NO_KEYS, NO_MOMENTS, NO_NUMBERS

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class FlowDoorContract:
    """A wrong id never stands for all flows, nor for another one, and a wrong number for no other."""

    def test_an_id_that_is_none_finds_and_deletes_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            await saved(backend, *(ended(minute, id=str(minute)) for minute in range(2)))
            for bad, refused in NO_KEYS:
                for call in ("list_by_flow", "list_by_run", "get_latest", "newest_of_run", "cleanup", "cleanup_run"):
                    with pytest.raises(refused, match=r"flow_id|run_id"):
                        await getattr(backend, call)(bad)
                for call in ("load", "delete", "claim", "get_chain"):
                    with pytest.raises(refused, match="id of the checkpoint"):
                        await getattr(backend, call)(bad)
                if bad is not None:
                    with pytest.raises(refused, match="flow_id"):
                        await backend.pending_inputs(bad)
            assert len(await backend.list_by_flow("flow")) == 2

        store_venue.play(scene)

    def test_a_limit_is_a_whole_number(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            await saved(backend, *(ended(minute, id=str(minute)) for minute in range(2)))
            for bad in (-1, *NO_NUMBERS):
                for call in (backend.list_by_flow, backend.list_by_run, backend.pending_inputs):
                    with pytest.raises(ConfigurationError, match="limit is None or a whole number"):
                        await call("flow", limit=bad)
                with pytest.raises(ConfigurationError, match="limit"):
                    await backend.due(limit=bad)
                for call in (backend.cleanup, backend.cleanup_run):
                    with pytest.raises(ConfigurationError, match="keep_count"):
                        await call("flow", keep_count=bad)
            assert len(await backend.list_by_flow("flow")) == 2

        store_venue.play(scene)

    def test_what_is_no_moment_or_status_is_refused_by_its_name(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            await backend.save(checkpoint())
            for bad, refused in NO_MOMENTS:
                for call in (backend.list_by_flow, backend.list_by_run):
                    with pytest.raises(refused, match="before is"):
                        await call("flow", before=bad)
                wrong = checkpoint()
                wrong.created_at = bad
                with pytest.raises(refused, match="created_at is"):
                    await backend.save(wrong)
            with pytest.raises(ValueError, match=r"created_at is .* not 'yesterday'"):
                FlowCheckpoint("flow", "run", created_at="yesterday")  # type: ignore[arg-type]
            for unknown in ("ACTIVE", "", 0):
                with pytest.raises(ValueError, match=r"There is no status .*; there are active, paused"):
                    await backend.get_latest("flow", status=unknown)
            assert len(await backend.list_by_flow("flow")) == 1

        store_venue.play(scene)

    def test_what_is_no_checkpoint_is_not_stored(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            for bad in (None, checkpoint().to_dict()):
                for call in (backend.save, backend.update):
                    with pytest.raises(TypeError, match="is a FlowCheckpoint, not"):
                        await call(bad)
            assert await backend.get_latest("flow") is None

        store_venue.play(scene)

    def test_what_could_not_be_read_again_is_not_stored(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            backend = await open_backend(ground)
            for version in ("2.0", "", None):
                with pytest.raises(ConfigurationError, match=r"version.*1\.x"):
                    await backend.save(checkpoint(version=version))
            assert await backend.get_latest("flow") is None
            await backend.save(checkpoint(version="1.9"))
            assert (await backend.get_latest("flow")).version == "1.9"

        store_venue.play(scene)


__all__ = ["FlowDoorContract"]
