"""The handles that clients give: a run as it is seen by a process that does not have its function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

    from holdfast.db.portal import Portal
    from holdfast.model.workflow import Duration, WorkflowState
    from holdfast.workflows.remote.remote import Remote


class ClientHandle:
    """A run, from outside."""

    def __init__(self, remote: Remote, portal: Portal, workflow_id: str) -> None:
        self._remote = remote
        self._portal = portal
        self._workflow_id = workflow_id

    @property
    def workflow_id(self) -> str:
        """The id of the run, which is its idempotency key."""
        return self._workflow_id

    def result(self, timeout: Duration | None = None) -> Any:
        """Wait for the run's value, or raise what it ended with; ``TimeoutError`` leaves it running."""
        return self._portal.call(self._remote.outcome(self._workflow_id, timeout)).delivered()

    def status(self) -> WorkflowState:
        """Return where the run stands now, without its input and output."""
        return self._portal.call(self._remote.state(self._workflow_id))

    def __repr__(self) -> str:
        return f"<ClientHandle of run {self._workflow_id}>"


class AsyncClientHandle:
    """A run, from outside; awaiting the handle is awaiting ``result()``."""

    def __init__(self, remote: Remote, workflow_id: str) -> None:
        self._remote = remote
        self._workflow_id = workflow_id

    @property
    def workflow_id(self) -> str:
        """The id of the run, which is its idempotency key."""
        return self._workflow_id

    async def result(self, timeout: Duration | None = None) -> Any:  # noqa: ASYNC109 -- the same name in both colours
        """Wait for the run's value, or raise what it ended with; ``TimeoutError`` leaves it running."""
        return (await self._remote.outcome(self._workflow_id, timeout)).delivered()

    async def status(self) -> WorkflowState:
        """Return where the run stands now, without its input and output."""
        return await self._remote.state(self._workflow_id)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.result().__await__()

    def __repr__(self) -> str:
        return f"<AsyncClientHandle of run {self._workflow_id}>"
