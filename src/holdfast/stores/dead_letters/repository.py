"""Failed operations, async: one class over any storage, with every documented method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.durations import SHORTEST_LEASE, checked_seconds
from holdfast.stores.dead_letters.keeping import Keeping
from holdfast.stores.dead_letters.looking import Looking
from holdfast.stores.dead_letters.records import Records
from holdfast.stores.dead_letters.replaying import Replaying

if TYPE_CHECKING:
    from holdfast.model.workflow import Duration
    from holdfast.model.world import World
    from holdfast.stores.dead_letters.shelf import Shelf

DEFAULT_LEASE = 1800.0


class AsyncFailedOperationRepository(Records, Replaying, Looking, Keeping):
    """Failed operations on a *shelf*, which is a storage of one's own, or that of one of the classes below this.

    *lease* is for how many seconds a replay holds an operation that would otherwise be due by itself.
    """

    def __init__(self, shelf: Shelf, *, lease: Duration = DEFAULT_LEASE, world: World | None = None) -> None:
        super().__init__(shelf, lease=checked_seconds(lease, "lease", least=SHORTEST_LEASE), world=world)


__all__ = ["DEFAULT_LEASE", "AsyncFailedOperationRepository"]
