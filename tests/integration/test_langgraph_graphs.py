"""Real LangGraph graphs on the saver: killed and resumed, and with channels that are kept as a chain of changes."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import END, START, StateGraph

from holdfast.integrations.langgraph import HoldfastSaver
from holdfast.testing.workers import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.runnables import RunnableConfig

    from holdfast.testing.nursery import Nursery

PROGRAM = Path(__file__).parent / "programs" / "graph.py"
BACKENDS = ("sqlite", "postgres", "mariadb", "redis")
AT: RunnableConfig = {"configurable": {"thread_id": "t"}}
LONG = "x" * 2000


@pytest.mark.parametrize(("kind", "colour"), [("postgres", "sync"), ("redis", "async")])
def test_graph_killed_at_a_question_goes_on_with_the_answer(
    kind: str, colour: str, fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery
) -> None:
    told: dict[str, Any] = {"url": fresh_database(kind), "ledger": str(tmp_path / "ledger"), "colour": colour}
    with Worker(PROGRAM, nursery, **told) as first:
        first.hear("asks", "Which city?")
        first.kill()
    with Worker(PROGRAM, nursery, **told) as second:
        second.hear("asks", "Which city?")
        second.tell("Rome")
        assert second.hear("done")[1] == {"log": ["plan", "Rome", "flight", "hotel", "book"]}
    assert sorted((tmp_path / "ledger").read_text().split()) == ["book", "flight", "hotel", "plan"]


@pytest.mark.parametrize(("kind", "colour"), [("sqlite", "async"), ("mariadb", "sync")])
def test_graph_killed_in_a_node_goes_on_without_repeating_finished_nodes(
    kind: str, colour: str, fresh_database: Callable[[str], str], tmp_path: Path, nursery: Nursery
) -> None:
    told: dict[str, Any] = {"url": fresh_database(kind), "ledger": str(tmp_path / "ledger"), "colour": colour}
    with Worker(PROGRAM, nursery, **told, die_in="book") as first:
        first.hear("asks", "Which city?")
        first.tell("Rome")
        assert first.end() == -signal.SIGKILL
    with Worker(PROGRAM, nursery, **told) as second:
        assert second.hear("done")[1] == {"log": ["plan", "Rome", "flight", "hotel", "book"]}
    begun = sorted((tmp_path / "ledger").read_text().split())
    assert begun == ["book", "book", "flight", "hotel", "plan"]


def _extended(state: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*state, *(each for write in writes for each in write)]


class Talk(TypedDict):
    """A state whose messages are kept as a chain of changes, whole every third time."""

    messages: Annotated[list[str], DeltaChannel(_extended, snapshot_frequency=3)]


def _talk(saver: HoldfastSaver) -> Any:
    def speak(state: Talk) -> dict[str, list[str]]:
        return {"messages": [f"{LONG}{len(state['messages'])}"]}

    builder = StateGraph(Talk)
    builder.add_node("speak", speak)
    builder.add_edge(START, "speak")
    builder.add_edge("speak", END)
    return builder.compile(checkpointer=saver)


def _said(turns: int) -> list[str]:
    return [text for turn in range(turns) for text in (f"q{turn}", f"{LONG}{2 * turn + 1}")]


@pytest.mark.parametrize("kind", BACKENDS)
def test_delta_channel_is_rebuilt_after_prune_and_copy(kind: str, fresh_database: Callable[[str], str]) -> None:
    url = fresh_database(kind)
    with HoldfastSaver.from_url(url) as saver:
        graph = _talk(saver)
        stored = 0
        for turn in range(5):
            graph.invoke({"messages": [f"q{turn}"]}, AT)
            stored += 3
            saver.prune(["t"])
            assert graph.get_state(AT).values == {"messages": _said(turn + 1)}
        assert 1 <= len(list(saver.list(AT))) < stored
        saver.copy_thread("t", "copy")
        assert graph.get_state({"configurable": {"thread_id": "copy"}}).values == {"messages": _said(5)}


@pytest.mark.parametrize("kind", BACKENDS)
def test_delta_history_is_the_same_as_the_walk_from_parent_to_parent(
    kind: str, fresh_database: Callable[[str], str]
) -> None:
    url = fresh_database(kind)

    async def both() -> tuple[list[Any], list[Any]]:
        saver = HoldfastSaver.from_url(url)
        plain = _Plain.from_url(url)
        graph = _talk(saver)
        for turn in range(4):
            await graph.ainvoke({"messages": [f"q{turn}"]}, AT)
        configs = [found.config async for found in saver.alist(AT)]
        quick = [await saver.aget_delta_channel_history(config=each, channels=["messages", "no"]) for each in configs]
        slow = [await plain.aget_delta_channel_history(config=each, channels=["messages", "no"]) for each in configs]
        blocking = [
            await asyncio.to_thread(saver.get_delta_channel_history, config=each, channels=["messages", "no"])
            for each in configs
        ]
        await saver.aclose()
        await plain.aclose()
        assert blocking == quick
        return quick, slow

    quick, slow = asyncio.run(both())
    assert quick == slow
    assert any("seed" in each["messages"] for each in quick)
    assert any(each["messages"]["writes"] for each in quick)


class _Plain(HoldfastSaver):
    """The saver with LangGraph's own way to go through a chain."""

    aget_delta_channel_history = HoldfastSaver.__mro__[1].aget_delta_channel_history  # type: ignore[attr-defined]
