"""Which checkpoints of a thread may go: pure decisions, the same for every backend."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.stores.threads.records import Place

_DELTAS = "counters_since_delta_snapshot"


class Bone(NamedTuple):
    """A checkpoint without its values: what must be known to decide which of a thread may go.

    *deltas* are the channels of which it has only the last change.
    """

    place: Place
    parent_id: str | None
    large: Mapping[str, str]
    deltas: frozenset[str]


def bone(place: Place, parent_id: str | None, metadata: str | bytes, large: Mapping[str, str]) -> Bone:
    """Return what must be known of a checkpoint."""
    return Bone(place, parent_id, large, deltas_of(metadata))


def deltas_of(metadata: str | bytes) -> frozenset[str]:
    """Return the channels of which a checkpoint has only the last change; metadata is Python's JSON, NaN and all."""
    return frozenset(json.loads(metadata).get(_DELTAS) or ()) if has_deltas(metadata) else frozenset()


def has_deltas(metadata: str | bytes) -> bool:
    """Return whether a checkpoint may have only the last change of a channel."""
    return (_DELTAS if isinstance(metadata, str) else _DELTAS.encode()) in metadata  # type: ignore[operator] # the same kind of text


def to_delete(bones: Iterable[Bone]) -> list[Place]:
    """Return all but the newest checkpoint of each namespace and the ancestors that one cannot be read without.

    A channel that is kept as a chain of changes is rebuilt from the nearest ancestor that has it whole.
    """
    all_bones = {bone.place: bone for bone in bones}
    newest: dict[tuple[str, str], Bone] = {}
    for bone in all_bones.values():
        spot = (bone.place.thread_id, bone.place.checkpoint_ns)
        if spot not in newest or bone.place.checkpoint_id > newest[spot].place.checkpoint_id:
            newest[spot] = bone
    kept = {place for bone in newest.values() for place in _needed(bone, all_bones)}
    return [place for place in all_bones if place not in kept]


def orphans(bones: Iterable[Bone], gone: Iterable[Place]) -> list[tuple[str, str, str, str]]:
    """Return the values (thread, namespace, channel, version) of those *gone* that no other checkpoint has.

    A value that none of the *bones* has is left alone: it may belong to a checkpoint that was put after they were read.
    """
    deleted = set(gone)
    theirs: set[tuple[str, str, str, str]] = set()
    others: set[tuple[str, str, str, str]] = set()
    for each in bones:
        thread_id, checkpoint_ns, _ = each.place
        into = theirs if each.place in deleted else others
        into.update((thread_id, checkpoint_ns, *item) for item in each.large.items())
    return sorted(theirs - others)


def _needed(bone: Bone, all_bones: Mapping[Place, Bone]) -> Iterable[Place]:
    missing = set(bone.deltas) - bone.large.keys()
    here: Bone | None = bone
    yield bone.place
    while missing and here is not None and here.parent_id is not None:
        here = all_bones.get(here.place._replace(checkpoint_id=here.parent_id))
        if here is not None:
            yield here.place
            missing -= here.large.keys()
