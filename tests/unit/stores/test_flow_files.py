"""Flow checkpoints as files: readable, whole, and found again whatever has happened to the lists."""

from __future__ import annotations

import errno
import json
import logging
import os
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import faults
from holdfast.errors import DamagedCheckpoint, StorageError
from holdfast.stores import CheckpointStatus, FileCheckpointBackend, files, from_url, resume
from holdfast.stores.flow import file_index
from holdfast.testing.contract.store_flow_stage import checkpoint, ended

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET_FREE = "übung 🦀"


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[FileCheckpointBackend]:
    with FileCheckpointBackend(tmp_path / "flows") as made:
        yield made


def only_file(folder: Path) -> Path:
    [file] = folder.glob("*.json")
    return file


def test_folders_and_files_are_the_documented_ones(backend: FileCheckpointBackend) -> None:
    backend.save(checkpoint("my-flow", id="cp-1", metadata={"note": SECRET_FREE}))
    assert (backend.checkpoints_dir, backend.indexes_dir) == (
        backend.base_dir / "checkpoints",
        backend.base_dir / "indexes",
    )
    file = backend.checkpoints_dir / "cp-1.json"
    content = file.read_text("utf-8")
    assert SECRET_FREE in content
    assert '\n    "flow_id": "my-flow"' in content
    assert json.loads(content)["checkpoint"]["run_id"] == "run"
    [line] = (backend.indexes_dir / "flow_my-flow.json").read_text("utf-8").splitlines()
    entry = json.loads(line)
    assert (entry["id"], entry["created_at"]) == ("cp-1", "2026-03-01T12:00:00.000000+00:00")
    assert file.stat().st_mode & 0o077 == 0


def test_no_id_leads_out_of_the_folder(backend: FileCheckpointBackend, tmp_path: Path) -> None:
    backend.save(checkpoint("../../flow", id="../../escaped"))
    backend.save(checkpoint("/abs", id="/tmp/abs"))  # noqa: S108 -- an id, not a path
    inside = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert all(path.is_relative_to(backend.base_dir) for path in inside)
    assert len(list(backend.checkpoints_dir.iterdir())) == 2


@pytest.mark.parametrize("damage", [b"not json\n", b"\xff\xfe\n", b'{"id": 1}\n', b"[1]\n"])
def test_list_that_is_damaged_is_made_anew_from_the_checkpoints(
    backend: FileCheckpointBackend, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    for minute in range(3):
        backend.save(checkpoint(minute=minute, id=str(minute)))
    backend.save(checkpoint("other", id="other"))
    index = backend.indexes_dir / "flow_flow.json"
    index.write_bytes(damage + index.read_bytes()[: -len(damage)])
    with caplog.at_level(logging.WARNING, "holdfast.flow"):
        assert [each.id for each in backend.list_by_flow("flow")] == ["2", "1", "0"]
    assert "made anew" in caplog.text
    caplog.clear()
    assert [each.id for each in backend.list_by_flow("flow")] == ["2", "1", "0"]
    assert caplog.text == ""
    backend.save(checkpoint(minute=3, id="3"))
    assert [each.id for each in backend.list_by_flow("flow")] == ["3", "2", "1", "0"]


@pytest.mark.parametrize("damage", ["removed", "empty"])
@pytest.mark.parametrize("ask", ["of the flow", "of the run"])
def test_list_that_is_lost_is_made_anew_when_it_is_asked_for(
    backend: FileCheckpointBackend, damage: str, ask: str, caplog: pytest.LogCaptureFixture
) -> None:
    for minute in range(3):
        backend.save(checkpoint(minute=minute, id=str(minute)))
    index = backend.indexes_dir / "flow_flow.json"
    index.unlink()
    if damage == "empty":
        index.touch()

    def asked() -> list[str]:
        found = backend.list_by_flow("flow") if ask == "of the flow" else backend.list_by_run("run")
        return [each.id for each in found]

    with caplog.at_level(logging.WARNING, "holdfast.flow"):
        assert asked() == ["2", "1", "0"]
    assert "made anew" in caplog.text
    caplog.clear()
    assert asked() == ["2", "1", "0"]
    assert backend.get_latest("unheard of") is None
    assert caplog.text == ""
    assert {path.name for path in backend.indexes_dir.iterdir()} == {index.name}


def test_list_that_lacks_a_checkpoint_is_made_anew_when_the_folder_is_opened(
    backend: FileCheckpointBackend, caplog: pytest.LogCaptureFixture
) -> None:
    for minute in range(3):
        backend.save(checkpoint(minute=minute, id=str(minute)))
    index = backend.indexes_dir / "flow_flow.json"
    index.write_bytes(b"".join(index.read_bytes().splitlines(keepends=True)[::2]))
    with FileCheckpointBackend(backend.base_dir) as again, caplog.at_level(logging.WARNING, "holdfast.flow"):
        assert [each.id for each in again.list_by_flow("flow")] == ["2", "1", "0"]
    assert "made anew" in caplog.text


def test_list_whose_checkpoints_are_all_deleted_is_whole(
    backend: FileCheckpointBackend, caplog: pytest.LogCaptureFixture
) -> None:
    for minute in range(3):
        backend.save(ended(minute, id=str(minute)))
    with caplog.at_level(logging.WARNING, "holdfast.flow"):
        assert backend.cleanup("flow", keep_count=0) == 3
        assert backend.list_by_flow("flow") == []
        assert FileCheckpointBackend(backend.base_dir).list_by_flow("flow") == []
    assert caplog.text == ""


def test_name_of_a_new_list_is_on_the_disk_before_its_checkpoint_is_written(
    backend: FileCheckpointBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    backend.save(checkpoint("other"))
    monkeypatch.setattr(file_index, "sync_folder", synced.append)
    faults.arm("flow.listed", lambda: synced.append(backend.checkpoints_dir))
    try:
        backend.save(checkpoint(id="1"))
        backend.save(checkpoint(id="2"))
    finally:
        faults.disarm()
    assert synced == [backend.indexes_dir, backend.checkpoints_dir]


def test_line_that_was_cut_short_is_dropped_by_the_next_writer(backend: FileCheckpointBackend) -> None:
    backend.save(checkpoint(id="1"))
    index = backend.indexes_dir / "flow_flow.json"
    with index.open("ab") as file:
        file.write(b'{"id": "never writ')
    assert [each.id for each in backend.list_by_flow("flow")] == ["1"]
    backend.save(checkpoint(id="2", minute=1))
    assert [each.id for each in backend.list_by_flow("flow")] == ["2", "1"]
    assert len(index.read_text().splitlines()) == 2


@pytest.mark.parametrize("point", ["flow.listed", "flow.removed"])
def test_name_without_a_file_is_passed_over(backend: FileCheckpointBackend, point: str) -> None:
    def die() -> None:
        raise InterruptedError(errno.EINTR, "killed here")

    backend.save(checkpoint(id="1"))
    backend.save(checkpoint(id="2", minute=1))
    faults.arm(point, die)
    try:
        with pytest.raises(StorageError):
            if point == "flow.listed":
                backend.save(checkpoint(id="3", minute=2))
            else:
                backend.delete("2")
    finally:
        faults.disarm()
    left = ["2", "1"] if point == "flow.listed" else ["1"]
    assert [each.id for each in backend.list_by_flow("flow")] == left
    backend.save(checkpoint(id="3", minute=2))
    assert [each.id for each in backend.list_by_flow("flow")] == ["3", *left]


def test_list_is_written_anew_when_much_was_deleted(
    backend: FileCheckpointBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete adds a line to the list; a list that was only added to would grow for ever."""
    monkeypatch.setattr(file_index, "MOST_GONE", 4)
    index = backend.indexes_dir / "flow_flow.json"
    backend.save(checkpoint(id="stays"))
    lines = []
    for number in range(5):
        backend.save(checkpoint(id=str(number), minute=1))
        assert backend.delete(str(number)) is True
        lines.append(len(index.read_text().splitlines()))
    assert lines == [3, 5, 7, 2, 4]
    assert [each.id for each in backend.list_by_flow("flow")] == ["stays"]
    backend.save(checkpoint(id="0", minute=1))
    assert [each.id for each in backend.list_by_flow("flow")] == ["0", "stays"]


def test_files_are_kept_where_there_are_no_posix_locks(
    backend: FileCheckpointBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "fcntl", None)
    made = checkpoint(id="1")
    backend.save(made)
    assert backend.load("1") is not None
    assert backend.delete("1") is True


def damage_file(backend: FileCheckpointBackend, name: str, other: str, damage: str) -> None:
    file = backend.checkpoints_dir / f"{name}.json"
    content = file.read_bytes()
    changed = {
        "cut": content[:-20],
        "flipped": content.replace(b"fine", b"fime"),
        "empty": b"",
        "swapped": (backend.checkpoints_dir / f"{other}.json").read_bytes(),
    }
    file.write_bytes(changed[damage])


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "swapped"])
def test_damaged_file_is_an_error_and_no_hole_in_the_list(
    backend: FileCheckpointBackend, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    backend.save(checkpoint(id="good", minute=1, metadata={"note": "fine"}))
    backend.save(checkpoint(id="bad", metadata={"note": "fine"}))
    damage_file(backend, "bad", "good", damage)
    with pytest.raises(DamagedCheckpoint, match=r"bad\.json"):
        backend.load("bad")
    with caplog.at_level(logging.WARNING, "holdfast.flow"):
        assert [each.id for each in backend.list_by_flow("flow")] == ["good"]
        assert [each.id for each in backend.list_by_flow("flow", limit=1)] == ["good"]
    assert "left out" in caplog.text
    assert backend.cleanup("flow", keep_count=0) == 0
    assert backend.delete("bad") is True
    assert backend.load("bad") is None
    assert [each.id for each in backend.list_by_flow("flow")] == ["good"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "swapped"])
def test_damaged_file_is_still_the_newest(backend: FileCheckpointBackend, damage: str) -> None:
    for minute, name in enumerate(("before", "bad")):
        backend.save(checkpoint(id=name, minute=minute, metadata={"note": "fine"}))
    backend.save(checkpoint(id="elsewhere", run_id="another", minute=2))
    damage_file(backend, "bad", "before", damage)
    assert backend.get_latest("flow") is not None  # of another run
    backend.delete("elsewhere")
    with pytest.raises(DamagedCheckpoint, match="bad of the flow flow"):
        backend.get_latest("flow")
    if damage in ("cut", "flipped"):  # else nobody can tell whose it was
        assert backend.newest_of_run("run") == "bad"
        with pytest.raises(DamagedCheckpoint, match="bad"):
            backend.get_latest("flow", status=CheckpointStatus.ACTIVE)
        with pytest.raises(StorageError, match="has gone on"):
            resume("before", [("step", str)], backend)


def test_full_disk_is_a_clear_error_and_the_old_checkpoint_is_whole(
    backend: FileCheckpointBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = checkpoint(id="1", metadata={"v": 1})
    backend.save(made)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        made.metadata = {"v": 2}
        with pytest.raises(StorageError, match="No space left"):
            backend.update(made)
        with pytest.raises(StorageError, match="No space left"):
            backend.save(checkpoint(id="2"))
    assert made.revision == 1
    loaded = backend.load("1")
    assert loaded is not None
    assert loaded.metadata == {"v": 1}
    assert [each.id for each in backend.list_by_flow("flow")] == ["1"]
    backend.update(made)
    assert {path.suffix for path in backend.checkpoints_dir.iterdir()} == {".json"}


def test_part_of_a_line_on_a_full_disk_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "list.json"
    entry = file_index.Entry("1", "2026", 1, "flow")
    file_index.add_to_index(path, entry)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: real(descriptor, data[:5], at))
    with pytest.raises(OSError, match="No space left"):
        file_index.add_to_index(path, entry._replace(id="2"))
    assert file_index.read_index(path) == [entry]


def test_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="opened"):
        FileCheckpointBackend(tmp_path / "file" / "flows").save(checkpoint())


def test_what_writers_that_died_left_behind_is_removed(tmp_path: Path) -> None:
    with FileCheckpointBackend(tmp_path) as backend:
        backend.save(checkpoint(id="1"))
    left = [tmp_path / "checkpoints" / ".a.tmp", tmp_path / "indexes" / ".b.tmp"]
    for each in left:
        each.write_text("half")
    with FileCheckpointBackend(tmp_path) as backend:
        assert backend.load("1") is not None
    assert not any(each.exists() for each in left)


def test_urls_name_folders_and_memory(tmp_path: Path) -> None:
    with from_url(f"file://{tmp_path}/some%20where", max_checkpoints=1) as backend:
        backend.save(ended(0, id="1"))
        backend.save(ended(1, id="2"))
        assert [each.id for each in backend.list_by_flow("flow")] == ["2"]
        assert only_file(tmp_path / "some where" / "checkpoints").name == "2.json"
    with from_url("memory://") as backend:
        assert backend.get_latest("flow") is None
