"""What a type checker must say about putting runs in queues. Checked by mypy, never run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, assert_type

from holdfast import AsyncHandle, AsyncHoldfast, Handle, Holdfast
from holdfast.workflows.running.ticket import PlannedCall

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
    from sqlalchemy.orm import Session

    from holdfast.db import SyncTransaction, Transaction

app = Holdfast("sqlite:///x.sqlite")
aapp = AsyncHoldfast()


@app.workflow
def checkout(order: str, *, gift: bool = False) -> int:
    return len(order) + gift


@app.workflow
def other(number: int) -> str:
    return str(number)


@app.workflow
async def waiting(number: int) -> str:
    return str(number)


def sync_calls(session: Session, transaction: SyncTransaction, awaited: AsyncSession) -> None:
    queued = checkout.options(queue_name="orders", priority=1, delay=60, deduplication_id="x", on_duplicate="reject")
    assert_type(queued.enqueue("a", gift=True), Handle[int])
    queued.enqueue(1)  # type: ignore[arg-type]
    queued.enqueue("a", present=True)  # type: ignore[call-arg]
    checkout.options(delay=timedelta(hours=1), delay_until=datetime.now(UTC), queue_partition_key="p")
    checkout.options(priority="high")  # type: ignore[arg-type]
    checkout.options(delay_until="tomorrow")  # type: ignore[arg-type]
    checkout.options(on_duplicate="replace")  # type: ignore[arg-type]
    assert_type(checkout.call("a", gift=True), PlannedCall[int])
    checkout.call(1)  # type: ignore[arg-type]
    assert_type(queued.enqueue_many(checkout.call(each) for each in "abc"), list[Handle[int]])
    queued.enqueue_many([other.call(1)])  # type: ignore[list-item]
    queued.enqueue_many([("a",)])  # type: ignore[list-item]
    assert_type(queued.debounce("key", 3, "a", gift=True), Handle[int])
    queued.debounce("key", 3, 4)  # type: ignore[arg-type]
    queued.debounce("key", "a", "b")  # type: ignore[arg-type]
    assert_type(queued.enqueue_in(session, "a"), Handle[int])
    assert_type(queued.enqueue_in(transaction, "a", gift=True), Handle[int])
    queued.enqueue_in(awaited, "a")  # type: ignore[arg-type]
    queued.enqueue_in(session, 1)  # type: ignore[arg-type]
    assert_type(waiting.options(queue_name="orders").enqueue(1), Handle[str])
    assert_type(app.enqueue("far away", ["a"], {"gift": True}, queue_name="orders", delay=3), Handle[Any])
    app.enqueue("far away", ["a"])  # type: ignore[call-arg]
    app.enqueue("far away", queue_name="orders", delay="long")  # type: ignore[arg-type]


@aapp.workflow
async def acheckout(order: str, *, gift: bool = False) -> int:
    return len(order) + gift


@aapp.workflow
def threaded(number: int) -> str:
    return str(number)


async def async_calls(session: AsyncSession, connection: AsyncConnection, transaction: Transaction) -> None:
    queued = acheckout.options(queue_name="orders", debounce_timeout=5)
    assert_type(await queued.enqueue("a", gift=True), AsyncHandle[int])
    await queued.enqueue(1)  # type: ignore[arg-type]
    assert_type(await queued.enqueue_many([acheckout.call("a"), queued.call("b")]), list[AsyncHandle[int]])
    assert_type(await queued.debounce("key", 3, "a", gift=True), AsyncHandle[int])
    assert_type(await queued.enqueue_in(session, "a"), AsyncHandle[int])
    assert_type(await queued.enqueue_in(connection, "a"), AsyncHandle[int])
    assert_type(await queued.enqueue_in(transaction, "a"), AsyncHandle[int])
    assert_type(await threaded.options(queue_name="orders").enqueue(1), AsyncHandle[str])
    assert_type(await aapp.enqueue("far away", queue_name="orders"), AsyncHandle[Any])


class Shop:
    config_name = "main"

    @app.workflow
    def sell(self, sku: str) -> int:
        return len(sku)

    @app.workflow
    @classmethod
    def close(cls, day: int) -> str:
        return str(day)

    @app.workflow
    @staticmethod
    def audit(number: int) -> str:
        return str(number)


def methods(shop: Shop) -> None:
    assert_type(shop.sell.options(queue_name="shop").enqueue("a"), Handle[int])
    assert_type(shop.sell.call("a"), PlannedCall[int])
    shop.sell.enqueue(1)  # type: ignore[arg-type]
    assert_type(Shop.close.enqueue(1), Handle[str])
    assert_type(Shop.audit.enqueue(1), Handle[str])
    assert_type(Shop.audit.call(1), PlannedCall[str])
    assert_type(Shop.audit.debounce("key", 1, 1), Handle[str])
