"""What a storage of dead letters must offer: to add, to find, and to write if the version is the one that was read.

Everything that is decided about a record is decided by a function that is handed in, so that no two storages can
disagree. A backend of one's own is a ``Shelf``; ``holdfast.testing.contract`` has the suite that it must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from holdfast.model.dead_letter import DLQCompressedEntry, FailedOperationData


class Gone:
    """What a decision returns to have the record deleted."""


GONE: Final = Gone()

Decide: TypeAlias = Callable[["FailedOperationData", "datetime"], "FailedOperationData | Gone | None"]
"""Given a record and the storage's time: the record to be written, ``GONE``, or None to leave it as it is.

It may be asked several times, and must do nothing else.
"""

Summarise: TypeAlias = Callable[[Sequence["FailedOperationData"], "datetime"], Sequence["DLQCompressedEntry"]]
"""Given the records that go and the storage's time: the summaries that are added to what is kept of them."""

Tally: TypeAlias = Mapping[tuple[str, str, str], int]
"""How many records there are, by domain, failure type and status; none of them is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which records, in which order, and how many. What is None does not matter.

    Ages are reckoned by the storage's clock, and all bounds but those of *created_from* and *created_to* are strict.
    """

    status: str | None = None
    domain: str | None = None
    failure_type: str | None = None
    retry_below: int | None = None
    created_before: datetime | None = None
    created_from: datetime | None = None
    created_to: datetime | None = None
    expires_before: datetime | None = None
    resolved_for: timedelta | None = None
    untouched_for: timedelta | None = None
    unheard_for: timedelta | None = None
    evictable: bool = False
    due: bool = False
    newest: bool = False
    beyond: tuple[datetime, str] | None = None
    offset: int = 0
    limit: int = 100
    whole: bool = True
    """False where payloads and request data are not needed: a storage may then leave them out."""


class Shelf(Protocol):
    """Where dead letters lie. Every call is atomic; every write survives a lost reply without happening twice.

    Beyond this it may say that it is ``at_once``: nothing of it ever waits for the loop.
    """

    @property
    def place(self) -> str:
        """Names the storage: a token that is held belongs to a record of one place."""

    async def initialize(self) -> None:
        """Make it ready; a second call changes nothing."""

    async def close(self) -> None:
        """Finish what is being written."""

    async def add(self, fresh: FailedOperationData) -> FailedOperationData:
        """Store a record of a new id; return it with the storage's time as ``created_at`` and ``updated_at``.

        A record with a ``retry_delay`` that is pending is due at once.
        """

    async def get(self, id: str) -> FailedOperationData | None:  # noqa: A002 -- the documented word
        """Return the record, or None."""

    async def change(
        self,
        id: str,  # noqa: A002 -- the documented word
        decide: Decide,
        *,
        whole: bool = True,
        on_standing: bool = False,
    ) -> FailedOperationData | None:
        """Read, decide, write if the version is still the one that was read; from the start if it is not.

        Return what was written, or what was deleted; None if there is no such record or it was left as it is. Once
        begun it is carried out and told, even if the task is cancelled meanwhile: ``Task.cancelling()`` says so.
        *whole* is as in ``Wanted``. *on_standing* says that *decide* looks at nothing but the ``Standing`` of a record,
        and changes nothing else: a storage may then ask it before the record is read.
        """

    async def change_all(self, ids: Sequence[str], decide: Decide, *, whole: bool = True) -> list[FailedOperationData]:
        """Do as ``change`` for several records, all in one step; an error of *decide* leaves them all as they are.

        A cancelled task may not learn whether it was done. *whole* is as in ``Wanted``.
        """

    async def sweep(
        self, wanted: Wanted, decide: Decide, summarise: Summarise | None = None
    ) -> list[FailedOperationData]:
        """Find records and change them in one step; return what was written or deleted.

        What somebody else is changing at this moment may be left out. With *summarise*, summaries of those that were
        changed are written in the same step: a summary whose id is there is added to.
        """

    async def find(self, wanted: Wanted) -> list[FailedOperationData]:
        """Return the records that are wanted, oldest first unless otherwise said; due ones by their due time."""

    async def count(self, wanted: Wanted) -> int:
        """Return how many there are, whatever the limit says."""

    async def tally(self) -> Tally:
        """Return all counts at once, without a look at every record."""

    async def add_summary(self, entry: DLQCompressedEntry) -> bool:
        """Store a summary as it is; False if there is one of this id."""

    async def summaries(self, domain: str | None, status: str | None, limit: int) -> list[DLQCompressedEntry]:
        """Return summaries, the newest first."""

    async def summary_totals(self) -> Mapping[str, tuple[int, int]]:
        """Return, by status, how many summaries there are and of how many records."""

    async def move_summary(self, id: str, new_status: str) -> bool:  # noqa: A002
        """Move a summary on, and note when; False if there is none, or it may not."""


__all__ = ["GONE", "Decide", "Gone", "Shelf", "Summarise", "Tally", "Wanted"]
