"""An open transaction on a session of ours, from its first statement to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.workflows.transactions.handle import AsyncTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from holdfast.db import Transaction
    from holdfast.db.manager import TransactionBlock
    from holdfast.db.queries import Queries, Query


class Conversation:
    """A session of one's own with an open transaction; *handle* is what the function sees of it.

    The session is taken and the transaction begun, by *begin*, when it is first asked for: for a thread that saves a
    way to the loop and back, and a function that first does something else holds up nobody.
    """

    def __init__(
        self,
        block: TransactionBlock,
        begin: Callable[[TransactionBlock], Coroutine[Any, Any, Transaction]],
        queries: Queries,
        name: str,
    ) -> None:
        self._block = block
        self._begin = begin
        self._begun: Transaction | None = None
        self.name = name
        self.handle = AsyncTransaction(self.transaction, lambda: block.ended_early, queries, name)

    async def transaction(self) -> Transaction:
        """Return the transaction, begun."""
        if self._begun is None:
            self._begun = await self._begin(self._block)
        return self._begun

    async def end_after(self, query: Query, **named: Any) -> bool:
        """Run a last statement and commit, unless it touches no row; return whether it did. The session is given back.

        On PostgreSQL the statement must fail rather than touch no row.
        """
        await self.transaction()
        kept = await self._block.end_after(query, **named)
        self._ended(keep=kept)
        return kept

    async def end(self, *, keep: bool) -> None:
        """Commit, or roll back, and give the session back; nothing to do for one that was never begun."""
        if self._begun is not None:
            await self._block.end(keep=keep)
        self._block.is_open = False
        self._ended(keep=keep)

    def _ended(self, *, keep: bool) -> None:
        for call in self.handle.afterwards if keep else ():
            call()

    def entered(self) -> Entered:
        """Have the manager refuse to be used from within: on SQLite that would wait for ever."""
        return Entered(self._block)

    def doom(self, error: BaseException | None) -> Exception | None:  # noqa: ARG002 -- the handle saw every error itself
        """Return why it cannot be kept, whatever the function made of it."""
        return self.handle.doom()


class Entered:
    """Says, for the length of a block, that the calling task or thread is inside of a transaction."""

    __slots__ = ("_block", "_mark")

    def __init__(self, block: TransactionBlock) -> None:
        self._block = block

    def __enter__(self) -> None:
        self._mark = self._block.mark()

    def __exit__(self, *_: object) -> None:
        self._block.unmark(self._mark)
