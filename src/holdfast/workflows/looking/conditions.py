"""Filters as the values that the queries of looking take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.texts import after_prefix
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.looking.filters import listed, milliseconds

if TYPE_CHECKING:
    from holdfast.workflows.looking.filters import Filters

_COLUMNS = (
    "name", "class_name", "config_name", "application_version", "application_id", "executor_id", "authenticated_user",
    "assumed_role", "queue_name", "queue_partition_key", "deduplication_id", "parent_workflow_id", "forked_from",
)  # fmt: skip
_MOMENTS = ("created", "started", "completed", "updated")
# The switch for True, and the one for False.
_EITHER = {
    "was_forked_from": ("was_forked", "never_forked"),
    "is_fork": ("is_fork", "is_original"),
    "has_parent": ("has_parent", "has_none"),
    "has_deadline": ("has_deadline", "is_timeless"),
}
_DEFAULT_APPLICATION = "holdfast"  # no index has the runs of an application that was given no name
_LONGEST = 100


def conditions(filters: Filters) -> dict[str, Any]:
    """Return what the queries take for *filters*, save the status."""
    values: dict[str, Any] = {}
    for column in _COLUMNS:
        values |= _one_or_more(column, getattr(filters, column))
    values |= _one_or_more("workflow_id", filters.workflow_ids, "list")
    values |= _priority(filters)
    values["has_application"] = values.get("application_id", _DEFAULT_APPLICATION) != _DEFAULT_APPLICATION
    for name, (yes, no) in _EITHER.items():
        if (wanted := getattr(filters, name)) is not None:
            values[yes if wanted else no] = True
    values["queues_only"] = filters.queues_only
    values["min_recovery_attempts"] = filters.min_recovery_attempts or None
    if filters.workflow_id_prefix is not None:
        values |= {"prefix": filters.workflow_id_prefix, "prefix_length": len(filters.workflow_id_prefix)}
    values["attributes_any"] = attributes_of(filters)
    return values | _times(filters) | _search(filters)


def statuses(filters: Filters) -> dict[str, Any]:
    """Return what a query over all runs takes for the status."""
    return _one_or_more("status", filters.status)


def halves(filters: Filters) -> dict[str, Any]:
    """Return what a query over both halves takes: the status for the rest, and whether PENDING runs are asked for."""
    asked = filters.status is None or WorkflowStatus.PENDING in listed(filters.status)
    return {**statuses(filters), "pending": asked}


def narrowings(filters: Filters) -> dict[str, Any]:
    """Return by what an index could lead to the runs, if they are few; nothing if the filters have no such index.

    A time after which a run was started or completed is a time after which it was updated, too.
    """
    if filters.workflow_id_prefix is not None:
        return {"prefix_from": filters.workflow_id_prefix, "prefix_to": after_prefix(filters.workflow_id_prefix)}
    for column in _COLUMNS:
        value = getattr(filters, column)
        if value is not None and len(listed(value)) != 1 and not (column == "application_id" and _has_default(value)):
            return _one_or_more(column, value, "list")
    if filters.min_recovery_attempts:
        return {"attempts_from": filters.min_recovery_attempts}
    if filters.has_parent:
        return {"children_only": True}
    given = [getattr(filters, f"{moment}_after") for moment in ("started", "completed", "updated")]
    times = [milliseconds(each) for each in given if each is not None]
    if times:
        return {"touched_from": max(times)}
    several = filters.status is not None and len(listed(filters.status)) != 1
    return _one_or_more("status", filters.status, "list") if several else {}


def attributes_of(filters: Filters) -> str | None:
    """Return the attributes as JSON text."""
    return msgspec.json.encode(filters.attributes).decode() if filters.attributes else None


def listed_attribute(filters: Filters) -> dict[str, Any]:
    """Return the attribute by which SQLite's index could lead to the runs; nothing if only null is asked for."""
    for name, value in (filters.attributes or {}).items():
        if value is not None:
            return {"attribute": name, "attribute_value": value[:_LONGEST] if isinstance(value, str) else value}
    return {}


def _has_default(values: Any) -> bool:
    return _DEFAULT_APPLICATION in listed(values)


def _one_or_more(name: str, value: Any, many: str = "any") -> dict[str, Any]:
    """Return what is compared: one value, or a list of several under a name that ends with *many*."""
    if value is None:
        return {}
    values = listed(value)
    if len(values) == 1:
        return {name: values[0]}
    return {f"{name}_{many}": [str(each) for each in values]}


def _priority(filters: Filters) -> dict[str, Any]:
    values = _one_or_more("priority", filters.priority)
    return {**values, "has_priority": True} if values.get("priority") else values


def _times(filters: Filters) -> dict[str, Any]:
    """Return the times; and, as a run is made before all else happens to it, the time before which it was made."""
    values: dict[str, Any] = {}
    earlier = []
    for moment in _MOMENTS:
        after, before = getattr(filters, f"{moment}_after"), getattr(filters, f"{moment}_before")
        if after is not None:
            values[f"{moment}_after"] = milliseconds(after)
        if before is not None:
            values[f"{moment}_before"] = milliseconds(before)
            earlier.append(milliseconds(before))
    return {**values, "made_before": min(earlier)} if earlier else values


def _search(filters: Filters) -> dict[str, Any]:
    """Return the text as it is, and as it stands inside a JSON string."""
    if filters.search is None:
        return {}
    return {"search": filters.search, "search_quoted": msgspec.json.encode(filters.search).decode()[1:-1]}


__all__ = ["attributes_of", "conditions", "halves", "listed_attribute", "narrowings", "statuses"]
