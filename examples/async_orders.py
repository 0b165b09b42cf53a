"""Two hundred orders at once on one event loop: each asks three suppliers side by side and takes the cheapest.

Run it twice in the same folder: the second time every order is there already, and nobody is asked again.
"""

from __future__ import annotations

import asyncio
import random
import time

from holdfast import AsyncHoldfast

app = AsyncHoldfast("orders.sqlite")
asked: list[str] = []


@app.step
async def ask(supplier: str, item: str) -> int:
    asked.append(item)
    await asyncio.sleep(random.random() / 20)
    return len(supplier) * 100 + len(item)


@app.step
async def buy(supplier: str, item: str) -> str:
    return f"{item} from {supplier}"


@app.workflow
async def order(item: str) -> str:
    suppliers = ["north", "south-west", "east"]
    prices = await app.gather(*(ask(supplier, item) for supplier in suppliers))
    cheapest = suppliers[prices.index(min(prices))]
    return await buy(cheapest, item)


async def main() -> None:
    began = time.perf_counter()
    async with app:
        handles = [await order.options(workflow_id=f"order-{n}").start(f"item {n}") for n in range(200)]
        bought = await app.wait_all(handles)
    print(f"{len(bought)} orders in {time.perf_counter() - began:.2f} s, {len(asked)} questions asked")
    print(bought[-1])


if __name__ == "__main__":
    asyncio.run(main())
