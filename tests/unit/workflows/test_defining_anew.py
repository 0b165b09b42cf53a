"""A definition that is read or typed again takes the place of the old one, until the application is launched."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHoldfast, Holdfast, Retry
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

CELL = """
@app.step
def half(x: int) -> int:
    return x // 2

@app.transaction
def note(transaction, x: int) -> int:
    return x

@app.scheduled("0 8 * * *")
@app.workflow
def above(at) -> int:
    return half(8) + 1

@app.workflow
@app.scheduled("0 9 * * *")
def below(at) -> None:
    pass
"""


def executed(app: Any, source: str, file: str, module: str = "__main__", **others: Any) -> dict[str, Any]:
    names = {"app": app, "__name__": module, **others}
    exec(compile(source, file, "exec"), names)  # noqa: S102 -- as a notebook does
    return names


@pytest.mark.parametrize("kind", [Holdfast, AsyncHoldfast])
def test_cell_that_is_executed_again_or_edited_defines_anew(kind: type[Holdfast | AsyncHoldfast]) -> None:
    app = kind("sqlite:///never.db")
    executed(app, CELL, "/cells/ipykernel_1/111.py")
    executed(app, CELL, "/cells/ipykernel_1/111.py")
    names = executed(app, CELL.replace("// 2", "// 4"), "/cells/ipykernel_1/222.py")
    registry = app._engine.registry
    assert registry.workflows["above"] is names["above"].definition
    assert registry.steps["half"] is names["half"].definition
    assert registry.steps["half"].function(8) == 2
    assert [each.spec.schedule for each in app._engine.declared._said] == ["0 8 * * *", "0 9 * * *"]


ERRORS = """
class Declined(Exception):
    pass

@app.step
def charge() -> None:
    raise Declined("no")

@app.step
def flaky(failed) -> None:
    if not failed:
        failed.append(1)
        raise OSError

@app.workflow(retry=Retry(attempts=2, interval=0))
def pay() -> bool:
    try:
        charge()
    except Declined as declined:
        flaky(failed)  # and so it is caught a second time, from the record
        return type(declined) is Declined
"""


def test_error_of_a_class_that_was_defined_anew_is_caught_as_that_class(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/anew.sqlite", application_version="1")
    kept = []
    for _ in range(2):
        names = executed(app, ERRORS, "<ipython-input-1-a>", Retry=Retry, failed=[])
        kept.append(names["Declined"])  # somebody still has the old one, so it is still loaded
        with app:
            assert names["pay"]() is True
            assert names["failed"] == [1]
    assert kept[0] is not kept[1]


def test_definitions_of_a_notebook_run_as_they_were_typed_last(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/anew.sqlite", application_version="1")
    for _ in range(2):
        executed(app, CELL, "<ipython-input-1-a>")
    names = executed(app, CELL.replace("// 2", "// 4"), "<ipython-input-2-b>")
    with app:
        assert names["above"](None) == 3
        assert sorted(each.schedule_name for each in app.list_schedules()) == ["above", "below"]
        with pytest.raises(ConfigurationError, match=r"Two steps are called 'half'.*close\(\) the application first"):
            executed(app, CELL, "<ipython-input-3-c>")
        assert names["above"](None) == 3
    names = executed(app, CELL, "<ipython-input-4-d>")
    with app:
        assert names["above"](None) == 5


def test_module_that_is_reloaded_defines_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "anew_app.py").write_text("from holdfast import Holdfast\napp = Holdfast('sqlite:///never.db')\n")
    (tmp_path / "anew_module.py").write_text("from anew_app import app\n" + CELL)
    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        module = importlib.import_module("anew_module")
        old = module.half
        module = importlib.reload(module)
        assert module.half is not old
        assert module.app._engine.registry.steps["half"] is module.half.definition
    finally:
        for name in ("anew_app", "anew_module"):
            sys.modules.pop(name, None)


def test_two_definitions_of_one_name_are_still_refused(tmp_path: Path) -> None:
    app = Holdfast("sqlite:///never.db")

    def made(value: int) -> Any:
        @app.step
        def priced() -> int:
            return value

        return priced

    made(1)
    with pytest.raises(ConfigurationError, match=r"Two steps are called .*priced'.*another name="):
        made(2)
    file = tmp_path / "script.py"
    source = "@app.step\ndef twice(): return 1\n\n@app.step\ndef twice(): return 2\n"
    file.write_text(source)
    with pytest.raises(ConfigurationError, match=r"Two steps are called 'twice'.*another name="):
        executed(app, source, str(file))
    with pytest.raises(ConfigurationError, match="Two steps are called 'again'"):
        executed(app, source.replace("twice", "again"), "/cells/ipykernel_1/333.py")
    other = "@app.step\ndef thrice(): return 1\n"
    executed(app, other, "<string>", "one")
    with pytest.raises(ConfigurationError, match="Two steps are called 'thrice'"):
        executed(app, other, "<string>", "two")
