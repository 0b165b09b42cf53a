"""Durable agents: an agent of Pydantic AI whose model requests and tool calls are steps of a workflow.

    agent = Agent("openai:gpt-5", name="travel", capabilities=[HoldfastDurability()])

    @app.workflow
    async def plan(question: str) -> str:
        return (await agent.run(question)).output

After a crash the run goes on where it stopped: what the model has answered and what tools have returned is in the
record. Outside of a workflow the agent is an ordinary agent.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, cast

try:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError
    from pydantic_ai.durable_exec import (
        JSON_CODEC,
        BaseDurabilityCapability,
        DurabilityEngineSpec,
        JournalCallableOperationBackend,
        ToolsetCallToolId,
        conversation_id_from_run_id,
    )
    from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
    from pydantic_ai.tools import AgentDepsT, RunContext
    from pydantic_ai.toolsets import ToolsetTool
    from pydantic_ai.usage import RunUsage
except ImportError as error:
    from holdfast.errors import DriverMissing

    raise DriverMissing("Durable agents need Pydantic AI: pip install 'holdfast[pydantic-ai]'.") from error

from holdfast.core.durations import checked_seconds
from holdfast.core.options import check_retry, refuse_unknown
from holdfast.errors import CannotSerialize, ConfigurationError, MisuseError, Superseded, WorkflowCancelled
from holdfast.serialize.calls import anything
from holdfast.workflows.declaring.registry import StepDefinition, checked_name
from holdfast.workflows.operations.place import WorkflowPlace, here, task_place
from holdfast.workflows.operations.steps import run_step
from holdfast.workflows.parking import Wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from datetime import datetime

    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.capabilities.abstract import WrapRunHandler, WrapToolExecuteHandler
    from pydantic_ai.durable_exec import DurableOperationBackend, DurableOperationId, OperationConfigRole
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models import Model
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import ToolDefinition

    from holdfast.model.workflow import Duration, Retry

_METADATA = "holdfast"
_USAGE = "holdfast_usage"
_usages = TypeAdapter(RunUsage)
_FINAL = (UserError, PydanticUserError, UnexpectedModelBehavior, CannotSerialize)  # another attempt ends the same way


class StepOptions(TypedDict, total=False):
    """How steps of an agent are tried again and how long an attempt may take. By default there is one attempt."""

    retry: Retry | None
    timeout: Duration | None


@dataclass(init=False, kw_only=True)
class HoldfastDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes the runs of an agent durable where they are awaited in an async workflow, of whichever application.

    The agent, or *name*, gives the steps their names, which are in the records: do not change it while runs are under
    way. Parallel tool calls are branches of the workflow and are found again in the order in which they were begun.
    A step may be done twice if the process dies before its record, so tools should bear that. A model that is chosen
    for a single run must be one of *models*, or given by its name. Inside a tool nothing else is recorded.
    """

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name="Holdfast",
        durable_unit_noun="step",
        durable_container_noun="workflow",
        codec=JSON_CODEC,
        serialization_failure=lambda error: CannotSerialize(
            f"What a step of an agent has returned has no JSON form, so it cannot be recorded: {error}"
        ),
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        wrapped_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        toolset_lifecycles={"function": "enter-always", "mcp": "enter-in-durable-unit", "dynamic": "enter-never"},
        tool_config_key=_METADATA,
        cancellation_error_types=(WorkflowCancelled, Superseded),
    )

    def __init__(
        self,
        *,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        name: str | None = None,
        model_step: StepOptions | None = None,
        tool_step: StepOptions | None = None,
        event_step: StepOptions | None = None,
    ) -> None:
        """Take how steps of each kind are tried again; a tool's ``metadata={"holdfast": {...}}`` says it for that tool.

        A tool whose metadata has ``"holdfast": False`` is called in the workflow itself, and may do there what
        workflows do: sleep durably, wait for a message, start a child.
        """
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._steps = _Steps(
            {
                "model": _checked("model_step", model_step or {}),
                "tool": _checked("tool_step", tool_step or {}),
                "event": _checked("event_step", event_step or {}),
                "capability": {},
            }
        )

    @property
    def in_durable_context(self) -> bool:
        """Whether this is code of a workflow; refused in a sync one, whose thread has no loop to run an agent on."""
        return _workflow() is not None

    def get_durable_operation_backend(self) -> DurableOperationBackend[StepOptions]:
        """Return what carries out the operations of the agent."""
        return _Backend(agent_name=self.name or "", default_model_id=self.default_model_id, config=self._steps)

    def get_default_run_id(self) -> str | None:
        """Return an id of this run of the agent that no other run has and that is the same on replay."""
        place = _place()
        if place is None:
            return None
        _calls.set(_ToolCalls(place))  # here, since this is the task that awaits the agent
        return f"{place.run.id}:{place.branch.next_mark()}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return an id of the conversation that is the same on replay."""
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    async def get_run_start_time(self, run_id: str) -> datetime | None:  # noqa: ARG002 -- Pydantic AI's signature
        """Return when this run of the agent began, recorded: its timeout counts from there, whatever happens."""
        place = _place()
        return None if place is None else await place.run.engine.durable.now(place)

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Let tools run side by side, with their events in the order of the calls, which is the same on replay."""
        if self.agent is None or not self.in_durable_context:
            return await super().wrap_run(ctx, handler=handler)
        with self.agent.parallel_tool_call_execution_mode("parallel_ordered_events"):
            return await handler()

    async def wrap_tool_execute(
        self,
        ctx: RunContext[AgentDepsT],  # noqa: ARG002 -- Pydantic AI's signature
        *,
        call: ToolCallPart,  # noqa: ARG002
        tool_def: ToolDefinition,  # noqa: ARG002
        args: dict[str, Any],
        handler: WrapToolExecuteHandler,
    ) -> Any:
        """Call a tool, which may wait for so long that the run of the workflow is put away meanwhile."""
        calls = _calls.get()
        if calls is None or calls.place is not _workflow():
            return await handler(args)
        with calls.one():
            return await handler(args)


class _ToolCalls:
    """The calls of tools, each in a task of its own, that a branch awaits while it awaits an agent.

    The branch waits for whatever they wait for, so that a run whose tools wait for long can be put away. Not so one in
    whose task the agent does something itself: its events are streamed there, and the code that hears them is at work.
    """

    def __init__(self, place: WorkflowPlace) -> None:
        self.place = place
        self._open = 0
        self._streams = False
        self._waiting = ExitStack()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a call; its task is a branch from now on, which is at work until it waits itself."""
        if _place() is self.place:
            yield  # in the same task, and so in the same branch
            return
        if not self._open and not self._streams:
            self._waiting.enter_context(self.place.run.engine.parker.waiting(self.place, Wait()))
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self._waiting.close()

    def stream(self) -> None:
        """Note that the branch does something itself, now and beside the calls to come."""
        self._streams = True
        self._waiting.close()


_calls: ContextVar[_ToolCalls | None] = ContextVar("holdfast_tool_calls", default=None)


class _Steps:
    """Which options a step has: those of its kind, and what the metadata of its tool says."""

    def __init__(self, kinds: Mapping[OperationConfigRole, StepOptions]) -> None:
        self._kinds = kinds

    def base(self, role: OperationConfigRole, *, operation_id: DurableOperationId) -> StepOptions:  # noqa: ARG002
        return self._kinds[role]

    def for_tool(
        self,
        role: OperationConfigRole,
        *,
        operation_id: DurableOperationId,
        tool: object | None,
        tool_name: str,
    ) -> StepOptions | Literal[False]:
        own: Any = None
        if isinstance(tool, ToolsetTool):
            own = (tool.tool_def.metadata or {}).get(_METADATA)
        base = self.base(role, operation_id=operation_id)
        if own is None or own is False:
            return base if own is None else False
        what = f'The metadata "{_METADATA}" of the tool {tool_name!r}'
        return {**base, **_checked(what, own, "a dict with retry and timeout, or False")}


def _checked(what: str, given: object, wanted: str = "a dict with retry and timeout") -> StepOptions:
    """Return the options of steps that somebody has given; ``ConfigurationError`` unless they can be meant."""
    if not isinstance(given, dict):
        raise ConfigurationError(f"{what} is {wanted}, not {given!r:.100}.")
    refuse_unknown(what, given, StepOptions.__annotations__)
    check_retry(what, given.get("retry"))
    if given.get("timeout") is not None:
        checked_seconds(given["timeout"], f"The timeout of {what}")
    return cast("StepOptions", given)


class _Backend(JournalCallableOperationBackend[StepOptions]):
    """Operations of an agent as steps that need no declaration."""

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: StepOptions,
    ) -> object:
        """Do *body* once; a replay delivers what it returned. In a step, and outside of workflows, a plain call."""
        place = _place()
        if place is None:
            return await body()
        calls = _calls.get()
        if calls is not None and calls.place is place:
            calls.stream()

        context = _tool_context(operation_id, cache_key)
        usage = None if context is None else _Usage(context)

        async def step(_call: str | None) -> Any:
            return await (body() if usage is None else usage.recorded(body))

        engine, retry = place.run.engine, config.get("retry")
        definition = StepDefinition(
            name=checked_name(name, step),
            function=step,
            is_async=True,
            codec=engine.payloads.codec(anything),  # what a step returns is JSON already
            retry=None if retry is None else replace(retry, never=(*retry.never, *_FINAL)),
            timeout=config.get("timeout"),
        )
        call_id = None if context is None else context.tool_call_id  # so that no other call of the tool gets its result
        result = await run_step(engine, place, definition, (call_id,), {})
        return result if usage is None else usage.counted(result)


class _Usage:
    """What agents that a tool runs itself use of its run's budget: in the record with what the tool has returned.

    So it counts on replay as well, and a limit that has ended the run ends it again.
    """

    def __init__(self, context: RunContext[Any]) -> None:
        self._context = context
        self._run = context.usage
        self._before = deepcopy(context.usage)
        self._own = deepcopy(context.usage)

    async def recorded(self, body: Callable[[], Awaitable[object]]) -> object:
        """Call the tool with a usage of its own; return its result, and with it what it has added to that usage."""
        self._context.usage = self._own
        try:
            result = await body()
        finally:
            self._context.usage = self._run
        if self._own == self._before or not isinstance(result, dict):
            return result
        return {**result, _USAGE: _usages.dump_python(self._own - self._before, mode="json")}

    def counted(self, result: object) -> object:
        """Count what is recorded to be used; return what the tool has returned."""
        if isinstance(result, dict) and _USAGE in result:
            self._run.incr(_usages.validate_python(result.pop(_USAGE)))
        return result


def _workflow() -> WorkflowPlace | None:
    """Return where in a workflow this code stands, or its parent if the task is new to it; None elsewhere."""
    place = here.get()
    if not isinstance(place, WorkflowPlace):
        return None
    if isinstance(place.owner, int):
        raise MisuseError(
            "A durable agent was run in a sync workflow, whose thread has no event loop: make the workflow async def, "
            "and await agent.run()."
        )
    return place


def _place() -> WorkflowPlace | None:
    """Return the place of an operation that begins now; a task that has none gets its own branch."""
    place = _workflow()
    return None if place is None else task_place(place.run.engine)


def _tool_context(operation_id: DurableOperationId, cache_key: tuple[object, ...]) -> RunContext[Any] | None:
    """Return what a tool is called with; None for another operation."""
    if not isinstance(operation_id, ToolsetCallToolId):
        return None
    return next((each for each in cache_key if isinstance(each, RunContext)), None)


__all__ = ["HoldfastDurability", "StepOptions"]
