"""``holdfast breakers`` as it is typed, on every backend that processes share: what an operator says, all see."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from holdfast.cli import main
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_breakers_shared import fleet, play

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb", "redis")


def _typed(ground: Ground, *words: str) -> Any:
    where = ["--url", ground.venue.url, "--json"] + (
        ["--prefix", ground.prefix] if ground.venue.name == "redis" else []
    )
    done = CliRunner().invoke(main, ["breakers", *words, *where])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return json.loads(done.stdout)


def test_operators_command_holds_in_a_process_that_runs(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        async def typed(*words: str) -> Any:
            return await asyncio.to_thread(_typed, ground, *words)

        [process] = await fleet(ground, 1)
        await process.call()
        opened = await typed("open", "api", "--for", "30m", "--reason", "maintenance", "--by", "7")
        assert (opened["state"], opened["control_reason"], opened["controlled_by_id"]) == ("open", "maintenance", 7)
        await process.until("open")
        assert "maintenance" in str(await process.refused())
        assert [each["service_name"] for each in (await typed("list", "--open"))["breakers"]] == ["api"]
        await typed("close", "api", "--reason", "it works")
        await process.until("closed")
        assert (await typed("show", "api"))["manually_controlled"] is True
        await typed("reset", "api")
        events = [each["event"] for each in (await typed("history", "api"))["history"]]
        assert events == ["reset", "forced_close", "forced_open"]

    if store_venue.colour is Colour.ASYNC:
        play(store_venue, scene)
    else:  # the command is the same for both colours: here it is the listing for people
        play(store_venue, _listing)


async def _listing(ground: Ground) -> None:
    [process] = await fleet(ground, 1)
    await process.breakers.trip_to_open("api", 5)
    where = ["--prefix", ground.prefix] if ground.venue.name == "redis" else []
    words = ["breakers", "list", "--url", ground.venue.url, *where]
    done = await asyncio.to_thread(CliRunner().invoke, main, words)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line[:2] for line in lines] == [["breaker", "state"], ["api", "open"]]
