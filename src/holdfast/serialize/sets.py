"""Whether the sets of a value are written in the same order by every process.

The encoder sorts a set by comparing its members. Of two frozensets neither need be less, and nothing is less than NaN:
such a set comes out as the hashes of its process have it.
"""

from __future__ import annotations

from itertools import chain, pairwise
from operator import lt
from typing import TYPE_CHECKING, Any

from holdfast.serialize.walk import field_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_SETS = (set, frozenset)
_LEAVES: frozenset[type] = frozenset({str, int, float, bool, bytes, type(None)})
_SIGNS = (b"[[", b"[{", b"null")  # where members of a set are containers, or one is NaN


def are_in_order(parts: Iterable[Any], written: bytes) -> bool:
    """Say whether the sets in *parts*, which the encoder has *written* sorted, are so in every process.

    Who compares the members of a set raises what their comparison raises.
    """
    if written.find(b"[", 2) < 0 or not any(written.find(sign, 2) >= 0 for sign in _SIGNS):
        return True  # as most are, without a look at them
    level = list(parts)
    while not (kinds := set(map(type, level))) <= _LEAVES:
        inside = level if kinds.isdisjoint(_LEAVES) else [part for part in level if type(part) not in _LEAVES]
        if not all(_is_in_order(part) for part in inside if isinstance(part, _SETS)):
            return False
        level = list(chain.from_iterable(map(_inside, inside)))
    return True


def _is_in_order(members: Collection[Any]) -> bool:
    """Say whether there is one order in which each member is less than the next."""
    return len(members) < 2 or all(lt(*two) for two in pairwise(sorted(members)))


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    return [getattr(value, name, None) for name in field_names(type(value)) or ()]


__all__ = ["are_in_order"]
