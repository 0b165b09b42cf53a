"""What a step of a flow may say while it runs: that it needs an answer, or that it goes on at a later moment."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, MisuseError
from holdfast.serialize.lossless import dump
from holdfast.stores.flow.model import in_utc

if TYPE_CHECKING:
    from datetime import datetime


class WaitingForInput(HoldfastError):
    """Raised through a step that needs what is not there yet. Let it pass: the flow stops here and is stored."""

    def __init__(self, prompt: str, metadata: dict[str, Any], resume_at: datetime | None) -> None:
        super().__init__(f"The step waits: {prompt}")
        self.prompt = prompt
        self.metadata = metadata
        self.resume_at = resume_at


@dataclass
class Conversation:
    """The answers a step has had so far, in the order of its questions, and the moment it is."""

    answers: list[Any]
    now: datetime
    asked: int = field(default=0)


_conversation: ContextVar[Conversation | None] = ContextVar("holdfast_flow_conversation", default=None)


def enter(conversation: Conversation) -> None:
    """Make *conversation* that of the step which is about to be called in this task or thread."""
    _conversation.set(conversation)


def ask(prompt: str, **metadata: Any) -> Any:
    """Return the answer to *prompt*; without one the flow stops here, is stored, and calls this step again with it.

    A step may ask several questions, in the same order each time. Raises ``MisuseError`` outside of a step, and
    ``CannotSerialize`` if *metadata* cannot be kept.
    """
    here = _here("ask()")
    here.asked += 1
    if here.asked <= len(here.answers):
        return here.answers[here.asked - 1]
    dump({"prompt": prompt, "metadata": metadata})
    raise WaitingForInput(prompt, metadata, None)


def pause_until(moment: datetime) -> None:
    """Return if *moment* has come; else the flow stops here, is stored, and is found by ``due()`` when it has."""
    here = _here("pause_until()")
    if in_utc(moment) > here.now:
        raise WaitingForInput(f"until {in_utc(moment).isoformat()}", {}, in_utc(moment))


def _here(call: str) -> Conversation:
    here = _conversation.get()
    if here is None:
        raise MisuseError(f"{call} belongs into a step that run_steps() or resume() has called.")
    return here
