"""Messages as users give them and see them, and in the form that is stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.texts import check_text
from holdfast.errors import ConfigurationError, MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.workflows.payloads import Payloads

NULL_TOPIC = "__null__topic__"


@dataclass(frozen=True, slots=True)
class Message:
    """A message to a run, for ``send_many``.

    Of messages with the same *idempotency_key* only the first is kept, whoever sends them.
    """

    destination_id: str
    message: Any
    topic: str | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationInfo:
    """A message that was sent to a run. *consumed* once ``recv`` has returned it."""

    topic: str | None
    message: Any
    created_at_epoch_ms: int
    consumed: bool


class MessageRow(NamedTuple):
    """A message as it is stored, but for its number."""

    message_uuid: str
    destination: str
    topic: str
    text: str
    serialization: str

    @classmethod
    def of(cls, payloads: Payloads, message: Message, new_id: Callable[[], str]) -> MessageRow:
        """Return the row of *message*, whose id is its key or a new one; refuse what cannot be stored."""
        check_name(message.destination_id, "A workflow_id")
        key = message.idempotency_key
        if key is not None:
            check_name(key, "An idempotency_key")
        text, format_ = payloads.dump(message.message)
        return cls(new_id() if key is None else key, message.destination_id, stored(message.topic), text, format_)


def several(messages: Iterable[Message]) -> list[Message]:
    """Return *messages* as a list; ``MisuseError`` for what is none."""
    given: list[Any] = list(messages)
    for each in given:
        if not isinstance(each, Message):
            raise MisuseError(f"send_many() takes messages, as in [Message(workflow_id, 1)], not {each!r:.100}.")
    return given


def stored(topic: str | None) -> str:
    """Return a topic as it is stored; ``ConfigurationError`` if it cannot be one."""
    if topic is None:
        return NULL_TOPIC
    if topic == NULL_TOPIC:
        raise ConfigurationError(f"The topic {NULL_TOPIC} stands for messages without a topic: pass topic=None.")
    return check_name(topic, "A topic")


def shown(topic: str) -> str | None:
    """Return a stored topic as users see it."""
    return None if topic == NULL_TOPIC else topic


def check_name(name: str, what: str) -> str:
    """Return *name*; ``ConfigurationError`` unless it fits its column on every database."""
    return check_text(what, name)
