"""A conversation of two turns that is handed over to another agent, in a workflow; killed where it is told."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from holdfast import AsyncHoldfast, faults
from holdfast.integrations.pydantic_ai import HoldfastDurability

SETTINGS = json.loads(sys.argv[1])


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    with Path(SETTINGS["ledger"]).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{len(messages)}\n")
    return ModelResponse(parts=[TextPart(f"after {len(messages)}")])


clerk = Agent(FunctionModel(answer), name="clerk", capabilities=[HoldfastDurability()])
expert = Agent(FunctionModel(answer), name="expert", capabilities=[HoldfastDurability()])
app = AsyncHoldfast(SETTINGS["url"], lease=1)


@app.workflow
async def conversation() -> list[list[str | None]]:
    first = await clerk.run("Hello?")
    second = await clerk.run("And more?", message_history=first.all_messages())
    third = await expert.run("What do you say?", message_history=second.all_messages())
    return [[message.run_id for message in third.all_messages()], [each.output for each in (first, second, third)]]


async def main() -> None:
    if "point" in SETTINGS:
        faults.arm(SETTINGS["point"], at=SETTINGS["at"])
    async with app:
        handle = await conversation.options(workflow_id="talk").start()
        print(json.dumps(["done", *await handle.result(timeout=60)]), flush=True)


asyncio.run(main())
