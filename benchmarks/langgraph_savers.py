"""The LangGraph saver beside LangGraph's own for SQLite and PostgreSQL, one call after the other, in both colours.

Promised: put, get_tuple and list at least as fast as theirs. Ours syncs every commit, and so do both of theirs.

Ours and the peer, in a process of its own, take turns of a few calls each, so that whatever else runs on the machine
meets both. What counts is the time that a quarter of the calls did not exceed: by the clock, and of the processor,
which a busy disk does not change (of the client alone, if there is a server). LangGraph has none for MariaDB.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from yard.databases import SQL, databases
from yard.machine import load
from yard.options import Options
from yard.peers import conversing
from yard.savers import CALLS, SIZES, Measured
from yard.table import print_table

from holdfast.integrations.langgraph import HoldfastSaver

if TYPE_CHECKING:
    from yard.peers import Conversation

PEERS = ["langgraph-checkpoint-sqlite==3.1.2", "langgraph-checkpoint-postgres>=3.1", "psycopg[binary,pool]"]
_TURN = 10
_COLUMNS = ["p25, ms a call", "Holdfast", "LangGraph", "times as fast", "processor", "LangGraph", "times as fast"]


async def measure(url: str, turns: int, peer: Conversation | None) -> list[list[Any]]:
    """Return the rows of a table."""
    cases = [(colour, label, name) for colour in ("sync", "async") for label in SIZES for name in CALLS]
    async with HoldfastSaver.from_url(url) as saver:
        measured = Measured(saver, saver)
        rows = []
        for case in (*cases, ("async", "1 KB", "together")):
            ours: list[Any] = []
            theirs: list[Any] = []
            for turn in range(turns + 2):
                both = await measured.do(*case, _TURN), _asked(peer, *case)
                if turn > 1:  # the first two are to warm up
                    ours += both[0]
                    theirs += both[1]
            rows.append(_row(case, ours, theirs))
        return rows


def _asked(peer: Conversation | None, colour: str, label: str, name: str) -> list[Any]:
    if peer is None:
        return []
    spans: list[Any] = peer.ask(colour=colour, label=label, name=name, calls=_TURN)["spans"]
    return spans


def _row(case: tuple[str, str, str], ours: list[Any], theirs: list[Any]) -> list[Any]:
    colour, label, name = case
    row: list[Any] = [f"put {label}, 100 tasks" if name == "together" else f"{name} {label}, {colour}"]
    for which in (0, 1):
        mine = _quarter([span[which] for span in ours])
        its = _quarter([span[which] for span in theirs]) if theirs else None
        row += [mine, "-" if its is None else its, "-" if its is None else its / mine]
    return row


def _quarter(spans: list[float]) -> float:
    return sorted(spans)[len(spans) // 4]


def main() -> None:
    """Measure and print."""
    options = Options(__doc__, databases=SQL, usual=("sqlite", "postgres"), peers=True)
    options.number("turns", 15, f"turns of {_TURN} calls of each kind")
    given = options.parse_args()
    with databases(*given.databases) as urls:
        for name, url in urls.items():
            alone = given.no_peers or name == "mariadb"
            theirs = url.replace("bench.db", "peer.db")
            with nullcontext() if alone else conversing("langgraph", PEERS, "langgraph_savers.py", theirs) as peer:
                rows = asyncio.run(measure(url, given.turns, peer))
            print_table(f"{name} (load {load()})", _COLUMNS, rows)


if __name__ == "__main__":
    main()
