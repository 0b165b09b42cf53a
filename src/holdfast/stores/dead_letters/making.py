"""Making failed operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from holdfast import faults
from holdfast.core.durations import milliseconds
from holdfast.model.dead_letter import FailedOperationData
from holdfast.stores.dead_letters import door

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.model.workflow import Duration
    from holdfast.model.world import World


class Adds(Protocol):
    """Where a new record goes: a shelf, or one inside of somebody's transaction."""

    async def add(self, fresh: FailedOperationData) -> FailedOperationData:
        """Store a record of a new id; return it with its times."""


class Making:
    """New records, for *adds*."""

    def __init__(self, adds: Adds, world: World) -> None:
        self._adds = adds
        self._world = world

    async def create(  # noqa: PLR0917 -- the documented order
        self,
        domain: str,
        failure_type: str,
        error_message: str = "",
        error_code: str = "",
        entity_type: str | None = None,
        entity_id: str | None = None,
        entity_refs: dict[str, Any] | None = None,
        user_id: int | None = None,
        snapshot_data: dict[str, Any] | None = None,
        request_data: dict[str, Any] | None = None,
        response_data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        retry_count: int = 0,
        max_retries: int = 2,
        next_action_hint: str = "",
        recommended_action: str = "",
        expires_at: datetime | None = None,
        *,
        error: str | None = None,
        workflow_id: str | None = None,
        payload: Any = None,
        retry_delay: Duration | None = None,
    ) -> FailedOperationData:
        """Store a failed operation, pending, and return it.

        *error* is the whole of the error, for instance its traceback, if *error_message* is not. With *retry_delay* it
        is due for ``acquire_due`` at once, and again after each failure: that many seconds after the first, twice as
        many after the next. ``CannotSerialize`` names the part of a mapping that does not fit JSON, ``TooLong`` a word
        of more than 255 characters, ``TypeError`` a mapping or text that is none, ``ValueError`` any other value that
        cannot be kept; nothing is stored then.
        """
        message = door.text(error_message, "error_message")
        # In two parts: a call with more than 15 names goes by way of a dictionary, and takes longer than two of these.
        fresh = FailedOperationData(
            id=self._world.new_id(),
            domain=door.word(domain, "domain"),
            failure_type=door.word(failure_type, "failure type"),
            entity_refs=door.mapping(entity_refs, "entity_refs") if entity_refs else {},
            snapshot_data=door.mapping(snapshot_data, "snapshot_data") if snapshot_data else {},
            error_code=door.word(error_code, "error code") if error_code else "",
            error_message=message,
            retry_count=door.retries(retry_count, "retry_count"),
            max_retries=door.retries(max_retries, "max_retries"),
            request_data=door.mapping(request_data, "request_data") if request_data else {},
            response_data=door.mapping(response_data, "response_data") if response_data else {},
            metadata=door.mapping(metadata, "metadata") if metadata else {},
            error=message if error is None else door.text(error, "error"),
        )
        fresh = replace(
            fresh,
            entity_type=None if entity_type is None else door.text(entity_type, "entity_type"),
            entity_id=None if entity_id is None else door.text(entity_id, "entity_id"),
            user_id=None if user_id is None else door.number(user_id, "user_id"),
            next_action_hint=door.text(next_action_hint, "next_action_hint") if next_action_hint else "",
            recommended_action=door.text(recommended_action, "recommended_action") if recommended_action else "",
            expires_at=None if expires_at is None else door.moment(expires_at, "expires_at"),
            workflow_id=None if workflow_id is None else door.word(workflow_id, "workflow_id") or None,
            payload=None if payload is None else door.json(payload, "payload"),
            retry_delay=None if retry_delay is None else milliseconds(retry_delay, "retry_delay") / 1000,
        )
        made = await self._adds.add(fresh)
        faults.point("dead_letter.made")
        return made


__all__ = ["Adds", "Making"]
