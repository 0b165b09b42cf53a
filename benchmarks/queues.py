"""5,000 runs that do nothing, from the first enqueue to the last end, beside DBOS, Absurd and Procrastinate.

Promised: 30 times DBOS, 10 times Absurd and Procrastinate at their best concurrency; near-linear with a second worker
process until the cores are full. MariaDB: measured.

Every measurement has a database of its own, one process that enqueues, and one or two that work and are ready before it
begins. Each system enqueues by the fastest call it has. A peer's concurrency is chosen by one short trial of each, with
one worker; if the best is the first or the last that was tried, a better one may lie outside.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from yard.databases import SQL, makers
from yard.machine import busy, load
from yard.options import Options
from yard.peers import peer
from yard.queue_app import QUEUE, queue_app, workers
from yard.table import print_table

from holdfast.db import ConnectionManager, DialectName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_REQUIREMENTS = {
    "DBOS": ["dbos==3.3.0"],
    "Absurd": ["absurd-sdk==0.5.1", "absurdctl==0.5.1", "psycopg[binary]"],
    "Procrastinate": ["procrastinate==3.10.0", "psycopg[binary]"],
}
_SETTINGS: dict[str, list[list[str]]] = {  # DBOS: seconds between polls, and concurrency; the others: concurrency
    "DBOS": [["1.0", "none"], ["0.1", "none"], ["0.1", "50"]],
    "Absurd": [["20"], ["50"], ["100"], ["200"]],
    "Procrastinate": [["5"], ["10"], ["20"], ["50"]],
}
_THERE = {"postgres": tuple(_SETTINGS), "sqlite": ("DBOS",)}
_TRIAL_RUNS = 500
_LOT = 1000  # a call of enqueue_many: workers begin with the first while the next is written
_WORKERS = (1, 2)
_COLUMNS = (
    "database",
    "system",
    "workers",
    "runs/s",
    "lowest-highest",
    "holdfast is",
    "1 worker x",
    "busy cores",
    "load",
)
_Measured = tuple[float, float | None]


@dataclass(slots=True)
class _Contest:
    """One system on one database; *measure* takes how many workers and runs, and gives runs a second and busy cores."""

    database: str
    system: str
    measure: Callable[[int, int], _Measured]
    rates: dict[int, list[float]] = field(default_factory=lambda: {count: [] for count in _WORKERS})
    loads: dict[int, list[float]] = field(default_factory=lambda: {count: [] for count in _WORKERS})
    cores: dict[int, list[float | None]] = field(default_factory=lambda: {count: [] for count in _WORKERS})

    def rate(self, count: int) -> float:
        return statistics.median(self.rates[count])

    def take(self, runs: int) -> None:
        for count in _WORKERS:
            rate, cores = self.measure(count, runs)
            self.rates[count].append(rate)
            self.cores[count].append(cores)
            self.loads[count].append(os.getloadavg()[0])


async def _until_done(manager: ConnectionManager, runs: int) -> None:
    """Ask by a plain count, as the peers' programs do; waiting for 5,000 results would be work that they do not do."""
    table = "holdfast.workflow_status" if manager.dialect is DialectName.POSTGRES else "workflow_status"
    ended = 0
    while ended < runs:
        await asyncio.sleep(0.02)
        [found] = await manager.fetch(f"SELECT count(*) AS ended FROM {table} WHERE status = 'SUCCESS'")
        ended = found["ended"]


async def _ours(url: str, count: int, runs: int) -> _Measured:
    app, noop = queue_app(url, works=False)
    async with app:
        await app.register_queue(QUEUE)
        async with workers(url, count), ConnectionManager(url) as manager:
            with busy() as machine:
                queued = noop.options(queue_name=QUEUE)
                for first in range(0, runs, _LOT):
                    await queued.enqueue_many(noop.call(number) for number in range(first, min(first + _LOT, runs)))
                await _until_done(manager, runs)
        return runs / machine.seconds, machine.cores


def _contestant(make: Callable[[], str]) -> Callable[[int, int], _Measured]:
    return lambda count, runs: asyncio.run(_ours(make(), count, runs))


def _peer_rate(name: str, make: Callable[[], str], setting: Sequence[str], count: int, runs: int) -> _Measured:
    program = f"{name.lower()}_queue.py"
    arguments = ("throughput", make(), str(count), str(runs), *setting)
    return float(peer(name.lower(), _REQUIREMENTS[name], program, *arguments)[0]["per_second"]), None


def _at_its_best(name: str, make: Callable[[], str]) -> Callable[[int, int], _Measured]:
    """Try a peer's settings on fewer runs with one worker; return how to measure it with the fastest."""
    rates = {tuple(setting): _peer_rate(name, make, setting, 1, _TRIAL_RUNS)[0] for setting in _SETTINGS[name]}
    best = max(rates, key=rates.__getitem__)
    print(f"{name}: " + ", ".join(f"{' '.join(each)} {rate:.0f}/s" for each, rate in rates.items()), flush=True)
    return partial(_peer_rate, name, make, best)


def _contests(made: dict[str, Callable[[], str]], *, peers: bool) -> list[_Contest]:
    contests = [_Contest(name, "holdfast", _contestant(make)) for name, make in made.items()]
    for database, make in made.items() if peers else ():
        names = _THERE.get(database, ())
        contests += [_Contest(database, name, _at_its_best(name, make)) for name in names]
    return contests


def _row(contest: _Contest, ours: _Contest, count: int) -> tuple[object, ...]:
    rate, rates = contest.rate(count), contest.rates[count]
    cores = [each for each in contest.cores[count] if each is not None]
    return (
        contest.database,
        contest.system,
        count,
        rate,
        f"{min(rates):,.0f}-{max(rates):,.0f}",
        f"{ours.rate(count) / rate:.1f}x",
        f"{rate / contest.rate(1):.2f}x",
        f"{statistics.median(cores):.1f}" if cores else "-",
        f"{statistics.median(contest.loads[count]):.1f}",
    )


def _rows(contests: list[_Contest]) -> list[tuple[object, ...]]:
    ours = {contest.database: contest for contest in contests if contest.system == "holdfast"}
    return [_row(contest, ours[contest.database], count) for contest in contests for count in _WORKERS]


def main() -> None:
    options = Options(__doc__, databases=SQL, peers=True)
    options.number("runs", 5_000, "runs of a measurement")
    options.number("peer-runs", None, "fewer for the peers, which take minutes; by default as many")
    options.number("rounds", 3, "rounds in turn, whose median counts")
    given = options.parse_args()
    peer_runs = given.peer_runs or given.runs
    with makers(*given.databases) as made:
        contests = _contests(made, peers=not given.no_peers)
        for number in range(given.rounds):
            for contest in contests:
                ours = contest.system == "holdfast"
                contest.take(given.runs if ours else peer_runs)
            print(f"round {number + 1}: load {load()}", flush=True)
    fewer = "" if peer_runs == given.runs else f" (the peers: {peer_runs:,})"
    print_table(f"{given.runs:,} runs{fewer} that do nothing, enqueue to all done", _COLUMNS, _rows(contests))


if __name__ == "__main__":
    main()
