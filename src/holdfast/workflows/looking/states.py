"""Rows as what a user sees: payloads opened, JSON columns read, errors as their name and message."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.model.workflow import ExecutorState, StepState, WorkflowState, WorkflowStatus
from holdfast.serialize.marker import unreadable

if TYPE_CHECKING:
    from holdfast.db.session import Row
    from holdfast.workflows.payloads import Payloads

_decode = msgspec.json.decode
_PLAIN = tuple(
    each.name
    for each in fields(WorkflowState)
    if each.name
    not in {
        "workflow_id",
        "status",
        "inputs",
        "output",
        "error",
        "authenticated_roles",
        "attributes",
        "was_forked_from",
    }
)


class States:
    """Makes states of rows. What cannot be opened here is shown as ``<cannot be read: MARKER>`` and fails nobody."""

    def __init__(self, payloads: Payloads) -> None:
        self._payloads = payloads

    def run(self, row: Row) -> WorkflowState:
        """Return a row of ``workflow_status``; payloads that were not asked for are not in it, and are None."""
        roles, attributes = row["authenticated_roles"], row["attributes"]
        ended = row["output_serialization"]
        return WorkflowState(
            workflow_id=row["workflow_uuid"],
            status=WorkflowStatus(row["status"]),
            inputs=self._payloads.shown(row.get("inputs"), row["serialization"]),
            output=self._payloads.shown(row.get("output"), ended),
            error=self._error(row.get("error"), ended),
            authenticated_roles=None if roles is None else _roles(roles),
            attributes=None if attributes is None else _attributes(attributes),
            was_forked_from=bool(row["was_forked_from"]),
            **{name: row[name] for name in _PLAIN},
        )

    def step(self, row: Row) -> StepState:
        """Return a row of ``operation_outputs``."""
        return StepState(
            workflow_id=row["workflow_uuid"],
            function_id=row["function_id"],
            function_name=row["function_name"],
            identity=row["identity"],
            output=self._payloads.shown(row.get("output"), row["serialization"]),
            error=self._error(row.get("error"), row["serialization"]),
            child_workflow_id=row["child_workflow_id"],
            started_at_epoch_ms=row["started_at_epoch_ms"],
            completed_at_epoch_ms=row["completed_at_epoch_ms"],
            serialization=row["serialization"],
        )

    def _error(self, text: str | None, marker: str | None) -> str | None:
        record = self._payloads.shown(text, marker)
        if not isinstance(record, dict):
            return None if record is None else str(record)
        name, message = record.get("name"), record.get("message")
        return f"{name}: {message}" if message else str(name)


def executor(row: Row) -> ExecutorState:
    """Return a row of ``executors``."""
    return ExecutorState(**(row | {"queues": tuple(_decode(row["queues"]))}))


def _roles(text: str) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.DecodeError:
        return (unreadable("JSON"),)


def _attributes(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return {unreadable("JSON"): None}


__all__ = ["States", "executor"]
