"""Patches: a run goes the way it began, and a run that goes the new way is left to the releases that have it.

A release that takes the runs of an older one may go the new way with them, beside processes of the older one, whose
code could do nothing with what is recorded then. So the commit that makes a run go the new way also gives it the
version of the process that did so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.texts import LONGEST_TEXT, check_text
from holdfast.errors import MisuseError
from holdfast.workflows.operations.voice import SideWrite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.operations.place import WorkflowPlace

MARKER = "holdfast.patch-"
_NEW_WAY = 1


def in_workflow(place: WorkflowPlace | None, verb: str) -> WorkflowPlace:
    """Return the place of a workflow; ``MisuseError`` where there is none."""
    if place is None:
        raise MisuseError(f"{verb}() belongs in a workflow; this code is in none.")
    return place


class Patches:
    """Which way the runs of one engine go."""

    def __init__(self, engine: Engine) -> None:
        self._recorder = engine.recorder
        self._payloads = engine.payloads
        self._codec = engine.payloads.typed(int)
        self._version = engine.executor.application_version
        self._adopt = AdoptRuns(engine.queries)

    async def patch(self, place: WorkflowPlace, name: str) -> bool:
        """Return whether this run goes the new way; see ``_way``."""
        marker = _marker(name)
        way = _way(place, marker)
        if way is not None:
            return way

        async def produce(operation: Operation) -> int:
            return self._taken(operation)

        mark = self._payloads.mark(marker, (), {})
        found: int = await self._recorder.do(place, marker, mark, self._codec, produce)
        place.run.version = self._version
        return found == _NEW_WAY

    def patch_blocking(self, place: WorkflowPlace, name: str) -> bool:
        """Return whether this run goes the new way, on a thread."""
        marker = _marker(name)
        way = _way(place, marker)
        if way is not None:
            return way
        mark = self._payloads.mark(marker, (), {})
        found: int = self._recorder.do_blocking(place, marker, mark, self._codec, self._taken)
        place.run.version = self._version
        return found == _NEW_WAY

    async def deprecate(self, place: WorkflowPlace, name: str) -> None:
        """Pass over the marker of a patch that every run goes by now.

        It is recorded once more for a run of an older release, which is one of this release from then on: processes
        that still have the patch then see which way it went, and those that do not leave it alone.
        """
        if self._is_older(place):
            await self.patch(place, name)
        else:
            _way(place, _marker(name))

    def deprecate_blocking(self, place: WorkflowPlace, name: str) -> None:
        """Do as ``deprecate`` from a thread."""
        if self._is_older(place):
            self.patch_blocking(place, name)
        else:
            _way(place, _marker(name))

    def _is_older(self, place: WorkflowPlace) -> bool:
        return place.run.version != self._version

    def _taken(self, operation: Operation) -> int:
        if self._is_older(operation.place):
            operation.writes = (SideWrite(self._adopt, (operation.run.id, self._version)),)
        return _NEW_WAY


class AdoptRuns:
    """Rows are (run, version): the run is of this version now; see ``voice.SideKind``."""

    def __init__(self, queries: Queries) -> None:
        self._adopt = queries["runs_adopt"]

    async def write(self, transaction: Transaction, rows: Sequence[Values]) -> None:
        """Write the versions; two branches of a run may take their ways at once."""
        await transaction.execute_batch(self._adopt, sorted(set(rows)))

    def written(self, rows: Sequence[Values]) -> None:
        """Nobody waits for that."""


def _way(place: WorkflowPlace, marker: str) -> bool | None:
    """Decide by the record: True if the marker stands here, False if something else does, None if nothing does.

    A run that was recorded before the patch has another operation here, or branches that are opened from here on: it
    goes the old way, and the operation keeps its place. A run that has not come this far goes the new way, and the
    marker is recorded.
    """
    recorded = (place.run.history or {}).get(place.branch.peek_identity())
    if recorded is None:
        return False if place.has_been_passed() else None
    if recorded.name != marker:
        return False
    place.branch.next_identity()
    return True


def _marker(name: str) -> str:
    return MARKER + check_text("The name of a patch", name, LONGEST_TEXT - len(MARKER))
