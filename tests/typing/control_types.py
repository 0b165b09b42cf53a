"""What a type checker must say about looking at runs and changing them, sagas, clients and stores. Never run."""

from __future__ import annotations

from typing import Any, assert_type

from holdfast import (
    AsyncClient,
    AsyncHandle,
    AsyncHoldfast,
    Changes,
    Client,
    Handle,
    Holdfast,
    Queue,
    Retention,
    StepState,
    WorkflowState,
)
from holdfast.resilience import CircuitBreaker
from holdfast.stores import (
    CheckpointStore,
    DistributedLock,
    Lease,
    StoreFactory,
    SyncLockStore,
    SyncStoreFactory,
)

app = Holdfast("sqlite:///x.sqlite")
aapp = AsyncHoldfast()


@app.step
def book(seat: int) -> str:
    return str(seat)


@app.step
def cancel(seat: str, *, refund: bool = False) -> None:
    del seat, refund


@aapp.step
async def acancel(seat: str) -> None:
    del seat


@app.workflow
def trip(seat: int) -> str:
    with app.saga() as saga:
        booked = book(seat)
        saga.undo(cancel, booked, refund=True)
        saga.undo(cancel, seat)  # type: ignore[arg-type]
        saga.undo(cancel, booked, money=True)  # type: ignore[call-arg]
    assert_type(app.cancel_token.is_cancelled, bool)
    assert_type(app.cancel_token.wait(3), bool)
    return booked


@aapp.workflow
async def atrip(seat: str) -> None:
    async with aapp.saga() as saga:
        saga.undo(acancel, seat)
        saga.undo(acancel, 3)  # type: ignore[arg-type]


def look_and_change() -> None:
    page = app.list_workflows(status="ERROR", limit=3)
    assert_type(page[0], WorkflowState)
    assert_type([state.workflow_id for state in page], list[str])
    app.list_workflows(statuses="ERROR")  # type: ignore[call-arg]
    assert_type(app.list_steps("x"), list[StepState])
    assert_type(app.cancel_workflows(["x"]), Changes)
    assert_type(app.fork_workflow("x", 3), Handle[Any])
    assert_type(app.register_queue("q", concurrency=1), Queue)
    app.register_queue("q", concurrency="many")  # type: ignore[arg-type]
    app.retention(Retention(older_than=3), interval=60)
    assert_type(app.breaker("api"), CircuitBreaker)
    assert_type(app.keyed_breakers("hosts")["example.com"], CircuitBreaker)


async def look_and_change_later() -> None:
    assert_type((await aapp.list_workflows())[0], WorkflowState)
    assert_type(await aapp.cancel_workflows(["x"]), Changes)
    assert_type(await aapp.rewind_workflow("x"), AsyncHandle[Any])


async def from_outside() -> None:
    with Client("sqlite:///x.sqlite") as client:
        assert_type(client, Client)
        assert_type(client.get_workflow("x"), WorkflowState)
        client.enqueue("trip", [1])  # type: ignore[call-arg]
    async with AsyncClient("sqlite:///x.sqlite") as later:
        assert_type(later, AsyncClient)
        assert_type((await later.list_workflows())[0], WorkflowState)


async def stores() -> None:
    async with StoreFactory("sqlite:///x.sqlite") as factory:
        assert_type(factory, StoreFactory)
        assert_type(await factory.create_checkpoint_store(), CheckpointStore)
        locks = await factory.create_lock_store()
        assert_type(locks, DistributedLock)
        async with locks.lease("report") as lease:
            assert_type(lease, Lease)
    with SyncStoreFactory("sqlite:///x.sqlite") as blocking:
        assert_type(blocking, SyncStoreFactory)
        assert_type(blocking.create_lock_store(), SyncLockStore)
        with blocking.create_lock_store().lease("report") as lease:
            assert_type(lease.token, int)
