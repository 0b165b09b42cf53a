"""Failed operations one by one: read, and changed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.dead_letters import CountRetry, SetStatus
from holdfast.stores.dead_letters import door
from holdfast.stores.dead_letters.changing import Changing, happening
from holdfast.stores.dead_letters.shelf import GONE

if TYPE_CHECKING:
    from holdfast.model.dead_letter import FailedOperationData


class Records(Changing):
    """Single records."""

    async def get_by_id(self, id: str) -> FailedOperationData | None:  # noqa: A002 -- the documented word
        """Return the operation, or None if there is none of this id, whatever the id looks like."""
        return await self._shelf.get(id)

    async def update_status(
        self,
        id: str,  # noqa: A002 -- the documented word
        status: str,
        resolution_type: str = "",
        resolution_note: str = "",
        resolved_by_id: int | None = None,
        recommended_action: str = "",
    ) -> bool:
        """Say where the operation stands, whatever it was before; False if there is none.

        What is empty or None keeps its value. ``resolved`` notes the time; leaving it keeps that. Whoever replays the
        operation does not hold it any more. ``ValueError`` for a status there is not.
        """
        return (
            await self._happen(
                id, self._said(status, resolution_type, resolution_note, resolved_by_id, recommended_action)
            )
            is not None
        )

    @staticmethod
    def _said(
        status: str,
        resolution_type: str | None,
        resolution_note: str | None,
        resolved_by_id: int | None,
        recommended_action: str | None,
    ) -> SetStatus:
        return SetStatus(
            status=door.status(status),
            resolution_type=door.text(resolution_type or "", "resolution_type"),
            resolution_note=door.text(resolution_note or "", "resolution_note"),
            resolved_by_id=door.number(resolved_by_id, "resolved_by_id"),
            recommended_action=door.text(recommended_action or "", "recommended_action"),
        )

    async def increment_retry_count(self, id: str) -> bool:  # noqa: A002 -- the documented word
        """Count one more attempt and note its time; the status stays. False if there is no such operation."""
        return await self._happen(id, CountRetry()) is not None

    async def mark_as_resolved(
        self,
        id: str,  # noqa: A002 -- the documented word
        resolution_type: str,
        resolution_note: str = "",
        resolved_by_id: int | None = None,
    ) -> bool:
        """Say that the operation was put right, whatever its status was; False if there is none."""
        return await self.update_status(id, "resolved", resolution_type, resolution_note, resolved_by_id)

    async def bulk_update_status(self, ids: list[str], status: str) -> int:
        """Say of several operations where they stand, in one step; return how many there were of them."""
        event = self._said(status, "", "", None, "")
        return len(await self._shelf.change_all(door.several(ids), happening(event)))

    async def delete(self, entry_id: str) -> bool:
        """Delete one operation, whatever its status; False if there is none."""
        return await self._change(entry_id, lambda _record, _now: GONE) is not None


__all__ = ["Records"]
