"""Runs that wait for versions which no living process has are told of when an application is launched."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Holdfast
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable


def application(url: str, version: str, **settings: Any) -> tuple[Holdfast, Any]:
    app = Holdfast(url, application_version=version, **settings)

    @app.workflow
    def sleeps() -> None:
        app.sleep(3600)

    return app, sleeps


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_launch_tells_how_many_runs_wait_for_versions_that_nobody_has(
    kind: str, fresh_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    url = fresh_database(kind)

    def told() -> list[str]:
        return [text for each in caplog.records if "no living process has" in (text := each.getMessage())]

    def looked(version: str, **settings: Any) -> list[str]:
        """Launch a process, and return what it tells: it has done so before it claims its first run."""
        caplog.clear()
        app, _ = application(url, version, **settings)
        with app:

            @app.workflow
            def done() -> str:
                return "done"

            app.register_queue("q")
            assert done.options(queue_name="q").enqueue().result(timeout=60) == "done"
        return told()

    with caplog.at_level(logging.WARNING, "holdfast.workflows"):
        for version, runs in (("one", 2), ("two", 1), ("three", 1)):
            app, sleeps = application(url, version)
            with app:
                for _ in range(runs):
                    sleeps.start()  # handed over when the application is closed
        parked, sleeps = application(url, "four", put_away_after=0.001)
        with parked:
            handle = sleeps.start()
            until(lambda: handle.status().status == "DELAYED")
        (text,) = looked("one")
        assert text.startswith("3 runs wait for application versions that no living process has: ")
        assert "has: four (1), three (1), two (1). They go on when a process of their version is launched" in text
        alive, _ = application(url, "two")
        caplog.clear()
        with alive:
            until(told)
            (text,) = looked("five", compatible_versions=["one", "four"])
            assert text.startswith("1 runs wait for application versions that no living process has: three (1). ")
        assert looked("five", compatible_versions=["one", "two", "three", "four"]) == []


def test_launch_names_a_few_versions(caplog: pytest.LogCaptureFixture, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database("sqlite")
    for number in range(7):
        app, sleeps = application(url, f"v{number}")
        with app:
            sleeps.start()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "holdfast.workflows"), application(url, "last")[0]:
        text = until(lambda: [each.getMessage() for each in caplog.records if "no living" in each.getMessage()])[-1]
    assert "7 runs wait" in text
    assert "v0 (1), v1 (1), v2 (1), v3 (1), v4 (1) and 2 others. They" in text
