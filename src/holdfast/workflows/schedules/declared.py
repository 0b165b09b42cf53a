"""Schedules that stand above functions: ``@app.scheduled``. They are said before launch, and made at launch."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigurationError
from holdfast.workflows.declaring.registry import is_defined_anew
from holdfast.workflows.schedules.settings import ScheduleSpec, wanted

if TYPE_CHECKING:
    from holdfast.workflows.declaring.registry import Registry
    from holdfast.workflows.management.desk import Desk
    from holdfast.workflows.schedules.settings import Wanted

logger = logging.getLogger("holdfast.schedules")


@dataclass(frozen=True, slots=True)
class _Said:
    """A schedule and the function below it: a workflow, or what ``@app.workflow`` above will make one."""

    spec: ScheduleSpec
    function: Any


class Declared:
    """The schedules that one application's functions have."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._said: list[_Said] = []

    def add(self, spec: ScheduleSpec, function: Any) -> None:
        """Note a schedule for *function*; refuse now what is wrong whatever the function.

        Those of a function that is defined anew with it are void.
        """
        wanted(replace(spec, name=spec.name or "scheduled", workflow="scheduled"))
        self._said = [each for each in self._said if not is_defined_anew(_plain(each.function), _plain(function))]
        self._said.append(_Said(spec, function))

    async def declare(self, desk: Desk, version: str) -> None:
        """Make the schedules, all or none; change none that is there if a later version has workflows of theirs."""
        if not self._said:
            return
        asked = [self._wanted(said) for said in self._said]
        names = {each.schedule_name for each in asked}
        there = {each.workflow_name for each in await desk.schedules.find() if each.schedule_name in names}
        later = await desk.versions.later(version, there | {each.workflow_name for each in asked})
        if later is not None:
            logger.warning(
                "This process runs application version %s and the latest is %s: schedules that are there stay as they "
                "are.",
                version,
                later,
            )
        await desk.schedules.create(asked, "update" if later is None else "keep")

    def _wanted(self, said: _Said) -> Wanted:
        workflow = said.function
        if not hasattr(workflow, "definition"):
            plain = _plain(workflow)
            found = [each for each in self._registry.workflows.values() if each.function is plain]
            if not found:
                raise ConfigurationError(
                    f"The function {getattr(plain, '__qualname__', plain)!r} is scheduled and is no workflow: put "
                    "@app.workflow above or below @app.scheduled."
                )
            workflow = found[0].name
        name = said.spec.name or (workflow if isinstance(workflow, str) else workflow.definition.name)
        return wanted(replace(said.spec, name=name, workflow=workflow))


def _plain(function: Any) -> Any:
    """Return the function of a workflow, or of a static or class method."""
    made = getattr(function, "definition", None)
    return getattr(function, "__func__", function) if made is None else made.function


__all__ = ["Declared"]
