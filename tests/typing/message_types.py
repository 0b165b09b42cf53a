"""What a type checker must say about messages and events. Checked by mypy, never run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

from holdfast import AsyncClient, AsyncHoldfast, Client, Holdfast, Message, NotificationInfo

app = Holdfast("sqlite:///x.sqlite")
aapp = AsyncHoldfast()
client = Client("x.sqlite")
aclient = AsyncClient("x.sqlite")


@dataclass
class Order:
    name: str


def blocking() -> None:
    assert_type(app.recv(), Any)
    assert_type(app.recv("topic", 3), Any)
    assert_type(app.recv("topic", timedelta(days=1), type=Order), Order | None)
    assert_type(app.recv(timeout=None, type=list[int]), list[int] | None)
    assert_type(app.get_event("run", "key"), Any)
    assert_type(app.get_event("run", "key", None, type=str), str | None)
    assert_type(client.get_event("run", "key"), Any)
    assert_type(client.get_event("run", "key", 3, type=Order), Order | None)
    assert_type(app.get_all_events("run"), dict[str, Any])
    assert_type(client.get_all_notifications("run"), list[NotificationInfo])
    app.send("run", Order("nails"), "topic", idempotency_key="key")
    app.send_many([Message("run", 1), Message("run", 2, topic="topic", idempotency_key="key")])
    client.send_many(Message("run", each) for each in range(3))
    app.set_event("key", Order("nails"))
    app.send("run", 1, "topic", "key")  # type: ignore[call-arg]
    app.send_many([("run", 1)])  # type: ignore[list-item]
    app.recv(3)  # type: ignore[call-overload]
    app.recv("topic", "long")  # type: ignore[call-overload]


async def awaited() -> None:
    assert_type(await aapp.recv(), Any)
    assert_type(await aapp.recv("topic", 3, type=Order), Order | None)
    assert_type(await aapp.get_event("run", "key", type=int), int | None)
    assert_type(await aclient.get_event("run", "key"), Any)
    assert_type(await aclient.get_event("run", "key", None, type=Order), Order | None)
    assert_type(await aapp.get_all_notifications("run"), list[NotificationInfo])
    assert_type(await aclient.get_all_events("run"), dict[str, Any])
    await aapp.send("run", 1)
    await aapp.send_many([Message("run", 1)])
    await aclient.send("run", 1, "topic", idempotency_key="key")
    await aapp.set_event("key", 1)
    await aapp.get_event("run")  # type: ignore[call-overload]
