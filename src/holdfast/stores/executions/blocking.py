"""The execution stores for code without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.stores.blocking import BlockingStore
from holdfast.stores.executions.store import ExecutionStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.stores.executions.store import Execution


class SyncExecutionStore(BlockingStore[ExecutionStore]):
    """Any execution store, called from threads; its loop is *portal*'s."""

    def record_start(
        self,
        run_id: str,
        workflow_id: str | None = None,
        parameters: Any = None,
        worker_id: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Record that a run has begun: it is pending.

        ``ExecutionConflict``, and nothing is changed, if there is an execution of this run id. ``CannotSerialize``
        names the part of *parameters* or *metadata* that does not fit JSON.
        """
        self._write(lambda store: store.record_start(run_id, workflow_id, parameters, worker_id, metadata=metadata))

    def record_completion(self, run_id: str, results: Any = None) -> None:
        """Record that a pending run has completed, with its results.

        ``ExecutionNotFound`` if there is no such run; ``ExecutionConflict`` if it has ended: that does not change any
        more. ``CannotSerialize`` names the part of *results* that does not fit JSON; the run stays pending.
        """
        self._write(lambda store: store.record_completion(run_id, results))

    def record_failure(self, run_id: str, error: str) -> None:
        """Record that a pending run has failed, and why.

        ``ExecutionNotFound`` if there is no such run; ``ExecutionConflict`` if it has ended: that does not change any
        more. A character that no database keeps is replaced.
        """
        self._write(lambda store: store.record_failure(run_id, error))

    def get_execution(self, run_id: str) -> Execution | None:
        """Return what is known of a run, or None."""
        return self._call(self._store.get_execution(run_id))

    def list_executions(
        self,
        status: str | None = None,
        workflow_id: str | None = None,
        limit: int = 100,
        *,
        after: str | None = None,
    ) -> list[Execution]:
        """Return executions, the last recorded first, at most *limit*; of one status, of one workflow if that is given.

        *after* is the run id of the last one of the page before: the list goes on behind it. ``ExecutionNotFound`` if
        there is no such run.
        """
        return self._call(self._store.list_executions(status, workflow_id, limit, after=after))


__all__ = ["SyncExecutionStore"]
