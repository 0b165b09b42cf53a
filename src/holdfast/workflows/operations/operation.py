"""What an operation of a workflow carries from its beginning to its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.errors import Superseded

if TYPE_CHECKING:
    from holdfast.workflows.operations.place import WorkflowPlace
    from holdfast.workflows.operations.voice import SideWrite
    from holdfast.workflows.running.run import Run


RECV = "holdfast.recv"
GET_EVENT = "holdfast.get_event"
OF_OTHERS = frozenset({RECV, GET_EVENT})  # what they record, another process has written


class Operation(Struct, eq=False):
    """One operation that is about to be done: who it is, what to compare it by, and what is written beside its record.

    *writes* are committed with the record of what it returns, *writes_if_failed* with the record of what it raises.
    *failures* are the last failed attempts of a step: which one it was, when, and the error's type and message.
    """

    place: WorkflowPlace
    run: Run
    identity: str
    name: str
    mark: str | None
    child_id: str | None
    position: int = 0
    began: float = 0.0
    writes: tuple[SideWrite, ...] = ()
    writes_if_failed: tuple[SideWrite, ...] = ()
    failures: tuple[tuple[int, float, str, str], ...] = ()

    def check(self) -> None:
        """Raise if this execution, or this branch of it, must go no further."""
        self.place.check()

    def failed(self, error: BaseException) -> BaseException:
        """Return *error*, with which it failed; a run that may be tried again remembers where that was."""
        if self.run.cut_at is not None:
            self.run.cut_at.failed(error, self.position, self.child_id)
        return error

    def stands_on_nothing(self) -> Superseded:
        """Stop the run, which may stand on records the database has lost; it goes on from what is left."""
        self.run.stop(Superseded("the database has lost what it had acknowledged"))
        return Superseded("the database has lost what it had acknowledged")


class Kept:
    """The outcome of an operation that has written its record itself, as the record holds it."""

    __slots__ = ("error", "output", "serialization")

    def __init__(self, output: str | None, serialization: str | None, error: str | None = None) -> None:
        self.output = output
        self.serialization = serialization
        self.error = error
