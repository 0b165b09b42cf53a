"""An outage of the database is nobody's outcome: questions of workflows wait for it as their writes do."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.testing.servers import Server

LEASE = 60  # nothing is taken over meanwhile
ANSWERS = {
    "get_event": "said",
    "get_workflow": "SUCCESS",
    "list_workflows": 1,
    "list_steps": 1,
    "status": "SUCCESS",
    "retrieve_queue": "work",
}


class _Outage:
    """A server that is away while workflows ask; it is back when each of them has said that it waits."""

    def __init__(self, server: Server, log: pytest.LogCaptureFixture) -> None:
        self._server = server
        self._log = log
        self.asking: list[str] = []
        self.is_there = threading.Event()

    def pass_by(self) -> None:
        until(lambda: len(self.asking) == len(ANSWERS))
        self._server.kill()
        self.is_there.set()
        until(lambda: sum("waits for the database (attempt 1)" in text for text in self._log.messages) >= len(ANSWERS))
        self._server.start()


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_i6_questions_of_threads_wait_while_the_database_is_away(
    kind: str, own_server: Callable[..., Server], caplog: pytest.LogCaptureFixture
) -> None:
    server = own_server(kind)
    app, outage = Holdfast(server.create_database(), lease=LEASE), _Outage(server, caplog)
    questions: dict[str, Callable[[], Any]] = {
        "get_event": lambda: app.get_event("known", "word", timeout=60),
        "get_workflow": lambda: app.get_workflow("known").status,
        "list_workflows": lambda: len(app.list_workflows(name="known")),
        "list_steps": lambda: len(app.list_steps("known")),
        "status": lambda: app.retrieve_workflow("known").status().status,
        "retrieve_queue": lambda: getattr(app.retrieve_queue("work"), "name", None),
    }

    @app.workflow(name="known")
    def known() -> None:
        app.set_event("word", "said")

    @app.workflow
    def curious(what: str) -> Any:
        outage.asking.append(what)
        outage.is_there.wait()
        return questions[what]()

    def outside() -> Any:
        outage.is_there.wait()
        return app.get_event("known", "word", timeout=60)

    with app, ThreadPoolExecutor(1) as pool:
        app.register_queue("work")
        known.options(workflow_id="known")()
        handles = {each: curious.start(each) for each in ANSWERS}
        waiting = pool.submit(outside)
        outage.pass_by()
        assert {each: handle.result(60) for each, handle in handles.items()} == ANSWERS
        assert waiting.result(60) == "said"  # within its own time


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_i6_questions_of_tasks_wait_while_the_database_is_away(
    kind: str, own_server: Callable[..., Server], caplog: pytest.LogCaptureFixture
) -> None:
    server = own_server(kind)
    app, outage = AsyncHoldfast(server.create_database(), lease=LEASE), _Outage(server, caplog)
    questions: dict[str, Callable[[], Awaitable[Any]]] = {
        "get_event": lambda: app.get_event("known", "word", timeout=60),
        "get_workflow": lambda: app.get_workflow("known"),
        "list_workflows": lambda: app.list_workflows(name="known"),
        "list_steps": lambda: app.list_steps("known"),
        "status": lambda: app.retrieve_workflow("known").status(),
        "retrieve_queue": lambda: app.retrieve_queue("work"),
    }

    @app.workflow(name="known")
    async def known() -> None:
        await app.set_event("word", "said")

    @app.workflow
    async def curious(what: str) -> Any:
        outage.asking.append(what)
        await asyncio.to_thread(outage.is_there.wait)
        answer = await questions[what]()
        if isinstance(answer, list):
            return len(answer)
        return answer if isinstance(answer, str) else getattr(answer, "status", None) or answer.name

    async def main() -> None:
        async with app:
            await app.register_queue("work")
            await known.options(workflow_id="known")()
            handles = {each: await curious.start(each) for each in ANSWERS}
            await asyncio.to_thread(outage.pass_by)
            assert {each: await handle.result(60) for each, handle in handles.items()} == ANSWERS

    asyncio.run(main())
