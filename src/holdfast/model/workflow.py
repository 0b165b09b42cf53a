"""Words and records of durable runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

INTERNAL_QUEUE = "_holdfast_sys_internal"
DEFAULT_MAX_RECOVERY_ATTEMPTS = 100


class WorkflowStatus(StrEnum):
    """Where a run stands."""

    PENDING = "PENDING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"
    ENQUEUED = "ENQUEUED"
    DELAYED = "DELAYED"
    MAX_RECOVERY_ATTEMPTS_EXCEEDED = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will happen by itself."""
        return self in _ENDED


_ENDED = {
    WorkflowStatus.SUCCESS,
    WorkflowStatus.ERROR,
    WorkflowStatus.CANCELLED,
    WorkflowStatus.MAX_RECOVERY_ATTEMPTS_EXCEEDED,
}

Duration = float | int | timedelta

_HUNDRED_YEARS = 36_500 * 86_400
_LARGEST = 1e300  # a number that goes on being one when it is multiplied by a hundred years


def seconds(duration: Duration) -> float:
    """Return a duration, given in seconds or as ``timedelta``, in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def _is_counted(duration: Duration) -> bool:
    length = duration.total_seconds() if isinstance(duration, timedelta) else duration  # which float() may not take
    return 0 <= length <= _HUNDRED_YEARS


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How a step is tried again.

    *attempts* in all, waiting *interval* seconds, times *backoff* each time, at most *cap*.
    *jitter* is the part of each wait that is random. An error is final if *when* says so by returning False, or if
    it is one of *never*, which may be one class or several, or a group that holds one. Raises ``TypeError`` or
    ``ValueError`` for anything else.
    """

    attempts: int = 3
    interval: Duration = 1.0
    backoff: float = 2.0
    cap: Duration = 3600.0
    jitter: float = 0.5
    when: Callable[[BaseException], bool] | None = None
    never: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        self._check_kinds()
        if self.attempts < 1:
            raise ValueError(f"Retry.attempts counts the first try too, so it is at least 1, not {self.attempts}.")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"Retry.jitter is a part of the wait, from 0 to 1, not {self.jitter}.")
        if not 1 <= self.backoff <= _LARGEST:
            raise ValueError(f"Retry.backoff makes waits longer, so it is at least 1, not {self.backoff!r:.50}.")
        if not all(_is_counted(each) for each in (self.interval, self.cap)):
            raise ValueError("Retry.interval and Retry.cap are durations from 0 s to a hundred years.")

    def _check_kinds(self) -> None:
        """Raise for what is no number, no function or no class of errors, before a step has failed."""
        if type(self.attempts) is not int:
            raise TypeError(f"Retry.attempts is a whole number, not {self.attempts!r}.")
        for name, kinds in _NUMBERS_OF_RETRY.items():
            if not isinstance(getattr(self, name), kinds):
                raise TypeError(f"Retry.{name} is a number, not {getattr(self, name)!r}.")
        if self.when is not None and not callable(self.when):
            raise TypeError(f"Retry.when is a function of the error, not {self.when!r}.")
        if isinstance(self.when, type) and issubclass(self.when, BaseException):  # made of any error, and true
            kind = self.when.__qualname__
            raise TypeError(
                f"Retry.when is a function of the error, not {kind}: "
                f"write when=lambda error: isinstance(error, {kind})."
            )
        if inspect.iscoroutinefunction(self.when):
            raise TypeError(f"Retry.when is called and not awaited: make {self.when!r} a sync function.")
        given: Any = self.never
        several = (given,) if isinstance(given, type) or not isinstance(given, Iterable) else tuple(given)
        for each in several:
            if not (isinstance(each, type) and issubclass(each, BaseException)):
                raise TypeError(f"Retry.never has classes of errors, as in never=(ValueError,), not {given!r}.")
        object.__setattr__(self, "never", several)


_NUMBERS_OF_RETRY = {
    "interval": (float, int, timedelta),
    "backoff": (float, int),
    "cap": (float, int, timedelta),
    "jitter": (float, int),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """What may be said about a single run when it is started or put in a queue.

    *queue_name* and what follows it are for queues alone; *debounce_timeout* for ``debounce`` alone.
    """

    workflow_id: str | None = None
    timeout: Duration | None = None
    attributes: Mapping[str, Any] | None = None
    authenticated_user: str | None = None
    assumed_role: str | None = None
    authenticated_roles: tuple[str, ...] | None = None
    application_version: str | None = None
    on_conflict: str = "reject"
    queue_name: str | None = None
    priority: int = 0
    delay: Duration | None = None
    delay_until: datetime | None = None
    deduplication_id: str | None = None
    queue_partition_key: str | None = None
    on_duplicate: str = "reject"
    debounce_timeout: Duration | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowState:
    """Where a run stands: its row, with the documented names. Times are milliseconds since the epoch.

    *inputs*, *output* and *error* are there only if they were asked for: the arguments as ``{"positionalArgs": [...],
    "namedArgs": {...}}``, the result as plain JSON values, the error as its name and message.
    """

    workflow_id: str
    status: WorkflowStatus
    name: str
    class_name: str | None = None
    config_name: str | None = None
    inputs: Any = None
    output: Any = None
    error: str | None = None
    serialization: str | None = None
    authenticated_user: str | None = None
    assumed_role: str | None = None
    authenticated_roles: tuple[str, ...] | None = None
    executor_id: str | None = None
    application_version: str | None = None
    application_id: str | None = None
    created_at: int = 0
    updated_at: int = 0
    started_at_epoch_ms: int | None = None
    completed_at: int | None = None
    parent_workflow_id: str | None = None
    forked_from: str | None = None
    was_forked_from: bool = False
    generation: int = 0
    recovery_attempts: int = 0
    executions: int = 0
    retries: int = 0
    queue_name: str | None = None
    deduplication_id: str | None = None
    priority: int = 0
    queue_partition_key: str | None = None
    delay_until_epoch_ms: int | None = None
    workflow_timeout_ms: int | None = None
    workflow_deadline_epoch_ms: int | None = None
    attributes: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepState:
    """One recorded operation of a run, as ``list_steps`` shows it: with the documented names."""

    workflow_id: str
    function_id: int
    function_name: str
    identity: str
    output: Any = None
    error: str | None = None
    child_workflow_id: str | None = None
    started_at_epoch_ms: int | None = None
    completed_at_epoch_ms: int | None = None
    serialization: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorState:
    """One process that runs workflows, and its last beat; *silent_ms* ago by the database's clock."""

    incarnation: str
    executor_id: str
    hostname: str
    pid: int
    application_version: str | None
    queues: tuple[str, ...]
    beat_seq: int
    lease_ms: int
    stalled_since: int | None
    started_at: int
    last_beat_at: int
    silent_ms: int


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of a bulk call: the runs that changed, and the reason for each that did not."""

    changed: tuple[str, ...]
    refused: Mapping[str, Exception] = field(default_factory=dict)

    def raise_refused(self) -> None:
        """Raise the reason of the first run that did not change, if there is one."""
        for error in self.refused.values():
            raise error


@dataclass(frozen=True, slots=True)
class Recorded:
    """One operation in the history of a run."""

    position: int
    name: str
    fingerprint: str | None
    output: str | None
    error: str | None
    child_id: str | None
    serialization: str | None


@dataclass(frozen=True, slots=True)
class ApplicationVersion:
    """A version of the application that has registered, newest *timestamp* first."""

    version_id: str
    version_name: str
    version_timestamp: int
    created_at: int


@dataclass(slots=True)
class History:
    """The recorded operations of a run by identity, and the position the next new one gets."""

    records: dict[str, Recorded] = field(default_factory=dict)
    next_position: int = 1
