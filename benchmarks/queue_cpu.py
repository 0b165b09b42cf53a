"""What a run that does nothing costs in processor time, from enqueue to end, beside DBOS, Absurd and Procrastinate.

The load of the machine changes it less than runs a second. It is what all processes use, the server's among them:
by the difference of a long measurement and a short one, so that starting up does not count. One worker; PostgreSQL.

Run with ``ours URL RUNS`` it is the process that is measured.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
from queues import _REQUIREMENTS, _ours
from yard.machine import load
from yard.options import Options
from yard.peers import peer
from yard.table import print_table

from holdfast.testing.servers import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable

_SETTINGS = {"DBOS": ["1.0", "none"], "Absurd": ["50"], "Procrastinate": ["10"]}
_SHORT = 200
_TICKS = 100  # a second, as the kernel counts them for /proc


def _measured(url: str, runs: int) -> None:
    subprocess.run([sys.executable, __file__, "ours", url, str(runs)], check=True, stdout=subprocess.DEVNULL)


def _peer(name: str, url: str, runs: int) -> None:
    arguments = ("throughput", url, "1", str(runs), *_SETTINGS[name])
    peer(name.lower(), _REQUIREMENTS[name], f"{name.lower()}_queue.py", *arguments)


def _times(process: Path) -> list[int]:
    """Return the parent of a process, and what it and its ended children have used: user and system time of each."""
    words = process.read_text().rpartition(")")[2].split()
    return [int(words[place]) for place in (1, 11, 12, 13, 14)]


def _server(pid: int) -> float:
    """Return the seconds that the server has used in all its processes, those that have ended among them."""
    total = sum(_times(Path(f"/proc/{pid}/stat"))[3:])
    for process in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent, *used = _times(process)
        except OSError:  # it has ended
            continue
        total += sum(used[:2]) if parent == pid else 0
    return total / _TICKS


def _clients() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _postmaster(url: str) -> int:
    """Return the process of the server: the parent of the one that answers."""

    async def parent() -> int:
        connection = await asyncpg.connect(url)
        try:
            backend = await connection.fetchval("SELECT pg_backend_pid()")
            return _times(Path(f"/proc/{backend}/stat"))[0]
        finally:
            await connection.close()

    return asyncio.run(parent())


def _cost(server: PostgresServer, pid: int, run: Callable[[str, int], None], runs: int) -> tuple[float, float]:
    clients, servers = _clients(), _server(pid)
    run(server.create_database(), runs)
    time.sleep(0.5)  # the server's processes end after the clients
    return _clients() - clients, _server(pid) - servers


def _row(server: PostgresServer, pid: int, name: str, runs: int) -> tuple[object, ...]:
    run = _measured if name == "holdfast" else partial(_peer, name)
    short, long = (_cost(server, pid, run, count) for count in (_SHORT, runs))
    clients, servers = ((after - before) * 1e6 / (runs - _SHORT) for before, after in zip(short, long, strict=True))
    return name, clients, servers, clients + servers, load()


def main() -> None:
    more_than_short = range(_SHORT + 1, 10_000_001)
    systems = ["holdfast", *_SETTINGS]
    options = Options(__doc__, peers=True)
    options.number("runs", 10_000, "runs of the long measurement", allowed=more_than_short)
    options.number("peer-runs", 1_200, "the same of a peer", allowed=more_than_short)
    options.add_argument("--only", action="append", choices=systems, help="a system to measure; may be repeated")
    given = options.parse_args()
    if given.only and given.no_peers:
        options.error("--only names the systems, and --no-peers does it, too: give one of them")
    wanted = given.only or (["holdfast"] if given.no_peers else systems)
    with PostgresServer() as server:
        pid = _postmaster(server.create_database())
        rows = [_row(server, pid, name, given.runs if name == "holdfast" else given.peer_runs) for name in wanted]
    columns = ["system", "clients, us a run", "server, us a run", "together", "load"]
    print_table("Processor time of a run that does nothing, enqueue to end", columns, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["ours"]:
        asyncio.run(_ours(sys.argv[2], 1, int(sys.argv[3])))
    else:
        main()
