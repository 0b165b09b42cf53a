"""Whether the database went back: looked for on every new connection, before anything is written there.

A standby that lagged has all that was committed up to some moment, and nothing of what came after. So if the batch that
was acknowledged last is there, everything is. Of a batch that is not there two things tell:

- A row whose run stands as it did before, under the token that this process alone holds, was lost.
- Where all rows were changed or deleted, by others perhaps, nothing can be told by them. Then the server tells: the one
  that had acknowledged the batch still has it, and another one that has taken its place is taken to lack it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from holdfast.db.pipeline.operation import Witness, grouped, written
from holdfast.db.session import Transaction
from holdfast.errors import WentBack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.pipeline.lane import Lane
    from holdfast.db.pipeline.operation import Kind, Operation, Values
    from holdfast.db.session import Session
    from holdfast.db.url import DialectName

logger = logging.getLogger("holdfast.pipeline")

_LOST = "The database has lost writes that it had acknowledged."
_MAY_BE_LOST = (
    "Another server has taken the database's place, and does not have what was acknowledged last: it is taken for lost."
)


class LookBack:
    """Remembers the batch that was acknowledged last, and looks for it on a new connection.

    If it was lost *went_back* is called, and nothing may be written until the owner has seen to it: what is handed over
    now stands on what was lost. Without *went_back* nobody looks.
    """

    def __init__(self, lane: Lane, dialect: DialectName, went_back: Callable[[], None] | None) -> None:
        self._lane = lane
        self._dialect = dialect
        self._went_back = went_back
        self._session: Session | None = None  # the connection that was looked at last
        self._server = ""  # to whom it leads
        self.last: tuple[Sequence[Operation], Sequence[Any]] | None = None  # the last batch acknowledged there, and how
        self._barred = False

    async def look(self, session: Session) -> None:
        """Look, if *session* is a new one; ``WentBack`` if what was acknowledged was lost."""
        if self._session is not session and self._went_back is not None:
            await self._meet(session, self._went_back)
        if self._barred:
            raise WentBack("The database has lost what it had acknowledged; this was not written.")

    def readmit(self) -> None:
        """Let everything be written again: the owner has dropped what stood on the writes that were lost."""
        self.last = None
        self._barred = False

    async def _meet(self, session: Session, went_back: Callable[[], None]) -> None:
        last = self.last
        await session.begin()
        try:
            stands = None if last is None or self._barred else await self._stands(session, *last)
            server = await self._lane.server(session)
        finally:
            await session.rollback()
        if server is None:
            return  # it follows another one and will refuse what is written; the next connection is looked at
        is_another = bool(self._server and server and self._server != server)
        self._session, self._server = session, server
        if last is None or self._barred or self.last is not last:
            return  # there was nothing, or the owner has seen to it, meanwhile perhaps
        if stands is False or (stands is None and is_another):
            logger.error(_MAY_BE_LOST if stands is None else _LOST)
            self._barred = True
            went_back()

    async def _stands(self, session: Session, operations: Sequence[Operation], outcomes: Sequence[Any]) -> bool | None:
        """Whether the batch is there, by any of its rows: they came with one commit. None if no row tells."""
        done = [each for each, outcome in zip(operations, outcomes, strict=True) if written(outcome)]
        transaction = Transaction(session, self._dialect)
        signs: set[bool | None] = set()
        for kind, (_, rows) in grouped(done).items():
            signs.update(await self._lane.finish(_signs(kind, transaction, rows)))
        return False if False in signs else True if True in signs else None


async def _signs(kind: Kind[Any], transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
    if isinstance(kind, Witness):
        return await kind.stands(transaction, rows)
    return [None if found is None else True for found in await kind.recall(transaction, rows)]
