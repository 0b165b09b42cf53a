"""Durable agents: model requests and tool calls are recorded once; a killed agent goes on without repeating them."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, CustomEvent, ModelRetry, RunContext
from pydantic_ai.exceptions import ModelHTTPError, UsageLimitExceeded, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import UsageLimits

from holdfast import AsyncHoldfast, Holdfast, Retry, WorkflowStatus
from holdfast.errors import ConfigurationError, MisuseError, WorkflowCancelled
from holdfast.integrations.pydantic_ai import HoldfastDurability
from holdfast.testing.workers import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable

    from pydantic_ai.messages import AgentStreamEvent

    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "agent.py"
CONVERSATION = Path(__file__).parent / "programs" / "conversation.py"


@pytest.fixture
def app(fresh_database: Callable[[str], str]) -> AsyncHoldfast:
    """An application on an empty database."""
    return AsyncHoldfast(fresh_database("sqlite"))


@dataclass
class Model:
    """A model that says what it is told to, and counts what it is asked."""

    replies: list[ModelResponse | Exception]
    asked: int = 0

    def agent(self, **options: Any) -> Agent[None, str]:
        return Agent(FunctionModel(self._answer), name="agent", capabilities=[HoldfastDurability(**options)])

    def _answer(self, _: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        self.asked += 1
        reply = self.replies[self.asked - 1]
        if isinstance(reply, Exception):
            raise reply
        return reply


@dataclass(kw_only=True)
class Asked(CustomEvent):
    """A tool has asked something."""

    question: str


def calls(*named: tuple[str, dict[str, Any]]) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(name, arguments) for name, arguments in named])


def says(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


async def names_of_steps(app: AsyncHoldfast, workflow_id: str) -> list[str]:
    return [step.function_name for step in await app.list_steps(workflow_id)]


@pytest.mark.parametrize(
    ("backend", "point", "at", "repeated"),
    [
        ("sqlite", "step.after_user_code", 1, ["request-0"]),
        ("postgres", "step.recorded", 1, []),
        ("mariadb", "step.recorded", 5, []),
        ("sqlite", "step.after_user_code", 6, ["book"]),
    ],
)
def test_killed_agent_goes_on_without_repeating_what_is_recorded(
    backend: str,
    point: str,
    at: int,
    repeated: list[str],
    fresh_database: Callable[[str], str],
    tmp_path: Path,
    nursery: Nursery,
) -> None:
    told: dict[str, Any] = {"url": fresh_database(backend), "ledger": str(tmp_path / "ledger")}
    with Worker(PROGRAM, nursery, **told, point=point, at=at) as first:
        assert first.end() == -signal.SIGKILL
    with Worker(PROGRAM, nursery, **told) as second:
        done = second.hear("done")
    assert done[1] == "Oslo: sun, Rome: sun, Lima: sun, booked Rome: sun"
    once = ["book", "request-0", "request-1", "request-2", "weather-Lima", "weather-Oslo", "weather-Rome"]
    assert sorted((tmp_path / "ledger").read_text().split()) == sorted([*once, *repeated])


def test_model_requests_and_tool_calls_are_steps_with_names_of_the_agent(app: AsyncHoldfast) -> None:
    model = Model([calls(("double", {"number": 4})), says("eight")])
    agent = model.agent()

    @agent.tool_plain
    def double(number: int) -> int:
        return 2 * number

    @app.workflow
    async def ask() -> str:
        return (await agent.run("?")).output

    async def run() -> tuple[str, list[str]]:
        async with app:
            return await ask.options(workflow_id="w")(), await names_of_steps(app, "w")

    assert asyncio.run(run()) == (
        "eight",
        [
            "agent__model.request",
            "agent__function_toolset__<agent>.call_tool:double",
            "agent__model.request",
        ],
    )


def test_outside_of_a_workflow_the_agent_is_an_ordinary_agent(app: AsyncHoldfast) -> None:
    agent = Agent(TestModel(), name="agent", capabilities=[HoldfastDurability()])

    @agent.tool_plain
    def nothing() -> str:
        return "nothing"

    assert asyncio.run(agent.run("?")).output == '{"nothing":"nothing"}'


def test_replay_delivers_the_same_run_of_the_agent(app: AsyncHoldfast) -> None:
    """A workflow that is tried again replays the agent from the record: the same ids, messages and output."""

    class City(BaseModel):
        name: str
        people: int

    seen: list[tuple[Any, ...]] = []
    agent = Agent(TestModel(), name="agent", output_type=City, capabilities=[HoldfastDurability()])

    @app.step
    async def fragile() -> None:
        if len(seen) == 1:
            raise OSError("once")

    @app.workflow(retry=Retry(attempts=2, interval=0))
    async def ask() -> int:
        first, second = await asyncio.gather(agent.run("one?"), agent.run("two?"))
        seen.append((first.run_id, second.run_id, first.output, [m.run_id for m in second.all_messages()]))
        await fragile()
        return first.output.people

    async def run() -> int:
        async with app:
            return await ask()

    assert asyncio.run(run()) == 0
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[0][1]


def test_what_agents_inside_of_tools_use_counts_on_replay_too(app: AsyncHoldfast) -> None:
    """A limit that has ended an agent ends it on replay as well: the workflow goes the way it went."""
    seen: list[Any] = []
    inner = Agent(TestModel(custom_output_text="yes"), name="inner", capabilities=[HoldfastDurability()])
    model = Model([calls(("ask", {}), ("ask", {})), says("done"), calls(("ask", {})), calls(("ask", {}))])
    agent = model.agent()

    @agent.tool
    async def ask(ctx: RunContext[None]) -> str:
        return (await inner.run("?", usage=ctx.usage)).output

    @app.step
    async def fragile() -> None:
        if len(seen) == 2:
            raise OSError("once")

    @app.workflow(retry=Retry(attempts=2, interval=0))
    async def work() -> None:
        seen.append((await agent.run("one")).usage)
        with pytest.raises(UsageLimitExceeded) as over:
            await agent.run("two", usage_limits=UsageLimits(request_limit=3))
        seen.append(str(over.value))
        await fragile()

    async def run() -> None:
        async with app:
            await work()

    asyncio.run(run())
    assert seen[0].requests == 4
    assert seen[:2] == seen[2:]
    assert model.asked == 4


@pytest.mark.parametrize(("backend", "at"), [("sqlite", 1), ("postgres", 2), ("mariadb", 3)])
def test_killed_conversation_goes_on_in_the_same_runs_of_its_agents(
    backend: str, at: int, fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery
) -> None:
    told: dict[str, Any] = {"url": fresh_database(backend), "ledger": str(tmp_path / "ledger")}
    with Worker(CONVERSATION, nursery, **told, point="step.recorded", at=at) as first:
        assert first.end() == -signal.SIGKILL
    with Worker(CONVERSATION, nursery, **told) as second:
        _, runs, outputs = second.hear("done")
    assert runs == ["talk:0", "talk:0", "talk:1", "talk:1", "talk:2", "talk:2"]
    assert outputs == ["after 1", "after 3", "after 5"]
    assert (tmp_path / "ledger").read_text().split() == ["1", "3", "5"]  # nothing was asked twice


def test_runs_of_an_agent_in_one_workflow_are_conversations_of_their_own(app: AsyncHoldfast) -> None:
    agent = Model([says("a"), says("b"), says("c")]).agent()

    @app.workflow
    async def ask() -> list[tuple[str, str]]:
        one, two = await agent.run("?"), await agent.run("?")
        more = await agent.run("?", message_history=two.all_messages())
        return [(each.run_id, each.conversation_id) for each in (one, two, more)]

    async def run() -> list[tuple[str, str]]:
        async with app:
            return await ask()

    one, two, more = asyncio.run(run())
    assert len({one[0], two[0], more[0]}) == 3
    assert one[1] != two[1] == more[1]


def test_timeout_of_an_agent_counts_from_its_recorded_beginning(app: AsyncHoldfast) -> None:
    agent = Model([says("in time")]).agent()

    @app.workflow
    async def ask() -> str:
        return (await agent.run("?", timeout=60)).output

    async def run() -> tuple[str, list[str]]:
        async with app:
            return await ask.options(workflow_id="w")(), await names_of_steps(app, "w")

    assert asyncio.run(run()) == ("in time", ["holdfast.now", "agent__model.request"])


def test_failed_request_is_tried_again_as_its_options_say(app: AsyncHoldfast) -> None:
    model = Model([ModelHTTPError(503, "model"), says("at last")])
    agent = model.agent(model_step={"retry": Retry(attempts=3, interval=0)})

    @app.workflow
    async def ask() -> str:
        return (await agent.run("?")).output

    async def run() -> str:
        async with app:
            return await ask()

    assert (asyncio.run(run()), model.asked) == ("at last", 2)


@pytest.mark.parametrize("error", [UserError("wrong"), ModelHTTPError(500, "model", {"why": "ill"})])
def test_error_of_a_step_is_recorded_and_raised_as_it_was(app: AsyncHoldfast, error: Exception) -> None:
    model = Model([error])
    retry = Retry(attempts=3, interval=0) if isinstance(error, UserError) else None
    agent = model.agent(model_step={"retry": retry})

    @app.workflow
    async def ask() -> str:
        return (await agent.run("?")).output

    async def run() -> None:
        async with app:
            await ask()

    with pytest.raises(type(error)) as raised:
        asyncio.run(run())
    assert (str(raised.value), model.asked) == (str(error), 1)


def test_tool_that_asks_for_another_try_is_told_to_the_model(app: AsyncHoldfast) -> None:
    tried: list[int] = []
    model = Model([calls(("fetch", {"page": 0})), calls(("fetch", {"page": 1})), says("done")])
    agent = model.agent()

    @agent.tool_plain
    def fetch(page: int) -> str:
        tried.append(page)
        if page == 0:
            raise ModelRetry("Pages begin with 1.")
        return "text"

    @app.workflow
    async def ask() -> str:
        return repr((await agent.run("?")).all_messages())

    async def run() -> str:
        async with app:
            return await ask()

    messages = asyncio.run(run())
    assert "Pages begin with 1." in messages
    assert (model.asked, tried) == (3, [0, 1])


def test_tool_in_the_workflow_itself_may_wait_durably(app: AsyncHoldfast) -> None:
    model = Model([calls(("ask_person", {"question": "Rome?"})), says("booked")])
    agent = model.agent()

    @agent.tool_plain(metadata={"holdfast": False})
    async def ask_person(question: str) -> str:
        await app.set_event("question", question)
        return str(await app.recv("answer", timeout=60))

    @app.workflow
    async def ask() -> str:
        return (await agent.run("?")).output

    async def run() -> tuple[Any, str]:
        async with app:
            handle = await ask.options(workflow_id="w").start()
            asked = await app.get_event("w", "question", timeout=60)
            await app.send("w", "yes", topic="answer")
            return asked, await handle.result(timeout=60)

    assert asyncio.run(run()) == ("Rome?", "booked")


def test_run_whose_agent_waits_in_a_tool_is_put_away(fresh_database: Callable[[str], str]) -> None:
    app = AsyncHoldfast(fresh_database("sqlite"), put_away_after=0.01)
    model = Model([calls(("look", {}), ("ask_person", {})), says("booked")])
    agent = model.agent()
    looked: list[str] = []

    @agent.tool_plain(metadata={"holdfast": False})
    async def ask_person() -> str:
        return str(await app.recv("answer", timeout=600))

    @agent.tool_plain
    async def look() -> str:
        looked.append("begun")
        await asyncio.sleep(0.3)  # at work, for longer than a run may wait before it is put away
        return "seen"

    @app.workflow
    async def ask() -> str:
        return (await agent.run("?")).output

    async def run() -> str:
        async with app:
            handle = await ask.options(workflow_id="w").start()
            async with asyncio.timeout(60):
                while (await handle.status()).status is not WorkflowStatus.DELAYED:  # noqa: ASYNC110 -- nobody tells
                    await asyncio.sleep(0.01)
            await app.send("w", "yes", topic="answer")
            return str(await handle.result(timeout=60))

    assert (asyncio.run(run()), model.asked, looked) == ("booked", 2, ["begun"])


def test_code_that_hears_events_beside_a_tool_that_waits_is_not_put_away(
    fresh_database: Callable[[str], str],
) -> None:
    app = AsyncHoldfast(fresh_database("sqlite"), put_away_after=0.01)
    agent = Agent(TestModel(), name="agent", capabilities=[HoldfastDurability()])
    noted: list[str] = []

    @agent.tool(metadata={"holdfast": False})
    async def ask_person(context: RunContext[object]) -> str:
        await context.emit(Asked(question="Rome?"))
        return str(await app.recv("answer", timeout=600))

    @app.step
    async def note(question: str) -> None:
        noted.append(question)
        await asyncio.sleep(0.3)  # at work, for longer than a run may wait before it is put away
        await app.send("w", "yes", topic="answer")

    async def hear(_: RunContext[object], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            if isinstance(event, Asked):
                await note(event.question)

    @app.workflow
    async def ask() -> str:
        return (await agent.run("?", event_stream_handler=hear)).output

    async def run() -> str:
        async with app:
            return await ask.options(workflow_id="w")()

    assert (asyncio.run(run()), noted) == ('{"ask_person":"yes"}', ["Rome?"])


def test_metadata_of_a_tool_says_how_its_step_is_tried_again(app: AsyncHoldfast) -> None:
    tried: list[int] = []
    model = Model([calls(("flaky", {})), says("done"), calls(("wrong", {}))])
    agent = model.agent()

    @agent.tool_plain(metadata={"holdfast": {"retry": Retry(attempts=2, interval=0)}})
    def flaky() -> str:
        tried.append(1)
        if len(tried) == 1:
            raise OSError("once")
        return "fine"

    @agent.tool_plain(metadata={"holdfast": {"retries": 2}})
    def wrong() -> str:
        return "never"

    @app.workflow
    async def ask() -> str:
        return (await agent.run("?")).output

    async def run() -> str:
        async with app:
            output = await ask()
            with pytest.raises(ConfigurationError, match="'wrong'"):
                await ask()
            return output

    assert (asyncio.run(run()), len(tried)) == ("done", 2)


@pytest.mark.parametrize("kind", ["model_step", "tool_step", "event_step"])
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"retries": 3}, "has no option retries; there are retry, timeout"),
        ({"retry": 3}, "is a Retry, as in"),
        ({"timeout": "5"}, "is a number of seconds"),
        ({"timeout": -1}, "is a number of seconds"),
        (Retry(), "is a dict with retry and timeout, not Retry"),
    ],
)
def test_step_options_that_cannot_be_meant_are_refused(kind: str, options: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{kind}.* {why}"):
        HoldfastDurability(**{kind: options})


def test_metadata_of_a_tool_is_checked_before_it_is_called(app: AsyncHoldfast) -> None:
    model = Model([calls(("wrong", {}))])
    agent = model.agent()

    @agent.tool_plain(metadata={"holdfast": {"retry": 2}})
    def wrong() -> str:
        return "never"

    @app.workflow
    async def ask() -> str:
        return (await agent.run("?")).output

    async def run() -> None:
        async with app:
            with pytest.raises(ConfigurationError, match=r"retry of .*'wrong' is a Retry"):
                await ask()

    asyncio.run(run())


def test_event_handler_hears_tools_in_steps_of_their_own(app: AsyncHoldfast) -> None:
    heard: list[str] = []

    async def hear(_: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
        heard.extend([event.event_kind async for event in events])

    agent = Agent(TestModel(), name="agent", capabilities=[HoldfastDurability(event_stream_handler=hear)])

    @agent.tool_plain
    def nothing() -> str:
        return "nothing"

    @app.workflow
    async def ask() -> str:
        return (await agent.run("?")).output

    async def run() -> list[str]:
        async with app:
            await ask.options(workflow_id="w")()
            return await names_of_steps(app, "w")

    names = asyncio.run(run())
    assert {"function_tool_call", "function_tool_result", "part_start"} <= set(heard)
    assert "agent__event_stream_handler" in names
    assert "agent__model.request_stream" in names


def test_cancelled_run_ends_its_agent(app: AsyncHoldfast) -> None:
    model = Model([calls(("hang", {})), says("never")])
    agent = model.agent()
    begun = asyncio.Event()

    @agent.tool_plain
    async def hang() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    @app.workflow
    async def ask() -> str:
        return (await agent.run("?")).output

    async def run() -> None:
        async with app:
            handle = await ask.options(workflow_id="w").start()
            await begun.wait()
            await app.cancel_workflow("w")
            with pytest.raises(WorkflowCancelled):
                await handle.result(timeout=60)

    asyncio.run(run())
    assert model.asked == 1


def test_agent_inside_a_step_or_a_tool_is_recorded_with_it(app: AsyncHoldfast) -> None:
    helper = Model([says("from the step"), says("from the tool")]).agent(name="helper")
    agent = Model([calls(("ask_helper", {})), says("done")]).agent()

    @agent.tool_plain
    async def ask_helper() -> str:
        return (await helper.run("?")).output

    @app.step
    async def step() -> str:
        return (await helper.run("?")).output

    @app.workflow
    async def ask() -> list[str]:
        return [await step(), (await agent.run("?")).output]

    async def run() -> tuple[list[str], list[str]]:
        async with app:
            return await ask.options(workflow_id="w")(), await names_of_steps(app, "w")

    output, names = asyncio.run(run())
    assert output == ["from the step", "done"]
    assert [name for name in names if "helper" in name] == ["agent__function_toolset__<agent>.call_tool:ask_helper"]
    assert len(names) == 4


def test_agent_in_a_sync_workflow_is_refused(fresh_database: Callable[[str], str]) -> None:
    app = Holdfast(fresh_database("sqlite"))
    agent = Model([says("never")]).agent()

    @app.workflow
    def ask() -> str:
        loop = asyncio.new_event_loop()  # run_sync() would make one in this thread, and leave it open
        asyncio.set_event_loop(loop)
        try:
            return agent.run_sync("?").output
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    with app, pytest.raises(MisuseError, match="async def"):
        ask()
