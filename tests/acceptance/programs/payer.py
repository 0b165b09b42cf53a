"""The worker of the protocol tests with transactions: in its own database, and in the one that is named ``data``."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a program beside this one, which is not a package when it runs
    from tests.acceptance.programs.worker import SETTINGS, AsyncSide, SyncSide, note
else:
    from worker import SETTINGS, AsyncSide, SyncSide, note

TAKE = "UPDATE accounts SET cents = cents - ? WHERE who = 'ann'"
GIVE = "UPDATE accounts SET cents = cents + ? WHERE who = 'bob'"
DATA = SETTINGS.get("data")


class SyncPayer(SyncSide):
    """Pays with ``Holdfast``."""

    def __init__(self) -> None:
        super().__init__()
        app, effect = self.app, self.workflows["effect"]

        @app.transaction(name="pay", database=DATA)
        def pay(tx: Any, cents: int, linger: float) -> int:
            note("pay")
            time.sleep(linger)
            tx.execute(TAKE, cents)
            tx.execute(GIVE, cents)
            return cents

        @app.workflow(name="paying")
        def paying(cents: int, linger: float = 0.0) -> int:
            note("begin")
            total: int = effect("before", cents) + pay(cents, linger) + effect("after", cents)
            return total

        self.workflows["paying"] = paying


class AsyncPayer(AsyncSide):
    """Pays with ``AsyncHoldfast``."""

    def __init__(self) -> None:
        super().__init__()
        app, effect = self.app, self.workflows["effect"]

        @app.transaction(name="pay", database=DATA)
        async def pay(tx: Any, cents: int, linger: float) -> int:
            note("pay")
            await asyncio.sleep(linger)
            await tx.execute(TAKE, cents)
            await tx.execute(GIVE, cents)
            return cents

        @app.workflow(name="paying")
        async def paying(cents: int, linger: float = 0.0) -> int:
            note("begin")
            total: int = await effect("before", cents) + await pay(cents, linger) + await effect("after", cents)
            return total

        self.workflows["paying"] = paying


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    (SyncPayer() if SETTINGS["colour"] == "sync" else AsyncPayer()).main()
