"""What LangGraph's configs name: threads, namespaces, checkpoints and runs, each as the text it is stored under.

LangGraph takes a number, or a UUID, as well as text; every call takes it for the same text. So what was put is found
and deleted again, and a number never meets a column of text: to MariaDB, 0 is equal to nearly all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import get_checkpoint_id

from holdfast.core.texts import is_kept
from holdfast.errors import ConfigurationError, InvalidKey, MisuseError
from holdfast.stores.threads import Place, Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from langchain_core.runnables import RunnableConfig


def where(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Return thread, namespace and checkpoint that *config* names."""
    try:
        named = config["configurable"]
        thread_id = named["thread_id"]
    except KeyError:
        raise ConfigurationError('The config has no thread_id: pass {"configurable": {"thread_id": ...}}.') from None
    checkpoint_ns, checkpoint_id = named.get("checkpoint_ns"), get_checkpoint_id(config)
    return (
        name(thread_id, "thread_id"),
        "" if checkpoint_ns is None else name(checkpoint_ns, "checkpoint_ns"),
        None if checkpoint_id is None else name(checkpoint_id, "checkpoint_id"),
    )


def named_place(config: RunnableConfig) -> Place:
    """Return the checkpoint that *config* names; ``ConfigurationError`` if it names none."""
    thread_id, checkpoint_ns, checkpoint_id = where(config)
    if checkpoint_id is None:
        raise ConfigurationError("Writes belong to a checkpoint: the config has no checkpoint_id.")
    return Place(thread_id, checkpoint_ns, checkpoint_id)


def span_of(config: RunnableConfig | None, before: RunnableConfig | None) -> Span:
    """Return which checkpoints a list is of: those of the thread, namespace and checkpoint that *config* names."""
    last = None if before is None else get_checkpoint_id(before)
    span = Span(before=None if last is None else name(last, "checkpoint_id"))
    if config is None:
        return span
    thread_id, checkpoint_ns, checkpoint_id = where(config)
    named = config["configurable"].get("checkpoint_ns") is not None
    return span._replace(
        thread_id=thread_id, checkpoint_ns=checkpoint_ns if named else None, checkpoint_id=checkpoint_id
    )


def config_of(place: tuple[str, str, str]) -> RunnableConfig:
    """Return the config that names a checkpoint."""
    thread_id, checkpoint_ns, checkpoint_id = place
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns, "checkpoint_id": checkpoint_id}}


def name(given: Any, what: str) -> str:
    """Return the text that *given* is stored under; ``InvalidKey`` if no database keeps it."""
    text = str(given)
    if not is_kept(text):
        raise InvalidKey(f"The {what} has a NUL character or half a character in it, which no database keeps.")
    return text


def names(given: Sequence[Any], what: str) -> list[str]:
    """Return the texts that several are stored under; ``MisuseError`` for a text, whose letters would be the names."""
    if isinstance(given, str | bytes):
        raise MisuseError(f"A list of each {what} is needed, not a single one: pass [{given!r}].")
    return [name(each, what) for each in given]
