"""Checkpoints in files: names that stay in their folder, files that are whole or known to be damaged."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import DamagedCheckpoint
from holdfast.model.world import RealWorld
from holdfast.stores import DiskStorage
from holdfast.stores.checkpoints.disk import FOLDER, SUFFIX
from holdfast.stores.files import file_name

KEYS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=60)


@settings(deadline=None)
@given(KEYS)
def test_file_name_is_one_name_and_reads_back(key: str) -> None:
    name = file_name(key, SUFFIX)
    assert len(name.encode()) <= 255
    assert os.path.basename(name) == name  # noqa: PTH119 -- that it is one is the question
    assert not name.startswith(".")
    assert name == name.lower()
    if not name.startswith("~"):
        assert unquote(name.removesuffix(".checkpoint")) == key


@settings(deadline=None)
@given(st.lists(KEYS, unique=True))
def test_file_names_of_different_keys_differ(keys: list[str]) -> None:
    assert len({file_name(key, SUFFIX) for key in keys}) == len(keys)


def test_key_that_points_out_of_the_folder_stays_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "inside"

    async def scene() -> None:
        store = DiskStorage(folder)
        await store.save("../escape", b"1")
        await store.save("/etc/passwd", b"2")

    asyncio.run(scene())
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert len(list(folder.glob("*.checkpoint"))) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: content + b"x",
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: b"something else entirely, and long enough to have been a header",
    ],
    ids=["empty", "cut early", "cut late", "longer", "one bit", "another file"],
)
@pytest.mark.parametrize("key", ["k", "k" * 300])
def test_damaged_file_is_told_by_a_typed_error_that_names_it(key: str, damage: object, tmp_path: Path) -> None:
    path = tmp_path / file_name(key, SUFFIX)

    async def scene() -> None:
        store = DiskStorage(tmp_path)
        await store.save(key, b"data")
        path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
        with pytest.raises(DamagedCheckpoint, match=r"\.checkpoint"):
            await store.load(key)
        await store.save(key, b"again")
        assert await store.load(key) == b"again"

    asyncio.run(scene())


def test_file_of_another_key_is_not_taken_for_ours(tmp_path: Path) -> None:
    async def scene() -> None:
        store = DiskStorage(tmp_path)
        await store.save("a", b"1")
        (tmp_path / file_name("a", SUFFIX)).rename(tmp_path / file_name("b", SUFFIX))
        with pytest.raises(DamagedCheckpoint, match="'a', not 'b'"):
            await store.load("b")

    asyncio.run(scene())


def test_writer_that_dies_leaves_the_old_bytes_and_its_file_is_tidied_up(tmp_path: Path) -> None:
    program = (
        "import asyncio, os, signal, sys\n"
        "from holdfast.stores import DiskStorage\n"
        "os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"asyncio.run(DiskStorage({str(tmp_path)!r}).save('k', b'new' * 1000))\n"
    )
    asyncio.run(DiskStorage(tmp_path).save("k", b"old"))
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == -signal.SIGKILL
    [left] = tmp_path.glob(".*.tmp")

    async def scene() -> None:
        store = DiskStorage(tmp_path)
        await store.initialize()
        assert left.exists(), "its writer may still be at it"
        os.utime(left, (1, 1))
        await store.initialize()
        assert not left.exists()
        assert await store.load("k") == b"old"
        assert await store.list_keys() == ["k"]

    asyncio.run(scene())


def test_loading_sets_the_access_time_and_leaves_the_modification_time(tmp_path: Path) -> None:
    async def scene() -> None:
        store = DiskStorage(tmp_path)
        await store.save("k", b"1")
        path = tmp_path / file_name("k", SUFFIX)
        os.utime(path, (5, 6))
        await store.load("k")
        assert path.stat().st_atime > 1_000_000
        assert path.stat().st_mtime == 6

    asyncio.run(scene())


def test_default_folder_is_in_the_current_one_and_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(DiskStorage().save("k", b"1"))
    assert FOLDER == ".holdfast_checkpoints"
    assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o700
    assert next((tmp_path / FOLDER).iterdir()).stat().st_mode & 0o777 == 0o600


def test_damaged_file_leaves_the_other_keys_in_the_list(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = DiskStorage(tmp_path)
    asyncio.run(store.save("k" * 300, b"1"))
    asyncio.run(store.save("good", b"1"))
    [damaged] = tmp_path.glob("~*")
    damaged.write_bytes(b"x")
    assert asyncio.run(store.list_keys()) == ["good"]
    assert "left out of the list" in caplog.text


@pytest.mark.parametrize("name", [b"%ff", b"\xff", b"k (copy)", b"K", b"%6b", b""])
def test_file_that_has_no_keys_name_is_not_in_the_list(tmp_path: Path, name: bytes) -> None:
    store = DiskStorage(tmp_path)
    asyncio.run(store.save("k", b"value"))
    Path(os.fsdecode(bytes(tmp_path) + b"/" + name + SUFFIX.encode())).write_bytes(b"")
    assert asyncio.run(store.list_keys()) == ["k"]


def test_save_that_is_cancelled_is_over_when_its_caller_hears_of_it(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class World(RealWorld):
        """Asked for an id where a file is about to be written."""

        def new_id(self) -> str:
            begun.set()
            assert go_on.wait(60)
            return super().new_id()

    async def scene() -> None:
        saving = asyncio.ensure_future(DiskStorage(tmp_path, world=World()).save("k", b"old"))
        await asyncio.to_thread(begun.wait, 60)
        saving.cancel()
        try:
            for _ in range(10):
                await asyncio.sleep(0)
            assert not saving.done(), "its thread is still at it, and would overwrite what comes next"
        finally:
            go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await saving
        await DiskStorage(tmp_path).save("k", b"new")
        await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(scene())
    assert asyncio.run(DiskStorage(tmp_path).load("k")) == b"new"


@pytest.mark.parametrize("use", ["save", "load"])
def test_what_is_used_while_others_are_removed_stays(tmp_path: Path, use: str) -> None:
    other = DiskStorage(tmp_path)

    class World(RealWorld):
        """Asked for the time when the files have been looked at and none is removed yet."""

        def now(self) -> float:
            asyncio.run(other.save("old", b"new") if use == "save" else _loaded(other, "old"))
            return super().now()

    async def scene() -> None:
        for key in ("old", "older"):
            await other.save(key, b"old")
            os.utime(tmp_path / file_name(key, SUFFIX), (1, 1))
        assert await DiskStorage(tmp_path, max_age=60, world=World()).prune() == 1
        assert await other.list_keys() == ["old"]
        assert await other.load("old") == (b"new" if use == "save" else b"old")

    asyncio.run(scene())


async def _loaded(store: DiskStorage, key: str) -> None:
    assert await store.load(key) is not None


def test_file_of_another_user_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError("only its owner may set the times of a file")

    store = DiskStorage(tmp_path)
    asyncio.run(store.save("k", b"value"))
    monkeypatch.setattr(os, "utime", refused)
    assert asyncio.run(store.load("k")) == b"value"
