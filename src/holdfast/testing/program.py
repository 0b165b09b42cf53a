"""What the program of a ``Worker`` hears and says: lines of JSON, on its standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

_speaking = threading.Lock()


def say(*words: Any) -> None:
    """Tell the test, at once, so that it is told by a program that is killed next; from any thread."""
    with _speaking:  # a pipe takes a long line in parts
        os.write(1, (json.dumps(words) + "\n").encode())


def obey(do: Callable[..., object]) -> None:
    """Have *do* carry out every command, each on a thread of its own; return when there will be no more."""
    for line in sys.stdin:
        threading.Thread(target=do, args=json.loads(line), daemon=True).start()


async def obey_on_loop(do: Callable[..., Coroutine[Any, Any, object]]) -> None:
    """Have *do* carry out every command, each as a task of this loop; when there will be no more, the program ends."""
    loop = asyncio.get_running_loop()

    def listen() -> None:
        for line in sys.stdin:
            asyncio.run_coroutine_threadsafe(do(*json.loads(line)), loop)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    await asyncio.Event().wait()


async def commands() -> AsyncIterator[list[Any]]:
    """Give the commands to whoever carries them out one after the other."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield json.loads(line)


__all__ = ["commands", "obey", "obey_on_loop", "say"]
