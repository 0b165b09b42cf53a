"""A task worker among the executors of its database, in any colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.testing.contract.store_task_worker import staffed, until
from holdfast.testing.contract.store_tasks import tables_of
from holdfast.testing.world import VirtualWorld

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue


class WorkersAreExecutorsContract:
    """A worker registers, beats, and is an executor like any other."""

    def test_worker_is_among_the_executors(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            staff = await staffed(ground, {"mail": print}, worker_id=f"worker {ground.prefix}")
            if not store_venue.is_sql:
                await staff.stop()  # Redis has no such table, and nothing depends on it
                return

            async def rows() -> list[dict[str, Any]]:
                found = await ground.fetch("SELECT * FROM {executors}")
                return [row for row in found if row["executor_id"] == f"worker {ground.prefix}"]

            [row] = await until(rows)
            assert (row["queues"], row["application_version"]) == ('["tasks:mail"]', None)
            await staff.stop()
            assert await rows() == []

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_worker_of_a_name_that_is_there_is_another_executor(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            name = f"worker {ground.prefix}"
            first = await staffed(ground, {"mail": print}, worker_id=name)
            if not store_venue.is_sql:
                await first.stop()  # Redis has no such table
                return

            async def rows() -> list[dict[str, Any]]:
                found = await ground.fetch("SELECT * FROM {executors}")
                return [row for row in found if row["executor_id"] == name]

            [before] = await until(rows)
            second = await staffed(ground, {"mail": print}, worker_id=name)

            async def both() -> bool:
                return len({row["incarnation"] for row in await rows()}) == 2

            await until(both)
            await second.stop()
            assert [row["incarnation"] for row in await rows()] == [before["incarnation"]]
            await first.stop()
            assert await rows() == []

        store_venue.play(scene, empty=tables_of(store_venue))

    def test_worker_that_was_taken_for_gone_registers_anew(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            name, world = f"worker {ground.prefix}", VirtualWorld()
            staff = await staffed(ground, {"mail": print}, worker_id=name, world=world)
            if not store_venue.is_sql:
                await staff.stop()  # Redis has no such table
                return

            async def rows() -> list[dict[str, Any]]:
                found = await ground.fetch("SELECT * FROM {executors}")
                return [row for row in found if row["executor_id"] == name]

            [before] = await until(rows)
            await ground.execute("DELETE FROM {executors} WHERE incarnation = ?", before["incarnation"])
            assert await rows() == []

            async def anew() -> list[dict[str, Any]]:
                await ground.on_loop(world.advance(11))
                return await rows()

            [after] = await until(anew)
            assert after["incarnation"] != before["incarnation"]
            await staff.stop()
            assert await rows() == []

        store_venue.play(scene, empty=tables_of(store_venue))
