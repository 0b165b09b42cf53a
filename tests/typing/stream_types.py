"""What a type checker must say about streams and dispatch state. Checked by mypy, never run."""

from __future__ import annotations

from typing import Any, assert_type

from holdfast import (
    AsyncClient,
    AsyncHoldfast,
    AsyncStreamReader,
    Client,
    DispatchState,
    Holdfast,
    StreamReader,
    StreamReset,
)

app = Holdfast()
aapp = AsyncHoldfast()


def written() -> None:
    app.write_stream("s", {"any": "value"})
    app.write_stream("s", 1, live=True)
    app.close_stream("s")
    app.write_stream(1, 1)  # type: ignore[arg-type]
    app.write_stream("s", 1, True)  # type: ignore[call-arg]


def read(client: Client) -> None:
    assert_type(app.read_stream("run", "s"), StreamReader[Any])
    assert_type(app.read_stream("run", "s", type=int), StreamReader[int])
    assert_type(client.read_stream("run", "s", offset=3, timeout=1, follow=False, type=str), StreamReader[str])
    assert_type(next(client.read_stream("run", "s", type=str)), str)
    assert_type(app.read_stream("run", "s", resets=True, type=int), StreamReader[int | StreamReset])
    assert_type(app.read_stream("run", "s").offset, int)
    assert_type(app.get_all_stream_entries("run"), dict[str, list[Any]])
    app.read_stream("run", "s", 3)  # type: ignore[call-overload]


async def read_async(client: AsyncClient) -> None:
    assert_type(aapp.read_stream("run", "s"), AsyncStreamReader[Any])
    async for value in client.read_stream("run", "s", type=int):
        assert_type(value, int)
    async for item in aapp.read_stream("run", "s", resets=True, type=int):
        assert_type(item, int | StreamReset)
    await aapp.write_stream("s", 1)
    await aapp.close_stream("s")


async def dispatch_state(client: AsyncClient) -> None:
    assert_type(app.get_dispatch_state("service", "function", "key"), DispatchState | None)
    assert_type(await client.put_dispatch_state("service", "function", "key", "1", update_seq=1), DispatchState)
    app.put_dispatch_state("service", "function", "key", 1)  # type: ignore[arg-type]
