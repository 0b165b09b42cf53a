"""The queues of a database: registered, looked up, changed, paused and deleted, by any process at any time."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.options import OnConflict, check_on_conflict
from holdfast.db.in_doubt import made_sure
from holdfast.errors import ConfigurationError, MisuseError, QueueConflict, QueueNotFound, Retryable, UnknownCommit
from holdfast.model.queue import Queue
from holdfast.workflows.queues.settings import (
    DEFAULTS,
    SETTABLE,
    check_in_memory,
    check_name,
    check_settings,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from holdfast.db.joined import Verbs
    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.model.world import World

T = TypeVar("T")

_COUNTED = 1000
_ROUNDS = 10
_FIELDS = tuple(each.name for each in fields(Queue))
_FLAGS = frozenset({"priority_enabled", "partition_queue", "paused"})


class QueueStore:
    """The table ``queues``. A change counts from its commit on: every process reads the settings with each look.

    ``in_memory`` are the queues that only this process knows; ``claims_here`` says that it claims from queues at all.
    """

    def __init__(self, manager: ConnectionManager, queries: Queries, world: World) -> None:
        self.manager = manager
        self.verbs: Verbs = manager  # what changes go through
        self.queries = queries
        self.in_memory: dict[str, Queue] = {}
        self.claims_here = False
        self._world = world

    def within(self, verbs: Verbs) -> QueueStore:
        """Return the same queues, with all that is changed through *verbs*."""
        made = copy(self)
        made.verbs = verbs
        return made

    async def register(self, name: str, settings: Mapping[str, Any], on_conflict: OnConflict = "update") -> Queue:
        """Make a queue, and return it; if it is there, set it so, keep it, or raise ``QueueConflict``.

        Settings that are not given are the defaults, also where a queue that is there is set anew. Whether it is
        paused, and whose turn it is, stays as it was.
        """
        check_name(name)
        check_on_conflict(on_conflict)
        values = check_settings(name, settings)
        queue_id = self._world.new_id()

        async def work(transaction: Transaction) -> Queue:
            there = await self._made(transaction, name, {"queue_id": queue_id, "name": name, **values})
            if there.queue_id == queue_id or on_conflict == "keep":
                return there
            if on_conflict == "reject":
                raise QueueConflict(
                    f'There is a queue {name!r} already. Choose another name, or pass on_conflict="update" or "keep".'
                )
            return await self._configure(transaction, name, {**values, "paused": there.paused})

        return await self._carry_out(work)

    def register_in_memory(self, name: str, settings: Mapping[str, Any]) -> Queue:
        """Make a queue that only this process knows, and that ends with it."""
        check_name(name)
        if not self.claims_here:
            raise MisuseError(
                f"A client runs nothing, so nobody would know the queue {name!r} that it keeps in memory."
            )
        check_in_memory(name, settings)
        warnings.warn(
            f"The queue {name!r} is kept in memory: no other process sees it, and it has no limit across processes. "
            "Register it without in_memory=True.",
            DeprecationWarning,
            stacklevel=2,
        )
        self.in_memory[name] = Queue(queue_id=self._world.new_id(), name=name, **check_settings(name, settings))
        return self.in_memory[name]

    async def get(self, name: str) -> Queue | None:
        """Return a queue as it is set now; None if there is none of this name."""
        row = await self.manager.fetchone(self.queries["queue_get"], name=name)
        return self.in_memory.get(name) if row is None else queue_of(row)

    async def all(self) -> list[Queue]:
        """Return all queues by name, with those that only this process knows."""
        stored = [queue_of(row) for row in await self.manager.fetch(self.queries["queues_list"])]
        names = {each.name for each in stored}
        return sorted(
            stored + [each for each in self.in_memory.values() if each.name not in names], key=lambda each: each.name
        )

    async def update(self, name: str, changes: Mapping[str, Any]) -> Queue:
        """Change some settings, all or none of them, and return the queue; ``QueueNotFound`` if there is none."""

        async def work(transaction: Transaction) -> Queue:
            there = await self._held(transaction, name)
            merged = {key: value for key, value in asdict(there).items() if key in DEFAULTS or key == "paused"}
            return await self._configure(transaction, name, check_settings(name, merged | dict(changes)))

        refused = sorted(changes.keys() - SETTABLE - {"paused"})
        if refused:
            raise ConfigurationError(f"A queue has no setting {', '.join(refused)}; there are {_listed()}.")
        return await self._carry_out(work)

    async def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a queue and its ledger of starts; ``QueueNotFound`` if there is none.

        ``QueueConflict`` while runs that have not ended are in it: nobody would claim them. With *force* it is deleted
        all the same; such runs wait until a queue of this name is registered again. One that this process keeps in
        memory goes with it.
        """
        must_be_stored = name not in self.in_memory

        async def work(transaction: Transaction) -> None:
            if not must_be_stored and not await transaction.fetch(self.queries["queue_get"], name=name):
                return  # it is in memory alone, or the commit whose reply was lost has deleted it
            await self._held(transaction, name)
            if not force:
                await self._refuse_in_use(transaction, name)
            await transaction.execute(self.queries["starts_forget"], name=name)
            await transaction.execute(self.queries["queue_delete"], name=name)

        def again() -> None:
            nonlocal must_be_stored
            must_be_stored = False

        await self._carry_out(work, again)
        self.in_memory.pop(name, None)

    async def _made(self, transaction: Transaction, name: str, values: Mapping[str, Any]) -> Queue:
        """Make a queue unless it is there, and hold its row; one that is deleted between the two is made again."""
        for _ in range(_ROUNDS):
            await transaction.execute(self.queries["queue_register"], **values)
            row = await transaction.fetchone(self.queries["queue_hold"], name=name)
            if row is not None:
                return queue_of(row)
        raise Retryable(f"The queue {name!r} was deleted each time before it could be held.")

    async def _held(self, transaction: Transaction, name: str) -> Queue:
        row = await transaction.fetchone(self.queries["queue_hold"], name=name)
        if row is None:
            raise QueueNotFound(f"There is no queue {name!r}: register it with register_queue({name!r}).")
        return queue_of(row)

    async def _configure(self, transaction: Transaction, name: str, values: Mapping[str, Any]) -> Queue:
        await transaction.execute(self.queries["queue_configure"], name=name, **values)
        return await self._held(transaction, name)

    async def _refuse_in_use(self, transaction: Transaction, name: str) -> None:
        [found] = await transaction.fetch(self.queries["queue_in_use"], name=name, most=_COUNTED)
        if found["runs"]:
            many = f"{found['runs']} or more" if found["runs"] == _COUNTED else str(found["runs"])
            raise QueueConflict(
                f"{many} runs that have not ended are in the queue {name!r}, and nobody would claim them. Let them end "
                "or cancel them first; or pass force=True, and they wait until the queue is registered again."
            )

    async def _carry_out(
        self, work: Callable[[Transaction], Coroutine[Any, Any, T]], unsure: Callable[[], None] = lambda: None
    ) -> T:
        """Run *work*; after a commit whose reply was lost, again: each of them can be carried out twice."""
        try:
            return await self.verbs.run(work)
        except UnknownCommit as error:
            unsure()
            return await made_sure(lambda: self.verbs.run(work), error, self._world)


def queue_of(row: Row) -> Queue:
    """Return the queue in a row that has its columns, and others perhaps."""
    values: dict[str, Any] = {name: bool(row[name]) if name in _FLAGS else row[name] for name in _FIELDS}
    return Queue(**values)


def _listed() -> str:
    return ", ".join(sorted(SETTABLE))


__all__ = ["QueueStore", "queue_of"]
