"""What is asked about streams and dispatch state, as requests to the desk; see ``desk.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.workflows.dispatch_state import DispatchState
from holdfast.workflows.management.desk import Change, Request
from holdfast.workflows.running.ids import sought_id
from holdfast.workflows.streams.store import StreamState

if TYPE_CHECKING:
    from holdfast.workflows.management.desk import Desk


def all_entries(workflow_id: str) -> Request[dict[str, list[Any]]]:
    """Ask for everything in the streams of a run."""

    async def call(desk: Desk) -> dict[str, list[Any]]:
        return await desk.streams.entries(sought_id(workflow_id))

    return Request("get_all_stream_entries", call, {"workflow_id": workflow_id}, dict[str, list[Any]])


def list_streams(workflow_id: str) -> Request[list[StreamState]]:
    """Ask which streams a run has."""

    async def call(desk: Desk) -> list[StreamState]:
        return await desk.streams.states(sought_id(workflow_id))

    return Request("list_streams", call, {"workflow_id": workflow_id}, list[StreamState])


def get_dispatch_state(service_name: str, workflow_fn_name: str, key: str) -> Request[DispatchState | None]:
    """Ask how far a dispatcher has come."""

    async def call(desk: Desk) -> DispatchState | None:
        return await desk.dispatch_states.get(service_name, workflow_fn_name, key)

    arguments = {"service_name": service_name, "workflow_fn_name": workflow_fn_name, "key": key}
    return Request("get_dispatch_state", call, arguments, DispatchState | None)


def put_dispatch_state(state: DispatchState) -> Request[DispatchState]:
    """Ask for a dispatcher's state to be stored, if it is newer."""
    state.check()

    async def call(desk: Desk) -> DispatchState:
        return await desk.dispatch_states.put(state)

    return Request("put_dispatch_state", Change(call), {"state": state}, DispatchState)
