"""The LangGraph saver beside LangGraph's own for SQLite and PostgreSQL, one call after the other, in both colours.

Promised: put, get_tuple and list at least as fast as theirs. Ours syncs every commit, and so do both of theirs.

Ours and the peer take turns, the peer in a process of its own. Of the medians of the rounds the best counts: whatever
else runs on the machine only makes them worse. ``--calls N`` makes it shorter, ``--no-peer`` leaves the peer out; names
of databases may be given.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from yard.databases import databases
from yard.machine import load
from yard.peers import peer
from yard.savers import measure_async, measure_sync
from yard.table import print_table

from holdfast.integrations.langgraph import HoldfastSaver

if TYPE_CHECKING:
    from collections.abc import Sequence

PEERS = ["langgraph-checkpoint-sqlite==3.1.2", "langgraph-checkpoint-postgres>=3.1", "psycopg[binary,pool]"]
_ROUNDS = 5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--no-peer", action="store_true")
    chosen = parser.parse_args()
    with databases(*(chosen.names or ("sqlite", "postgres"))) as urls:
        for name, url in urls.items():
            ours, theirs = [], []
            for _ in range(_ROUNDS):
                ours.append(_ours(url, chosen.calls))
                if not chosen.no_peer and name != "mariadb":
                    theirs += peer("langgraph", PEERS, "langgraph_savers.py", _other(url), str(chosen.calls))
            mine, its = _best(ours), _best(theirs)
            rows = [[what, ms, its.get(what, "-"), its[what] / ms if what in its else "-"] for what, ms in mine.items()]
            print_table(f"{name}, ms a call (load {load()})", ["", "Holdfast", "LangGraph", "times as fast"], rows)


def _ours(url: str, calls: int) -> dict[str, float]:
    with HoldfastSaver.from_url(url) as saver:
        found = measure_sync(saver, calls)

    async def on_a_loop() -> dict[str, float]:
        async with HoldfastSaver.from_url(url) as saver:
            return await measure_async(saver, calls)

    return found | asyncio.run(on_a_loop())


def _other(url: str) -> str:
    return url.replace("bench.db", "peer.db")


def _best(rounds: Sequence[dict[str, float]]) -> dict[str, float]:
    return {what: min(each[what] for each in rounds) for what in (rounds[0] if rounds else ())}


if __name__ == "__main__":
    main()
