"""What a type checker must say about the public calls. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, assert_type
from uuid import UUID

from holdfast import AsyncHandle, AsyncHoldfast, AsyncWorkflow, Handle, Holdfast, Retry, Step, Workflow
from holdfast.model.workflow import ApplicationVersion, WorkflowState

app = Holdfast("sqlite:///x.sqlite", lease=5, compatible_versions=["1"])
aapp = AsyncHoldfast()
Holdfast(leese=5)  # type: ignore[call-arg]
Holdfast(lease="long")  # type: ignore[arg-type]


@app.step
def charge(order: str, cents: int = 1) -> bytes:
    return order.encode() * cents


@app.step(retry=Retry(attempts=2), timeout=3)
def refund(order: str) -> float:
    return float(order)


@app.step
async def fetch(url: str) -> bytes:
    return url.encode()


@app.workflow
def checkout(order: str, *, gift: bool = False) -> int:
    assert_type(charge(order), bytes)
    assert_type(refund(order), float)
    charge(1)  # type: ignore[arg-type]
    charge(order, price=2)  # type: ignore[call-arg]
    assert_type(app.run_step(len, [1]), int)
    assert_type(app.run_step(fetch, "x"), bytes)
    assert_type(app.now(), datetime)
    assert_type(app.random(), float)
    assert_type(app.uuid(), UUID)
    assert_type(app.timeout(3, lambda: 4), int)
    assert_type(app.gather(lambda: 1, lambda: 2), list[int])
    assert_type(app.gather(lambda: 1, lambda: "2", lambda: 3), list[int | str])
    assert_type(app.gather(*(lambda: 1 for _ in order)), list[int])
    app.gather(1, lambda: "2")  # type: ignore[call-overload]
    assert_type(app.patch("x"), bool)
    assert_type(app.workflow_id, str | None)
    assert_type(app.step_id, int | None)
    return len(order) + gift


@app.workflow(name="other", max_recovery_attempts=3)
def other(number: int) -> str:
    return str(number)


@app.workflow
async def waiting(number: int) -> str:
    assert_type(await fetch("x"), bytes)
    return str(number)


def sync_calls() -> None:
    assert_type(checkout("a", gift=True), int)
    checkout(1)  # type: ignore[arg-type]
    checkout("a", True)  # type: ignore[call-arg]
    handle = checkout.start("a")
    assert_type(handle, Handle[int])
    assert_type(handle.result(), int)
    assert_type(handle.result(timeout=1), int)
    assert_type(handle.status(), WorkflowState)
    assert_type(handle.workflow_id, str)
    checkout.start(2)  # type: ignore[arg-type]
    assert_type(checkout.options(workflow_id="x", timeout=3)("a"), int)
    assert_type(checkout.options(workflow_id="x").start("a"), Handle[int])
    checkout.options(workflow="x")  # type: ignore[call-arg]
    checkout.options(timeout="long")  # type: ignore[arg-type]
    checkout.options(on_conflict="overwrite")  # type: ignore[arg-type]
    assert_type(other(1), str)
    assert_type(other.start(1).result(), str)
    started = waiting(1)
    assert_type(started, Coroutine[Any, Any, str]).close()
    assert_type(waiting.start(1), Handle[str])
    assert_type(app.execute(checkout, {"order": "a"}), tuple[int, str])
    assert_type(app.retrieve_workflow("x"), Handle[Any])
    assert_type(app.wait_first([handle]), Handle[int])
    assert_type(app.wait_all([handle, handle]), list[int])
    assert_type(app.list_application_versions(), list[ApplicationVersion])


@aapp.step
async def acharge(order: str) -> bytes:
    return order.encode()


@aapp.step(timeout=1)
def scharge(order: str) -> bytes:
    return order.encode()


@aapp.workflow
async def acheckout(order: str) -> int:
    assert_type(await acharge(order), bytes)
    assert_type(await aapp.run_step(scharge, order), bytes)
    assert_type(await aapp.run_step(acharge, order), bytes)
    assert_type(await aapp.run_step(len, order), int)
    assert_type(await aapp.now(), datetime)
    assert_type(await aapp.timeout(3, acharge(order)), bytes)
    assert_type(await aapp.gather(acharge("a"), acharge("b")), list[bytes])
    assert_type(await aapp.gather(acharge("a"), aapp.now()), list[bytes | datetime])
    assert_type(await aapp.gather(*(acharge(each) for each in order)), list[bytes])
    await aapp.gather(acharge("a"), 1)  # type: ignore[call-overload]
    await acharge(3)  # type: ignore[arg-type]
    return len(order)


@aapp.workflow(name="threaded")
def threaded(number: int) -> str:
    return str(number)


async def async_calls() -> None:
    assert_type(await acheckout("a"), int)
    await acheckout(1)  # type: ignore[arg-type]
    handle = await acheckout.start("a")
    assert_type(handle, AsyncHandle[int])
    assert_type(await handle, int)
    assert_type(await handle.result(timeout=3), int)
    assert_type(await handle.status(), WorkflowState)
    assert_type(await acheckout.options(workflow_id="x")("a"), int)
    assert_type(await (await threaded.start(1)).result(), str)
    assert_type(await aapp.execute(acheckout, {"order": "a"}), tuple[int, str])
    assert_type(await aapp.wait_first([handle]), AsyncHandle[int])
    assert_type(await aapp.wait_all([handle]), list[int])
    async with aapp as entered:
        assert_type(entered, AsyncHoldfast)


class Shop:
    config_name = "main"

    @app.workflow
    def sell(self, sku: str) -> int:
        assert_type(self.price(sku), float)
        assert_type(Shop.tax(1.0), float)
        assert_type(Shop.label(sku), str)
        return len(sku)

    @app.workflow
    @staticmethod
    def audit(number: int) -> str:
        return str(number)

    @app.workflow
    @classmethod
    def report(cls, number: int) -> bytes:
        return bytes(number)

    @app.step
    def price(self, sku: str) -> float:
        return float(len(sku))

    @app.step
    @staticmethod
    def tax(net: float) -> float:
        return net

    @app.step
    @classmethod
    def label(cls, sku: str) -> str:
        return sku

    @app.workflow
    def ledger(self, day: int) -> dict[str, Any]:
        return {"day": day}

    @aapp.workflow
    async def asell(self, sku: str) -> int:
        return len(sku)

    @aapp.step
    async def aprice(self, sku: str) -> float:
        return float(len(sku))


async def methods(shop: Shop) -> None:
    assert_type(shop.sell("a"), int)
    shop.sell(1)  # type: ignore[arg-type]
    assert_type(shop.sell.start("a"), Handle[int])
    assert_type(shop.sell.options(workflow_id="x")("a"), int)
    assert_type(Shop.audit(1), str)
    assert_type(Shop.audit.start(1), Handle[str])
    assert_type(Shop.report(1), bytes)
    assert_type(Shop.report.start(1), Handle[bytes])
    Shop.report("a")  # type: ignore[call-overload]
    assert_type(shop.price("a"), float)
    shop.price(1)  # type: ignore[arg-type]
    assert_type(Shop.tax(1.0), float)
    assert_type(Shop.label("a"), str)
    assert_type(shop.report(1), bytes)
    assert_type(shop.label("a"), str)
    assert_type(shop.ledger(1), dict[str, Any])
    assert_type(shop.ledger.start(1), Handle[dict[str, Any]])
    shop.ledger("a")  # type: ignore[arg-type]
    assert_type(await shop.asell("a"), int)
    assert_type(await shop.asell.start("a"), AsyncHandle[int])
    await shop.asell.start(1)  # type: ignore[arg-type]
    assert_type(await shop.aprice("a"), float)
    await shop.aprice(1)  # type: ignore[arg-type]
    bound: Callable[[str], float] = shop.price
    assert_type(bound("a"), float)


def made(app: Holdfast) -> tuple[Step[[int], str], Workflow[[int], str, str]]:
    @app.step
    def written(n: int) -> str:
        return str(n)

    @app.workflow
    def work(n: int) -> str:
        return written(n)

    return written, work


def amade(app: AsyncHoldfast) -> AsyncWorkflow[[int], str, Coroutine[Any, Any, str]]:
    @app.workflow
    async def work(n: int) -> str:
        return str(n)

    return work


async def use_what_was_made() -> None:
    assert_type(made(app)[1](1), str)
    assert_type(made(app)[1].start(1), Handle[str])
    assert_type(await amade(aapp)(1), str)
    made(app)[1]("1")  # type: ignore[arg-type]
