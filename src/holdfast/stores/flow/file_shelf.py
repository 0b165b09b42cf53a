"""Flow checkpoints in a folder: a JSON file each, for people to read, and a list a flow.

A checkpoint stands in the list before its file is written and until after it is removed, so the list may name one that
is not there, which is passed over, and never misses one that is. A list that was damaged or lost is made anew. Writers
of all processes take turns under a lock; readers need none.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from holdfast import faults
from holdfast.errors import DamagedCheckpoint
from holdfast.stores.files import alone_in, file_name, make_folder, remove_abandoned, sync_folder, write_whole
from holdfast.stores.flow.file_index import (
    DamagedIndex,
    Entry,
    add_to_index,
    last_sequence,
    read_index,
    take_from_index,
    write_index,
)
from holdfast.stores.flow.memory import DONE, fits, in_order
from holdfast.stores.flow.shelf import Card, Put, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from holdfast.model.world import World

T = TypeVar("T")

logger = logging.getLogger("holdfast.flow")

SUFFIX = ".json"


class _Document(msgspec.Struct):
    card: dict[str, Any]
    checkpoint: msgspec.Raw


_decode = msgspec.json.Decoder(_Document).decode


class Stored(NamedTuple):
    """What a file holds: the card, and who holds it until when."""

    card: Card
    token: str | None = None
    until: float = 0.0


class FileShelf:
    """Cards in the folder *folder*: ``checkpoints/<id>.json`` and ``indexes/flow_<flow id>.json``.

    Files are read and written by threads beside the loop, or *here*, by the thread that asks, which no loop serves.
    """

    def __init__(self, folder: Path, world: World, *, here: bool = False) -> None:
        self._here = here
        self._folder = folder
        self._checkpoints = folder / "checkpoints"
        self._indexes = folder / "indexes"
        self._world = world

    async def initialize(self, *, mend: bool = True) -> None:
        """Make the folders, and remove what was left in them by writers that died; *mend* the lists."""
        await self._done(self._make)
        if mend:
            await self._done(self._lists)

    async def close(self) -> None:
        """Do nothing: no file stays open."""

    async def put(self, card: Card, expected: int) -> Put:
        """Store a card; see ``Shelf``."""
        return await self._in_turn(lambda: self._put(Stored(card), expected))

    async def follow(self, card: Card, before: str, token: str, seconds: float) -> Put:
        """Store a card and pass the claim on to it; see ``Shelf``.

        The new one is written first: a crash in between leaves both held by whoever is gone, until the lease ends.
        """

        def followed() -> Put:
            parent = self._held(before, token)
            if parent is None:
                return Put.LOST
            outcome = self._put(Stored(card, token, self._world.now() + seconds), 0)
            if outcome is Put.STORED:
                self._write(Stored(parent.card))
            return outcome

        return await self._in_turn(followed)

    async def get(self, checkpoint_id: str) -> Card | None:
        """Return a card, or None."""
        stored = await self._done(lambda: self._read(checkpoint_id))
        return None if stored is None else stored.card

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a card; return whether there was one."""
        return await self._in_turn(lambda: self._delete([checkpoint_id]) > 0)

    async def query(self, wanted: Wanted) -> list[Card]:
        """Return cards, newest first; those of damaged files too, which have no data and count towards no limit."""
        return await self._done(lambda: self._query(wanted))

    async def skeleton(self, wanted: Wanted) -> list[Card]:
        """Return cards without their data, and none of a damaged file."""
        return [card._replace(data=b"") for card in await self.query(wanted) if card.data]

    async def delete_all(self, cards: Sequence[Card]) -> int:
        """Remove those of *cards* that still have the same revision, and that nobody holds."""

        def still() -> int:
            now = self._world.now()
            found = ((card, self._read(card.id)) for card in cards)
            same = [stored for card, stored in found if stored and stored.card.revision == card.revision]
            return self._delete([stored.card.id for stored in same if not stored.token or stored.until <= now])

        return await self._in_turn(still)

    async def claim(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Let *token* hold a card; see ``Shelf``."""

        def taken() -> bool:
            stored = self._read(checkpoint_id)
            now = self._world.now()
            if stored is None or stored.card.status in DONE or (stored.token and stored.until > now):
                return False
            card = stored.card._replace(revision=stored.card.revision + 1)
            self._write(Stored(card, token, now + seconds))
            faults.point("flow.claimed")
            return True

        return await self._in_turn(taken)

    async def extend(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Hold a card for *seconds* from now."""
        return await self._in_turn(lambda: self._hold(checkpoint_id, token, token, self._world.now() + seconds))

    async def release(self, checkpoint_id: str, token: str) -> bool:
        """Let a card go."""
        return await self._in_turn(lambda: self._hold(checkpoint_id, token, None, 0.0))

    def _make(self) -> None:
        for folder in (self._folder, self._checkpoints, self._indexes):
            make_folder(folder)
        with alone_in(self._folder):  # so nobody writes now, and what is half written is somebody's who died
            for folder in (self._checkpoints, self._indexes):
                remove_abandoned(folder)

    async def _in_turn(self, work: Callable[[], T]) -> T:
        return await self._done(lambda: self._alone(work))

    async def _done(self, work: Callable[[], T]) -> T:
        return work() if self._here else await asyncio.to_thread(work)

    def _alone(self, work: Callable[[], T]) -> T:
        with alone_in(self._folder):
            return work()

    def _put(self, new: Stored, expected: int) -> Put:
        card = new.card
        there = self._read(card.id)
        if there is None:
            if expected:
                return Put.MISSING
            path = self._index_path(card.flow_id)
            sequence = max(int(self._world.now() * 1_000_000), last_sequence(path) + 1)
            add_to_index(path, Entry(card.id, card.created_at, sequence, card.flow_id))
            faults.point("flow.listed")
            self._write(new._replace(card=card._replace(sequence=sequence)))
        elif there.card.revision != expected or there.card.flow_id != card.flow_id:
            return Put.STALE
        else:
            kept = card._replace(sequence=there.card.sequence, created_at=there.card.created_at)
            self._write(there._replace(card=kept))
        faults.point("flow.stored")
        return Put.STORED

    def _held(self, checkpoint_id: str, token: str) -> Stored | None:
        """Return what *token* holds; None if it does not hold it."""
        stored = self._read(checkpoint_id)
        held = stored is not None and stored.token == token and stored.until > self._world.now()
        return stored if held else None

    def _hold(self, checkpoint_id: str, token: str, then: str | None, until: float) -> bool:
        stored = self._held(checkpoint_id, token)
        if stored is None:
            return False
        self._write(Stored(stored.card, then, until))
        return True

    def _delete(self, ids: Sequence[str]) -> int:
        """Remove files, durably, then their names from the lists of their flows."""
        gone: dict[str, set[str]] = {}
        count = 0
        for checkpoint_id in ids:
            with suppress(DamagedCheckpoint):  # its list goes on naming it, and passes it over
                stored = self._read(checkpoint_id)
                if stored is not None:
                    gone.setdefault(stored.card.flow_id, set()).add(checkpoint_id)
            with suppress(FileNotFoundError):
                self._path(checkpoint_id).unlink()
                count += 1
        if count:
            sync_folder(self._checkpoints)
        faults.point("flow.removed")
        for flow_id, removed in gone.items():
            self._unlist(self._index_path(flow_id), removed)
        return count

    def _unlist(self, path: Path, removed: Collection[str]) -> None:
        """Take names from a list: one with a line of its own, which is quick, many by writing the list anew."""
        if len(removed) == 1 and not all(take_from_index(path, each) for each in removed):
            return
        try:
            entries = read_index(path)
        except DamagedIndex:
            entries = self._mended().get(path, [])
        write_index(path, (entry for entry in entries if entry.id not in removed), self._world.new_id())

    def _query(self, wanted: Wanted) -> list[Card]:
        if wanted.flow_id is not None:
            entries = self._entries(self._index_path(wanted.flow_id))
        else:
            entries = [entry for listed in self._lists().values() for entry in listed]
        entries.sort(key=lambda entry: (entry.created_at, entry.sequence), reverse=True)
        found: list[Card] = []
        whole = 0
        for entry in entries:
            if wanted.limit is not None and wanted.due_at is None and whole >= wanted.limit:
                break
            if wanted.before is not None and entry.created_at >= wanted.before:
                continue
            card = self._card(entry)
            if card is not None and fits(card, wanted):
                found.append(card)
                whole += bool(card.data)
        return found if wanted.due_at is None else in_order(found, wanted)

    def _card(self, entry: Entry) -> Card | None:
        """Return the card that a list names; if its file is damaged, one made of what can be read of its head."""
        try:
            stored = self._read(entry.id)
        except DamagedCheckpoint:
            return self._head(entry)
        return None if stored is None else stored.card

    def _head(self, entry: Entry) -> Card:
        head: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            content = self._path(entry.id).read_text(errors="replace")
            head, _ = json.JSONDecoder().raw_decode(content, content.index("{", content.index('"card":')))
        if head.get("id") != entry.id:
            head = {}
        run, whole, status = (str(head.get(name, "")) for name in ("run_id", "wf_run_id", "status"))
        at = entry.created_at
        return Card(entry.id, entry.flow_id, run, whole, status, None, at, at, None, 0, b"", entry.sequence)

    def _entries(self, path: Path) -> list[Entry]:
        with suppress(DamagedIndex):
            return read_index(path)
        return self._lists().get(path, [])

    def _lists(self) -> dict[Path, list[Entry]]:
        """Return all lists; those that are damaged or lack a checkpoint are made anew."""
        lists, anew = self._compared()
        return self._alone(self._mended) if anew else lists

    def _mended(self) -> dict[Path, list[Entry]]:
        """Do as ``_lists``, in turn."""
        lists, anew = self._compared()
        for path, entries in anew.items():
            logger.warning("The list %s is damaged; it is made anew from the checkpoints themselves.", path)
            write_index(path, entries, self._world.new_id())
        return lists | anew

    def _compared(self) -> tuple[dict[Path, list[Entry]], dict[Path, list[Entry]]]:
        """Return all lists as they are; and those that are damaged or lack a checkpoint, as they should be."""
        # Before the lists: what is saved meanwhile stands in its list first, and what is deleted cannot be read later.
        files = {file.name for file in self._checkpoints.glob(f"*{SUFFIX}")}
        lists: dict[Path, list[Entry]] = {}
        anew: dict[Path, list[Entry]] = {}
        for path in self._indexes.glob(f"flow_*{SUFFIX}"):
            try:
                lists[path] = read_index(path)
            except DamagedIndex:
                anew[path] = []
        files.difference_update(file_name(entry.id, SUFFIX) for entries in lists.values() for entry in entries)
        for name in files:
            with suppress(FileNotFoundError, DamagedCheckpoint):
                card = self._read_file(self._checkpoints / name).card
                path = self._index_path(card.flow_id)
                entry = Entry(card.id, card.created_at, card.sequence, card.flow_id)
                anew.setdefault(path, list(lists.get(path, []))).append(entry)
        for entries in anew.values():
            entries.sort(key=lambda entry: entry.sequence)
        return lists, anew

    def _write(self, stored: Stored) -> None:
        data = stored.card.data
        head = {**stored.card._asdict(), "claim_token": stored.token, "claim_until": stored.until}
        head["data"] = hashlib.sha256(data).hexdigest()
        document = msgspec.json.encode({"card": head, "checkpoint": msgspec.Raw(data)})
        write_whole(self._path(stored.card.id), [msgspec.json.format(document, indent=2)], self._world.new_id())

    def _read(self, checkpoint_id: str) -> Stored | None:
        path = self._path(checkpoint_id)
        try:
            stored = self._read_file(path)
        except FileNotFoundError:
            return None
        if stored.card.id != checkpoint_id:
            raise DamagedCheckpoint(f"The file {path} holds the checkpoint {stored.card.id!r}, not {checkpoint_id!r}.")
        return stored

    def _read_file(self, path: Path) -> Stored:
        content = path.read_bytes()
        try:
            document = _decode(content)
            head = dict(document.card)
            token, until, checksum = head.pop("claim_token"), head.pop("claim_until"), head.pop("data")
            data = msgspec.json.format(bytes(document.checkpoint), indent=-1)
            card = Card(**head, data=data)
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise DamagedCheckpoint(f"The file {path} is not what was written: {error}") from error
        if hashlib.sha256(data).hexdigest() != checksum:
            raise DamagedCheckpoint(f"The file {path} is not what was written: its checksum does not fit.")
        return Stored(card, token, until)

    def _path(self, checkpoint_id: str) -> Path:
        return self._checkpoints / file_name(checkpoint_id, SUFFIX)

    def _index_path(self, flow_id: str) -> Path:
        return self._indexes / f"flow_{file_name(flow_id, SUFFIX)}"


__all__ = ["SUFFIX", "FileShelf"]
