"""``holdfast worker``: what it says when it cannot begin. How it runs and stops is tested with processes."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from holdfast.cli import main
from holdfast.cli.application import find_application
from holdfast.cli.reload import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APP = "from holdfast import Holdfast, AsyncHoldfast\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory; modules that a test imports from it are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def worker(*words: str) -> Result:
    return CliRunner().invoke(main, ["worker", *words])


@pytest.mark.parametrize("word", ["shop", "shop:", ":app", ""])
def test_place_needs_a_module_and_a_name(word: str) -> None:
    done = worker(word)
    assert done.exit_code == 2
    assert "as in shop.main:app" in done.stderr


@pytest.mark.parametrize("word", ["shop/main.py:app", "./shop/main:app"])
def test_file_in_place_of_a_module_is_told_with_the_module(word: str) -> None:
    done = worker(word)
    assert done.exit_code == 2
    assert "as Python imports it: shop.main:app" in done.stderr


def test_missing_module_is_named_with_where_it_was_looked_for(folder: Path) -> None:
    (folder / "shop_here").mkdir()
    for module in ("shop_nowhere", "shop_here.nowhere", "shop_nowhere.main"):
        done = worker(f"{module}:app")
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(f"Error: There is no module {module} in {folder}")


def test_module_that_a_module_misses_is_its_own_affair(folder: Path) -> None:
    (folder / "shop_imports.py").write_text("import shop_not_installed\n")
    done = worker("shop_imports:app")
    assert done.exit_code == 2
    assert 'shop_imports.py", line 1' in done.stderr
    assert "cannot be imported: ModuleNotFoundError: No module named 'shop_not_installed'" in done.stderr


def test_missing_name_and_wrong_type_are_told(folder: Path) -> None:
    (folder / "shop_empty.py").write_text("app = 17\n")
    missing, wrong = worker("shop_empty:application"), worker("shop_empty:app")
    assert (missing.exit_code, wrong.exit_code) == (2, 2)
    assert "The module shop_empty has no application" in missing.stderr
    assert "shop_empty:app is no application but of type int" in wrong.stderr


def test_application_is_found_in_a_package_and_below_a_name(folder: Path) -> None:
    (folder / "shop_package").mkdir()
    (folder / "shop_package" / "main.py").write_text(
        f"{APP}class Place:\n    app = AsyncHoldfast('x.db')\napp = Holdfast('y.db')\n"
    )
    assert type(find_application("shop_package.main", "app")).__name__ == "Holdfast"
    assert type(find_application("shop_package.main", "Place.app")).__name__ == "AsyncHoldfast"
    assert list(folder.glob("*.db")) == []


def test_wrong_setting_of_the_application_is_one_line(folder: Path) -> None:
    (folder / "shop_wrong.py").write_text(f"{APP}app = Holdfast('x.db', lease=0)\n")
    done = worker("shop_wrong:app")
    assert (done.exit_code, done.stderr) == (
        2,
        "Error: lease is a number of seconds, or a timedelta, from 0.1 s to 86400 s, not 0.\n",
    )


def test_application_that_is_launched_already_is_refused(folder: Path) -> None:
    (folder / "shop_launched.py").write_text(f"{APP}app = Holdfast('x.db')\napp.launch()\n")
    replay = ["dead-letters", "replay", "shop_launched:app", "--yes"]
    try:
        for done in (worker("shop_launched:app"), CliRunner().invoke(main, replay)):
            assert done.exit_code == 2
            assert "was launched when its module was imported" in done.stderr
    finally:
        sys.modules["shop_launched"].app.close()


@pytest.mark.parametrize(("queues", "told"), [(",", "names no queue"), ("_holdfast_x", "are ours")])
def test_queue_that_cannot_be_is_refused(folder: Path, queues: str, told: str) -> None:
    (folder / "shop_queues.py").write_text(f"{APP}app = Holdfast('x.db')\n")
    done = worker("shop_queues:app", "--queues", queues)
    assert done.exit_code == 2
    assert told in done.stderr


def test_database_that_cannot_be_reached_is_told_without_its_password(folder: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    (folder / "shop_away.py").write_text(
        f"{APP}app = Holdfast('postgresql://me:secret@127.0.0.1:1/x', connect_timeout=0.2)\n"
    )
    done = worker("shop_away:app")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "127.0.0.1:1" in done.stderr
    assert "secret" not in done.stderr
    assert signal.getsignal(signal.SIGTERM) is before


def test_reload_is_for_one_process() -> None:
    done = worker("shop:app", "--processes", "2", "--reload")
    assert done.exit_code == 2
    assert "--reload is for one process" in done.stderr


class TestWatch:
    @pytest.mark.parametrize("name", ["main.py", "below/settings.yaml"])
    def test_change_is_noticed(self, tmp_path: Path, name: str) -> None:
        watch = Watch(tmp_path)
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("a: 1" if path.suffix == ".yaml" else "a = 1")
        watch.wait()
        path.unlink()
        watch.wait()
        assert not path.exists()

    def test_what_is_not_the_program_is_passed_over(self, tmp_path: Path) -> None:
        watch = Watch(tmp_path)
        for folder in (".venv", "site-packages", "__pycache__"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "main.py").touch()
        (tmp_path / "notes.txt").touch()
        assert watch.is_unchanged()
