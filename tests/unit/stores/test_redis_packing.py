"""Commands to Redis are the same bytes that the driver would send."""

from __future__ import annotations

from typing import Any

import pytest
from redis.connection import Connection

from holdfast.stores.redis_packets import packed

COMMANDS = [
    ("PING",),
    ("EVALSHA", "0" * 40, 1, "{holdfast}:", b"\x00\r\n\xff", "", 0, -1, 10**18),
    ("SET", "käy", "\N{SNOWMAN}" * 3, "PX", 120_000),
    ("HSET", "key", "long", b"x" * 100_000),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
def test_command_is_packed_as_the_driver_packs_it(command: tuple[str | bytes | int, ...]) -> None:
    driver: Any = Connection
    assert packed(command) == b"".join(driver().pack_command(*command))


def test_text_that_is_no_text_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        packed(("SET", "key", "\ud800"))
