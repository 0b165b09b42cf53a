"""Runs that are handed in from outside, by the names of their functions: one, many together, or one that is put off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.core.options import several
from holdfast.errors import MisuseError
from holdfast.model.workflow import INTERNAL_QUEUE
from holdfast.workflows.enqueueing.debounce import PutOff, debounced
from holdfast.workflows.enqueueing.facts import PutAll, put_durably
from holdfast.workflows.enqueueing.options import check_queue_options, refuse_queue_options
from holdfast.workflows.enqueueing.rows import entry, named_work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from holdfast.db.manager import ConnectionManager
    from holdfast.db.queries.queries import Queries
    from holdfast.model.workflow import Duration
    from holdfast.model.world import World
    from holdfast.workflows.enqueueing.facts import Put
    from holdfast.workflows.enqueueing.rows import Work
    from holdfast.workflows.facts import EnqueueRuns
    from holdfast.workflows.payloads import Payloads
    from holdfast.workflows.remote.remote import DebounceOptions, QueueOptions, RunOptions


class NamedCall(NamedTuple):
    """A call of a workflow by name that has not been made: ``client.call(...)``, for ``client.enqueue_many([...])``."""

    workflow_name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: QueueOptions


class RemoteEnqueues:
    """Puts runs in queues, each call in a transaction of its own; *told* is awaited once what it wrote is committed."""

    def __init__(
        self,
        manager: ConnectionManager,
        queries: Queries,
        payloads: Payloads,
        world: World,
        kind: EnqueueRuns,
        told: Callable[[], Awaitable[None]],
    ) -> None:
        self._manager = manager
        self._queries = queries
        self._payloads = payloads
        self._world = world
        self._kind = kind
        self._all = PutAll(kind)
        self._told = told

    async def enqueue(
        self,
        name: str,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any] | None,
        options: RunOptions | QueueOptions,
        queue_name: str,
    ) -> str:
        """Put a run in a queue and return the id of the run that stands for it, which may be there already."""
        work = named_work(self._payloads, name, arguments, keywords, options, queue_name)
        if queue_name != INTERNAL_QUEUE:
            check_queue_options(work.options, "enqueue()")
        else:
            refuse_queue_options(replace(work.options, queue_name=None), "start_workflow()")
        return (await self._put(self._all, [work]))[0]

    async def enqueue_many(self, calls: Iterable[NamedCall], options: QueueOptions, queue_name: str) -> list[str]:
        """Put runs in a queue, all or none, and return the ids of those that stand for them, in order.

        What a call does not say of itself, *options* say.
        """
        works = [self._planned(call, options, queue_name) for call in several("calls", calls)]
        return await self._put(self._all, works) if works else []

    def _planned(self, call: NamedCall, options: QueueOptions, queue_name: str) -> Work:
        if not isinstance(call, NamedCall):
            raise MisuseError(
                f'enqueue_many takes calls, as [client.call("mail", ["ann"])], not a {type(call).__name__}.'
            )
        merged: QueueOptions = {**options, **call.options}
        work = named_work(self._payloads, call.workflow_name, call.args, call.kwargs, merged, queue_name)
        check_queue_options(work.options, "enqueue_many()")
        return work

    async def debounce(
        self,
        name: str,
        key: str,
        period: Duration,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any] | None,
        options: DebounceOptions,
        queue_name: str,
    ) -> str:
        """Put off the run that waits under *key*, or put one in its queue that waits; return its id."""
        work = named_work(self._payloads, name, arguments, keywords, options, queue_name)
        wanted = debounced(work, key, period)
        put = PutOff(self._kind, self._queries, period, work.options.debounce_timeout)
        return (await self._put(put, [wanted]))[0]

    async def _put(self, put: Put, works: Sequence[Work]) -> list[str]:
        wanted = [entry(self._payloads, self._world.new_id, work) for work in works]
        ids = await put_durably(self._manager, self._world, put, wanted)
        await self._told()
        return ids


__all__ = ["NamedCall", "RemoteEnqueues"]
