"""I14 the other way round: a database that lost nothing is never taken for one that went back.

What an executor wrote last is changed or removed by others while its connections are cut, as the protocol allows. On
its new connection the executor finds it changed or gone: that proves nothing, and what it runs goes on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from holdfast import AsyncClient, AsyncHoldfast, Retention, Retry
from holdfast.db import ConnectionManager
from holdfast.testing.contract.venue import until
from holdfast.testing.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Act = Callable[["Scene"], Awaitable[Any]]

SERVERS = ["postgres", "mariadb"]
PATIENCE = 60.0


class Member:
    """An application that others have too, and what its workflows wait for here."""

    def __init__(self, url: str, **options: Any) -> None:
        self.app = app = AsyncHoldfast(url, lease=60, application_version="tested", put_away_after=0.05, **options)
        self.begun: list[str] = []
        self.renew()

        @app.step(name="charge")
        async def charge() -> str:
            self.begun.append("charge")
            await self.charged.wait()
            return "charged"

        @app.step(name="note")
        async def note() -> int:
            return 1

        @app.workflow(name="long")
        async def long() -> str:
            return await charge()

        @app.workflow(name="brief")
        async def brief() -> int:
            return 1

        @app.workflow(name="halting")
        async def halting(steps: int) -> int:
            for _ in range(steps):
                await note()
            self.begun.append(f"halting {steps}")
            await self.passes.wait()
            return steps

        @app.workflow(name="listening")
        async def listening() -> list[Any]:
            return [await app.recv(timeout=600) for _ in range(2)]

        @app.workflow(name="failing", retry=Retry(attempts=2, interval=600))
        async def failing() -> int:
            raise ValueError("not yet")

        self.long, self.brief, self.halting, self.listening, self.failing = long, brief, halting, listening, failing

    def renew(self) -> None:
        """Forget what was begun, and have what is begun from now on wait."""
        self.begun.clear()
        self.charged = asyncio.Event()
        self.passes = asyncio.Event()


class Scene:
    """A member behind a proxy that runs something long, another one that may come, and a client beside both."""

    def __init__(
        self, url: str, here: Member, proxy: Proxy, client: AsyncClient, direct: ConnectionManager, *, last: str
    ) -> None:
        self._url = url
        self._proxy = proxy
        self._direct = direct
        self._table = "holdfast.workflow_status" if url.startswith("postgres") else "workflow_status"
        self.client = client
        self.here = here
        self.last = last  # the run that is written last before the connections are cut

    async def play(self, long: str, writes: Act, changes: Act) -> None:
        """Cut the connections after *writes*; after *changes* the long run must go on as if nothing had happened."""
        self.here.renew()
        handle = await self.here.long.options(workflow_id=long).start()
        await until(lambda: "charge" in self.here.begun)
        await writes(self)
        self._proxy.refusing = True
        self._proxy.cut_all()
        await changes(self)
        self._proxy.refusing = False
        self.here.charged.set()
        assert await handle.result() == "charged"
        self.here.passes.set()
        assert self.here.begun.count("charge") == 1
        assert (await self._row(long))["executions"] == 1

    async def until_status(self, status: str, *, but_key: str | None = "") -> None:
        """Wait until the last run has this status, by another change than the one with *but_key*."""
        async with asyncio.timeout(PATIENCE):
            while (row := await self.row()).get("status") != status or row["change_key"] == but_key:  # noqa: ASYNC110 -- a row, which nobody announces
                await asyncio.sleep(0.01)

    async def row(self) -> dict[str, Any]:
        return await self._row(self.last)

    async def _row(self, workflow_id: str) -> dict[str, Any]:
        found = await self._direct.fetchone(f"SELECT * FROM {self._table} WHERE workflow_uuid = ?", workflow_id)
        return found or {}

    async def elsewhere(self, what: Callable[[Member], Awaitable[Any]]) -> None:
        """Have another executor, which is let through, do what it finds to be done until *what* returns."""
        other = Member(self._url)
        other.passes.set()
        async with other.app:
            await what(other)


async def ended(scene: Scene) -> None:
    await scene.here.brief.options(workflow_id=scene.last)()


async def started(scene: Scene, steps: int = 0) -> None:
    await scene.here.halting.options(workflow_id=scene.last).start(steps)
    await until(lambda: f"halting {steps}" in scene.here.begun)


async def recorded(scene: Scene) -> None:
    await started(scene, 2)


async def put_away(scene: Scene) -> None:
    await scene.here.listening.options(workflow_id=scene.last).start()
    await scene.until_status("DELAYED")


async def retried(scene: Scene) -> None:
    await scene.here.failing.options(workflow_id=scene.last).start()
    await scene.until_status("DELAYED")


async def found_taken(scene: Scene) -> None:
    await scene.elsewhere(lambda other: other.brief.options(workflow_id=scene.last)())
    await scene.here.brief.options(workflow_id=scene.last).start()


async def enqueued(scene: Scene) -> None:
    await scene.here.brief.options(workflow_id=scene.last, queue_name="later", delay=600).enqueue()


async def sent(scene: Scene) -> None:
    await put_away(scene)
    await scene.client.cancel_workflow(scene.last)
    await scene.here.app.send(scene.last, "first")


async def nothing(scene: Scene) -> None:
    """Leave it as it is."""


async def deleted(scene: Scene) -> None:
    await scene.client.delete_workflow(scene.last)


async def pruned(scene: Scene) -> None:
    await scene.client.prune(Retention(older_than=0, name="brief"))
    assert not await scene.row()


async def rewound(scene: Scene) -> None:
    await scene.client.rewind_workflow(scene.last, application_version="another")


async def rewound_and_ended(scene: Scene) -> None:
    await scene.client.rewind_workflow(scene.last)
    await scene.elsewhere(lambda _: scene.until_status("SUCCESS"))


async def cancelled(scene: Scene) -> None:
    await scene.client.cancel_workflow(scene.last)


async def cancelled_and_deleted(scene: Scene) -> None:
    await cancelled(scene)
    await deleted(scene)


async def cancelled_and_ended(scene: Scene) -> None:
    await cancelled(scene)
    await scene.client.resume_workflow(scene.last)
    await scene.elsewhere(lambda _: scene.until_status("SUCCESS"))


async def put_away_again(scene: Scene) -> None:
    async def other(_: Member) -> None:
        before = (await scene.row())["change_key"]
        await scene.client.send(scene.last, "first")
        await scene.until_status("DELAYED", but_key=before)

    await scene.elsewhere(other)


async def received_and_ended(scene: Scene) -> None:
    async def other(_: Member) -> None:
        for message in ("first", "second"):
            await scene.client.send(scene.last, message)
        await scene.until_status("SUCCESS")

    await scene.elsewhere(other)
    await deleted(scene)


CHANGES: dict[str, tuple[Act, Act]] = {
    "ended, deleted": (ended, deleted),
    "ended, pruned": (ended, pruned),
    "ended, rewound": (ended, rewound),
    "ended, rewound, ended again": (ended, rewound_and_ended),
    "started, cancelled": (started, cancelled),
    "started, deleted": (started, cancelled_and_deleted),
    "started, resumed elsewhere": (started, cancelled_and_ended),
    "recorded, cancelled": (recorded, cancelled),
    "recorded, deleted": (recorded, cancelled_and_deleted),
    "recorded, resumed elsewhere": (recorded, cancelled_and_ended),
    "put away, put away again": (put_away, put_away_again),
    "put away, deleted": (put_away, cancelled_and_deleted),
    "put away, ended elsewhere": (put_away, received_and_ended),
    "retried, cancelled": (retried, cancelled),
    "retried, deleted": (retried, cancelled_and_deleted),
    "enqueued, deleted": (enqueued, cancelled_and_deleted),
    "sent, deleted": (sent, deleted),
    "found its id taken": (found_taken, nothing),
}


@pytest.mark.parametrize("kind", SERVERS)
def test_i14_what_others_have_changed_is_not_taken_for_lost(
    kind: str, fresh_database: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    url = fresh_database(kind)

    async def play() -> None:
        async with Proxy("127.0.0.1", urlsplit(url).port or 0) as proxy:
            here = Member(url.replace(f":{urlsplit(url).port}/", f":{proxy.port}/"))
            async with here.app, AsyncClient(url) as client, ConnectionManager(url) as direct:
                incarnation = here.app._engine.executor.incarnation
                for change, (writes, changes) in CHANGES.items():
                    scene = Scene(url, here, proxy, client, direct, last=f"{change}: last")
                    await scene.play(f"{change}: long", writes, changes)
                    assert here.app._engine.executor.incarnation == incarnation, change
                    assert not [each for each in caplog.records if each.levelno >= logging.ERROR], change
                    assert "registers anew" not in caplog.text, change

    asyncio.run(play())
