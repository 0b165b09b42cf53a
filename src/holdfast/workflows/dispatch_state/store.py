"""Dispatch state: how far somebody who turns events into runs has come, kept by the highest number."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from holdfast.core.numbers import number
from holdfast.core.texts import check_text, is_kept
from holdfast.db.in_doubt import made_sure
from holdfast.errors import ConfigurationError, UnknownCommit

if TYPE_CHECKING:
    from holdfast.db.joined import Verbs
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchState:
    """A row of ``event_dispatch_kv``, with the documented names. *update_time* is in seconds since the epoch."""

    service_name: str
    workflow_fn_name: str
    key: str
    value: str | None
    update_seq: int | None
    update_time: float | None

    def check(self) -> None:
        """Raise ``ConfigurationError`` for what not every database can hold."""
        check_place(self.service_name, self.workflow_fn_name, self.key)
        value: object = self.value
        if not isinstance(value, str | None):
            raise ConfigurationError(f"value is a text or None, not {type(value).__name__}.")
        if value is not None and not is_kept(value):
            raise ConfigurationError("value has a NUL or half a character in it, which not every database keeps.")
        try:
            if self.update_seq is not None:
                number(self.update_seq, "update_seq")
        except ValueError as error:
            raise ConfigurationError(str(error)) from None
        moment: object = self.update_time
        if moment is not None and not (isinstance(moment, int | float) and isfinite(moment)):
            raise ConfigurationError(f"update_time is a number of seconds since the epoch, not {moment!r:.80}.")


def check_place(service_name: str, workflow_fn_name: str, key: str) -> None:
    """Raise ``ConfigurationError`` for what cannot be the place of a state."""
    check_text("service_name", service_name)
    check_text("workflow_fn_name", workflow_fn_name)
    check_text("key", key)


class DispatchStates:
    """The dispatch states of one database."""

    def __init__(self, verbs: Verbs, queries: Queries, world: World) -> None:
        self._verbs = verbs
        self._queries = queries
        self._world = world

    def within(self, verbs: Verbs) -> DispatchStates:
        """Return the same, with all that is read and written through *verbs*."""
        return DispatchStates(verbs, self._queries, self._world)

    async def get(self, service_name: str, workflow_fn_name: str, key: str) -> DispatchState | None:
        """Return what is stored, or None."""
        check_place(service_name, workflow_fn_name, key)
        row = await self._verbs.fetchone(
            self._queries["dispatch_state_get"],
            service_name=service_name,
            workflow_fn_name=workflow_fn_name,
            state_key=key,
        )
        return None if row is None else _state(row)

    async def put(self, state: DispatchState) -> DispatchState:
        """Store *state* unless what is there has a higher number; return what is stored then.

        Putting the same again changes nothing, so it is done again if a commit is in doubt.
        """
        state.check()
        named: dict[str, Any] = {
            "service_name": state.service_name,
            "workflow_fn_name": state.workflow_fn_name,
            "state_key": state.key,
        }

        async def work(transaction: Transaction) -> Row | None:
            await transaction.execute(
                self._queries["dispatch_state_put"],
                **named,
                value=state.value,
                update_seq=state.update_seq,
                update_time=state.update_time,
            )
            return await transaction.fetchone(self._queries["dispatch_state_get"], **named)

        try:
            return _state(await self._verbs.run(work))
        except UnknownCommit as error:
            return _state(await made_sure(lambda: self._verbs.run(work), error, self._world))


def _state(row: Row | None) -> DispatchState:
    if row is None:
        raise AssertionError("what was put is there: nobody deletes dispatch state")
    return DispatchState(
        service_name=row["service_name"],
        workflow_fn_name=row["workflow_fn_name"],
        key=row["state_key"],
        value=row["value"],
        update_seq=None if row["update_seq"] is None else int(row["update_seq"]),
        update_time=None if row["update_time"] is None else float(row["update_time"]),
    )
