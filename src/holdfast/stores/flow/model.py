"""Flow checkpoints: snapshots of a flow of many nodes, and what its nodes wait for."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, NoReturn, TypeVar

import msgspec

from holdfast.errors import CannotDeserialize
from holdfast.serialize.lossless import dump, load
from holdfast.stores import moments

T = TypeVar("T")


class CheckpointStatus(StrEnum):
    """What the flow was doing when the snapshot was made."""

    ACTIVE = "active"
    PAUSED = "paused"
    PENDING_INPUT = "pending_input"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"There is no status {value!r:.50}; there are {', '.join(cls)}.")

    @property
    def has_ended(self) -> bool:
        """Whether the flow does nothing any more."""
        return self in _ENDED

    @property
    def waits(self) -> bool:
        """Whether the flow waits for a person, an answer or a moment."""
        return self in _WAITING


_ENDED = frozenset({CheckpointStatus.COMPLETED, CheckpointStatus.FAILED, CheckpointStatus.CANCELED})
_WAITING = frozenset({CheckpointStatus.PAUSED, CheckpointStatus.PENDING_INPUT})
_COMPLETE = frozenset({"success", "skip"})  # a node that failed, or was under way, runs again


class CheckpointBehavior(StrEnum):
    """Whether each save is a snapshot of its own, linked to the one before, or takes its place."""

    APPEND = "append"
    REPLACE = "replace"


def _now() -> datetime:
    return datetime.now(UTC)


def _new_id() -> str:
    return str(uuid.uuid4())


def is_read(version: Any) -> bool:
    """Say whether this release reads checkpoints of *version*."""
    return str(version).partition(".")[0] == "1"


def in_utc(moment: datetime, what: str = "moment") -> datetime:
    """Return *moment* in UTC; one without a zone is taken for UTC.

    ``TypeError`` or ``ValueError``, which begins with *what* it is, for what is no moment.
    """
    if moments.checked_datetime(moment, what).utcoffset() is None:
        return moment.replace(tzinfo=UTC)
    return moments.in_utc(moment, what)


@dataclass
class PendingInputContext:
    """What a node waits for: an answer to *prompt*, or with *resume_at* a moment.

    Each question has an id of its own, so that an old answer is never taken for one to a new question.
    """

    node_id: str
    prompt: str = ""
    timestamp: datetime = field(default_factory=_now)
    metadata: dict[str, Any] = field(default_factory=dict)
    resume_at: datetime | None = None
    request_id: str = field(default_factory=_new_id)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class NodeCheckpointState:
    """What is known of one node: what it was given, what it made of it, and its own state in between.

    *extra* keeps fields that this release does not know, so that another one finds them again.
    """

    node_id: str
    node_type: str = ""
    status: str = "active"
    input_data: Any = None
    output_data: Any = None
    error: Any = None
    internal_state: dict[str, Any] = field(default_factory=dict)
    started_at: datetime | None = None
    completed_at: datetime | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class FlowCheckpoint:
    """A snapshot of a flow.

    *flow_id* names the definition, *run_id* one attempt to carry it out, *wf_run_id* the run across all attempts.
    *version* is that of this form; *revision* counts how often this snapshot was stored, and is set by the backend:
    whoever holds an older one cannot overwrite a newer one.
    """

    flow_id: str
    run_id: str
    id: str = field(default_factory=_new_id)
    workflow_id: str | None = None
    wf_run_id: str | None = None
    status: CheckpointStatus = CheckpointStatus.ACTIVE
    node_states: dict[str, NodeCheckpointState] = field(default_factory=dict)
    completed_node_ids: list[str] = field(default_factory=list)
    pending_node_ids: list[str] = field(default_factory=list)
    original_input: Any = None
    original_config: dict[str, Any] | None = None
    pending_inputs: dict[str, PendingInputContext] = field(default_factory=dict)
    created_at: datetime = field(default_factory=_now)
    updated_at: datetime = field(default_factory=_now)
    version: str = "1.0"
    dynamiq_version: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    parent_checkpoint_id: str | None = None
    revision: int = 0
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take what ``model_dump`` gives, also if its times have become text on their way."""
        self.status = CheckpointStatus(self.status)
        self.created_at = moments.from_text(self.created_at, "created_at")
        self.updated_at = moments.from_text(self.updated_at, "updated_at")
        self.node_states = _records(NodeCheckpointState, self.node_states)
        self.pending_inputs = _records(PendingInputContext, self.pending_inputs)

    def mark_node_complete(self, node_id: str, state: NodeCheckpointState | None = None) -> None:
        """Note that a node has ended, with its *state*; one that failed is kept, but is not complete: it runs again."""
        known = state or self.node_states.get(node_id) or NodeCheckpointState(node_id)
        if state is None:
            known.status = "success"
        self.node_states[node_id] = known
        if known.status in _COMPLETE and node_id not in self.completed_node_ids:
            self.completed_node_ids.append(node_id)
        if node_id in self.pending_node_ids:
            self.pending_node_ids.remove(node_id)

    def mark_pending_input(
        self,
        node_id: str,
        prompt: str = "",
        metadata: dict[str, Any] | None = None,
        *,
        resume_at: datetime | None = None,
    ) -> PendingInputContext:
        """Note that a node waits for input, or until *resume_at*; return what is waited for, with its id."""
        waits = PendingInputContext(node_id, prompt, metadata=metadata or {}, resume_at=resume_at)
        self.pending_inputs[node_id] = waits
        self.status = CheckpointStatus.PENDING_INPUT
        return waits

    def clear_pending_input(self, node_id: str) -> None:
        """Note that a node has its input; when no other waits the flow is active again."""
        self.pending_inputs.pop(node_id, None)
        if not self.pending_inputs and self.status == CheckpointStatus.PENDING_INPUT:
            self.status = CheckpointStatus.ACTIVE

    def has_pending_inputs(self) -> bool:
        """Return whether a node waits for input."""
        return bool(self.pending_inputs)

    def get_pending_input(self, node_id: str) -> PendingInputContext | None:
        """Return what a node waits for, or None."""
        return self.pending_inputs.get(node_id)

    def is_node_completed(self, node_id: str) -> bool:
        """Return whether a node has succeeded or was skipped, and must not run again."""
        return node_id in self.completed_node_ids

    def get_node_output(self, node_id: str) -> Any:
        """Return what a node has made, or None."""
        state = self.node_states.get(node_id)
        return None if state is None else state.output_data

    @property
    def resume_at(self) -> datetime | None:
        """The earliest moment a node waits for; None if none does."""
        waits = [each.resume_at for each in self.pending_inputs.values() if each.resume_at is not None]
        return min((in_utc(each, "resume_at") for each in waits), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return all fields by their names; the values are the same objects."""
        document = _fields(self)
        document["status"] = CheckpointStatus(self.status).value  # which may have been set as text
        document["node_states"] = {name: _fields(state) for name, state in self.node_states.items()}
        document["pending_inputs"] = {name: _fields(waits) for name, waits in self.pending_inputs.items()}
        return document

    def model_dump(self) -> dict[str, Any]:
        """Return all fields by their names, as ``to_dict`` does."""
        return self.to_dict()

    def to_json(self) -> str:
        """Return the snapshot as JSON for people. Raises ``CannotSerialize`` with the path of what cannot be kept."""
        return msgspec.json.format(self.to_bytes(), indent=2).decode()

    def to_bytes(self) -> bytes:
        """Return the snapshot as JSON. Raises ``CannotSerialize`` with the path of what cannot be kept."""
        return dump(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> FlowCheckpoint:
        """Return the snapshot in *text*. Raises ``CannotDeserialize``."""
        return cls.from_bytes(text.encode())

    @classmethod
    def from_bytes(cls, text: bytes) -> FlowCheckpoint:
        """Return the snapshot in *text*. Raises ``CannotDeserialize``."""
        document = load(text)
        if not isinstance(document, dict) or not {"id", "flow_id", "run_id"} <= document.keys():
            raise CannotDeserialize("The text is no flow checkpoint: it has no id, flow_id and run_id.")
        if not is_read(document.get("version", "1.0")):
            raise CannotDeserialize(
                f"The flow checkpoint {document['id']} has version {document['version']}; this release reads 1.x."
            )
        return cls.from_dict(document)

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> FlowCheckpoint:
        """Return the snapshot that ``to_dict`` described; fields this release does not know are kept in *extra*."""
        return cls(**_known(cls, document))


def _records(kind: type[T], given: dict[str, Any]) -> dict[str, T]:
    """Return *given* with records in place of the fields that were written for them."""
    return {name: kind(**_known(kind, one)) if type(one) is dict else one for name, one in given.items()}


def _fields(record: Any) -> dict[str, Any]:
    kind: type = type(record)
    own = {name: getattr(record, name) for name in _names(kind)}
    return {**record.extra, **own}


def _known(kind: type, document: dict[str, Any]) -> dict[str, Any]:
    names = _names(kind)
    if document.keys() <= names.keys():
        return {**document, "extra": {}}
    extra = {name: value for name, value in document.items() if name not in names}
    return {**{name: value for name, value in document.items() if name in names}, "extra": extra}


@cache
def _names(kind: type) -> dict[str, None]:
    """Return the names of the fields that are stored, in their order."""
    return {each.name: None for each in fields(kind) if each.name != "extra"}
