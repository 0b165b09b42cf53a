"""A graph of LangGraph asks a person and is killed while it waits. Another process takes the answer and goes on.

The program starts itself as a worker, kills that worker with SIGKILL at the question, and starts another with the
answer. Needs ``pip install 'holdfast[langgraph]'``.
"""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from holdfast.integrations.langgraph import HoldfastSaver


class Journey(TypedDict):
    log: Annotated[list[str], operator.add]


def plan(state: Journey) -> dict[str, list[str]]:
    print(f"planning, {len(state['log'])} done before", flush=True)
    return {"log": ["planned"]}


def ask(state: Journey) -> dict[str, list[str]]:
    return {"log": [interrupt(f"{state['log'][-1]}: which city?")]}


def work(answer: str | None) -> None:
    at: Any = {"configurable": {"thread_id": "journey-17"}}
    builder = StateGraph(Journey)
    builder.add_node("plan", plan)
    builder.add_node("ask", ask)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "ask")
    builder.add_edge("ask", END)
    with HoldfastSaver.from_url("sqlite:///graph.db") as saver:
        graph = builder.compile(checkpointer=saver)
        given: Any = {"log": []} if answer is None else Command(resume=answer)
        result = graph.invoke(given, at)
        if answer is None:
            print(f"asks: {result['__interrupt__'][0].value}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        print(" -> ".join(result["log"]), flush=True)


def main() -> None:
    first = subprocess.run([sys.executable, __file__, "worker"], check=False)
    print(f"The first worker was killed (signal {-first.returncode}).", flush=True)
    subprocess.run([sys.executable, __file__, "worker", "Rome"], check=True)


if __name__ == "__main__":
    work(next(iter(sys.argv[2:]), None)) if "worker" in sys.argv else main()
