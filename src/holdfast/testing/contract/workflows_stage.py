"""Where the workflow suite plays: applications of either colour behind one async face, and ways to lose one.

Workflows, steps and scenes are written once, as ``async def``. For ``AsyncHoldfast`` they are what they are; for
``Holdfast`` each is made a sync function that runs the coroutine to its end on the calling thread, where every
durable call blocks instead of waiting. So a scene in the sync colour is a program without an event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
import threading
import time
import typing
from typing import TYPE_CHECKING, Any

from holdfast.app import AsyncHoldfast, Holdfast
from holdfast.db import DialectName, SyncConnectionManager
from holdfast.db.session import run_sync
from holdfast.testing.colours import Colour

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from typing import Self

    from holdfast.db.session import Row
    from holdfast.model.workflow import WorkflowState
    from holdfast.testing.contract.venue import Venue

Body = typing.Callable[..., "Coroutine[Any, Any, Any]"]

PATIENCE = 60.0


def coloured(colour: Colour, body: Body) -> Any:
    """Return *body* as a function of *colour* with the same name, signature and types."""
    if colour is Colour.ASYNC:
        return body

    def plain(*args: Any, **kwargs: Any) -> Any:
        return run_sync(body(*args, **kwargs))

    hints = typing.get_type_hints(body)
    parameters = [
        each.replace(annotation=hints.get(each.name, each.annotation))
        for each in inspect.signature(body).parameters.values()
    ]
    plain.__name__, plain.__qualname__, plain.__module__ = body.__name__, body.__qualname__, body.__module__
    plain.__annotations__ = hints
    plain.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return plain


class Gate:
    """A place where code of either colour waits until the test opens it; plain code, which leaves no record."""

    def __init__(self, colour: Colour) -> None:
        self._colour = colour
        self._reached = threading.Event()
        self._open = threading.Event()

    async def __call__(self) -> None:
        """Say that the gate is reached, and wait until it is open."""
        self._reached.set()
        await self._until(self._open)

    async def reached(self) -> None:
        """Wait until somebody stands before the gate."""
        await self._until(self._reached)

    def open(self) -> None:
        """Let everybody pass from now on."""
        self._open.set()

    async def _until(self, event: threading.Event) -> None:
        if self._colour is Colour.SYNC:
            if not event.wait(PATIENCE):
                raise TimeoutError("Nobody came to the gate, or nobody opened it.")
            return
        async with asyncio.timeout(PATIENCE):
            while not event.is_set():  # noqa: ASYNC110 -- set from another thread, perhaps
                await asyncio.sleep(0.002)


class Handle:
    """A handle of either colour, awaited."""

    def __init__(self, app: App, raw: Any) -> None:
        self.app = self._app = app
        self.raw = raw

    @property
    def workflow_id(self) -> str:
        found: str = self.raw.workflow_id
        return found

    async def result(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109 -- the library's own name
        """Wait for the outcome; outside of a workflow, never for ever."""
        if timeout is None and self._app.raw.workflow_id is None:
            timeout = PATIENCE
        return await self._app.value(self.raw.result(timeout=timeout))

    async def error(self) -> BaseException:
        """Return the error the run ends with."""
        try:
            value = await self.result()
        except Exception as error:  # noqa: BLE001 -- what a test looks at
            return error
        raise AssertionError(f"The run ended with {value!r}, not with an error.")

    async def status(self) -> WorkflowState:
        state: WorkflowState = await self._app.value(self.raw.status())
        return state


class Step:
    """A step of either colour, awaited."""

    def __init__(self, app: App, raw: Any) -> None:
        self._app = app
        self.raw = raw

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return await self._app.value(self.raw(*args, **kwargs))


class Flow:
    """A workflow of either colour, awaited."""

    def __init__(self, app: App, raw: Any) -> None:
        self._app = app
        self.raw = raw

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return await self._app.value(self.raw(*args, **kwargs))

    async def start(self, *args: Any, **kwargs: Any) -> Handle:
        return Handle(self._app, await self._app.value(self.raw.start(*args, **kwargs)))

    def options(self, **options: Any) -> Flow:
        return Flow(self._app, self.raw.options(**options))


class App:
    """An application of either colour behind one async face; ``raw`` is the application itself."""

    def __init__(self, colour: Colour, url: str | None, **settings: Any) -> None:
        self.colour = colour
        self.raw: Any = (AsyncHoldfast if colour is Colour.ASYNC else Holdfast)(url, **settings)

    async def value(self, made: Any) -> Any:
        """Await what a call gave in the async colour; in the sync colour it is the value already."""
        return await made if self.colour is Colour.ASYNC else made

    def coloured(self, body: Body) -> Any:
        """Return *body* in this application's colour."""
        return coloured(self.colour, body)

    def workflow(self, body: Body, **options: Any) -> Flow:
        """Register *body* as a workflow."""
        return Flow(self, self.raw.workflow(**options)(self.coloured(body)))

    def step(self, body: Body, **options: Any) -> Step:
        """Register *body* as a step."""
        return Step(self, self.raw.step(**options)(self.coloured(body)))

    async def do(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the application and wait for what it gives."""
        return await self.value(getattr(self.raw, verb)(*args, **kwargs))

    async def launch(self) -> None:
        await self.do("launch")

    async def close(self, **options: Any) -> None:
        await self.do("close", **options)

    async def __aenter__(self) -> Self:
        await self.launch()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def gather(self, *parts: Callable[[], Awaitable[Any]]) -> list[Any]:
        """Run parts side by side with the application's own ``gather``."""
        found: list[Any] = await self.do("gather", *self._parts(parts))
        return found

    async def at_once(self, *parts: Callable[[], Awaitable[Any]]) -> list[Any]:
        """Run parts side by side as a program of this colour does: with asyncio's ``gather``, or ours on threads."""
        if self.colour is Colour.ASYNC:
            return list(await asyncio.gather(*(part() for part in parts)))
        return await self.gather(*parts)

    async def timeout(self, seconds: float, part: Callable[[], Awaitable[Any]]) -> Any:
        """Wait for *part* with the application's own ``timeout``."""
        return await self.do("timeout", seconds, self._parts([part])[0])

    async def wait_first(self, handles: Sequence[Handle]) -> int:
        """Return which of *handles* ended first."""
        first = await self.do("wait_first", [each.raw for each in handles])
        return [each.raw for each in handles].index(first)

    async def wait_all(self, handles: Sequence[Handle]) -> list[Any]:
        found: list[Any] = await self.do("wait_all", [each.raw for each in handles])
        return found

    def retrieve(self, workflow_id: str) -> Handle:
        return Handle(self, self.raw.retrieve_workflow(workflow_id))

    def _parts(self, parts: Sequence[Callable[[], Any]]) -> list[Any]:
        if self.colour is Colour.ASYNC:
            return [part() for part in parts]
        return [lambda part=part: run_sync(part()) for part in parts]


class Life:
    """Which life of a run this is: in the first ``await life()`` never returns, in the second it does at once."""

    def __init__(self, number: int, gate: Gate | None = None) -> None:
        self.number = number
        self._gate = gate

    async def __call__(self) -> None:
        """Stay here if the executor is to be lost here."""
        if self._gate is not None:
            await self._gate()


class Stage:
    """Applications on one database.

    Each stage has an application version of its own, so that what another test has left behind in the same database is
    never claimed here.
    """

    def __init__(self, venue: Venue) -> None:
        self.url = venue.url
        self.colour = venue.colour
        self.dialect = venue.dialect
        self.version = f"v-{secrets.token_hex(8)}"
        self.settings: dict[str, Any] = {"lease": 5}  # what a release had to leave behind is seen at the next beat
        self._apps: list[App] = []
        self._gates: list[Gate] = []
        self._observer = SyncConnectionManager(self.url, pool_size=2)

    def play(self, scene: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
        """Run *scene*, then open all gates and close all applications."""
        if self.colour is Colour.ASYNC:
            asyncio.run(self._play(scene))
        else:
            run_sync(self._play(scene))

    async def _play(self, scene: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
        try:
            await scene(self)
        finally:
            for gate in self._gates:
                gate.open()
            for app in self._apps:
                await app.close()
            self._observer.close()

    def app(self, **settings: Any) -> App:
        """Return an application, not launched yet."""
        app = App(self.colour, self.url, **{"application_version": self.version, **self.settings, **settings})
        self._apps.append(app)
        return app

    def gate(self) -> Gate:
        """Return a closed gate."""
        gate = Gate(self.colour)
        self._gates.append(gate)
        return gate

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until *condition* holds; fail if it never does."""
        deadline = time.monotonic() + PATIENCE
        while not await _held(condition()):
            if time.monotonic() > deadline:
                raise TimeoutError("The condition never held.")
            await self.pause(0.005)

    async def pause(self, seconds: float) -> None:
        """Take some time, as the world outside does."""
        if self.colour is Colour.ASYNC:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 -- the sync colour has no loop

    async def crash(self, app: App) -> None:
        """Take *app* for gone, as if its lease had ended: it claims nothing more, and its row is removed."""
        engine = app.raw._engine  # noqa: SLF001 -- a crash is not part of anybody's interface
        stop = engine.dispatch.stop()
        if self.colour is Colour.ASYNC:
            await stop
        else:
            engine.ask_blocking(stop)
        self.execute(f"DELETE FROM {self.table('executors')} WHERE incarnation = ?", engine.executor.incarnation)

    def set_clock(self, seconds: float) -> None:
        """Put the database's clock, as the applications made from now on see it, so many seconds ahead."""
        clock = f"clock_{self.version[2:]}"
        if "clock_offset_ms" not in self.settings:
            self.execute(f"CREATE TABLE {clock} (ms BIGINT)")
            self.execute(f"INSERT INTO {clock} VALUES (0)")
            self.settings["clock_offset_ms"] = f"SELECT ms FROM {clock}"
        self.execute(f"UPDATE {clock} SET ms = ?", int(seconds * 1000))

    async def relive(
        self, build: Callable[[App, Life], Flow], *args: Any, between: Callable[[], None] | None = None
    ) -> Handle:
        """Start a run, lose its executor where ``life()`` is called, and return its handle in a second application.

        *between* is what happens to the world while nobody runs it.
        """
        gate = self.gate()
        first = self.app()
        flow = build(first, Life(1, gate))
        await first.launch()
        handle = await flow.start(*args)
        await gate.reached()
        await self.crash(first)
        if between is not None:
            between()
        second = self.app()
        flow = build(second, Life(2))
        await second.launch()
        return await flow.options(workflow_id=handle.workflow_id).start(*args)

    def table(self, name: str) -> str:
        """Return the name of one of the library's tables for plain SQL."""
        return f"holdfast.{name}" if self.dialect is DialectName.POSTGRES else name

    def rows(self, sql: str, *args: Any) -> list[Row]:
        """Read rows with plain SQL, on a connection of its own."""
        self._observer.initialize()
        return self._observer.fetch(sql, *args)

    def execute(self, sql: str, *args: Any) -> int:
        """Run a statement of plain SQL, on a connection of its own."""
        self._observer.initialize()
        return self._observer.execute(sql, *args)

    def run(self, workflow_id: str) -> Row:
        """Return the row of a run."""
        return self.rows(f"SELECT * FROM {self.table('workflow_status')} WHERE workflow_uuid = ?", workflow_id)[0]

    def steps(self, workflow_id: str) -> list[Row]:
        """Return the recorded operations of a run in the order of their ordinals."""
        return self.rows(
            f"SELECT * FROM {self.table('operation_outputs')} WHERE workflow_uuid = ? ORDER BY function_id", workflow_id
        )


async def _held(found: Any) -> Any:
    return await found if inspect.isawaitable(found) else found
