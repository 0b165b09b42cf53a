"""The execution store: what every form of it does alike. A run is pending, then completed or failed, and then rests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypedDict

from holdfast.core.numbers import MOST_BITS, count
from holdfast.errors import CannotDeserialize, ExecutionConflict, ExecutionNotFound
from holdfast.serialize import PortableJSON
from holdfast.serialize.marker import unreadable
from holdfast.stores.keys import checked_key
from holdfast.stores.opened import Opened

if TYPE_CHECKING:
    from collections.abc import Mapping


class ExecutionStatus(StrEnum):
    """Where an execution stands."""

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"There is no status {value!r:.50}; there are {', '.join(cls)}.")


class Execution(TypedDict):
    """One execution. What was given as JSON values comes back as such; times are ISO-8601 text in UTC."""

    run_id: str
    workflow_id: str | None
    status: str
    parameters: Any
    result: Any
    error: str | None
    started_at: str
    completed_at: str | None
    worker_id: str | None
    metadata: Any


class Started(NamedTuple):
    """A start as it is stored; values are JSON."""

    run_id: str
    workflow_id: str | None
    parameters: str | None
    worker_id: str | None
    metadata: str | None


class Ended(NamedTuple):
    """An end as it is stored; the result is JSON."""

    run_id: str
    status: ExecutionStatus
    result: str | None
    error: str | None


class ExecutionStore(Opened, ABC):
    """Which runs there are and what became of them. A form of it has to keep rows; what they mean is decided here."""

    def __init__(self) -> None:
        self._json = PortableJSON()

    async def record_start(
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
        await self._start(
            Started(
                checked_key(run_id, "run id"),
                None if workflow_id is None else checked_key(workflow_id, "workflow id"),
                self._text(parameters),
                None if worker_id is None else checked_key(worker_id, "worker id"),
                self._text(metadata),
            )
        )

    async def record_completion(self, run_id: str, results: Any = None) -> None:
        """Record that a pending run has completed, with its results.

        ``ExecutionNotFound`` if there is no such run; ``ExecutionConflict`` if it has ended: that does not change any
        more. ``CannotSerialize`` names the part of *results* that does not fit JSON; the run stays pending.
        """
        await self._end(Ended(checked_key(run_id, "run id"), ExecutionStatus.COMPLETED, self._text(results), None))

    async def record_failure(self, run_id: str, error: str) -> None:
        """Record that a pending run has failed, and why.

        ``ExecutionNotFound`` if there is no such run; ``ExecutionConflict`` if it has ended: that does not change any
        more. A character that no database keeps is replaced.
        """
        await self._end(Ended(checked_key(run_id, "run id"), ExecutionStatus.FAILED, None, _storable(error)))

    async def get_execution(self, run_id: str) -> Execution | None:
        """Return what is known of a run, or None."""
        row = await self._find(checked_key(run_id, "run id"))
        return None if row is None else self._execution(row)

    async def list_executions(
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
        wanted = None if status is None else ExecutionStatus(status)
        of = None if workflow_id is None else checked_key(workflow_id, "workflow id")
        behind = None if after is None else checked_key(after, "run id")
        rows = await self._list(wanted, of, count(limit, "limit", most=MOST_BITS), behind)
        if not rows and after is not None and await self._find(after) is None:
            raise ExecutionNotFound(
                f"There is no execution of run {after!r} to go on behind: begin with the first page."
            )
        return [self._execution(row) for row in rows]

    @abstractmethod
    async def _start(self, started: Started) -> None:
        """Keep a start, or raise what ``taken`` returns."""

    @abstractmethod
    async def _end(self, ended: Ended) -> None:
        """Keep an end, or raise what ``not_pending`` returns."""

    @abstractmethod
    async def _find(self, run_id: str) -> Mapping[str, Any] | None:
        """Return the row of a run."""

    @abstractmethod
    async def _list(
        self, status: ExecutionStatus | None, workflow_id: str | None, limit: int, after: str | None
    ) -> list[Mapping[str, Any]]:
        """Return rows, the last recorded first; none if *after* is not there."""

    def _text(self, value: Any) -> str | None:
        return None if value is None else self._json.serialize(value)

    def _value(self, text: str | None) -> Any:
        """Return the value in *text*; one that somebody else wrote, and not as JSON, hides nothing beside it."""
        try:
            return None if text is None else self._json.deserialize(text)
        except CannotDeserialize:
            return unreadable("JSON")

    def _execution(self, row: Mapping[str, Any]) -> Execution:
        return {
            "run_id": row["run_id"],
            "workflow_id": row["workflow_id"],
            "status": str(row["status"]),
            "parameters": self._value(row["parameters"]),
            "result": self._value(row["result"]),
            "error": row["error"],
            "started_at": row["started_at"],
            "completed_at": row["completed_at"],
            "worker_id": row["worker_id"],
            "metadata": self._value(row["metadata_json"]),
        }


def taken(run_id: str, status: str) -> ExecutionConflict:
    """Return the error of a start whose run id is taken."""
    return ExecutionConflict(
        f"There is an execution of run {run_id!r} already, it is {status}: give every run an id of its own."
    )


def not_pending(run_id: str, status: str | None, outcome: ExecutionStatus) -> ExecutionNotFound | ExecutionConflict:
    """Return the error of an end whose run has *status*, or is not there."""
    if status is None:
        return ExecutionNotFound(f"There is no execution of run {run_id!r}: call record_start() for it first.")
    return ExecutionConflict(
        f"The execution of run {run_id!r} is {status} and does not change any more; it was not made {outcome}."
    )


def _storable(error: str) -> str:
    if not isinstance(error, str):
        raise TypeError(f"The error is text, not {type(error).__name__}: pass its message, or a traceback.")
    return error.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


__all__ = ["Ended", "Execution", "ExecutionStatus", "ExecutionStore", "Started", "not_pending", "taken"]
