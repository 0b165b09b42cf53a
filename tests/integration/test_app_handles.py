"""What ``wait_first`` and ``wait_all`` take: handles in anything that can be gone through, and nothing else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHoldfast, Client, Holdfast
from holdfast.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Callable


def test_handles_may_come_from_a_generator(fresh_database: Callable[[str], str]) -> None:
    app = Holdfast(fresh_database("sqlite"))

    @app.workflow
    def double(number: int) -> int:
        return 2 * number

    @app.workflow
    def first() -> int:
        return app.wait_first(double.start(number) for number in (4,)).result()

    @app.workflow
    def both() -> list[int]:
        return app.wait_all(double.start(number) for number in (1, 2))

    with app:
        assert app.wait_first(double.start(number) for number in (3,)).result() == 6
        assert app.wait_all(double.start(number) for number in (1, 2)) == [2, 4]
        assert first() == 8
        assert both() == [2, 4]


@pytest.mark.parametrize("verb", ["wait_first", "wait_all"])
def test_what_is_no_handle_is_refused_by_name(fresh_database: Callable[[str], str], verb: str) -> None:
    url = fresh_database("sqlite")
    app = Holdfast(url)

    @app.workflow
    def nothing() -> None:
        return None

    with app, Client(url) as client:
        wait: Callable[[Any], Any] = getattr(app, verb)
        handle = nothing.options(workflow_id="run").start()
        with pytest.raises(MisuseError, match=rf"{verb}\(\) takes handles in a list, .* not <Handle of run run>"):
            wait(handle)
        with pytest.raises(MisuseError, match=rf"{verb}\(\) takes handles in a list, .* not 'run'"):
            wait("run")
        with pytest.raises(MisuseError, match=rf"{verb}\(\) waits for handles, .* not for 'run'"):
            wait(["run"])
        with pytest.raises(MisuseError, match=rf"{verb}\(\) waits for handles, .* of the application"):
            wait([handle, client.retrieve_workflow("run")])


@pytest.mark.parametrize("verb", ["wait_first", "wait_all"])
def test_what_is_no_handle_is_refused_by_name_where_it_is_awaited(
    fresh_database: Callable[[str], str], verb: str
) -> None:
    app = AsyncHoldfast(fresh_database("sqlite"))

    @app.workflow
    async def nothing() -> None:
        return None

    async def main() -> None:
        async with app:
            wait: Callable[[Any], Any] = getattr(app, verb)
            with pytest.raises(MisuseError, match=rf"{verb}\(\) waits for handles, .* not for <coroutine"):
                await wait([starting := nothing.start()])
            starting.close()
            handles = [await nothing.start()]
            await wait(iter(handles))

    asyncio.run(main())
