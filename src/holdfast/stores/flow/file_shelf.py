"""Flow checkpoints in a folder: a JSON file each, for people to read, and a list a flow.

The list is written before the checkpoint and after its removal, so it may name one that is not there, which is passed
over, and never misses one that is. Writers of all processes take turns under a lock; readers need none.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from holdfast.errors import DamagedCheckpoint
from holdfast.stores.files import file_name, make_folder, write_whole
from holdfast.stores.flow.memory import DONE, fits
from holdfast.stores.flow.shelf import Card, Put, Wanted

try:
    import fcntl
except ImportError:  # not a POSIX system: one process may write
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from holdfast.model.world import World

T = TypeVar("T")

logger = logging.getLogger("holdfast.flow")

_SUFFIX = ".json"
_TAIL = 8192  # bytes, more than a line of a list has


class _Document(msgspec.Struct):
    card: dict[str, Any]
    checkpoint: msgspec.Raw


_decode = msgspec.json.Decoder(_Document).decode


class Stored(NamedTuple):
    """What a file holds: the card, and who holds it until when."""

    card: Card
    token: str | None
    until: float


class FileShelf:
    """Cards in the folder *folder*: ``checkpoints/<id>.json`` and ``indexes/flow_<flow id>.json``."""

    def __init__(self, folder: Path, world: World) -> None:
        self._folder = folder
        self._checkpoints = folder / "checkpoints"
        self._indexes = folder / "indexes"
        self._world = world

    async def initialize(self) -> None:
        """Make the folders."""
        await asyncio.to_thread(self._make)

    async def close(self) -> None:
        """Do nothing: no file stays open."""

    async def put(self, card: Card, expected: int) -> Put:
        """Store a card; see ``Shelf``."""
        return await asyncio.to_thread(self._in_turn, lambda: self._put(card, expected))

    async def get(self, checkpoint_id: str) -> Card | None:
        """Return a card, or None."""
        stored = await asyncio.to_thread(self._read, checkpoint_id)
        return None if stored is None else stored.card

    async def delete(self, checkpoint_id: str) -> bool:
        """Remove a card; return whether there was one."""
        return await asyncio.to_thread(self._in_turn, lambda: self._delete([checkpoint_id]) > 0)

    async def query(self, wanted: Wanted) -> list[Card]:
        """Return cards, newest first. One that is damaged is left out, and said so."""
        return await asyncio.to_thread(self._query, wanted)

    async def skeleton(self, wanted: Wanted) -> list[Card]:
        """Return cards without their data."""
        return [card._replace(data=b"") for card in await self.query(wanted)]

    async def delete_all(self, cards: Sequence[Card]) -> int:
        """Remove those of *cards* that still have the same revision."""

        def still() -> int:
            found = ((card, self._read(card.id)) for card in cards)
            return self._delete([card.id for card, stored in found if stored and stored.card.revision == card.revision])

        return await asyncio.to_thread(self._in_turn, still)

    async def claim(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Let *token* hold a card; see ``Shelf``."""

        def taken() -> bool:
            stored = self._read(checkpoint_id)
            now = self._world.now()
            if stored is None or stored.card.status in DONE or (stored.token and stored.until > now):
                return False
            card = stored.card._replace(revision=stored.card.revision + 1)
            self._write(Stored(card, token, now + seconds))
            return True

        return await asyncio.to_thread(self._in_turn, taken)

    async def extend(self, checkpoint_id: str, token: str, seconds: float) -> bool:
        """Hold a card for *seconds* from now."""
        return await asyncio.to_thread(
            self._in_turn, lambda: self._hold(checkpoint_id, token, token, self._world.now() + seconds)
        )

    async def release(self, checkpoint_id: str, token: str) -> bool:
        """Let a card go."""
        return await asyncio.to_thread(self._in_turn, lambda: self._hold(checkpoint_id, token, None, 0.0))

    def _make(self) -> None:
        for folder in (self._folder, self._checkpoints, self._indexes):
            make_folder(folder)

    def _in_turn(self, work: Callable[[], T]) -> T:
        with self._turn():
            return work()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        descriptor = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _put(self, card: Card, expected: int) -> Put:
        there = self._read(card.id)
        if there is None:
            if expected:
                return Put.MISSING
            card = card._replace(sequence=self._note(card))
            self._write(Stored(card, None, 0.0))
            return Put.STORED
        if there.card.revision != expected or there.card.flow_id != card.flow_id:
            return Put.STALE
        kept = card._replace(sequence=there.card.sequence, created_at=there.card.created_at)
        self._write(there._replace(card=kept))
        return Put.STORED

    def _hold(self, checkpoint_id: str, token: str, then: str | None, until: float) -> bool:
        stored = self._read(checkpoint_id)
        if stored is None or stored.token != token or stored.until <= self._world.now():
            return False
        self._write(Stored(stored.card, then, until))
        return True

    def _delete(self, ids: Sequence[str]) -> int:
        """Remove files, then their names from the lists of their flows."""
        gone: dict[str, set[str]] = {}
        count = 0
        for checkpoint_id in ids:
            path = self._path(checkpoint_id)
            with suppress(FileNotFoundError, DamagedCheckpoint):
                stored = self._read(checkpoint_id)
                if stored is not None:
                    gone.setdefault(stored.card.flow_id, set()).add(checkpoint_id)
            with suppress(FileNotFoundError):
                path.unlink()
                count += 1
        for flow_id, removed in gone.items():
            lines = [line for line in self._index(self._index_path(flow_id)) if line[2] not in removed]
            text = "".join(json.dumps(line) + "\n" for line in lines)
            write_whole(self._index_path(flow_id), [text.encode()], self._world.new_id())
        return count

    def _note(self, card: Card) -> int:
        """Add a card to the list of its flow; return its place in the order of all cards there."""
        path = self._index_path(card.flow_id)
        sequence = max(int(self._world.now() * 1_000_000), self._last_sequence(path) + 1)
        line = json.dumps([sequence, card.created_at, card.id, card.flow_id]) + "\n"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return sequence

    def _last_sequence(self, path: Path) -> int:
        """Return the number in the last line; a line that a crash has cut short is ended, so that none joins it."""
        with suppress(FileNotFoundError), path.open("rb+") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            tail = file.read()
            if tail and not tail.endswith(b"\n"):
                file.write(b"\n")
            for line in reversed(tail.split(b"\n")):
                with suppress(ValueError, IndexError, TypeError):
                    return int(json.loads(line)[0])
        return 0

    def _query(self, wanted: Wanted) -> list[Card]:
        if wanted.flow_id is not None:
            lines = list(self._index(self._index_path(wanted.flow_id)))
        else:
            lines = [line for path in self._indexes.glob(f"flow_*{_SUFFIX}") for line in self._index(path)]
        lines.sort(key=lambda line: (line[1], line[0]), reverse=True)
        found: list[Card] = []
        for line in lines:
            if wanted.limit is not None and len(found) >= wanted.limit:
                break
            if wanted.before is not None and line[1] >= wanted.before:
                continue
            stored = self._readable(line[2])
            if stored is not None and fits(stored.card, wanted):
                found.append(stored.card)
        return found

    def _readable(self, checkpoint_id: str) -> Stored | None:
        try:
            return self._read(checkpoint_id)
        except DamagedCheckpoint as damaged:
            logger.warning("%s It is left out of the list.", damaged)
            return None

    def _index(self, path: Path) -> list[list[Any]]:
        """Return the lines of a list, made anew if it is damaged; a cut last line names what was never written."""
        try:
            lines = path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        except UnicodeDecodeError:
            return self._made_anew(path)
        entries: dict[str, list[Any]] = {}
        for place, line in enumerate(lines, 1):
            try:
                sequence, created_at, checkpoint_id, flow_id = json.loads(line)
                entries[checkpoint_id] = [int(sequence), str(created_at), checkpoint_id, flow_id]
            except (ValueError, TypeError):
                if line.strip() and place < len(lines):
                    return self._made_anew(path)
        return list(entries.values())

    def _made_anew(self, path: Path) -> list[list[Any]]:
        logger.warning("The list %s is damaged; it is made anew from the checkpoints themselves.", path)
        entries = []
        for file in self._checkpoints.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError, DamagedCheckpoint):
                card = self._read_file(file).card
                if self._index_path(card.flow_id) == path:
                    entries.append([card.sequence, card.created_at, card.id, card.flow_id])
        return entries

    def _write(self, stored: Stored) -> None:
        head = {**stored.card._asdict(), "claim_token": stored.token, "claim_until": stored.until}
        del head["data"]
        document = msgspec.json.encode({"card": head, "checkpoint": msgspec.Raw(stored.card.data)})
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
            token, until = head.pop("claim_token"), head.pop("claim_until")
            return Stored(Card(**head, data=bytes(document.checkpoint)), token, until)
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise DamagedCheckpoint(f"The file {path} is not what was written: {error}") from error

    def _path(self, checkpoint_id: str) -> Path:
        return self._checkpoints / file_name(checkpoint_id, _SUFFIX)

    def _index_path(self, flow_id: str) -> Path:
        return self._indexes / f"flow_{file_name(flow_id, _SUFFIX)}"
