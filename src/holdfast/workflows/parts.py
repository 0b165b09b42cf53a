"""Many rows, cut into parts of a size that every server takes in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.db.pipeline.operation import weight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

T = TypeVar("T")

_MOST_AT_ONCE = 1_000
_BYTES_AT_ONCE = 4 * 1024 * 1024  # well below MariaDB's default max_allowed_packet of 16 MiB


def parts(wanted: Sequence[T], weigh: Callable[[T], int] | Callable[[Any], int] = weight) -> Iterator[Sequence[T]]:
    """Cut *wanted* into parts of a bounded number and size, in order; what is too large by itself is a part alone."""
    begin, size = 0, 0
    for place, each in enumerate(wanted):
        own = weigh(each)
        if place > begin and (place - begin == _MOST_AT_ONCE or size + own > _BYTES_AT_ONCE):
            yield wanted[begin:place]
            begin, size = place, 0
        size += own
    if wanted:
        yield wanted[begin:]
