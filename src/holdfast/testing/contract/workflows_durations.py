"""The contract of durations in workflows: one that no clock can count is refused where it was said."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError, InvalidDuration
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue

UNCOUNTABLE: list[Any] = [math.nan, math.inf, 1e20, 1e300, "soon"]


async def nothing() -> None:
    """Do nothing."""


class DurationsContract:
    """What is refused, and that nothing of it is recorded."""

    def test_wait_in_a_workflow_that_no_clock_can_count_is_refused_and_not_recorded(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            step = app.step(nothing)

            async def waiting(verb: str) -> int:
                refused = 0
                for length in UNCOUNTABLE:
                    with pytest.raises(InvalidDuration, match="a hundred years, not"):
                        match verb:
                            case "sleep":
                                await app.do("sleep", length)
                            case "timeout":
                                await app.timeout(length, step)
                            case "recv":
                                await app.do("recv", timeout=length)
                            case "get_event":
                                await app.do("get_event", "nobody", "key", timeout=length)
                            case "result":
                                await app.retrieve("nobody").result(length)
                    refused += 1
                return refused

            flow = app.workflow(waiting)
            async with app:
                for verb in ("sleep", "timeout", "recv", "get_event", "result"):
                    handle = await flow.start(verb)
                    assert await handle.result() == len(UNCOUNTABLE)
                    assert stage.steps(handle.workflow_id) == []

        Stage(venue).play(scene)

    def test_wait_until_a_moment_that_has_passed_is_over_at_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate = stage.app(), stage.gate()

            async def late() -> list[Any]:
                await app.do("sleep", timedelta(seconds=-1))
                for length in (0, -1):
                    with pytest.raises(TimeoutError):
                        await app.timeout(length, gate)
                return [await app.do("recv", timeout=-1), await app.do("get_event", "nobody", "key", timeout=-1)]

            flow = app.workflow(late)
            async with app:
                assert await flow() == [None, None]

        Stage(venue).play(scene)

    def test_options_that_not_every_database_holds_are_refused_where_they_are_said(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            flow = app.workflow(nothing)
            name = flow.raw.definition.name
            async with app:
                await app.do("register_queue", stage.version)
                for length in (*UNCOUNTABLE, -1):
                    with pytest.raises(InvalidDuration, match="The timeout of a run"):
                        flow.options(timeout=length)
                    with pytest.raises(InvalidDuration, match="The timeout of a run"):
                        await app.do("enqueue", name, queue_name=stage.version, timeout=length)
                for option in ("authenticated_user", "assumed_role", "application_version"):
                    for text in ("", "x" * 256, "a\0b", "\ud800", 7):
                        with pytest.raises(ConfigurationError, match=option):
                            flow.options(**{option: text})
                        with pytest.raises(ConfigurationError, match=option):
                            await app.do("enqueue", name, queue_name=stage.version, **{option: text})
                for roles, why in (("admin", "several, not one text"), ([1], "several texts")):
                    with pytest.raises(ConfigurationError, match=f"authenticated_roles are {why}"):
                        flow.options(authenticated_roles=roles)
                whole = flow.options(timeout=60, authenticated_user="é" * 255, authenticated_roles=["admin"])
                handle = await whole.start()
                await handle.result()
                assert stage.run(handle.workflow_id)["authenticated_user"] == "é" * 255

        Stage(venue).play(scene)
