"""The contract of a manager's life: opened, closed, opened again, and used where it must not be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import NotInitialized, WrongLoop
from holdfast.testing.colours import Colour

if TYPE_CHECKING:
    from holdfast.testing.colours import Manager
    from holdfast.testing.contract.venue import Venue

_SOON = 60.0


class LifeContract:
    """A manager works between ``initialize`` and ``close``, and says so elsewhere."""

    @pytest.mark.parametrize("verb", ["execute", "fetch", "fetchone"])
    def test_use_before_initialize_and_after_close_is_refused(self, venue: Venue, verb: str) -> None:
        async def scene() -> None:
            manager = venue.manager()
            with pytest.raises(NotInitialized, match="initialize"):
                await getattr(manager, verb)("SELECT 1 AS one")
            async with manager:
                await getattr(manager, verb)("SELECT 1 AS one")
                await manager.close()
                with pytest.raises(NotInitialized, match="initialize"):
                    await getattr(manager, verb)("SELECT 1 AS one")
                with pytest.raises(NotInitialized, match="initialize"):
                    async with manager.transaction():
                        pass

        asyncio.run(scene())

    def test_second_initialize_and_second_close_change_nothing(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            await asyncio.gather(manager.initialize(), manager.initialize())
            assert await manager.fetch(f"SELECT k FROM {table}") == []
            await manager.close()
            await manager.close()

        venue.play(scene)

    def test_closed_manager_opens_again(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)
            for round_ in range(3):
                await manager.close()
                await manager.initialize()
                if not venue.shared:  # what was in memory ended with its connection
                    table = await venue.table(manager)
                await manager.execute(f"INSERT INTO {table} VALUES (?, 1)", f"k{round_}")
                expected = round_ + 1 if venue.shared else 1
                assert await manager.fetch(f"SELECT COUNT(*) AS n FROM {table}") == [{"n": expected}]

        venue.play(scene)

    def test_calls_under_way_end_before_the_close_or_are_refused(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            table = await venue.table(manager)

            async def one(number: int) -> str | None:
                key = f"k{number}"
                try:
                    await manager.execute(f"INSERT INTO {table} VALUES (?, 1)", key)
                except NotInitialized:
                    return None
                return key

            writes = [asyncio.create_task(one(number)) for number in range(50)]
            await asyncio.sleep(0)
            await manager.close()
            written = {key for key in await asyncio.gather(*writes) if key is not None}
            await manager.initialize()
            if venue.shared:
                assert written == {row["k"] for row in await manager.fetch(f"SELECT k FROM {table}")}

        venue.play(scene)

    def test_no_cancellation_is_swallowed_by_an_answer_that_comes_with_it(self, venue: Venue) -> None:
        async def scene(manager: Manager) -> None:
            async def ask_on() -> None:
                while True:
                    await manager.fetch("SELECT 1 AS one")

            if venue.colour is Colour.SYNC:
                return  # a thread cannot be cancelled
            for turn in range(300):
                asking = asyncio.create_task(ask_on())
                for _ in range(10 + turn % 30):
                    await asyncio.sleep(0)
                asking.cancel()
                ended, _ = await asyncio.wait([asking], timeout=_SOON)
                assert ended, f"the cancellation of turn {turn} was lost"
                assert asking.cancelled()

        venue.play(scene, command_timeout=60.0)

    def test_use_on_another_loop_is_refused_or_needs_none(self, venue: Venue) -> None:
        manager = venue.manager()

        async def elsewhere() -> None:
            await manager.fetch("SELECT 1 AS one")

        def in_thread() -> None:
            asyncio.run(elsewhere())

        async def scene() -> None:
            async with manager:
                if venue.colour is Colour.SYNC:
                    await asyncio.to_thread(in_thread)
                else:
                    with pytest.raises(WrongLoop, match="Another event loop"):
                        await asyncio.to_thread(in_thread)
                assert await manager.fetch("SELECT 1 AS one") == [{"one": 1}]

        asyncio.run(scene())
