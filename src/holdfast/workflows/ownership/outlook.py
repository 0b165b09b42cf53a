"""Where runs wait, as far as this process knows, and when to ask the database about all queues again.

A look asks one question for all queues. A dispatcher that is woken for one queue by name goes without the question, for
a second at most: deadlines, delayed runs and other queues depend on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.model.workflow import INTERNAL_QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.model.queue import Queue
    from holdfast.model.world import World
    from holdfast.workflows.ownership.look import Look
    from holdfast.workflows.parking import Wakes
    from holdfast.workflows.queues import Survey, Surveys
    from holdfast.workflows.running.deadlines import Deadlines

_LONGEST_WAIT = 2.5
_SHORTEST_WAIT = 0.005  # runs that become due one by one are taken together
_SURVEY_EVERY = 1.0  # however often it is woken for single queues


class Hints(Protocol):
    """What tells other processes that there is something to do, and hears it from them: a hint; nothing rests on it."""

    @property
    def alive(self) -> bool:
        """Whether a hint from another process would be heard now."""

    def tell(self) -> None:
        """Tell other processes soon; on the loop."""


class Outlook:
    """What the last question has found, and the next one. ``queues`` are those this process listens to, by name.

    *slots* is told in how many seconds the next slot of a schedule is due.
    """

    def __init__(
        self,
        surveys: Surveys,
        deadlines: Deadlines,
        wakes: Wakes,
        world: World,
        hints: Hints,
        slots: Callable[[float | None], None],
    ) -> None:
        self.queues: dict[str, Queue] = {}
        self._surveys = surveys
        self._deadlines = deadlines
        self._wakes = wakes
        self._world = world
        self._hints = hints
        self._slots = slots
        self._put_off = False  # whether the last look left the question to the next, and claimed where it was woken for
        self._survey_at = 0.0  # when to ask again, however often it is woken for single queues
        self._turn = 0

    def longest_wait(self) -> float:
        """Return how seldom to look at rest: as the queues say, or more seldom where others tell what they enqueue."""
        queues = [queue for queue in self.queues.values() if queue.name != INTERNAL_QUEUE]
        if not queues or self._hints.alive:
            return _LONGEST_WAIT
        return min(queue.polling_interval_sec for queue in queues)

    async def where(self, hinted: set[str | None], look: Look) -> Iterable[str]:
        """Return the queues to claim from: those it was woken for, or those in which something waits."""
        now = self._world.monotonic()
        known = self._known(hinted)
        if known and None not in hinted and now < self._survey_at:
            look.again = self._survey_at - now
            return known
        if known and not self._put_off:
            self._put_off = look.ask = True  # whoever enqueued is served first; the question comes right after
            self._survey_at = now
            return known
        self._put_off = False
        return (await self._asked(look)).waiting

    async def keep_time(self, look: Look) -> None:
        """See to the runs that wait where nothing can be begun now: their deadlines pass, and they become due."""
        if self._world.monotonic() >= self._survey_at:
            await self._asked(look)

    async def _asked(self, look: Look) -> Survey:
        """Ask about all queues, after what the time has brought was done."""
        now = self._world.monotonic()
        survey = await self._survey()
        if survey.overdue:
            await self._deadlines.sweep()
        self._wakes.any = survey.parked
        moved = await self._wakes.sweep() if survey.parked else 0
        if survey.due_in is not None and survey.due_in <= 0:
            moved += await self._surveys.move_due()
        if moved:
            survey = await self._survey()
        look.again = survey.due_in if survey.due_in is None else max(_SHORTEST_WAIT, survey.due_in)
        self._survey_at = now + min(_SURVEY_EVERY, self.longest_wait(), look.again or _SURVEY_EVERY)
        return survey

    def _known(self, hinted: set[str | None]) -> list[str]:
        """Return the queues in which something waits, as far as that can be known without asking.

        A hint from another process names no queue. But where this process listens to a single one, without limits,
        looking into that costs no more than asking.
        """
        if None not in hinted:
            return [name for name in hinted if name is not None] if hinted <= self.queues.keys() else []
        others = [name for name in self.queues if name != INTERNAL_QUEUE]
        return others if len(others) == 1 and not self.queues[others[0]].is_shared else []

    async def _survey(self) -> Survey:
        survey = await self._surveys.survey()
        self.queues = survey.queues
        self._slots(survey.slot_in)
        return survey

    def in_turn(self, names: Iterable[str]) -> list[str]:
        """Return what was released first; then the queues, beginning with another one each time."""
        others = sorted(name for name in names if name != INTERNAL_QUEUE and not self.queues[name].paused)
        self._turn += 1
        first = self._turn % len(others) if others else 0
        return [name for name in names if name == INTERNAL_QUEUE] + others[first:] + others[:first]


__all__ = ["Hints", "Outlook"]
