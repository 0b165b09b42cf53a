"""The blocks of ``with breaker`` that a task or thread is inside of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from holdfast.resilience.trials import Trial

Block: TypeAlias = "tuple[Any, Trial | None, float, Any]"  # the breaker, its trial, when it began, the block around it


def innermost_of(breaker: object, innermost: Block | None) -> Block | None:
    """Return the innermost block of *breaker*, with all the others around it; None if it has none here.

    Generators leave their blocks in any order.
    """
    inside, block = [], innermost
    while block is not None and block[0] is not breaker:
        inside.append(block)
        block = block[3]
    if block is None:
        return None
    around = block[3]
    for each in reversed(inside):
        around = (*each[:3], around)
    return (*block[:3], around)


__all__ = ["Block", "innermost_of"]
