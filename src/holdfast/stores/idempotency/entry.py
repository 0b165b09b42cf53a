"""What the idempotency stores give back: entries, and how a claim went."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias, TypedDict

IN_PROGRESS = 0  # the status code of a claim whose worker has no result yet


class IdempotencyEntry(TypedDict):
    """A key and what is known of it. A claim in progress has the ``status_code`` 0 and no data.

    Times are ISO-8601 text in UTC. A claim in progress is over at ``expires_at`` unless its owner extends it.
    """

    idempotency_key: str
    fingerprint: str
    response_data: Any
    status_code: int
    headers: dict[str, Any]
    created_at: str
    expires_at: str


class ClaimState(StrEnum):
    """How a claim went."""

    WON = "won"
    IN_PROGRESS = "in progress"
    STORED = "stored"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The answer to a claim.

    *won*: the key is this caller's, under *token*, and *note* is its own or the one it has inherited. *in progress*:
    another has it. *stored*: there is a result in *entry*. *conflict*: the key was used with another fingerprint, and
    *entry* says for what.
    """

    key: str
    state: ClaimState
    token: str | None = None
    note: str | None = None
    entry: IdempotencyEntry | None = None

    @property
    def won(self) -> bool:
        """Whether the key is this caller's."""
        return self.state is ClaimState.WON

    @property
    def result(self) -> IdempotencyEntry | None:
        """The entry, if it has a result."""
        return self.entry if self.entry is not None and self.entry["status_code"] != IN_PROGRESS else None


class Kept(Protocol):
    """What a backend has under a key: data and headers are JSON text, *token* is whose the claim is or was."""

    @property
    def key(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def response_data(self) -> str: ...
    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> str: ...
    @property
    def created_at(self) -> str: ...
    @property
    def expires_at(self) -> str: ...
    @property
    def token(self) -> str: ...


class KeptRow(NamedTuple):
    """A key as a database has it."""

    key: str
    fingerprint: str
    response_data: str
    status_code: int
    headers: str
    created_at: str
    expires_at: str
    token: str


Result: TypeAlias = "tuple[str, int, str, int]"
"""What is to be stored under a key: data as JSON text, status code, headers as JSON text, milliseconds it lives."""

__all__ = ["IN_PROGRESS", "Claim", "ClaimState", "IdempotencyEntry", "Kept", "KeptRow", "Result"]
