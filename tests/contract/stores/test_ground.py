"""The ground the suites of the stores stand on: the clock of each backend moves when it is told to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.stores import tokens
from holdfast.stores.blocking import Blocking

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb", "redis", "memory")


class Store:
    """The smallest store: it claims, and says what is held."""

    async def claim(self, item: str) -> None:
        tokens.hold(("probe", item), f"token of {item}")

    async def holder(self, item: str) -> str | None:
        return tokens.held(("probe", item))


class SyncStore(Blocking):
    """The same, without an event loop."""

    def __init__(self, store: Store, portal: Any) -> None:
        super().__init__(portal)
        self._store = store

    def claim(self, item: str) -> None:
        self._call(self._store.claim(item))

    def holder(self, item: str) -> str | None:
        return self._call(self._store.holder(item))


def test_token_of_a_claim_is_held_by_whoever_claimed(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        store = ground.face(Store(), SyncStore)
        await store.claim("a")
        assert await store.holder("a") == "token of a"
        assert await store.holder("b") is None

    store_venue.play(scene)


def test_clock_moves(store_venue: StoreVenue, tmp_path: Path) -> None:
    script = tmp_path / "now.lua"
    script.write_text("return now_ms()")

    async def now(ground: Ground) -> float:
        if store_venue.is_sql:
            [row] = await ground.fetch(f"SELECT ({ground.clock_offset_ms}) AS ms")
            return float(row["ms"]) / 1000
        if store_venue.name == "redis":
            link = await ground.link()
            return float(await ground.on_loop(link.run(script, [], again=True))) / 1000
        return ground.world.now()

    async def scene(ground: Ground) -> None:
        before = await now(ground)
        await ground.advance(3600)
        assert await now(ground) >= before + 3600

    store_venue.play(scene)
