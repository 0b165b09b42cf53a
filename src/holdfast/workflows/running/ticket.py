"""The two ends of a run: the call that asks for it, and the ticket by which it is found again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from holdfast.errors import MisuseError

if TYPE_CHECKING:
    from holdfast.model.workflow import StartOptions
    from holdfast.workflows.declaring.registry import Definition
    from holdfast.workflows.payloads import Codec
    from holdfast.workflows.running.run import Run

R_co = TypeVar("R_co", covariant=True)


class Call(NamedTuple):
    """A workflow to be run: the function, what it is given, and what was said about this run."""

    definition: Definition
    instance: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    options: StartOptions


class PlannedCall(Generic[R_co]):
    """A call of a workflow that has not been made: ``fn.call(...)``, for ``fn.enqueue_many([...])``."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call = call

    def __repr__(self) -> str:
        return f"<call of {self._call.definition.name}>"


def call_of(planned: PlannedCall[Any]) -> Call:
    """Return what was planned, for the library's own use. Raises ``MisuseError`` for anything but a planned call."""
    if not isinstance(planned, PlannedCall):
        raise MisuseError(f"enqueue_many takes calls, as [fn.call(1), fn.call(2)], not a {type(planned).__name__}.")
    return planned._call  # noqa: SLF001 -- not for users, and in one place


class Ticket(NamedTuple):
    """The run a handle stands for."""

    workflow_id: str
    codec: Codec
    run: Run | None
