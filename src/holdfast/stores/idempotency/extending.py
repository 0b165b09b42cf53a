"""Claims that last while their work does."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.errors import DatabaseError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from holdfast.stores.idempotency.entry import Claim
    from holdfast.stores.idempotency.store import IdempotencyStore

logger = logging.getLogger("holdfast.idempotency")


class Extending:
    """Inside of its ``with`` block, on the store's loop, a claim is extended three times a lease.

    Work that ends sooner costs one timer and no task. That a claim was lost is logged; who stores its result is told.
    """

    def __init__(self, store: IdempotencyStore, claim: Claim, lease_seconds: float) -> None:
        self._store = store
        self._claim = claim
        self._lease = lease_seconds
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._over = False

    def __enter__(self) -> Self:
        self._wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._lease / 3, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._extend())

    async def _extend(self) -> None:
        try:
            held = await self._store.extend_claim(self._claim.key, lease_seconds=self._lease, token=self._claim.token)
        except DatabaseError as error:
            logger.warning("The claim of an idempotency key could not be extended, and is tried again: %s", error)
            held = True
        if self._over:
            return
        if held:
            self._wait()
        else:
            logger.warning("The claim of an idempotency key was lost while its work went on: another may do it again.")


__all__ = ["Extending"]
