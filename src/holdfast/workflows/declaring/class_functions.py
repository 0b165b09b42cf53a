"""How type checkers see a static or class method that is reached through its class. Never imported when programs run.

Its parameters are as they are, or without the class: mypy cannot tell one from the other, and so takes whichever fits
the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from holdfast.workflows.declaring.functions import AsyncWorkflow, Workflow
from holdfast.workflows.declaring.steps import Step

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration
    from holdfast.workflows.outbox.outbox import AwaitedTransaction, BlockingTransaction
    from holdfast.workflows.running.handles import AsyncHandle, Handle
    from holdfast.workflows.running.ticket import PlannedCall

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
C = TypeVar("C")


class StepOfClass(Step[P, C]):
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C: ...
    @overload
    def __call__(self: StepOfClass[Concatenate[type[Any], Q], C], *args: Q.args, **kwargs: Q.kwargs) -> C: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class WorkflowOfClass(Workflow[P, R, C]):
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C: ...
    @overload
    def __call__(self: WorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs) -> C: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    @overload
    def start(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    def start(
        self: WorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs
    ) -> Handle[R]: ...
    def start(self, *args: Any, **kwargs: Any) -> Any: ...

    @overload
    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    def enqueue(
        self: WorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs
    ) -> Handle[R]: ...
    def enqueue(self, *args: Any, **kwargs: Any) -> Any: ...

    @overload
    def call(self, *args: P.args, **kwargs: P.kwargs) -> PlannedCall[R]: ...
    @overload
    def call(
        self: WorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs
    ) -> PlannedCall[R]: ...
    def call(self, *args: Any, **kwargs: Any) -> Any: ...

    @overload
    def debounce(self, key: str, period: Duration, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    def debounce(
        self: WorkflowOfClass[Concatenate[type[Any], Q], R, C],
        key: str,
        period: Duration,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> Handle[R]: ...
    def debounce(self, key: Any, period: Any, /, *args: Any, **kwargs: Any) -> Any: ...

    @overload
    def enqueue_in(self, transaction: BlockingTransaction, /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...
    @overload
    def enqueue_in(
        self: WorkflowOfClass[Concatenate[type[Any], Q], R, C],
        transaction: BlockingTransaction,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> Handle[R]: ...
    def enqueue_in(self, transaction: Any, /, *args: Any, **kwargs: Any) -> Any: ...


class AsyncWorkflowOfClass(AsyncWorkflow[P, R, C]):
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C: ...
    @overload
    def __call__(
        self: AsyncWorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs
    ) -> C: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    @overload
    async def start(self, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]: ...
    @overload
    async def start(
        self: AsyncWorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs
    ) -> AsyncHandle[R]: ...
    async def start(self, *args: Any, **kwargs: Any) -> Any: ...

    @overload
    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]: ...
    @overload
    async def enqueue(
        self: AsyncWorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs
    ) -> AsyncHandle[R]: ...
    async def enqueue(self, *args: Any, **kwargs: Any) -> Any: ...

    @overload
    def call(self, *args: P.args, **kwargs: P.kwargs) -> PlannedCall[R]: ...
    @overload
    def call(
        self: AsyncWorkflowOfClass[Concatenate[type[Any], Q], R, C], *args: Q.args, **kwargs: Q.kwargs
    ) -> PlannedCall[R]: ...
    def call(self, *args: Any, **kwargs: Any) -> Any: ...

    @overload
    async def debounce(self, key: str, period: Duration, /, *args: P.args, **kwargs: P.kwargs) -> AsyncHandle[R]: ...
    @overload
    async def debounce(
        self: AsyncWorkflowOfClass[Concatenate[type[Any], Q], R, C],
        key: str,
        period: Duration,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> AsyncHandle[R]: ...
    async def debounce(self, key: Any, period: Any, /, *args: Any, **kwargs: Any) -> Any: ...

    @overload
    async def enqueue_in(
        self, transaction: AwaitedTransaction, /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncHandle[R]: ...
    @overload
    async def enqueue_in(
        self: AsyncWorkflowOfClass[Concatenate[type[Any], Q], R, C],
        transaction: AwaitedTransaction,
        /,
        *args: Q.args,
        **kwargs: Q.kwargs,
    ) -> AsyncHandle[R]: ...
    async def enqueue_in(self, transaction: Any, /, *args: Any, **kwargs: Any) -> Any: ...
