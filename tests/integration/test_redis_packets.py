"""What tasks ask of Redis goes in packets: each gets its own answer, and only what was under way is lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import QueryFailed, UnknownCommit
from holdfast.stores.redis import RedisLink

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.testing.servers.server import Server

TASKS = 200


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """A script that counts its calls and answers its argument, or fails if that is "wrong"."""
    script = tmp_path / "echo.lua"
    script.write_text(
        "redis.call('INCR', KEYS[1])\nif ARGV[1] == 'wrong' then error('no') end\nreturn ARGV[1]\n", "utf-8"
    )
    return script


async def _connections(link: RedisLink) -> int:
    return len(await link.client.client_list())


async def _kill_others(link: RedisLink) -> None:
    """End all other connections; when this is done the server has closed them."""
    while await _connections(link) > 1:
        await link.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def test_tasks_at_once_share_a_connection_and_get_their_own_answers(
    own_server: Callable[..., Server], echo: Path
) -> None:
    async def main() -> None:
        async with RedisLink(own_server("redis").url) as link:
            asking = [link.run(echo, ["count"], [b"%d" % number]) for number in range(TASKS)]
            assert await asyncio.gather(*asking) == [b"%d" % number for number in range(TASKS)]
            assert await link.client.get("count") == b"%d" % TASKS
            assert await _connections(link) == 2  # one of them is for whoever asks with the driver

    asyncio.run(main())


def test_more_tasks_read_at_once_than_the_driver_has_connections_for(fresh_database: Callable[[str], str]) -> None:
    async def main() -> None:
        async with RedisLink(fresh_database("redis")) as link:
            assert await asyncio.gather(*(link.read("get", "none") for _ in range(5 * TASKS))) == [None] * 5 * TASKS

    asyncio.run(main())


def test_large_answers_and_questions_reach_whom_they_are_for(fresh_database: Callable[[str], str], echo: Path) -> None:
    async def main() -> None:
        async with RedisLink(fresh_database("redis")) as link:
            large = [bytes([65 + number]) * 700_000 for number in range(8)]
            assert await asyncio.gather(*(link.run(echo, ["count"], [each]) for each in large)) == large

    asyncio.run(main())


def test_script_that_fails_fails_alone(fresh_database: Callable[[str], str], echo: Path) -> None:
    async def main() -> None:
        async with RedisLink(fresh_database("redis")) as link:
            words = ["one", "wrong", "two"]
            said = await asyncio.gather(*(link.run(echo, ["count"], [word]) for word in words), return_exceptions=True)
            assert [each for each in said if isinstance(each, bytes)] == [b"one", b"two"]
            assert isinstance(said[1], QueryFailed)

    asyncio.run(main())


def test_task_that_is_cancelled_takes_no_answer_of_others(fresh_database: Callable[[str], str], echo: Path) -> None:
    async def main() -> None:
        async with RedisLink(fresh_database("redis")) as link:
            await link.run(echo, ["count"], ["first"])
            asking = [asyncio.create_task(link.run(echo, ["count"], [f"{number}"])) for number in range(TASKS)]
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            for task in asking[1::3]:
                task.cancel()
            said = await asyncio.gather(*asking, return_exceptions=True)
            for number, each in enumerate(said):
                assert each == b"%d" % number or isinstance(each, asyncio.CancelledError)
            assert await link.run(echo, ["count"], ["last"]) == b"last"

    asyncio.run(main())


def test_connection_that_ended_at_rest_is_no_doubt_about_a_write(own_server: Callable[..., Server], echo: Path) -> None:
    async def main() -> None:
        url = own_server("redis").url
        async with RedisLink(url) as link, RedisLink(url) as other:
            for number in range(5):
                assert await link.run(echo, ["count"], [number]) == b"%d" % number
                await _kill_others(other)
            assert await other.client.get("count") == b"5"

    asyncio.run(main())


def test_answers_that_are_owed_are_lost_with_the_connection(own_server: Callable[..., Server], echo: Path) -> None:
    async def main() -> None:
        url = own_server("redis").url
        async with RedisLink(url) as link, RedisLink(url) as other:
            await link.run(echo, ["count"], ["first"])
            await other.client.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
            asking = [asyncio.create_task(link.run(echo, ["count"], [f"{number}"])) for number in range(5)]
            again = asyncio.create_task(link.run(echo, ["count"], ["again"], again=True))
            while not all(task.done() for task in asking):
                await _kill_others(other)
                await asyncio.sleep(0.01)
            await other.client.execute_command("CLIENT", "UNPAUSE")
            assert all(isinstance(task.exception(), UnknownCommit) for task in asking)
            assert await again == b"again"

    asyncio.run(main())


def test_link_that_is_closed_leaves_nobody_waiting(own_server: Callable[..., Server], echo: Path) -> None:
    async def main() -> list[Any]:
        url = own_server("redis").url
        async with RedisLink(url) as other:
            link = RedisLink(url)
            await link.initialize()
            await link.run(echo, ["count"], ["first"])
            await other.client.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
            waiting = [
                asyncio.create_task(link.run(echo, ["count"], ["x"], again=again)) for again in [False, True] * TASKS
            ]
            await asyncio.sleep(0)
            await link.close()
            said = await asyncio.gather(*waiting, return_exceptions=True)
            await other.client.execute_command("CLIENT", "UNPAUSE")
            return said

    assert {type(each) for each in asyncio.run(main())} == {UnknownCommit}
