"""One workflow hands a thousand pieces of work to a queue, which runs fifty at a time, and adds up what they say."""

from __future__ import annotations

import asyncio

from holdfast import AsyncHoldfast

app = AsyncHoldfast("pictures.sqlite")


@app.step
async def resize(picture: int) -> int:
    return picture % 7


@app.workflow
async def shrink(picture: int) -> int:
    return await resize(picture)


@app.workflow
async def album(pictures: int) -> int:
    runs = await shrink.options(queue_name="pictures").enqueue_many(shrink.call(picture) for picture in range(pictures))
    return sum(await app.wait_all(runs))


async def main() -> None:
    async with app:
        await app.register_queue("pictures", worker_concurrency=50)
        saved = await album.options(workflow_id="holidays", on_conflict="return_existing").start(1000)
        print(f"1000 pictures, {await saved.result(timeout=80)} megabytes saved")


if __name__ == "__main__":
    asyncio.run(main())
