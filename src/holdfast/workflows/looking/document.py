"""A run as a document: JSON that another database can take in. Everything about it is checked before it is written."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.numbers import MOST_BITS, MOST_COUNTED
from holdfast.core.texts import is_kept
from holdfast.errors import ConfigurationError
from holdfast.model.workflow import INTERNAL_QUEUE, WorkflowStatus
from holdfast.workflows.declaring.names import check_name
from holdfast.workflows.running.run import LONGEST_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = "holdfast.workflow"
FORMAT_VERSION = 1
_LONGEST_NAME = 255
_PAYLOADS = {"inputs", "output", "error", "authenticated_roles", "attributes", "value", "message"}
_TIMES = ("created_at", "started_at_epoch_ms", "completed_at")
# What columns of 32 bits hold; all other numbers have 64.
_SMALL = {"executions", "generation", "retries", "priority", "function_id", "consumed_by_function_id", "offset"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDocument:
    """The row of a run, with the documented names; payloads as they are stored."""

    workflow_uuid: str
    status: WorkflowStatus
    name: str
    class_name: str | None = None
    config_name: str | None = None
    inputs: str | None = None
    output: str | None = None
    error: str | None = None
    serialization: str | None = None
    output_serialization: str | None = None
    authenticated_user: str | None = None
    assumed_role: str | None = None
    authenticated_roles: str | None = None
    executor_id: str | None = None
    created_at: int
    updated_at: int
    started_at_epoch_ms: int | None = None
    completed_at: int | None = None
    application_version: str | None = None
    application_id: str | None = None
    parent_workflow_id: str | None = None
    forked_from: str | None = None
    was_forked_from: bool = False
    executions: int = 0
    generation: int = 0
    fingerprint: str | None = None
    attributes: str | None = None
    queue_name: str | None = None
    deduplication_id: str | None = None
    priority: int = 0
    queue_partition_key: str | None = None
    recovery_attempts: int = 0
    delay_until_epoch_ms: int | None = None
    workflow_timeout_ms: int | None = None
    workflow_deadline_epoch_ms: int | None = None
    retries: int = 0
    is_debounced: bool = False
    debounce_deadline_epoch_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDocument:
    """The row of an operation."""

    function_id: int
    function_name: str
    identity: str
    fingerprint: str | None = None
    output: str | None = None
    error: str | None = None
    child_workflow_id: str | None = None
    serialization: str | None = None
    started_at_epoch_ms: int | None = None
    completed_at_epoch_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEntryDocument:
    """A row of a stream."""

    key: str
    offset: int
    value: str
    serialization: str | None = None
    function_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDocument:
    """The row of a message to the run."""

    message_uuid: str
    topic: str
    message: str | None = None
    created_at_epoch_ms: int
    serialization: str | None = None
    consumed: bool = False
    consumed_by_function_id: int | None = None
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDocument:
    """A row of the history of events."""

    key: str
    value: str | None = None
    function_id: int
    serialization: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A run, its operations in order, its streams, its messages and events, and the ids of its children.

    The children are documents of their own.
    """

    format: str
    format_version: int
    workflow: RunDocument
    steps: list[StepDocument]
    children: list[str]
    streams: list[StreamEntryDocument] = field(default_factory=list)
    messages: list[MessageDocument] = field(default_factory=list)
    events: list[EventDocument] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the document as plain values."""
        made: dict[str, Any] = msgspec.to_builtins(asdict(self))
        return made

    @classmethod
    def read(cls, document: Any) -> Document:
        """Check *document* to the last value. Raises ``ConfigurationError`` that says what does not fit, and where."""
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise _misfit(f"its format is not {FORMAT!r}")
        if document.get("format_version") != FORMAT_VERSION:
            raise _misfit(f"it is of format version {document.get('format_version')!r}, this release reads 1")
        _check_names(document, cls, "the document")
        _check_names(document.get("workflow"), RunDocument, "workflow")
        for name, kind in _LISTS.items():
            for part in document[name] if isinstance(document.get(name), list) else ():
                _check_names(part, kind, name)
        try:
            read = msgspec.convert(document, cls)
        except msgspec.ValidationError as error:
            raise _misfit(str(error)) from None
        except UnicodeEncodeError:  # a text where there is to be none
            raise _misfit("it holds half a character, which no database keeps") from None
        _check_run(read.workflow)
        _check_apart("steps", read.steps, "function_id", "identity")
        _check_streams(read.streams)
        _check_apart("messages", read.messages, "sequence", "message_uuid")
        _check_events(read.events)
        return read


def run_row(run: RunDocument, workflow_id: str, creation_key: str) -> tuple[Any, ...]:
    """Return the row of ``run_import``: as it is if the run had ended, else waiting to be claimed by anybody."""
    row = asdict(run) | {"workflow_uuid": workflow_id, "status": run.status.value, "creation_key": creation_key}
    if not run.status.has_ended:
        row |= {
            "status": WorkflowStatus.ENQUEUED.value,
            "queue_name": INTERNAL_QUEUE,
            "queue_partition_key": None,
            "recovery_attempts": 0,
            "updated_at": None,
        }
    return tuple(value for name, value in row.items() if name not in {"deduplication_id", "delay_until_epoch_ms"})


def step_row(workflow_id: str, step: StepDocument, *, renamed: bool) -> tuple[Any, ...]:
    """Return the row of ``steps_import``; without fingerprint if the run has another id now: it may be of its id."""
    return (workflow_id, *asdict(replace(step, fingerprint=None) if renamed else step).values())


def stream_row(workflow_id: str, entry: StreamEntryDocument) -> tuple[Any, ...]:
    """Return the row of ``streams_import``."""
    return (workflow_id, *asdict(entry).values())


def message_row(workflow_id: str, message: MessageDocument, *, renamed: bool) -> tuple[Any, ...]:
    """Return the row of ``messages_import``; of a run that has another id now, the messages have others too."""
    row = asdict(message)
    taken = row.pop("message_uuid")
    return (f"{workflow_id}-m{message.sequence}"[-LONGEST_ID:] if renamed else taken, workflow_id, *row.values())


def event_row(workflow_id: str, place: int, event: EventDocument) -> tuple[Any, ...]:
    """Return the row of ``events_import``; *place* says after which others it was set."""
    return workflow_id, event.key, event.value, event.serialization, event.function_id, place


def _check_names(part: Any, kind: type, place: str) -> None:
    if isinstance(part, dict) and (unknown := part.keys() - {each.name for each in fields(kind)}):
        raise _misfit(f"{place} has {', '.join(sorted(map(str, unknown)))}, which this release does not know")


def _check_run(run: RunDocument) -> None:
    if not 0 < len(run.workflow_uuid) <= LONGEST_ID:
        raise _misfit(f"a workflow id has 1 to {LONGEST_ID} characters, this one has {len(run.workflow_uuid)}")
    _check_texts(run, "workflow")
    for name in (run.name, run.class_name, run.config_name):
        _check_function_name(name)
    for name in ("authenticated_roles", "attributes"):
        _check_json(getattr(run, name), list if name == "authenticated_roles" else dict, f"workflow.{name}")
    if any((getattr(run, name) or 0) > run.updated_at for name in _TIMES):
        raise _misfit("workflow.updated_at is earlier than another of its times")
    if run.status.has_ended and run.completed_at is None:
        raise _misfit(f"workflow.completed_at is missing, though the run ended with {run.status}")


def _check_function_name(name: str | None) -> None:
    try:
        if name is not None:
            check_name(name)
    except ConfigurationError as error:
        raise _misfit(str(error).removesuffix(".")) from None


def _check_apart(name: str, rows: Sequence[_Part], *columns: str) -> None:
    """Refuse rows of which two have the same in one of *columns*; by the first of these they are named."""
    for row in rows:
        _check_texts(row, f"{name}[{getattr(row, columns[0])}]")
    for column in columns:
        if len({getattr(row, column) for row in rows}) != len(rows):
            raise _misfit(f"two of its {name} have the same {column}")


def _check_streams(entries: list[StreamEntryDocument]) -> None:
    for entry in entries:
        _check_texts(entry, f"streams[{entry.key[:40]}, {entry.offset}]")
    if len({(entry.key, entry.offset) for entry in entries}) != len(entries):
        raise _misfit("two entries of a stream have the same offset")


def _check_events(events: list[EventDocument]) -> None:
    for event in events:
        _check_texts(event, f"events[{event.key[:40]}, {event.function_id}]")
    if len({(event.key, event.function_id) for event in events}) != len(events):
        raise _misfit("an operation has set an event twice")


_LISTS = {
    "steps": StepDocument,
    "streams": StreamEntryDocument,
    "messages": MessageDocument,
    "events": EventDocument,
}
_Part = RunDocument | StepDocument | StreamEntryDocument | MessageDocument | EventDocument


def _check_texts(part: _Part, place: str) -> None:
    for each in fields(part):
        value = getattr(part, each.name)
        if isinstance(value, str):
            if not is_kept(value):
                raise _misfit(f"{place}.{each.name} holds a NUL or half a character, which no database keeps")
            if each.name not in _PAYLOADS and len(value) > _LONGEST_NAME:
                raise _misfit(f"{place}.{each.name} is longer than {_LONGEST_NAME} characters")
        elif isinstance(value, int) and abs(value) > (MOST_COUNTED if each.name in _SMALL else MOST_BITS):
            raise _misfit(f"{place}.{each.name} is too large a number")


def _check_json(text: str | None, kind: type, place: str) -> None:
    try:
        if text is not None and not isinstance(msgspec.json.decode(text), kind):
            raise _misfit(f"{place} is not the JSON of a {kind.__name__}")
    except msgspec.DecodeError:
        raise _misfit(f"{place} is not JSON") from None


def _misfit(told: str) -> ConfigurationError:
    return ConfigurationError(f"The document cannot be imported: {told}. Nothing was written.")


__all__ = [
    "FORMAT",
    "FORMAT_VERSION",
    "Document",
    "EventDocument",
    "MessageDocument",
    "RunDocument",
    "StepDocument",
    "StreamEntryDocument",
    "event_row",
    "message_row",
    "run_row",
    "step_row",
    "stream_row",
]
