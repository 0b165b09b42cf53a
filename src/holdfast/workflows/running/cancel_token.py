"""How code that cannot be interrupted learns that it need not go on."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING

from holdfast.core.durations import checked_seconds
from holdfast.errors import Superseded
from holdfast.workflows.operations.place import StepPlace, refuse_closed_attempt

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration
    from holdfast.workflows.operations.place import WorkflowPlace


class CancelToken:
    """Tells the code of a step or a workflow whether its run was cancelled, or goes on elsewhere.

    Async code is interrupted and needs no token. A thread cannot be: it asks, as often as it can stop. Outside of a run
    nothing is ever cancelled.
    """

    def __init__(self, place: WorkflowPlace | StepPlace | None) -> None:
        self._attempt = place if isinstance(place, StepPlace) else None
        self._workflow = place.within if isinstance(place, StepPlace) else place

    @property
    def is_cancelled(self) -> bool:
        """Whether to go no further: the run was cancelled or taken over, or the time for this is over."""
        workflow = self._workflow
        if workflow is None:
            return False
        over = self._attempt is not None and self._attempt.closed
        return over or workflow.run.stopped is not None or workflow.branch.is_closed

    def wait(self, timeout: Duration) -> bool:
        """Wait for so long, or until the run is cancelled; return whether it is. For threads.

        Outside of a run all the time is waited, so that a loop which waits like this has the same pace there.
        """
        length, halted = checked_seconds(timeout, "timeout", past=True), threading.Event()
        with nullcontext() if self._workflow is None else self._workflow.halting(halted.set):
            halted.wait(length)
        return self.is_cancelled

    def raise_if_cancelled(self) -> None:
        """Leave the step or workflow if there is no use in going on; nothing of it is recorded then."""
        if self._workflow is not None:
            self._workflow.check()
        if self._attempt is not None and self._attempt.closed:
            refuse_closed_attempt()
            raise Superseded("the time of this attempt is over")
