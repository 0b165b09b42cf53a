"""The contract of how queues are set: registered, changed, refused and deleted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.client import Client
from holdfast.errors import ConfigurationError, MisuseError, QueueConflict, QueueNotFound
from holdfast.testing.contract.workflows_queue_stage import Line, results
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue


class QueueSettingsContract:
    """Registering, changing and deleting queues."""

    def test_registered_queue_is_stored_with_its_settings(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                made = await line.register(
                    concurrency=5,
                    worker_concurrency=2,
                    rate_limit_max=10,
                    rate_limit_period_sec=0.5,
                    priority_enabled=True,
                    partition_queue=True,
                    partition_concurrency=1,
                    partition_rate_limit_max=3,
                    partition_rate_limit_period_sec=2.5,
                    polling_interval_sec=0.25,
                )
                assert await line.app.do("retrieve_queue", line.name) == made
                assert made in await line.app.do("list_queues")
                [row] = stage.rows(f"SELECT * FROM {stage.table('queues')} WHERE name = ?", line.name)
            assert (row["concurrency"], row["rate_limit_period_sec"], bool(row["priority_enabled"])) == (5, 0.5, True)
            assert row["queue_id"] == made.queue_id
            assert made.created_at == made.updated_at == row["created_at"]
            assert not made.paused

        Stage(venue).play(scene)

    def test_queue_that_is_there_is_set_anew_kept_or_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                first = await line.register(concurrency=5, worker_concurrency=2)
                await line.app.do("pause_queue", line.name)
                kept = await line.register(concurrency=7, on_conflict="keep")
                assert (kept.concurrency, kept.queue_id) == (5, first.queue_id)
                with pytest.raises(QueueConflict, match=line.name):
                    await line.register(concurrency=7, on_conflict="reject")
                anew = await line.register(concurrency=7)
                assert (anew.queue_id, anew.concurrency, anew.worker_concurrency) == (first.queue_id, 7, None)
                assert anew.paused
                assert anew.created_at == first.created_at

        Stage(venue).play(scene)

    def test_update_changes_what_is_said_and_nothing_else(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register(concurrency=5, worker_concurrency=2)
                changed = await line.app.do("update_queue", line.name, concurrency=None, polling_interval_sec=3)
                assert (changed.concurrency, changed.worker_concurrency) == (None, 2)
                assert changed.polling_interval_sec == 3.0
                with pytest.raises(ConfigurationError, match="partition_queue"):
                    await line.app.do("update_queue", line.name, worker_concurrency=9, partition_concurrency=1)
                assert await line.app.do("retrieve_queue", line.name) == changed

        Stage(venue).play(scene)

    @pytest.mark.parametrize(
        "settings",
        [
            {"concurrency": 0},
            {"concurrency": 1.5},
            {"worker_concurrency": -1},
            {"rate_limit_max": 5},
            {"rate_limit_period_sec": 5},
            {"rate_limit_max": 5, "rate_limit_period_sec": 0},
            {"partition_concurrency": 1},
            {"polling_interval_sec": 0},
            {"priority_enabled": "yes"},
            {"colour": "blue"},
            {"on_conflict": "perhaps"},
        ],
    )
    def test_setting_that_cannot_be_is_refused_and_nothing_is_stored(
        self, venue: Venue, settings: dict[str, Any]
    ) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                with pytest.raises(ConfigurationError):
                    await line.register(**settings)
                assert await line.app.do("retrieve_queue", line.name) is None

        Stage(venue).play(scene)

    def test_names_of_our_own_queues_are_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            async with app:
                for name in ("_holdfast_sys_internal", "_holdfast_x", "", "n" * 256, "a\0b"):
                    with pytest.raises(ConfigurationError):
                        await app.do("register_queue", name)

        Stage(venue).play(scene)

    def test_queue_that_is_not_there_cannot_be_changed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                for verb in ("update_queue", "pause_queue", "resume_queue", "delete_queue"):
                    with pytest.raises(QueueNotFound, match=line.name):
                        await line.app.do(verb, line.name)

        Stage(venue).play(scene)

    def test_queue_with_runs_in_it_is_deleted_only_by_force(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                await line.register()
                await line.app.do("pause_queue", line.name)
                handles = await line.enqueue(1)
                with pytest.raises(QueueConflict, match="1 runs"):
                    await line.app.do("delete_queue", line.name)
                await line.app.do("delete_queue", line.name, force=True)
                assert await line.app.do("retrieve_queue", line.name) is None
                await line.nothing_more_begins()
                assert line.began == []
                await line.register()
                assert await results(handles) == [1]
                await line.app.do("delete_queue", line.name)

        Stage(venue).play(scene)

    def test_queue_in_memory_is_deprecated_and_has_no_shared_limits(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                with pytest.raises(ConfigurationError, match="concurrency"):
                    await line.register(in_memory=True, concurrency=1)
                with pytest.warns(DeprecationWarning, match=line.name):
                    made = await line.register(in_memory=True, worker_concurrency=2)
                assert await line.app.do("retrieve_queue", line.name) == made
                assert stage.rows(f"SELECT * FROM {stage.table('queues')} WHERE name = ?", line.name) == []
                assert await results(await line.enqueue(1, 2, 3)) == [1, 2, 3]

        Stage(venue).play(scene)

    def test_queue_that_is_stored_and_in_memory_is_deleted_in_both_places(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                with pytest.warns(DeprecationWarning, match=line.name):
                    await line.register(in_memory=True)
                await line.register()
                await line.app.do("delete_queue", line.name)
                assert await line.app.do("retrieve_queue", line.name) is None
                assert line.name not in {each.name for each in await line.app.do("list_queues")}
                with pytest.raises(QueueNotFound, match=line.name):
                    await line.app.do("delete_queue", line.name)

        Stage(venue).play(scene)

    def test_client_sets_queues_of_the_database_and_keeps_none_of_its_own(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            line = Line(stage)
            async with line.app:
                with Client(stage.url) as client:
                    made = client.register_queue(line.name, concurrency=2)
                    with pytest.raises(MisuseError, match="client"):
                        client.register_queue(f"{line.name}-2", in_memory=True)
                    client.pause_queue(line.name)
                found = await line.app.do("retrieve_queue", line.name)
                assert (found.queue_id, found.concurrency, found.paused) == (made.queue_id, 2, True)

        Stage(venue).play(scene)

    def test_queue_that_nobody_registered_is_told_once_a_process(
        self, venue: Venue, caplog: pytest.LogCaptureFixture
    ) -> None:
        def told(name: str) -> list[str]:
            return [
                text for each in caplog.records if (text := each.getMessage()).startswith(f"The queue {name} is not")
            ]

        async def scene(stage: Stage) -> None:
            line, known = Line(stage), Line(stage)
            async with line.app, known.app:
                await known.register()
                await results(await known.enqueue(1))
                handles = await line.enqueue(1, 2)
                await stage.until(lambda: told(line.name))
                handles += await line.enqueue_together(3)
                await line.register()
                assert await results(handles) == [1, 2, 3]
                assert len(told(line.name)) == 1
                assert told(known.name) == []

        with caplog.at_level(logging.WARNING, "holdfast"):
            Stage(venue).play(scene)

    def test_listening_is_said_before_launch(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            with pytest.raises(MisuseError, match="one text"):
                app.raw.listen_queues("orders")
            async with app:
                with pytest.raises(MisuseError, match="before launch"):
                    app.raw.listen_queues(["orders"])

        Stage(venue).play(scene)
