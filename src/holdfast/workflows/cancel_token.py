"""How code that cannot be interrupted learns that it need not go on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from holdfast.core.durations import checked_seconds
from holdfast.errors import Superseded
from holdfast.workflows.place import StepPlace, refuse_closed_attempt

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration
    from holdfast.workflows.place import WorkflowPlace
    from holdfast.workflows.run import Run


class CancelToken:
    """Tells the code of a step or a workflow whether its run was cancelled, or goes on elsewhere.

    Async code is interrupted and needs no token. A thread cannot be: it asks, as often as it can stop. Outside of a run
    nothing is ever cancelled.
    """

    def __init__(self, place: WorkflowPlace | StepPlace | None) -> None:
        self._place = place

    @property
    def is_cancelled(self) -> bool:
        """Whether to go no further: the run was cancelled or taken over, or the time of this attempt is over."""
        place = self._place
        if place is None:
            return False
        return place.run.stopped is not None or (isinstance(place, StepPlace) and place.closed)

    def wait(self, timeout: Duration) -> bool:
        """Wait for so long, or until the run is cancelled; return whether it is. For threads."""
        run = self._run
        if run is not None:
            halted = threading.Event()
            run.on_halt(halted.set)
            halted.wait(checked_seconds(timeout, "timeout", past=True))
            run.off_halt(halted.set)
        return self.is_cancelled

    def raise_if_cancelled(self) -> None:
        """Leave the step or workflow if there is no use in going on; nothing of it is recorded then."""
        if self._run is not None:
            self._run.check()
        if isinstance(self._place, StepPlace) and self._place.closed:
            refuse_closed_attempt()
            raise Superseded("the time of this attempt is over")

    @property
    def _run(self) -> Run | None:
        return None if self._place is None else self._place.run
