"""The two applications have the same face, so that neither can lag."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from holdfast import AsyncHandle, AsyncHoldfast, Handle, Holdfast
from holdfast.errors import ConfigurationError
from holdfast.workflows.declaring.functions import AsyncWorkflow, Workflow

PAIRS = [(Holdfast, AsyncHoldfast), (Handle, AsyncHandle), (Workflow, AsyncWorkflow)]


def _public(kind: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("sync", "other"), PAIRS)
def test_both_colours_have_the_same_names(sync: type, other: type) -> None:
    assert _public(sync).keys() == _public(other).keys()


@pytest.mark.parametrize(("sync", "other"), PAIRS)
def test_both_colours_have_the_same_parameters(sync: type, other: type) -> None:
    compared = 0
    for name, member in _public(sync).items():
        if callable(member):
            mine, theirs = inspect.signature(member), inspect.signature(_public(other)[name])
            assert [(each.name, each.kind, each.default) for each in mine.parameters.values()] == [
                (each.name, each.kind, each.default) for each in theirs.parameters.values()
            ], name
            compared += 1
    assert compared


@pytest.mark.parametrize(("sync", "other"), PAIRS)
def test_both_colours_are_documented_alike(sync: type, other: type) -> None:
    for name, member in _public(sync).items():
        mine, theirs = inspect.getdoc(member), inspect.getdoc(_public(other)[name])
        assert mine, name
        assert theirs, name
        if name not in {"gather", "run_step", "timeout"}:  # where a part is a callable here and an awaitable there
            assert mine == theirs, name


@pytest.mark.parametrize("name", ["", "x" * 256, 'quo"te', "back\\slash", "line\nbreak"])
def test_name_that_no_table_could_hold_is_refused(name: str) -> None:
    app = Holdfast("sqlite:///x.sqlite")
    for decorator in (app.workflow(name=name), app.step(name=name)):
        with pytest.raises(ConfigurationError, match="cannot be recorded: use 1 to 255"):
            decorator(lambda: None)


def test_workflow_and_step_look_like_their_functions() -> None:
    app = Holdfast("sqlite:///x.sqlite")

    def documented(number: int) -> int:
        """Say something."""
        return number

    for made in (app.workflow(documented), app.step(documented)):
        assert vars(made)["__name__"] == "documented"
        assert made.__doc__ == "Say something."
        assert list(inspect.signature(made).parameters) == ["number"]
        assert "documented" in repr(made)


def test_same_function_may_be_registered_twice_and_in_two_applications() -> None:
    def shared() -> int:
        return 1

    one, two = Holdfast("sqlite:///x.sqlite"), AsyncHoldfast("sqlite:///y.sqlite")
    one.workflow(shared)
    one.workflow(shared)
    two.workflow(shared)
    assert list(one._engine.registry.workflows) == list(two._engine.registry.workflows)
