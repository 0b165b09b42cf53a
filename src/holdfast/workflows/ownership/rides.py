"""Claims that ride with entries, one at a time: those under way, and what they have brought that is not begun yet."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.db.session import Row
    from holdfast.workflows.enqueueing.claims import Ride


class Rides:
    """The one seat for a ride: taken on any thread, given up on the loop.

    What a ride may claim counts as running here until it is begun: a look meanwhile must not fill the same room.
    """

    def __init__(self) -> None:
        self._seat = threading.Lock()
        self._wanted = ("", 0)
        self._brought: list[tuple[Ride, list[Row]]] = []

    def take_seat(self) -> bool:
        """Return whether the seat was free, and is the caller's now."""
        return self._seat.acquire(blocking=False)

    def wants(self, queue_name: str, most: int) -> None:
        """Say, from the seat, that so many runs may be claimed. A look that begins after this counts them."""
        self._wanted = queue_name, most

    def leave(self) -> None:
        """Give the seat up without a claim."""
        self._wanted = "", 0
        self._seat.release()

    def over(self, ride: Ride, rows: list[Row]) -> None:
        """Give the seat up after a claim that has brought *rows*."""
        if rows:
            self._brought.append((ride, rows))
        else:
            self._wanted = "", 0
        self._seat.release()

    def brought(self) -> list[tuple[Ride, list[Row]]]:
        """Return what is to be begun now, once."""
        found, self._brought = self._brought, []
        if found:
            self._wanted = "", 0
        return found

    def most(self, queue_name: str | None = None) -> int:
        """Return how many runs, of one queue or of any, a ride may have claimed that are not begun."""
        name, most = self._wanted
        return most if queue_name in (name, None) else 0


__all__ = ["Rides"]
