"""What a type checker must say about transactions. Checked by mypy, never run."""

from collections.abc import Coroutine
from typing import Any, assert_type

from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast import AsyncHoldfast, Holdfast, Retry
from holdfast.workflows.transactions import AsyncTransaction, Transaction

app = Holdfast("sqlite:///x.sqlite")
aapp = AsyncHoldfast()
engine = create_engine("sqlite://")
async_engine = create_async_engine("sqlite+aiosqlite://")


@app.transaction
def reserve(tx: Transaction, sku: str, count: int = 1) -> bool:
    assert_type(tx.execute("UPDATE stock SET n = n - ? WHERE sku = ?", count, sku), int)
    assert_type(tx.fetch("SELECT 1"), list[dict[str, Any]])
    assert_type(tx.fetchone("SELECT 1"), dict[str, Any] | None)
    return True


@app.transaction(isolation="SERIALIZABLE", retry=Retry(attempts=2), timeout=3, database="sqlite:///y.sqlite")
def release(tx: Transaction, sku: str) -> float:
    return float(sku)


@app.transaction(engine=engine, name="in a session")
def through_session(session: Session, sku: str) -> bytes:
    session.execute(text("SELECT 1"))
    return sku.encode()


@aapp.transaction
async def move(tx: AsyncTransaction, sku: str) -> bytes:
    assert_type(await tx.execute("DELETE FROM stock"), int)
    return sku.encode()


@aapp.transaction(isolation="READ COMMITTED")
async def look(tx: AsyncTransaction) -> str:
    assert_type(await tx.fetchone("SELECT 1"), dict[str, Any] | None)
    return "x"


@aapp.transaction(engine=async_engine)
async def through_async_session(session: AsyncSession, sku: str) -> int:
    await session.execute(text("SELECT 1"))
    return len(sku)


def calls() -> None:
    assert_type(reserve("a"), bool)
    assert_type(reserve("a", count=2), bool)
    assert_type(release("a"), float)
    assert_type(through_session("a"), bytes)
    reserve(1)  # type: ignore[arg-type]
    reserve("a", 1, 2)  # type: ignore[call-arg]
    release("a", price=2)  # type: ignore[call-arg]
    through_session(2)  # type: ignore[arg-type]
    app.transaction(isolation=3)  # type: ignore[call-overload]
    app.transaction(calls)  # type: ignore[arg-type]


async def async_calls() -> None:
    started = move("a")
    assert_type(started, Coroutine[Any, Any, bytes]).close()
    assert_type(await move("a"), bytes)
    assert_type(await look(), str)
    assert_type(await through_async_session("a"), int)
    await move(1)  # type: ignore[arg-type]
    await look("a")  # type: ignore[call-arg]
