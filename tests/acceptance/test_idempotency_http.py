"""Real servers with the middleware, two of them on one database, real duplicates, and one that is killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from holdfast.testing.workers import Worker, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "web_shop.py"
EVERY_KIND = pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb", "redis"])
KEY = {"Idempotency-Key": '"order-17"'}


class Shops:
    """Servers that share a database, and the ledger of what they did."""

    def __init__(self, url: str, ledger: Path, afterwards: ExitStack, nursery: Nursery) -> None:
        self._url = url
        self._ledger = ledger
        self._afterwards = afterwards
        self._nursery = nursery

    def serve(self, name: str, *, lease: float = 60, mortal: bool = False) -> tuple[Worker, str]:
        """Start a server; return it and its address."""
        worker = self._afterwards.enter_context(
            Worker(
                PROGRAM,
                self._nursery,
                url=self._url,
                ledger=str(self._ledger),
                name=name,
                lease=lease,
                mortal=mortal,
            )
        )
        return worker, f"http://127.0.0.1:{worker.hear('port')[1]}/orders"

    def done(self) -> Counter[str]:
        """Return how often each order was carried out."""
        return Counter(self._ledger.read_text(encoding="utf-8").split() if self._ledger.exists() else ())


@pytest.fixture
def shops(fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery) -> Iterator[Callable[[str], Shops]]:
    """Call with the kind of a database for servers on it; they are killed afterwards."""
    with ExitStack() as afterwards:
        yield lambda kind: Shops(fresh_database(kind), tmp_path / "ledger", afterwards, nursery)


@EVERY_KIND
def test_duplicates_at_two_servers_are_carried_out_once(kind: str, shops: Callable[[str], Shops]) -> None:
    scene = shops(kind)
    addresses = [scene.serve(name)[1] for name in ("one", "two")]
    order = {"name": "order-17", "takes": 0.2}

    async def clients() -> list[httpx.Response]:
        async with httpx.AsyncClient(timeout=60) as client:
            return await asyncio.gather(*(client.post(addresses[n % 2], json=order, headers=KEY) for n in range(20)))

    answers = asyncio.run(clients())
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert scene.done() == {"order-17": 1}
    [first] = {answer.content for answer in answers if answer.status_code == 201}
    for address in addresses:
        again = httpx.post(address, json=order, headers=KEY, timeout=60)
        assert (again.content, again.headers["idempotency-replayed"]) == (first, "true")
        assert httpx.post(address, json={"name": "other"}, headers=KEY, timeout=60).status_code == 422
        assert httpx.post(address, json=order, headers={"Idempotency-Key": ""}, timeout=60).status_code == 400
    assert scene.done() == {"order-17": 1}


@pytest.mark.parametrize(
    ("kind", "die", "times"),
    [(kind, "before", 1) for kind in ("sqlite", "postgres", "mariadb", "redis")] + [("sqlite", "after", 2)],
)
def test_request_of_a_server_that_was_killed_is_carried_out_by_another(
    kind: str, die: str, times: int, shops: Callable[[str], Shops]
) -> None:
    scene = shops(kind)
    doomed, doomed_address = scene.serve("doomed", lease=1, mortal=True)
    _, address = scene.serve("heir")
    order = {"name": "order-17", "die": die}
    with pytest.raises(httpx.TransportError):
        httpx.post(doomed_address, json=order, headers=KEY, timeout=60)
    assert doomed.end() != 0

    def answer() -> Any:
        given = httpx.post(address, json=order, headers=KEY, timeout=60)
        assert given.status_code in {201, 409}
        return given if given.status_code == 201 else None

    assert until(answer).json() == {"served by": "heir"}
    assert scene.done() == {"order-17": times}
    assert answer().headers["idempotency-replayed"] == "true"
    assert scene.done() == {"order-17": times}


@EVERY_KIND
def test_server_whose_worker_ends_without_closing_the_middleware_is_quiet(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    settings = json.dumps({"url": fresh_database(kind)})
    ended = subprocess.run(
        [sys.executable, "-W", "always", PROGRAM.with_name("wsgi_once.py"), settings],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, _complaints(ended.stderr)) == (0, "done\n", [])


def _complaints(log: str) -> list[str]:
    """Return what was written, without the word about versions of SQLite that lose data."""
    return [line for line in log.splitlines() if not line.startswith("SQLite ")]
