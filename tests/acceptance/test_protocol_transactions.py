"""I7: a transaction's writes and its record are one commit, whoever is killed, paused or cut off, and wherever."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from holdfast import AsyncHoldfast
from holdfast.db import ConnectionManager
from holdfast.testing.contract.venue import until as until_true
from holdfast.testing.proxy import Cut, Proxy
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.stage import Stage

PROGRAM = Path(__file__).parent / "programs" / "payer.py"
KINDS = ["sqlite", "postgres", "mariadb"]
LEASE = {"lease": 0.6}
# Where a worker may die around a transaction, and the how manieth time it comes there.
POINTS = [
    ("step.before_user_code", 2),
    ("transaction.before_record", 1),
    ("transaction.before_commit", 1),
    ("transaction.before_commit", 3),
    ("transaction.committed", 1),
    ("transaction.committed", 3),
    ("step.recorded", 3),
]
# Where the data is, if it is not where the runs are; and one more place to die, between the two commits.
DATA = {"sqlite": "postgres", "postgres": "mariadb", "mariadb": "sqlite"}
POINTS_ELSEWHERE = [*POINTS, ("step.after_user_code", 4), ("pipeline.before_commit", 5)]


class Bank:
    """The accounts, in whatever database; looked at from outside."""

    def __init__(self, url: str) -> None:
        self.url = url
        asyncio.run(self._create())

    async def _create(self) -> None:
        async with ConnectionManager(self.url) as manager:
            await manager.execute("CREATE TABLE accounts (who VARCHAR(40) NOT NULL PRIMARY KEY, cents INTEGER)")
            for who in ("ann", "bob"):
                await manager.execute("INSERT INTO accounts VALUES (?, 0)", who)

    def cents(self) -> dict[str, int]:
        async def look() -> dict[str, int]:
            async with ConnectionManager(self.url) as manager:
                return {row["who"]: row["cents"] for row in await manager.fetch("SELECT who, cents FROM accounts")}

        return asyncio.run(look())

    def check(self, total: int) -> None:
        """Every payment was made, and made once."""
        assert self.cents() == {"ann": -total, "bob": total}


def colours(kind: str, place: int) -> tuple[str, str]:
    first = (place + KINDS.index(kind)) % 2
    return ("sync", "async")[first], ("async", "sync")[first]


def kill_and_finish(scene: Stage, kind: str, places: list[tuple[str, int]], **settings: Any) -> int:
    """Have workers that pay die one after the other, each at another place; the last one ends all runs.

    Each has three runs of its own, and takes over what those before it have left. Returns what was paid in all.
    """
    runs: dict[str, int] = {}
    for number, place in enumerate(places):
        doomed = scene.worker(colours(kind, number)[0], app=LEASE, faults=[(*place, "kill")], **settings)
        mine = {f"paying-{number}-{cents}": cents for cents in (1, 2, 3)}
        for run_id, cents in mine.items():
            doomed.tell("start", "paying", run_id, cents)
        assert doomed.end() == -signal.SIGKILL
        runs |= mine

    rescuer = scene.ready(colours(kind, len(places))[0], app=LEASE, **settings)
    for run_id, cents in runs.items():
        rescuer.tell("run", "paying", run_id, cents)
    for run_id, cents in runs.items():
        assert rescuer.hear("result", run_id) == ["result", run_id, 3 * cents]
    assert scene.all_ended()
    return sum(runs.values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(2))
def test_i7_a_transaction_whose_worker_dies_is_done_once(kind: str, part: int, stage: Callable[[str], Stage]) -> None:
    scene = stage(kind)
    bank = Bank(scene.url)
    bank.check(kill_and_finish(scene, kind, POINTS[part::2]))
    scene.check_record()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(3))
def test_i7_a_transaction_elsewhere_whose_worker_dies_is_done_once(
    kind: str, part: int, stage: Callable[[str], Stage], fresh_database: Callable[[str], str]
) -> None:
    scene = stage(kind)
    bank = Bank(fresh_database(DATA[kind]))
    bank.check(kill_and_finish(scene, kind, POINTS_ELSEWHERE[part::3], data=bank.url))


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
@pytest.mark.parametrize("point", ["transaction.before_record", "transaction.before_commit", "transaction.committed"])
def test_i7_a_worker_paused_past_its_lease_commits_nothing_when_it_wakes(
    kind: str, point: str, stage: Callable[[str], Stage]
) -> None:
    scene = stage(kind)
    bank = Bank(scene.url)
    first, second = colours(kind, len(point))
    stale = scene.ready(first, faults=[(point, 1, "pause")])
    stale.tell("run", "paying", "paused", 7)
    until(stale.is_paused)

    fresh = scene.ready(second)
    fresh.tell("run", "paying", "paused", 7)
    assert fresh.hear("result", "paused")[2] == 21, fresh.log()
    stale.wake()
    assert stale.hear("result", "paused")[2] == 21
    stale.tell("run", "paying", "next", 1)
    assert stale.hear("result", "next")[2] == 3

    bank.check(8)
    scene.check_record(woken=True)


@pytest.mark.parametrize("colour", ["async", "sync"])
def test_i7_a_worker_of_sqlite_paused_past_its_lease_commits_nothing_when_it_wakes(
    colour: str, stage: Callable[[str], Stage]
) -> None:
    scene = stage("sqlite")
    bank = Bank(scene.url)
    stale = scene.ready(colour)
    stale.tell("run", "paying", "paused", 7, 0.5)
    until(lambda: any(effect.what.startswith("pay@") for effect in scene.ledger.all()))
    scene.pause(stale)

    fresh = scene.ready("async" if colour == "sync" else "sync")
    fresh.tell("run", "paying", "paused", 7, 0.5)
    assert fresh.hear("result", "paused")[2] == 21
    stale.wake()
    assert stale.hear("result", "paused")[2] == 21

    bank.check(7)
    scene.check_record(woken=True)


# What is on the wire when a transaction commits: in PostgreSQL's own database the record, before a prepared COMMIT.
COMMIT = {
    ("postgres", "own"): b"\x00holdfast_",
    ("postgres", "elsewhere"): b"COMMIT\x00",
    ("mariadb", "own"): b"\x03COMMIT",
    ("mariadb", "elsewhere"): b"\x03COMMIT",
}


class Payments:
    """Workflows that pay one cent each, and a way to have many of them."""

    def __init__(self, url: str, data: str | None) -> None:
        self.app = AsyncHoldfast(url, lease=2.0, application_version="tested")

        @self.app.transaction(database=data)
        async def pay(tx: Any, number: int) -> int:
            await tx.execute("UPDATE accounts SET cents = cents - 1 WHERE who = 'ann'")
            await tx.execute("UPDATE accounts SET cents = cents + 1 WHERE who = 'bob'")
            return number

        @self.app.workflow
        async def paying(number: int) -> int:
            return await pay(number)

        self.paying = paying

    async def run(self, enough: Callable[[], bool]) -> int:
        """Pay ten at a time until it is *enough*; return how many were paid."""
        paid = 0
        while paid == 0 or not enough():
            numbers = range(paid, paid + 10)
            assert list(await asyncio.gather(*map(self.paying, numbers))) == list(numbers)
            paid += 10
        return paid


@pytest.mark.parametrize(("kind", "place"), list(COMMIT))
@pytest.mark.parametrize("cut", list(Cut))
def test_i7_a_commit_that_nobody_heard_of_is_asked_for(
    kind: str, cut: Cut, place: str, fresh_database: Callable[[str], str]
) -> None:
    bank = Bank(fresh_database(kind))
    port = urlsplit(bank.url).port or 0
    runs = fresh_database("sqlite")

    async def scene() -> int:
        async with Proxy("127.0.0.1", port) as proxy:
            through = bank.url.replace(f":{port}/", f":{proxy.port}/")
            payments = Payments(through, None) if place == "own" else Payments(runs, through)
            async with payments.app:
                working = asyncio.create_task(payments.run(lambda: proxy.cuts >= 5))
                for skip in (0, 2, 5, 1, 3):
                    wanted = proxy.cuts + 1
                    proxy.arm(COMMIT[kind, place], cut, skip=skip)
                    await until_true(lambda: proxy.cuts >= wanted or working.done())  # noqa: B023 -- awaited
                return await working

    bank.check(asyncio.run(scene()))
