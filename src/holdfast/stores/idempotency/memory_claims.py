"""Claims of keys in memory, by plain calls: nothing is waited for there, so no loop is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.stores.idempotency.claims import DONE, Claiming, claim_lost

if TYPE_CHECKING:
    from holdfast.model.world import World
    from holdfast.stores.idempotency.claims import Held
    from holdfast.stores.idempotency.entry import Kept
    from holdfast.stores.idempotency.memory import Memory

_FOREVER_MS = 100 * 365 * 86_400_000


class MemoryClaims(Claiming):
    """Claims of *memory*. They have no lease: the memory ends with the process, and whoever is at work with it.

    Results live for *ttl_ms*.
    """

    def __init__(self, memory: Memory, world: World, *, ttl_ms: int, waits: float) -> None:
        super().__init__(memory.new_token, world, waits=waits)
        self._memory = memory
        self._ttl_ms = ttl_ms

    def take(self, held: Held) -> Kept | None:
        """Claim the key if nobody has it. Return the claim, or the result there is; None if another is at it.

        ``KeyConflict`` if the key was used for something else.
        """
        held.is_ours = True  # perhaps: whoever is interrupted from here on has to drop it
        kept = self._memory.claim(held.key, held.mark, held.token, _FOREVER_MS, held.note)
        return kept if kept.token == held.token else self._found(held, kept)

    def keep(self, held: Held, data: str, headers: str = "{}") -> None:
        """End the claim with a result, JSON text as its headers."""
        if not self._memory.finish(held.key, held.token, held.token, (data, DONE, headers, self._ttl_ms)):
            raise claim_lost(held.key)

    def drop(self, held: Held) -> None:
        """Give the key back without a result; nothing happens if another has it."""
        self._memory.release(held.key, held.token)


__all__ = ["MemoryClaims"]
