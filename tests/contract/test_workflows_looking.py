"""Looking at runs and taking them elsewhere, held to its contract on every database and in both colours."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Holdfast
from holdfast.errors import ConfigurationError
from holdfast.testing.contract.workflows_looking import LookingContract
from holdfast.testing.contract.workflows_states import StatesContract
from holdfast.testing.contract.workflows_transfer import TransferContract, through_text
from holdfast.workflows.looking import Filters

if TYPE_CHECKING:
    from collections.abc import Callable


class TestLooking(LookingContract):
    """One suite, every shared column of the table in ``conftest``."""


class TestStates(StatesContract):
    """One suite, every shared column of the table in ``conftest``."""


class TestTransfer(TransferContract):
    """One suite, every shared column of the table in ``conftest``."""


def _app(url: str) -> tuple[Holdfast, Any]:
    app = Holdfast(url, application_version="travels")

    @app.step
    def double(number: int) -> int:
        return number * 2

    @app.workflow
    def twice(number: int, word: str) -> dict[str, Any]:
        return {word: double(double(number))}

    return app, twice


def test_run_travels_through_all_databases_and_comes_home_unchanged(fresh_database: Callable[[str], str]) -> None:
    app, twice = _app(fresh_database("sqlite"))
    with app:
        handle = twice.options(workflow_id="traveller", attributes={"é": True, "n": 1.5}).start(3, "ü\U0001f40c")
        assert handle.result() == {"ü\U0001f40c": 12}
        first = through_text(app.export_workflow("traveller"))
    document = first
    for kind in ("postgres", "mariadb", "sqlite"):
        app, _ = _app(fresh_database(kind))
        with app:
            imported = app.import_workflow(document)
            assert imported.result() == {"ü\U0001f40c": 12}
            assert [step.output for step in app.list_steps("traveller")] == [6, 12]
            document = through_text(app.export_workflow("traveller"))
            assert document == first, kind


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("status", "DONE"),
        ("status", ["SUCCESS", "DONE"]),
        ("name", 7),
        ("name", ["a", None]),
        ("name", b"a"),
        ("name", "a\0b"),
        ("workflow_ids", "\ud800"),
        ("workflow_id_prefix", ""),
        ("workflow_id_prefix", ["a"]),
        ("priority", "high"),
        ("priority", True),
        ("priority", 2**64),
        ("has_parent", "yes"),
        ("queues_only", 1),
        ("min_recovery_attempts", -1),
        ("created_after", datetime(2026, 1, 1)),  # noqa: DTZ001 -- what is refused
        ("created_before", "2026-01-01"),
        ("updated_after", 1.5),
        ("attributes", ["tenant"]),
        ("attributes", {"tenant": ["a"]}),
        ("attributes", {1: "a"}),
        ("attributes", {"n": float("nan")}),
        ("attributes", {"n": float("inf")}),  # would be null, and find the runs that have none
        ("search", ""),
        ("search", 5),
    ],
)
def test_filter_that_can_fit_nothing_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"The filter {name} is"):
        Filters(**{name: value})
