"""Where the data of a transaction is: what each such place must be able to do, in either colour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration
    from holdfast.workflows.declaring.registry import StepDefinition
    from holdfast.workflows.operations.operation import Kept, Operation


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransactionDefinition:
    """A transaction: the step it is, the isolation its transaction has, and how long its function may take."""

    step: StepDefinition
    isolation: str | None = None
    timeout: Duration | None = None

    @property
    def name(self) -> str:
        """The name under which it is recorded."""
        return self.step.name


class Opened(Protocol):
    """An open transaction, on its way from its first statement to its commit."""

    @property
    def handle(self) -> Any:
        """What the function is handed."""

    def mark(self) -> Any:
        """Say in the context of the caller that it is inside, until ``unmark`` with what is returned."""

    def unmark(self, mark: Any) -> None: ...

    def doom(self, error: BaseException | None) -> Exception | None:
        """Return why it cannot be kept, after a function that returned or raised *error*; None if that stands."""


class Home(Protocol):
    """A place for data. *operation* is None outside of a workflow: then nothing is recorded."""

    @property
    def outlasts(self) -> bool:
        """Whether ``keep`` of an operation comes to its end by itself if the task that waits for it is cancelled."""

    async def begin(self, definition: TransactionDefinition, operation: Operation | None) -> Opened | Kept:
        """Open a transaction; or return the outcome of the operation, if it is found to have been kept before."""

    async def keep(self, opened: Any, operation: Operation | None, output: str, serialization: str) -> Kept | None:
        """Write the outcome, last, and commit. If it was kept before, nothing is kept now, and that is returned."""

    async def drop(self, opened: Any) -> None:
        """Roll back."""

    async def recall(self, operation: Operation) -> Kept | None:
        """After a commit of unknown outcome: return the outcome if it was kept; what is returned will stay true."""


class BlockingHome(Protocol):
    """A place for data, for functions on threads; see ``Home``."""

    def begin(self, definition: TransactionDefinition, operation: Operation | None) -> Opened | Kept: ...
    def keep(self, opened: Any, operation: Operation | None, output: str, serialization: str) -> Kept | None: ...
    def drop(self, opened: Any) -> None: ...
    def recall(self, operation: Operation) -> Kept | None: ...
