"""A transaction elsewhere whose commit is in doubt: nothing is said of it before its database has been asked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from holdfast import AsyncHoldfast, AsyncTransaction, Holdfast, Retry, Transaction
from holdfast.db import ConnectionManager
from holdfast.testing.contract.venue import until
from holdfast.testing.proxy import Cut, Proxy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITE = "INSERT INTO book VALUES (1)"
AGAIN = Retry(attempts=5, interval=0.01)  # of the whole workflow: what is not recorded would be done anew


class _Elsewhere:
    """A database behind a proxy, which loses the reply to a commit and lets nobody in until its absence was noticed."""

    def __init__(self, url: str, proxy: Proxy, log: pytest.LogCaptureFixture) -> None:
        self.real = url
        port = urlsplit(url).port
        self.url = url.replace(f":{port}/", f":{proxy.port}/")
        self._proxy = proxy
        self._log = log

    def vanish(self) -> None:
        """From inside of a transaction: its commit is carried out, and that is the last anybody hears."""
        if not self._proxy.cuts:
            self._proxy.refusing = True
            self._proxy.arm(b"COMMIT", Cut.AFTER)

    async def written(self, result: asyncio.Task[str]) -> int:
        """Come back once the transaction waits, and return how often it was committed when *result* is there."""
        await until(lambda: result.done() or any("waits to begin" in text for text in self._log.messages))
        self._proxy.refusing = False
        assert await result == "written"
        async with ConnectionManager(self.real) as manager:
            return len(await manager.fetch("SELECT n FROM book"))


async def _made(url: str) -> None:
    async with ConnectionManager(url) as manager:
        await manager.execute("CREATE TABLE book (n INTEGER)")


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_task_s_transaction_in_doubt_is_committed_once_however_long_its_database_is_away(
    kind: str, fresh_database: Callable[[str], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        url = fresh_database(kind)
        await _made(url)
        async with Proxy("127.0.0.1", urlsplit(url).port or 0) as proxy:
            elsewhere, app = _Elsewhere(url, proxy, caplog), AsyncHoldfast(tmp_path / "app.db")

            @app.transaction(database=elsewhere.url)
            async def write(tx: AsyncTransaction) -> str:
                await tx.execute(WRITE)
                elsewhere.vanish()
                return "written"

            @app.workflow(retry=AGAIN)
            async def book() -> str:
                return await write()

            async with app:
                assert await elsewhere.written(asyncio.create_task((await book.start()).result())) == 1

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_thread_s_transaction_in_doubt_is_committed_once_however_long_its_database_is_away(
    kind: str, fresh_database: Callable[[str], str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        url = fresh_database(kind)
        await _made(url)
        async with Proxy("127.0.0.1", urlsplit(url).port or 0) as proxy:
            elsewhere, app = _Elsewhere(url, proxy, caplog), Holdfast(tmp_path / "app.db")

            @app.transaction(database=elsewhere.url)
            def write(tx: Transaction) -> str:
                tx.execute(WRITE)
                elsewhere.vanish()
                return "written"

            @app.workflow(retry=AGAIN)
            def book() -> str:
                return write()

            def run() -> str:
                with app:
                    return book()

            assert await elsewhere.written(asyncio.create_task(asyncio.to_thread(run))) == 1

    asyncio.run(main())
