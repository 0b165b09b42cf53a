"""Requests that are cancelled while the store of their keys is asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.db import ConnectionManager
from holdfast.stores import DBIdempotencyStore
from holdfast.testing.contract.store_task_worker import until
from holdfast.web import IdempotencyMiddleware
from holdfast.web.patience import Patience

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"1", "more_body": False}


async def send(message: Any) -> None:
    raise AssertionError(message)


def test_key_of_a_request_is_free_wherever_it_was_cancelled(tmp_path: Path) -> None:
    reached: list[int] = []

    async def scene() -> None:
        async with ConnectionManager(tmp_path / "keys.db") as manager, DBIdempotencyStore(manager) as store:
            for rounds in range(40):

                async def shop(scope: Any, receive: Any, send: Any, rounds: int = rounds) -> None:
                    reached.append(rounds)
                    await asyncio.Event().wait()

                async def is_free(key: str = f"http:any:{rounds}") -> bool:
                    return await store.get(key) is None

                app = IdempotencyMiddleware(shop, store=store, lease_seconds=3600)
                headers = [(b"idempotency-key", b"%d" % rounds)]
                scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
                request = asyncio.ensure_future(app(scope, receive, send))
                for _ in range(rounds):
                    await asyncio.sleep(0)
                if rounds == 39:
                    await until(lambda: _true(39 in reached))
                request.cancel()
                await asyncio.wait([request])
                assert request.cancelled()
                await until(is_free)

    asyncio.run(scene())
    assert 0 < len(reached) < 40, "some were cancelled before, and some within the application"


def test_what_was_done_for_one_who_is_cancelled_at_that_moment_is_undone() -> None:
    async def scene(rounds: int) -> list[str]:
        said: list[str] = []

        async def work() -> str:
            said.append("done")
            return "claim"

        async def undo(found: str) -> None:
            said.append(f"{found} undone")

        asking = asyncio.ensure_future(Patience().asked(work(), undo))
        for _ in range(rounds):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        await asyncio.sleep(0)
        return said if asking.cancelled() else [*said, asking.result()]

    ends = [asyncio.run(scene(rounds)) for rounds in range(1, 8)]
    assert ["done", "claim undone"] in ends
    assert all(end in ([], ["done", "claim undone"], ["done", "claim"]) for end in ends)


async def _true(answer: bool) -> bool:
    return answer


def test_answer_of_a_request_whose_store_was_closed_meanwhile_reaches_its_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        manager = ConnectionManager(tmp_path / "keys.db")
        store = DBIdempotencyStore(manager)
        await store.initialize()

        async def shop(scope: Any, receive: Any, send: Any) -> None:
            await store.close()
            await manager.close()
            await until(lambda: _true(caplog.text.count("could not be extended") > 1))
            await send({"type": "http.response.start", "status": 201, "headers": []})
            await send({"type": "http.response.body", "body": b"done"})

        async def hear(message: Any) -> None:
            sent.append(message)

        app = IdempotencyMiddleware(shop, store=store, lease_seconds=0.03)
        headers = [(b"idempotency-key", b"k")]
        await app({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive, hear)

    sent: list[Any] = []
    asyncio.run(scene())
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert "never retrieved" not in caplog.text
