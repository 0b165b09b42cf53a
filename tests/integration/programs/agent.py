"""An agent in a workflow, with a model that counts its requests in a ledger; killed where it is told."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from holdfast import AsyncHoldfast, faults
from holdfast.integrations.pydantic_ai import HoldfastDurability

SETTINGS = json.loads(sys.argv[1])
CITIES = ["Oslo", "Rome", "Lima"]


def begun(what: str) -> None:
    with Path(SETTINGS["ledger"]).open("a", encoding="utf-8") as ledger:
        ledger.write(f"{what}\n")


def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    requests = sum(message.kind == "response" for message in messages)
    begun(f"request-{requests}")
    if requests == 0:
        return ModelResponse(parts=[ToolCallPart("weather", {"city": city}) for city in CITIES])
    found = [part.content for message in messages for part in message.parts if part.part_kind == "tool-return"]
    if requests == 1:
        return ModelResponse(parts=[ToolCallPart("book", {"city": str(found[1])})])
    return ModelResponse(parts=[TextPart(", ".join(map(str, found)))])


agent = Agent(FunctionModel(answer), name="travel", capabilities=[HoldfastDurability()])
app = AsyncHoldfast(SETTINGS["url"], lease=1)


@agent.tool_plain
async def weather(city: str) -> str:
    begun(f"weather-{city}")
    return f"{city}: sun"


@agent.tool_plain
def book(city: str) -> str:
    begun("book")
    return f"booked {city}"


@app.workflow
async def travel(question: str) -> str:
    return (await agent.run(question)).output


async def main() -> None:
    if "point" in SETTINGS:
        faults.arm(SETTINGS["point"], at=SETTINGS["at"])
    async with app:
        handle = await travel.options(workflow_id="journey").start("Where to?")
        print(json.dumps(["done", await handle.result(timeout=60)]), flush=True)


asyncio.run(main())
