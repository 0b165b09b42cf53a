"""Does a replay do what is recorded, and can what operations return be kept? If not, the run ends with that.

Nothing may be done under a wrong assumption. An operation whose outcome cannot be stored, or not be read, has perhaps
succeeded, and code that caught the error, as it would that of a step, would undo what is done, or go on without it. So
after the first such flaw no operation is carried out, and a workflow that catches the error does not hide it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import DeterminismError
from holdfast.workflows.operations.patches import MARKER

if TYPE_CHECKING:
    from typing import NoReturn

    from holdfast.errors import SerializationError
    from holdfast.model.workflow import Recorded
    from holdfast.workflows.operations.operation import Operation
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.running.run import Run

_REMEDY = (
    "A workflow must make the same calls in the same order every time: put what varies into a step, or guard the "
    "change with patch()."
)
_NO_PATCH = (
    "This code lacks that patch: give releases that run side by side application versions of their own, and keep "
    "deprecate_patch() for as long as a run has the marker in its record."
)


def compare(run: Run, operation: Operation, recorded: Recorded) -> None:
    """Raise ``DeterminismError`` if *operation* is not the one that is *recorded* in its place."""
    if recorded.name == operation.name and (
        recorded.fingerprint == operation.mark or recorded.fingerprint is None or operation.mark is None
    ):
        return
    differs = "with other arguments" if recorded.name == operation.name else f"and not {operation.name!r}"
    _differs(
        run,
        f"Run {run.id} did {recorded.name!r} at {operation.identity} when it was recorded, {differs}, which it does "
        f"now (recorded {recorded.name} {recorded.fingerprint}, now {operation.name} {operation.mark}). "
        f"{_remedy(recorded)}",
    )


def check_whole(place: WorkflowPlace) -> None:
    """Raise ``DeterminismError`` if code that has come to its end at *place* has not done all that is recorded there.

    Nothing is known of code that was stopped before its end.
    """
    run, identity = place.run, place.branch.peek_identity()
    recorded = (run.history or {}).get(identity)
    if recorded is None or run.stopped is not None or place.branch.is_closed:
        return
    _differs(
        run,
        f"Run {run.id} did {recorded.name!r} at {identity} when it was recorded, and comes to its end without it now. "
        f"{_remedy(recorded)}",
    )


def unfit(operation: Operation, error: SerializationError) -> SerializationError:
    """Return *error*, with which the run ends now: what *operation* came to cannot be stored, or not be read.

    Unless it is of a part whose time is over: nobody hears of that.
    """
    if operation.run.flaw is None and not operation.place.branch.is_closed:
        operation.run.flaw = error
    return error


def _remedy(recorded: Recorded) -> str:
    return _NO_PATCH if recorded.name.startswith(MARKER) else _REMEDY


def _differs(run: Run, how: str) -> NoReturn:
    differs = DeterminismError(how)
    if run.flaw is None:
        run.flaw = differs
    raise differs


__all__ = ["check_whole", "compare", "unfit"]
