"""Flow checkpoints in Redis: a hash each, and sorted sets they are found by. Every change is one script."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from holdfast import faults
from holdfast.errors import UnknownCommit
from holdfast.stores.flow.model import CheckpointStatus
from holdfast.stores.flow.shelf import Card, Put, Wanted
from holdfast.stores.redis import unmoved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model.world import World
    from holdfast.stores.redis import RedisLink

_LUA = Path(__file__).with_name("lua")
_PUT, _GET, _DELETE, _QUERY, _CLAIM = (_LUA / f"{name}.lua" for name in ("put", "get", "delete", "query", "claim"))
_AT_ONCE = 500


class RedisShelf:
    """Cards under keys that begin with *prefix*, whose hash tag keeps all of them in one place of a cluster.

    The checkpoints of a run that has ended go after *ttl* seconds, all together; none goes that waits, and none of a
    run that goes on.
    """

    def __init__(self, link: RedisLink, world: World, *, prefix: str, ttl: int | None) -> None:
        self._link = link
        self._world = world
        self._prefix = prefix
        self._unmoved = unmoved(prefix)
        self._ttl = ttl

    async def initialize(self) -> None:
        """Connect."""
        await self._link.initialize()

    async def close(self) -> None:
        """End the connections."""
        await self._link.close()

    async def put(self, card: Card, expected: int) -> Put:
        """Store a card; see ``Shelf``. The script knows its own write again, so that a lost reply is asked for."""
        return await self._put(card, expected, card.id, "", 0)

    async def follow(self, card: Card, before: str, token: str, seconds: float) -> Put:
        """Store a card and pass the claim on to it; see ``Shelf``."""
        return await self._put(card, 0, before, token, seconds)

    async def get(self, checkpoint_id: str) -> Card | None:
        """Return a card, or None."""
        values = await self._link.look(_GET, [self._key(checkpoint_id)], [*_FIELDS, "data"])
        return None if values[0] is None else _card(values)

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a card; see ``Shelf``."""
        keys, args = [self._key(checkpoint_id), self._unmoved], [self._prefix, ""]
        try:
            return bool(await self._link.run(_DELETE, keys, args))
        except UnknownCommit:
            await self._link.run(_DELETE, keys, args, again=True)
            return True

    async def query(self, wanted: Wanted) -> list[Card]:
        """Return cards, newest first."""
        return await self._find(wanted, whole=True)

    async def skeleton(self, wanted: Wanted) -> list[Card]:
        """Return cards without their data."""
        return await self._find(wanted, whole=False)

    async def delete_all(self, cards: Sequence[Card]) -> int:
        """Remove those of *cards* that still have the same revision, and that nobody holds."""
        gone = 0
        for at in range(0, len(cards), _AT_ONCE):
            some = cards[at : at + _AT_ONCE]
            keys = [*(self._key(card.id) for card in some), self._unmoved]
            gone += await self._link.run(_DELETE, keys, [self._prefix, *(card.revision for card in some)])
        return gone

    async def claim(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Let *token* hold a card; see ``Shelf``."""
        return await self._hold("claim", checkpoint_id, token, seconds)

    async def extend(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Hold a card for *seconds* from now."""
        return await self._hold("extend", checkpoint_id, token, seconds)

    async def release(self, checkpoint_id: str, token: str) -> bool:
        """Let a card go."""
        return await self._hold("release", checkpoint_id, token, 0)

    async def _put(self, card: Card, expected: int, before: str, token: str, seconds: float) -> Put:
        status = CheckpointStatus(card.status)
        args = (
            *(self._prefix, expected, card.id, _named(card.flow_id), _named(card.run_id), _named(card.wf_run_id)),
            *(card.status, card.parent_id or "", card.created_at, _microseconds(card.created_at), card.updated_at),
            *(card.resume_at or "", "" if card.resume_at is None else _microseconds(card.resume_at), card.revision),
            *(card.data, self._world.new_id(), self._ttl or 0, int(status.has_ended), int(status.waits)),
            *(token, round(seconds * 1000)),
        )
        keys = [self._key(card.id), f"{self._prefix}sequence", self._key(before), self._unmoved]
        outcome = Put[(await self._link.run(_PUT, keys, args, again=True)).decode().upper()]
        faults.point("flow.stored")
        return outcome

    async def _hold(self, verb: str, checkpoint_id: str, token: str, seconds: float) -> bool:
        args = [verb, token, round(seconds * 1000)]
        try:
            done = bool(await self._link.run(_CLAIM, [self._key(checkpoint_id)], args, again=verb != "release"))
        except UnknownCommit:  # of a release: done twice it is done
            await self._link.run(_CLAIM, [self._key(checkpoint_id)], args, again=True)
            return True
        if verb == "claim":
            faults.point("flow.claimed")
        return done

    async def _find(self, wanted: Wanted, *, whole: bool) -> list[Card]:
        due = wanted.due_at is not None
        highest = f"({_microseconds(wanted.before)}" if wanted.before is not None else "+inf"
        if wanted.due_at is not None:
            highest = str(_microseconds(wanted.due_at))
        flow = "" if wanted.flow_id is None else _named(wanted.flow_id)
        single = wanted.status[0] if wanted.status is not None and len(wanted.status) == 1 else ""
        args = [self._prefix, highest, -1 if wanted.limit is None else wanted.limit, single, int(whole), int(due), flow]
        keys = [self._index(wanted, single), self._unmoved]
        return [_card(row) for row in await self._link.look(_QUERY, keys, args)]

    def _index(self, wanted: Wanted, single: str) -> str:
        """Return the set in which all wanted ones are, and few others."""
        if wanted.due_at is not None:
            return f"{self._prefix}due"
        if wanted.run_id is not None:
            return f"{self._prefix}run:{_named(wanted.run_id)}"
        if wanted.flow_id is None or (wanted.status is not None and not single):
            return f"{self._prefix}waiting"
        flow = f"{self._prefix}flow:{_named(wanted.flow_id)}"
        return f"{flow}:status:{single}" if single else f"{flow}:checkpoints"

    def _key(self, checkpoint_id: str) -> str:
        return f"{self._prefix}checkpoint:{checkpoint_id}"


_FIELDS = (
    *("id", "flow_id", "run_id", "wf_run_id", "status", "parent_id", "created_at", "updated_at", "resume_at"),
    *("revision", "member"),
)


def _card(values: Sequence[Any]) -> Card:
    texts = [value.decode() for value in values[:11]]
    data = values[11] if len(values) > 11 else b""
    checkpoint_id, flow, run, whole, status, parent, created, updated, resume, revision, member = texts
    return Card(
        checkpoint_id,
        unquote(flow),
        unquote(run),
        unquote(whole),
        status,
        parent or None,
        created,
        updated,
        resume or None,
        int(revision),
        data,
        int(member[:20]),
    )


def _named(text: str) -> str:
    """Return an id as it stands between the colons of a key, so that no two ids meet in one."""
    return quote(text, safe="")


def _microseconds(moment: str) -> int:
    return round(datetime.fromisoformat(moment).timestamp() * 1_000_000)


__all__ = ["RedisShelf"]
