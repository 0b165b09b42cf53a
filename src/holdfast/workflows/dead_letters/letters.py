"""Dead letters of runs: what they hold, and how they are written in the transaction that ends the run, or the step.

A run has one letter at most, and so has each of its steps. If it fails again later, its letter is added to: one that
was ended is pending again, one that somebody works on stays with whoever does. So a run that fails at every replay uses
up the replays of one letter, and comes to rest.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from holdfast.core.dead_letters import SetStatus, transition
from holdfast.model.dead_letter import FailedOperationData
from holdfast.resilience.letters import (
    HIDDEN,
    NOT_KEPT,
    Contents,
    error_code_of,
    failure_type_of,
    traceback_of,
)
from holdfast.serialize import PortableJSON
from holdfast.serialize.codecs import is_hidden
from holdfast.serialize.exact import safe_text
from holdfast.stores.dead_letters import door, rows
from holdfast.stores.dead_letters.facts import AddLetters, Writing
from holdfast.stores.dead_letters.queries import dead_letter_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from inspect import Parameter

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.session import Transaction
    from holdfast.model.world import World

MAX_RETRIES = 2
WayBack = Literal["resume", "rewind"]
_LONGEST_ID = 64
_MOST_HISTORY = 20
_ENDED = frozenset({"resolved", "rejected", "archived", "expired", "permanently_failed", "replayed"})


def letter_id(kind: Literal["run", "step"], *parts: str) -> str:
    """Return the id of the letter of a run, or of a step of it: always the same."""
    whole = "-".join((kind, *parts))
    if kind == "run" and len(whole) <= _LONGEST_ID and whole.isascii() and whole.isprintable():
        return whole
    return f"{kind}-{blake2b('/'.join(parts).encode(), digest_size=16).hexdigest()}"


class RunLetters:
    """Makes letters of runs and steps. *delay_of* says how soon a domain's letters are due again by themselves."""

    def __init__(
        self,
        manager: ConnectionManager,
        *,
        schema: str,
        clock_offset_ms: str | None,
        world: World,
        contents: Contents,
        delay_of: Callable[[str], float | None],
    ) -> None:
        queries = dead_letter_queries(manager.dialect, schema, clock_offset_ms=clock_offset_ms)
        self._read = queries["dlq_read"]
        self._add = AddLetters(queries)
        self._writing = Writing(queries)
        self._world = world
        self._contents = contents
        self._delay_of = delay_of

    def run(
        self,
        run_id: str,
        domain: str,
        error: BaseException,
        *,
        way_back: WayBack,
        inputs: tuple[str | None, str | None],
        parameters: Sequence[Parameter],
        facts: Mapping[str, Any],
    ) -> FailedOperationData:
        """Return the letter of a run that ended with *error*; *inputs* are its arguments as its row has them."""
        kept = self._inputs(run_id, *inputs, parameters)
        history = {name: facts[name] for name in ("generation", "executions", "recovery_attempts") if name in facts}
        return FailedOperationData(
            id=letter_id("run", run_id),
            domain=domain,
            entity_type="workflow",
            entity_id=run_id,
            workflow_id=run_id,
            request_data=kept,
            metadata={"way_back": way_back, **facts, "history": [{**history, **_brief(error, kept)}]},
            next_action_hint=_HINTS[way_back],
            **self._common(domain, error, kept),
        )

    def step(
        self,
        run_id: str,
        identity: str,
        domain: str,
        error: BaseException,
        call: tuple[Sequence[Any], Mapping[str, Any], Sequence[Parameter]],
        *,
        is_open: bool,
        facts: Mapping[str, Any],
        attempts: Sequence[Mapping[str, Any]] = (),
    ) -> FailedOperationData:
        """Return the letter of a step that failed for good, with its arguments if *is_open*: no codec hides them.

        *call* is what it was given, and the parameters of its function.
        *attempts* are those of this execution, of which its history tells.
        """
        kept = self._contents.call(*call) if is_open else _hidden(run_id)
        history = [{**facts, **_brief(error, kept), "attempts": list(attempts)}]
        return FailedOperationData(
            id=letter_id("step", run_id, identity),
            domain=domain,
            entity_type="step",
            entity_id=f"{run_id}#{identity}",
            workflow_id=run_id,
            request_data=kept,
            metadata={"way_back": "rewind", **facts, "history": history},
            next_action_hint=_HINTS["rewind"],
            **self._common(domain, error, kept),
        )

    def _common(self, domain: str, error: BaseException, kept: Mapping[str, Any]) -> dict[str, Any]:
        brief = _brief(error, kept)["error"]
        return {
            "failure_type": failure_type_of(error),
            "error_code": error_code_of(error),
            "error_message": brief,
            "error": brief if HIDDEN in kept else traceback_of(error),
            "recommended_action": "replay",
            "max_retries": MAX_RETRIES,
            "retry_delay": self._delay_of(domain),
        }

    def _inputs(
        self, run_id: str, text: str | None, marker: str | None, parameters: Sequence[Parameter]
    ) -> dict[str, Any]:
        if text is None:
            return {}
        if is_hidden(marker):
            return _hidden(run_id)
        elsewhere = _row(run_id)
        if marker not in {None, PortableJSON.name}:
            return {NOT_KEPT: f"The arguments are stored as {marker}.", "whole": elsewhere}
        return self._contents.stored(text, parameters, elsewhere=elsewhere)

    async def put(self, transaction: Transaction, letters: Sequence[FailedOperationData]) -> None:
        """Write *letters* in *transaction*, whose statements hold the runs: nobody else writes the same ones."""
        found = await transaction.fetch_batch(self._read, [(each.id,) for each in letters])
        there = {row["id"]: row for row in found}
        key = self._world.new_id()
        fresh = [rows.fresh_row(each, key) for each in letters if each.id not in there]
        changes = rows.Changes()
        for letter in letters:
            if letter.id in there:
                before = rows.record(there[letter.id])
                changes.note(before, failed_again(before, letter, rows.moment(there[letter.id]["now_iso"])), key)
        if fresh:
            await self._add.apply(transaction, fresh)
        await self._writing.all(transaction, changes)


def failed_again(before: FailedOperationData, letter: FailedOperationData, now: datetime) -> FailedOperationData:
    """Return the letter that is there, with what has happened since; pending if it was ended."""
    history = [*before.metadata.get("history", []), *letter.metadata["history"]][-_MOST_HISTORY:]
    metadata = {**before.metadata, **letter.metadata, "history": history}
    if before.status in _ENDED:
        reopened = transition(before, SetStatus("pending"), now)
        assert reopened is not None  # noqa: S101 -- a status may always be set
        return replace(reopened, metadata=metadata, error_message=letter.error_message, retry_count=0)
    return replace(
        before, metadata=metadata, error_message=letter.error_message, version=before.version + 1, updated_at=now
    )


_HINTS: dict[WayBack, str] = {
    "resume": "A replay resumes the run where it stopped.",
    "rewind": "A replay runs the run again from what failed.",
}


def _row(run_id: str) -> dict[str, Any]:
    return {"table": "workflow_status", "workflow_id": run_id}


def _hidden(run_id: str) -> dict[str, Any]:
    return {NOT_KEPT: "The application encodes what it stores.", HIDDEN: True, "whole": _row(run_id)}


def _brief(error: BaseException, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the history and the message say of an error: of a hidden one only its type."""
    shown = type(error).__name__ if HIDDEN in kept else f"{type(error).__name__}: {safe_text(error)}"
    return {"error": door.text(shown[:1000])}


__all__ = ["MAX_RETRIES", "RunLetters", "WayBack", "failed_again", "letter_id"]
