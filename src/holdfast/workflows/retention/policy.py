"""What a user says about how long ended runs are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.core.durations import checked_seconds
from holdfast.core.numbers import MOST_COUNTED
from holdfast.core.options import several
from holdfast.errors import ConfigurationError
from holdfast.model.workflow import Duration, WorkflowStatus
from holdfast.workflows.declaring.names import check_name

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENDED = tuple(status for status in WorkflowStatus if status.has_ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Which ended runs may be deleted: those that fit everything that is said here.

    *older_than* is how long ago the run ended. *keep_last* is how many of the newest runs, by the time they were
    created, are kept of all that have this *status* and *name*, taken together; to keep so many of each name, write a
    policy for each. At least one of the two is needed. With *keep_last* alone a run is still kept for a minute after
    its end, so that whoever waits for it elsewhere sees the outcome.

    *status* is one or several of SUCCESS, ERROR, CANCELLED and MAX_RECOVERY_ATTEMPTS_EXCEEDED, by default all of them;
    *name* is one or several workflow names, by default all. ``ConfigurationError`` for what would delete something
    else than was meant.
    """

    older_than: Duration | None = None
    keep_last: int | None = None
    status: WorkflowStatus | str | Sequence[WorkflowStatus | str] | None = None
    name: str | Sequence[str] | None = None
    statuses: tuple[WorkflowStatus, ...] = field(init=False, repr=False, compare=False)
    names: tuple[str, ...] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.older_than is None and self.keep_last is None:
            raise ConfigurationError(
                "A Retention without older_than and keep_last would delete every ended run; say at least one of them."
            )
        if self.older_than is not None:
            checked_seconds(self.older_than, "Retention.older_than")
        if self.keep_last is not None and (type(self.keep_last) is not int or not 1 <= self.keep_last <= MOST_COUNTED):
            raise ConfigurationError(
                f"Retention.keep_last is how many runs are kept, so it is at least 1, not {self.keep_last!r}; "
                "to keep none say older_than=0."
            )
        object.__setattr__(self, "statuses", _statuses(self.status))
        object.__setattr__(self, "names", _names(self.name))


def _statuses(given: WorkflowStatus | str | Sequence[WorkflowStatus | str] | None) -> tuple[WorkflowStatus, ...]:
    if given is None:
        return _ENDED
    wanted = (given,) if isinstance(given, str) else several("Retention.status", given)
    for each in wanted:
        if each not in _ENDED:
            raise ConfigurationError(
                f"Retention.status is {each!s}, which is no status of an ended run; only runs that are "
                f"{', '.join(_ENDED)} can be deleted."
            )
    if not wanted:
        raise ConfigurationError("Retention.status is empty, so nothing would fit; leave it out for all ended runs.")
    return tuple(WorkflowStatus(each) for each in wanted)


def _names(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = (given,) if isinstance(given, str) else several("Retention.name", given)
    for each in names:
        check_name(each)
    if not names:
        raise ConfigurationError("Retention.name is empty, so nothing would fit; leave it out for all workflows.")
    return names
