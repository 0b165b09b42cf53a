"""A graph that asks a person, and may be killed in a node: it goes on where its thread stands."""

from __future__ import annotations

import asyncio
import json
import operator
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from holdfast.integrations.langgraph import HoldfastSaver

SETTINGS = json.loads(sys.argv[1])
AT: Any = {"configurable": {"thread_id": "t"}}


class Journey(TypedDict):
    """What has been done."""

    log: Annotated[list[str], operator.add]


def begun(node: str) -> None:
    with Path(SETTINGS["ledger"]).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{node}\n")


def plan(_: Journey) -> dict[str, list[str]]:
    begun("plan")
    return {"log": ["plan"]}


def ask(_: Journey) -> dict[str, list[str]]:
    return {"log": [interrupt("Which city?")]}


def flight(_: Journey) -> dict[str, list[str]]:
    begun("flight")
    return {"log": ["flight"]}


def hotel(_: Journey) -> dict[str, list[str]]:
    begun("hotel")
    return {"log": ["hotel"]}


def book(_: Journey) -> dict[str, list[str]]:
    begun("book")
    if SETTINGS.get("die_in") == "book":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"log": ["book"]}


def built(saver: HoldfastSaver) -> Any:
    builder: Any = StateGraph(Journey)
    builder.add_node("plan", plan)
    builder.add_node("ask", ask)
    builder.add_node("flight", flight)
    builder.add_node("hotel", hotel)
    builder.add_node("book", book)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "ask")
    builder.add_edge("ask", "flight")
    builder.add_edge("ask", "hotel")
    builder.add_edge(["flight", "hotel"], "book")
    builder.add_edge("book", END)
    return builder.compile(checkpointer=saver)


def beginning(state: Any) -> Any:
    """Return what to go on with: nothing where a thread stands already."""
    return None if state.next else {"log": []}


def answered(result: dict[str, Any]) -> Command[Any] | None:
    """Say where the graph stands; return the answer to its question, None if it is done."""
    asked = result.pop("__interrupt__", None)
    print(json.dumps(["asks", asked[0].value] if asked else ["done", result]), flush=True)
    return Command(resume=json.loads(sys.stdin.readline())[0]) if asked else None


async def on_a_loop(graph: Any) -> None:
    given = beginning(await graph.aget_state(AT))
    while (given := answered(await graph.ainvoke(given, AT, durability="sync"))) is not None:
        pass


def on_a_thread(graph: Any) -> None:
    given = beginning(graph.get_state(AT))
    while (given := answered(graph.invoke(given, AT, durability="sync"))) is not None:
        pass


def main() -> None:
    graph = built(HoldfastSaver.from_url(SETTINGS["url"]))
    if SETTINGS["colour"] == "async":
        asyncio.run(on_a_loop(graph))
    else:
        on_a_thread(graph)
    sys.stdin.read()  # until it is killed


main()
