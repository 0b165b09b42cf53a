"""Reading checkpoints from a database: what is asked, and what comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import DamagedCheckpoint
from holdfast.stores.threads.records import Found, LargeValue, Place, Saved, Span, Write, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.db.session import Row

_CHECKPOINT, _VALUE = 0, 1  # the parts of an answer
_pairs = msgspec.json.Decoder(list[tuple[str, str]]).decode


def page_values(span: Span, after: Place | None, most: int) -> dict[str, Any]:
    """Return the parameters of ``thread_page``."""
    given: dict[str, Any] = {name: value for name, value in span._asdict().items() if value is not None}
    if after is not None:
        given |= {"after_id": after.checkpoint_id, "after_thread": after.thread_id, "after_ns": after.checkpoint_ns}
    return {**given, "most": most}


def large_of(text: str) -> dict[str, str]:
    """Return the versions of the large values of a checkpoint."""
    return {} if text == "[]" else dict(_pairs(text))


def newest_first(places: Iterable[Place]) -> list[Place]:
    """Return *places* in the order in which pages come: what has the same id by thread and namespace."""
    return sorted(sorted(places), key=lambda place: place.checkpoint_id, reverse=True)


def found_in(thread_id: str, checkpoint_ns: str, row: Row) -> Found:
    """Make a checkpoint of the row that ``thread_find`` returned."""
    place = Place(thread_id, checkpoint_ns, row["checkpoint_id"])
    large = large_of(row["large"])
    saved = Saved(place, row["parent_id"], None, row["format"], row["data"], row["metadata"], large)
    values = tuple([LargeValue(*each) for each in row["large_values"] or ()])
    return Found(saved, values, in_order([Write(*each) for each in row["writes"]]))


def together(rows: Sequence[Row]) -> list[Found]:
    """Make checkpoints of the parts of an answer."""
    saved: dict[Place, Saved] = {}
    values: dict[tuple[str, ...], LargeValue] = {}
    writes: dict[Place, list[Write]] = {}
    for row in rows:
        thread_id, checkpoint_ns, name, other = row["thread_id"], row["checkpoint_ns"], row["name"], row["other"]
        if row["part"] == _CHECKPOINT:
            place = Place(thread_id, checkpoint_ns, name)
            large = large_of(row["large"])
            saved[place] = Saved(place, other, None, row["format"], row["data"], row["metadata"], large)
        elif row["part"] == _VALUE:
            values[thread_id, checkpoint_ns, name, other] = LargeValue(name, other, row["format"], row["data"])
        else:
            write = Write(other, row["idx"], row["channel"], row["format"], row["data"], row["metadata"])
            writes.setdefault(Place(thread_id, checkpoint_ns, name), []).append(write)
    return [
        Found(
            saved[place],
            tuple(values[key] for item in saved[place].large.items() if (key := (*place[:2], *item)) in values),
            in_order(writes.get(place, [])),
        )
        for place in newest_first(saved)
    ]


def incomplete(found: Found) -> DamagedCheckpoint:
    """Return what is told of a checkpoint some of whose large values are gone."""
    gone = found.saved.large.keys() - {value.channel for value in found.values}
    return damaged(found.saved.place, f"its values of {', '.join(map(repr, sorted(gone)))} are gone")


def damaged(place: Place, why: str) -> DamagedCheckpoint:
    """Return what is told of a checkpoint that is there and cannot be read."""
    thread_id, checkpoint_ns, checkpoint_id = place
    return DamagedCheckpoint(
        f"The checkpoint {checkpoint_id} of the thread {thread_id!r}, namespace {checkpoint_ns!r}, cannot be read: "
        f"{why}. Go on from an older checkpoint by its id, or delete the thread."
    )
