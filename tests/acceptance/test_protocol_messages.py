"""Processes that send and receive are killed, race and lose their connections; on every database.

The invariants shown: a message is received once, and an event is set once, with its record (I1, I5); what a step says
is said once (I16); messages to one run are in order, and a later number never commits first (I15); a commit of unknown
outcome sends and receives once (I9).
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from holdfast import AsyncClient, AsyncHoldfast, Message
from holdfast.db import ConnectionManager, DialectName
from holdfast.errors import WorkflowNotFound
from holdfast.testing.contract.venue import until as until_async
from holdfast.testing.proxy import Cut, Proxy
from holdfast.testing.workers import until
from holdfast.workflows.parking import Parker, Wakes, wakes

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.stage import Stage
    from holdfast.workflows.parking import Wait

PROGRAM = Path(__file__).parent / "programs" / "talker.py"
EVERY_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
COUNT = 40

# Where one process after the other dies, and the how manieth time it comes there; the same two runs go on in the next.
DEATHS = [("message.sent", 2), ("message.consumed", 2), ("event.set", 2)]
FURTHER = [
    ("message.sent", 1),
    ("message.consumed", 1),
    ("event.set", 1),
    ("step.recorded", 3),
    ("pipeline.before_commit", 4),
    ("pipeline.after_commit", 4),
]


def messages(scene: Stage) -> list[dict[str, Any]]:
    """Return all messages in their order."""
    schema = "holdfast." if scene.url.startswith("postgres") else ""
    return scene.fetch(f"SELECT * FROM {schema}notifications ORDER BY sequence")


def talk_through(scene: Stage, deaths: list[tuple[str, int]], **settings: Any) -> None:
    """Let two runs be killed at each point in turn; they end with the last process, and nothing is lost or twice."""
    for number, death in enumerate(deaths):
        doomed = scene.worker(faults=[death], **settings)
        if number == 0:
            doomed.hear("ready")
            doomed.tell("listen", COUNT)
            until(lambda: "listener" in scene.statuses())
            doomed.tell("speak", COUNT)
        assert doomed.end() == -signal.SIGKILL
    last = scene.ready(**settings)
    last.tell("speak", COUNT)
    last.tell("listen", COUNT)
    assert last.hear("spoken")[1] == COUNT
    assert last.hear("result")[1] == list(range(COUNT))
    assert [row["message"] for row in messages(scene)] == [str(number) for number in range(COUNT)]
    assert all(row["consumed"] for row in messages(scene))
    schema = "holdfast." if scene.url.startswith("postgres") else ""
    history = scene.fetch(f"SELECT * FROM {schema}workflow_events_history")
    heard = sorted(int(row["value"]) for row in history if row["key"] == "heard")
    assert heard == list(range(1, COUNT + 1))
    assert len(history) == COUNT + COUNT // 4


@EVERY_KIND
def test_i1_i16_runs_whose_processes_die_send_and_receive_everything_once_and_in_order(
    kind: str, stage: Callable[[str], Stage]
) -> None:
    talk_through(stage(kind), DEATHS)


@pytest.mark.soak
@EVERY_KIND
def test_i1_runs_whose_processes_die_while_they_are_put_away_receive_everything_once(
    kind: str, stage: Callable[[str], Stage]
) -> None:
    talk_through(stage(kind), FURTHER, away=0.001)


@EVERY_KIND
def test_i15_a_later_number_never_commits_first_whoever_sends(kind: str, stage: Callable[[str], Stage]) -> None:
    scene, names, each = stage(kind), ["a", "b", "c"], 30
    talkers = [scene.worker() for _ in names]
    for talker in talkers:
        talker.hear("ready")
    talkers[0].tell("listen", len(names) * 2 * each)
    until(lambda: "listener" in scene.statuses())
    for name, talker in zip(names, talkers, strict=True):
        talker.tell("shout", name, "listener", each)
    seen: list[int] = []
    while not all(talker.heard("shouted") for talker in talkers):
        there = [row["sequence"] for row in messages(scene)]
        assert there[: len(seen)] == seen, "a number came before one that was there"
        seen = there
        assert all(talker.alive for talker in talkers)
    heard = talkers[0].hear("result")[1]
    for name in names:
        assert [number for who, number in heard if who == name] == list(range(2 * each))
    rows = messages(scene)
    assert [row["message"] for row in rows if row["topic"] == "talk"] == [_text(item) for item in heard]
    keyed = [row for row in rows if row["topic"] == "keyed"]
    assert len(keyed) == len({row["message_uuid"] for row in keyed}) == 20


def _text(item: list[Any]) -> str:
    return f'["{item[0]}",{item[1]}]'


class Talk:
    """Workflows that send and receive through connections that may be cut."""

    def __init__(self, url: str) -> None:
        self.app = AsyncHoldfast(url, lease=2.0, application_version="tested")
        app = self.app

        @app.workflow
        async def answer(count: int) -> list[Any]:
            return [await app.recv(timeout=None) for _ in range(count)]

        @app.workflow
        async def ask(destination: str, count: int) -> None:
            for number in range(0, count, 2):
                await app.send(destination, number)
                await app.send(destination, number + 1)
                await app.set_event("asked", number)

        self.answer, self.ask = answer, ask

    async def run(self, name: str) -> None:
        """Have one conversation of a workflow with another, and one with this code."""
        asked = await self.answer.options(workflow_id=f"{name}-asked").start(10)
        told = await self.answer.options(workflow_id=f"{name}-told").start(10)
        asking = await self.ask.start(asked.workflow_id, 10)
        for number in range(0, 10, 2):
            await self.app.send_many([Message(told.workflow_id, number), Message(told.workflow_id, number + 1)])
        await asking.result()
        assert await self.app.get_event(asking.workflow_id, "asked") == 8
        assert [await asked.result(), await told.result()] == [list(range(10))] * 2


@pytest.mark.parametrize(("kind", "trigger"), [("postgres", b"COMMIT\x00"), ("mariadb", b"\x03COMMIT")])
@pytest.mark.parametrize("cut", list(Cut))
def test_i9_connections_that_are_cut_at_a_commit_send_and_receive_once(
    kind: str, trigger: bytes, cut: Cut, fresh_database: Callable[[str], str]
) -> None:
    url = fresh_database(kind)
    port = urlsplit(url).port or 0

    async def scene() -> None:
        async with Proxy("127.0.0.1", port) as proxy, ConnectionManager(url) as direct:
            talk = Talk(url.replace(f":{port}/", f":{proxy.port}/"))
            async with talk.app:
                for turn, skip in enumerate((0, 2, 5, 1)):
                    wanted = proxy.cuts + 1
                    proxy.arm(trigger, cut, skip=skip)
                    talking = asyncio.gather(*(talk.run(f"{turn}-{number}") for number in range(3)))
                    await until_async(lambda: proxy.cuts >= wanted or talking.done())  # noqa: B023 -- awaited
                    await talking
                assert proxy.cuts >= 3
            schema = "holdfast." if direct.dialect is DialectName.POSTGRES else ""
            rows = await direct.fetch(f"SELECT * FROM {schema}notifications")
            assert len(rows) == 4 * 3 * 20
            assert all(row["consumed"] for row in rows)
            runs = await direct.fetch(f"SELECT * FROM {schema}workflow_status")
            assert {(run["status"], run["recovery_attempts"]) for run in runs} == {("SUCCESS", 0)}

    asyncio.run(scene())


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.parametrize("before", [0, 1], ids=["first message", "further message"])
def test_message_to_a_run_that_is_being_deleted_finds_nobody(
    kind: str, before: int, fresh_database: Callable[[str], str]
) -> None:
    url = fresh_database(kind)

    async def scene() -> None:
        talk = Talk(url)
        async with talk.app, ConnectionManager(url) as direct:
            schema = "holdfast." if direct.dialect is DialectName.POSTGRES else ""
            gone, stays = await talk.answer.start(0), await talk.answer.start(0)
            await asyncio.gather(gone.result(), stays.result())
            for number in range(before):
                await talk.app.send(gone.workflow_id, number)
            async with direct.transaction() as transaction:
                await transaction.execute(
                    f"DELETE FROM {schema}workflow_status WHERE workflow_uuid = ?", gone.workflow_id
                )
                sending = [asyncio.ensure_future(talk.app.send(each.workflow_id, 1)) for each in (gone, stays)]
                await asyncio.wait(sending, timeout=0.2)  # it waits for the outcome of the deletion, as a rule
            outcomes = await asyncio.gather(*sending, return_exceptions=True)
            assert isinstance(outcomes[0], WorkflowNotFound)
            assert outcomes[1] is None
            rows = await direct.fetch(f"SELECT destination_uuid FROM {schema}notifications")
            assert [row["destination_uuid"] for row in rows] == [stays.workflow_id]

    asyncio.run(scene())


@EVERY_KIND
def test_i6_a_wake_up_is_lost_neither_to_a_client_nor_to_the_moment_of_being_put_away(
    kind: str, fresh_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many other runs are put away: nobody sweeps here, as if the sweep were busy with those.

    And what is lost all the same, since nobody told, the sweeps find, be it in the last of the waits they go through.
    """
    url = fresh_database(kind)
    app = AsyncHoldfast(url, put_away_after=0.05)
    has_come = Parker._has_come

    @app.workflow
    async def patient() -> Any:
        return await app.recv(timeout=None)

    async def no_sweep(_: Wakes) -> int:
        return 0

    async def tell_nobody(_: Wakes, what: object) -> None:
        del what

    async def found_by_sweeps(client: AsyncClient) -> None:
        runs = [await patient.start() for _ in range(5)]
        await until_async(lambda: not app._engine.runner.running)
        with monkeypatch.context() as patched:
            patched.setattr(wakes, "_AT_ONCE", 2)
            patched.setattr(Wakes, "tell", tell_nobody)
            for number, run in enumerate(runs):
                await client.send(run.workflow_id, number)
            ended = asyncio.gather(*(run.result(timeout=60) for run in runs))
            while not ended.done():
                app._engine.dispatch.wake()
                await asyncio.wait([ended], timeout=0.1)
            assert await ended == [0, 1, 2, 3, 4]

    async def scene() -> None:
        async with app, AsyncClient(url) as client:
            await found_by_sweeps(client)
            monkeypatch.setattr(Wakes, "sweep", no_sweep)

            async def has_not_come_yet(parker: Parker, wait: Wait) -> bool:
                come = await has_come(parker, wait)
                [thing] = wait.things
                await client.send(thing.workflow_id, "in that moment")
                return come

            run = await patient.start()
            await until_async(lambda: run.workflow_id not in app._engine.runner.running)
            await client.send(run.workflow_id, "later")
            assert await run.result(timeout=60) == "later"
            monkeypatch.setattr(Parker, "_has_come", has_not_come_yet)
            run = await patient.start()
            assert await run.result(timeout=60) == "in that moment"

    asyncio.run(scene())
