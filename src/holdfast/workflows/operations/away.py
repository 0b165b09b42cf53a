"""What an operation of a workflow does while its database is away: it waits, for as long as the run may go on.

An outage is nobody's outcome. Whoever asks from outside of a workflow has a deadline of their own, and is told.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.backoff import backoff
from holdfast.errors import Retryable, Unavailable, UnknownCommit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.operations.place import WorkflowPlace

T = TypeVar("T")

logger = logging.getLogger("holdfast.workflows")


async def answered(engine: Engine, place: WorkflowPlace, name: str, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask a question, called *name* in the log, until the database has answered it."""
    failures = 0
    while True:
        try:
            return await ask()
        except (Retryable, Unavailable, UnknownCommit) as error:  # it only reads: it may be asked again
            failures += 1
            await wait_for_database(engine, place, name, failures, error)


async def wait_for_database(engine: Engine, place: WorkflowPlace, name: str, failures: int, trouble: Exception) -> None:
    """Wait before the next try; raise if the execution, or its branch, is to go no further."""
    if failures == 1 or failures % 20 == 0:
        logger.warning("%s of run %s waits for the database (attempt %s): %s", name, place.run.id, failures, trouble)
    world = engine.settings.world
    await world.sleep(backoff(failures, base=0.01, cap=1.0, draw=world.random.random()))
    await engine.permit.wait()
    place.check()


__all__ = ["answered", "wait_for_database"]
