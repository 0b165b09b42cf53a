"""An open transaction on a session of ours, from its first statement to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.workflows.transactions.handle import AsyncTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from holdfast.db import Transaction
    from holdfast.db.manager import TransactionBlock
    from holdfast.db.queries.queries import Queries, Query


class Beginning:
    """A transaction on *block* that is begun, by *begin*, when it is first asked for.

    For a thread that saves a way to the loop and back, and a function that first does something else holds up nobody.
    """

    __slots__ = ("_begin", "begun", "block")

    def __init__(
        self, block: TransactionBlock, begin: Callable[[TransactionBlock], Coroutine[Any, Any, Transaction]]
    ) -> None:
        self._begin = begin
        self.block = block
        self.begun: Transaction | None = None

    async def transaction(self) -> Transaction:
        """Return the transaction, begun."""
        if self.begun is None:
            self.begun = await self._begin(self.block)
        return self.begun


class Conversation:
    """A session of one's own with a transaction, open from its first statement; *handle* is what the function sees."""

    def __init__(
        self,
        block: TransactionBlock,
        begin: Callable[[TransactionBlock], Coroutine[Any, Any, Transaction]],
        queries: Queries,
        name: str,
    ) -> None:
        self._block = block
        self._beginning = Beginning(block, begin)  # the handle knows it, and not this: no circle to be collected
        self.name = name
        self.handle = AsyncTransaction(self._beginning, queries, name)

    async def transaction(self) -> Transaction:
        """Return the transaction, begun."""
        return await self._beginning.transaction()

    async def end_after(self, query: Query, **named: Any) -> bool:
        """Run a last statement and commit, unless it touches no row; return whether it did. The session is given back.

        On PostgreSQL the statement must fail rather than touch no row.
        """
        if self._beginning.begun is None:
            await self._beginning.transaction()
        kept = await self._block.end_after(query, **named)
        self._ended(keep=kept)
        return kept

    async def end(self, *, keep: bool) -> None:
        """Commit, or roll back, and give the session back; nothing to do for one that was never begun."""
        if self._beginning.begun is not None:
            await self._block.end(keep=keep)
        self._block.is_open = False
        self._ended(keep=keep)

    def _ended(self, *, keep: bool) -> None:
        for call in self.handle.afterwards if keep else ():
            call()

    def mark(self) -> Any:
        """Have the manager refuse to be used from within: on SQLite that would wait for ever."""
        return self._block.mark()

    def unmark(self, mark: Any) -> None:
        self._block.unmark(mark)

    def doom(self, error: BaseException | None) -> Exception | None:  # noqa: ARG002 -- the handle saw every error itself
        """Return why it cannot be kept, whatever the function made of it."""
        return self.handle.doom()
