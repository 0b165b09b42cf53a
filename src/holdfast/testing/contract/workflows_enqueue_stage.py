"""Where the suites of queue entries play: a workflow of either colour with the verbs of queues, awaited."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.testing.contract.workflows_stage import App, Flow, Handle, Stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable
    from typing import Self

    from holdfast.db.session import Row


def fresh(what: str = "queue") -> str:
    """Return a name that no other test has."""
    return f"{what}-{secrets.token_hex(8)}"


async def refusal(made: Awaitable[Any]) -> HoldfastError:
    """Return the error that *made* raises."""
    with pytest.raises(HoldfastError) as raised:
        await made
    return raised.value


class Queued:
    """A workflow of either colour with the verbs of queues, awaited; its runs go into a queue of its own."""

    def __init__(self, flow: Flow, app: App, **options: Any) -> None:
        self._app = app
        self.queue = options.get("queue_name") or fresh()
        self._plain = flow
        self.raw = flow.options(**{"queue_name": self.queue, **options}).raw

    def options(self, **options: Any) -> Queued:
        return Queued(Flow(self._app, self.raw), self._app, **{"queue_name": self.queue, **options})

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.raw.call(*args, **kwargs)

    async def enqueue(self, *args: Any, **kwargs: Any) -> Handle:
        return Handle(self._app, await self._app.value(self.raw.enqueue(*args, **kwargs)))

    async def enqueue_many(self, calls: Iterable[Any]) -> list[Handle]:
        return [Handle(self._app, each) for each in await self._app.value(self.raw.enqueue_many(calls))]

    async def debounce(self, key: str, period: Any, *args: Any, **kwargs: Any) -> Handle:
        return Handle(self._app, await self._app.value(self.raw.debounce(key, period, *args, **kwargs)))


class Sums:
    """An application with a workflow that adds, and a queue for it that nobody listens to until it is registered."""

    def __init__(self, stage: Stage, **settings: Any) -> None:
        self.stage = stage
        self.app = stage.app(**settings)

        async def add(first: int, second: int = 0) -> int:
            return first + second

        self.flow = self.app.workflow(add, name=f"add-{stage.version}")
        self.queued = Queued(self.flow, self.app)

    @property
    def queue(self) -> str:
        return self.queued.queue

    async def __aenter__(self) -> Self:
        await self.app.launch()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.app.close()

    async def listen(self) -> None:
        """Let what is in the queue begin."""
        await self.app.do("register_queue", self.queue)

    def waiting(self) -> list[Row]:
        """Return the rows of the queue, in the order in which they were made."""
        return self.stage.rows(
            f"SELECT * FROM {self.stage.table('workflow_status')} WHERE queue_name = ? ORDER BY workflow_uuid",
            self.queue,
        )
