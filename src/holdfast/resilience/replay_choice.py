"""Which dead letters are replayed, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.core.numbers import count, number
from holdfast.core.texts import demand_text
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.model.world import World

CONCURRENCY = 32


@dataclass(frozen=True, slots=True)
class Selection:
    """Which letters are replayed: one by its *id*, or those that fit."""

    id: str | None = None
    domain: str | None = None
    status: str | None = None
    failure_type: str | None = None
    limit: int | None = None

    def check(self, *, force: bool) -> None:
        """Raise ``ConfigurationError`` for what makes no sense."""
        if self.id is not None:
            demand_text("The id of a dead letter", self.id)
            if any(each is not None for each in (self.domain, self.status, self.failure_type, self.limit)):
                raise ConfigurationError("A dead letter is named by its id or by filters, not by both.")
        if self.status not in {None, "pending"} and not (force and self.status == "requires_review"):
            raise ConfigurationError(
                f"Letters in {self.status!r} are not replayed: pending ones are, and with force=True those that "
                "require review."
            )
        if self.limit is not None:
            count(self.limit, "limit")

    def statuses(self, *, force: bool) -> tuple[str, ...]:
        """Return the statuses that are gone through, in this order."""
        if self.status is not None:
            return (self.status,)
        return ("pending", "requires_review") if force else ("pending",)


@dataclass(frozen=True, slots=True)
class Manner:
    """How letters are replayed: at most *rate* a second are begun, at most *concurrency* at once."""

    dry_run: bool = False
    force: bool = False
    rate: float | None = None
    concurrency: int = CONCURRENCY
    resolved_by_id: int | None = None

    def check(self) -> None:
        """Raise ``ConfigurationError`` or ``ValueError`` for what makes no sense, before anything was done for it."""
        rate: Any = self.rate
        if rate is not None and not (isinstance(rate, int | float) and rate > 0):
            raise ConfigurationError(f"A rate is more than 0 letters a second, not {rate!r:.50}.")
        if type(self.concurrency) is not int or self.concurrency < 1:
            raise ConfigurationError(f"At least one letter is replayed at once, not {self.concurrency!r:.50}.")
        if self.resolved_by_id is not None:
            number(self.resolved_by_id, "resolved_by_id")


class Pace:
    """Spaces what is begun: never two sooner after each other than the rate says."""

    def __init__(self, rate: float | None, world: World) -> None:
        self._gap = None if rate is None else 1 / rate
        self._world = world
        self._next = world.monotonic()

    async def turn(self) -> None:
        """Wait until the next may begin."""
        if self._gap is None:
            return
        now = self._world.monotonic()
        if self._next > now:
            await self._world.sleep(self._next - now)
        self._next = max(now, self._next) + self._gap


class LotSize:
    """How many letters are taken with one statement: as many as are handled in about a second.

    More would be kept from other processes while they wait here; fewer would make the handlers wait for the storage.
    """

    MOST = 500
    _SHORT, _LONG = 0.5, 2.0

    def __init__(self, concurrency: int, world: World) -> None:
        self._least = min(concurrency, self.MOST)
        self._world = world
        self._begun = world.monotonic()
        self.now = min(2 * concurrency, self.MOST)

    def begin(self) -> None:
        """Note that the handlers begin with a lot."""
        self._begun = self._world.monotonic()

    def end(self) -> None:
        """Note that all of the lot are with their handlers."""
        took = self._world.monotonic() - self._begun
        if took < self._SHORT:
            self.now = min(2 * self.now, self.MOST)
        elif took > self._LONG:
            self.now = max(self.now // 2, self._least)


__all__ = ["CONCURRENCY", "LotSize", "Manner", "Pace", "Selection"]
