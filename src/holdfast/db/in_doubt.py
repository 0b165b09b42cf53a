"""After a commit whose reply was lost: doing it again, or asking, until its outcome is known (I9)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.backoff import backoff
from holdfast.errors import Retryable, Unavailable, UnknownCommit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.model.world import World

T = TypeVar("T")

logger = logging.getLogger("holdfast.db")

_ATTEMPTS = 8


async def made_sure(again: Callable[[], Awaitable[T]], unknown: UnknownCommit, world: World) -> T:
    """Return what *again* returns, which finds what the commit in doubt has written and does not write it twice.

    Raises ``UnknownCommit`` if the database stays away: that nothing was written now, as its errors say, does not mean
    that nothing was written before.
    """
    for failures in range(1, _ATTEMPTS):
        logger.warning("It is not known whether something was committed, so it is looked for: %s", unknown)
        await world.sleep(backoff(failures, base=0.02, cap=2.0, draw=world.random.random()))
        try:
            return await again()
        except UnknownCommit as error:
            unknown = error
        except (Retryable, Unavailable) as error:
            logger.warning("The database is away: %s", error)
    raise unknown


__all__ = ["made_sure"]
