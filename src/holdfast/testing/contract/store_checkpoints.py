"""What every checkpoint store must do, in any colour."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import TooLong
from holdfast.stores import DBCheckpointStore, DiskStorage, SyncCheckpointStore
from holdfast.testing.contract.store_wrong_values import NO_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.testing.contract.store_ground import Ground, StoreVenue

TABLES = ("holdfast_checkpoints",)


async def open_store(ground: Ground, **options: Any) -> Any:
    """Return one more handle on the checkpoint store of *ground*."""
    store: Any
    if ground.venue.is_sql:
        store = DBCheckpointStore(await ground.manager(), clock_offset_ms=ground.clock_offset_ms, **options)
    else:
        store = DiskStorage(ground.folder, world=ground.world, **options)
    await ground.on_loop(store.initialize())
    ground.afterwards.push_async_callback(_closed, ground, store)
    return ground.face(store, SyncCheckpointStore)


async def _closed(ground: Ground, store: Any) -> None:
    await ground.on_loop(store.close())


class CheckpointContract:
    """What is saved is loaded, whole or not at all."""

    def test_documented_calls_run_as_written(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            checkpoint = await open_store(ground)
            await checkpoint.save("cp:workflow-123:step-5", b'{"state": "running"}')
            assert await checkpoint.load("cp:workflow-123:step-5") == b'{"state": "running"}'
            assert await checkpoint.list_keys("cp:workflow-123:") == ["cp:workflow-123:step-5"]
            assert await checkpoint.delete("cp:workflow-123:step-5") is True
            assert await checkpoint.load("cp:workflow-123:step-5") is None
            assert await checkpoint.delete("cp:workflow-123:step-5") is False

        store_venue.play(scene, empty=_empty(store_venue))

    @pytest.mark.parametrize(
        "data",
        [b"", b"\0\xff'\"\\%s?", bytes(range(256)) * 5000, gzip.compress(b"x" * 1000, mtime=0)],
        ids=["nothing", "strange", "much", "gzip"],
    )
    def test_bytes_come_back_as_they_were_saved(self, store_venue: StoreVenue, data: bytes) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            await store.save("k", b"before")
            await store.save("k", data)
            assert await store.load("k") == data
            assert await store.list_keys() == ["k"]

        store_venue.play(scene, empty=_empty(store_venue))

    def test_keys_are_listed_by_their_beginning_in_order_and_no_character_is_a_wildcard(
        self, store_venue: StoreVenue
    ) -> None:
        keys = ["a", "a%", "a%b", "a_b", "aXb", "A", "a\\", "b", "é", "a\U0010ffff", "a\U0010ffffz", "z", "🦀"]

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for key in keys:
                await store.save(key, key.encode())
            assert await store.list_keys() == sorted(keys)
            for prefix in ("a", "a%", "a_", "A", "a\\", "é", "a\U0010ffff", "zz", "🦀", "*", "\ud7ff"):
                assert await store.list_keys(prefix) == sorted(key for key in keys if key.startswith(prefix))

        store_venue.play(scene, empty=_empty(store_venue))

    def test_every_key_is_a_place_of_its_own(self, store_venue: StoreVenue) -> None:
        keys = [
            "../escape", "/etc/passwd", "a/b", "a//b", ".", "..", ".hidden", "con", "a\nb", "a b", "a b ", "%2e%2e",
            "x" * 512, "x" * 511 + "y", "ä" * 512, "~" + "0" * 64, "K", "k", "k.checkpoint", "{x}:y",
        ]  # fmt: skip

        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for key in keys:
                await store.save(key, key.encode())
            assert [await store.load(key) for key in keys] == [key.encode() for key in keys]
            assert await store.list_keys() == sorted(keys)
            for key in keys:
                assert await store.delete(key) is True
            assert await store.list_keys() == []

        store_venue.play(scene, empty=_empty(store_venue))

    def test_keys_that_no_backend_keeps_are_refused(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for wrong, refused in NO_KEYS:
                for call in (store.load, store.delete):
                    with pytest.raises(refused, match="key"):
                        await call(wrong)
                with pytest.raises(refused, match="key"):
                    await store.save(wrong, b"")
                if wrong != "":
                    with pytest.raises(refused, match="prefix"):
                        await store.list_keys(wrong)

        store_venue.play(scene, empty=_empty(store_venue))

    def test_only_bytes_are_saved(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground)
            for wrong in (5, True, [1, 2], "text", None):
                with pytest.raises(TypeError, match=f"'k' is bytes, not {type(wrong).__name__}"):
                    await store.save("k", wrong)
            assert await store.load("k") is None
            for data in (b"\0\xff", bytearray(b"\0\xff"), memoryview(b"\0\xff")):
                await store.save("k", data)
                assert await store.load("k") == b"\0\xff"

        store_venue.play(scene, empty=_empty(store_venue))

    def test_concurrent_saves_of_one_key_leave_one_of_them_whole(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            one, two = await open_store(ground), await open_store(ground)
            values = [bytes([number]) * 20_000 for number in range(20)]
            loads: list[bytes | None] = []

            async def write(number: int) -> None:
                await (one, two)[number % 2].save("k", values[number])
                loads.append(await (one, two)[number % 2 - 1].load("k"))

            await asyncio.gather(*(write(number) for number in range(20)))
            assert set(loads) <= set(values)
            assert await one.load("k") in values

        store_venue.play(scene, empty=_empty(store_venue))

    def test_least_recently_used_makes_room(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground, max_entries=3)
            for key in ("a", "b", "c"):
                await store.save(key, b"1")
                await ground.advance(1)
            await store.load("a")
            await ground.advance(1)
            await store.save("d", b"1")
            assert await store.list_keys() == ["a", "c", "d"]

        store_venue.play(scene, empty=_empty(store_venue))

    def test_what_was_just_saved_stays_though_the_clock_was_set_back(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground, max_entries=2)
            await store.save("a", b"1")
            await ground.advance(1)
            await store.save("b", b"1")
            await ground.advance(-3600)
            await store.save("c", b"1")
            assert await store.load("c") == b"1"
            assert await store.list_keys() == ["b", "c"]
            await store.save("0", b"1")  # within the same moment, and before the others by its name
            assert await store.load("0") == b"1"

        store_venue.play(scene, empty=_empty(store_venue))

    def test_bytes_are_limited_in_all_and_for_one(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground, max_bytes=1000)
            for key in ("a", "b", "c", "d"):
                await store.save(key, b"x" * 300)
                await ground.advance(1)
            assert await store.list_keys() == ["b", "c", "d"]
            with pytest.raises(TooLong, match="'e'"):
                await store.save("e", b"x" * 1001)
            assert await store.list_keys() == ["b", "c", "d"]
            for key in ("f", "g" * 500):  # as much as there is room for, whatever the key takes
                await store.save(key, b"x" * 1000)
                assert await store.list_keys() == [key]

        store_venue.play(scene, empty=_empty(store_venue))

    def test_what_is_not_used_for_long_goes(self, store_venue: StoreVenue) -> None:
        async def scene(ground: Ground) -> None:
            store = await open_store(ground, max_age=100)
            await store.save("a", b"1")
            await store.save("b", b"1")
            await ground.advance(60)
            await store.load("a")
            await ground.advance(60)
            assert await store.prune() == 1
            assert await store.list_keys() == ["a"]
            assert await (await open_store(ground)).prune() == 0

        store_venue.play(scene, empty=_empty(store_venue))


def _empty(venue: StoreVenue) -> Iterable[str]:
    return TABLES if venue.is_sql else ()


__all__ = ["TABLES", "CheckpointContract", "open_store"]
