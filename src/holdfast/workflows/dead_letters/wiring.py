"""The engine's dead letters: what makes them, who replays them, and the service that does so by itself.

What is not used is not loaded: most applications never make a dead letter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, cast

from holdfast.errors import MisuseError
from holdfast.resilience.letters import Contents, replayed

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.db.manager import ConnectionManager
    from holdfast.resilience.handlers import Handlers
    from holdfast.resilience.sealing import Sealing
    from holdfast.stores.database import DatabaseStores
    from holdfast.workflows.dead_letters.face import AsyncDeadLetters
    from holdfast.workflows.dead_letters.facts import StepLetters
    from holdfast.workflows.dead_letters.letters import RunLetters
    from holdfast.workflows.dead_letters.replay import RunReplays
    from holdfast.workflows.dead_letters.service import ReplayService
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.engine.settings import EngineSettings
    from holdfast.workflows.payloads import Payloads


class EngineLetters(ABC):
    """The part of an engine that has to do with dead letters."""

    settings: EngineSettings
    payloads: Payloads
    manager: ConnectionManager
    stores: DatabaseStores

    def __init__(self) -> None:
        self._letters: AsyncDeadLetters | None = None
        self._run_letters: RunLetters | None = None
        self._step_letters: StepLetters | None = None
        self._replays: ReplayService | None = None
        self.replays_by_itself = True  # from the next launch on, what is due

    @abstractmethod
    def on_loop(self, call: Callable[[], None]) -> bool:
        """Run *call* on the engine's loop."""

    @cached_property
    def handlers(self) -> Handlers:
        """Who replays dead letters of which domain."""
        from holdfast.resilience.handlers import Handlers  # noqa: PLC0415 -- what is not used is not loaded

        return Handlers()

    @cached_property
    def run_replays(self) -> RunReplays:
        """What lets runs go on that dead letters were made of."""
        from holdfast.workflows.dead_letters.replay import RunReplays  # noqa: PLC0415 -- as above

        return RunReplays(cast("Engine", self))

    @property
    def dead_letters(self) -> AsyncDeadLetters:
        """The dead letters, from launch to close."""
        from holdfast.workflows.dead_letters.face import AsyncDeadLetters  # noqa: PLC0415 -- as above

        self._letters = self.stores.of_class(
            AsyncDeadLetters,
            contents=self.contents(),
            find=self.run_replays.handler_of,
            made=self.letter_made,
            delay_of=self.handlers.delay_of,
        )
        return self._letters

    @property
    def run_letters(self) -> RunLetters:
        """What makes dead letters of runs, in the transactions that end them."""
        from holdfast.workflows.dead_letters.letters import RunLetters  # noqa: PLC0415 -- as above

        if self._run_letters is None:
            settings = self.settings
            self._run_letters = RunLetters(
                self.manager,
                schema=settings.schema,
                clock_offset_ms=settings.clock_offset_ms,
                world=settings.world,
                contents=self.contents(),
                delay_of=self.handlers.delay_of,
            )
        return self._run_letters

    @property
    def step_letters(self) -> StepLetters:
        """What makes dead letters of steps, beside their records."""
        from holdfast.workflows.dead_letters.facts import StepLetters  # noqa: PLC0415 -- as above

        if self._step_letters is None:
            self._step_letters = StepLetters(self.payloads, self.run_letters, self.letter_made)
        return self._step_letters

    @cached_property
    def sealing(self) -> Sealing:
        """How letters and results of protected functions go through the application's codecs."""
        from holdfast.resilience.sealing import Sealing  # noqa: PLC0415 -- as above

        return Sealing(self.settings.serialization)

    def contents(self) -> Contents:
        """Return what may be kept of a call."""
        return Contents.of(self.settings.mask_fields, self.settings.dead_letter_bytes)

    def letter_made(self) -> None:
        """Take notice that a letter was made, and tell other processes; from any thread."""
        self.on_loop(self._tell_of_letter)

    def _tell_of_letter(self) -> None:
        if self._replays is not None:
            self._replays.wake()
        cast("Engine", self).wakeups.tell()

    def start_replays(self) -> None:
        """Begin to replay the letters of the domains that are replayed by themselves, if there are any."""
        if not self.replays_by_itself or "handlers" not in self.__dict__ or not self.handlers.automatic:
            return
        from holdfast.workflows.dead_letters.service import ReplayService  # noqa: PLC0415 -- as above

        letters, find = self.dead_letters, self.run_replays.handler_of
        domains = list(self.handlers.automatic)
        self._replays = ReplayService(letters, letters.replayer, find, domains, self.settings.world)
        self._replays.start()
        cast("Engine", self).hearers.append(self._replays.hinted)

    async def stop_replays(self) -> None:
        """End the replays under way: what each has done is noted, and what was not begun given back."""
        if self._replays is not None:
            await self._replays.stop()
        if self._letters is not None:
            await self._letters.replayer.close()

    def refuse_in_handlers(self) -> None:
        """Raise ``MisuseError`` inside of what replays a letter here: it and the closing would wait for each other."""
        replay = replayed.get()
        if replay is not None and replay.is_awaited_by(self._letters):
            raise MisuseError(
                f"close() was called by what replays a dead letter of {replay.domain!r}, and would wait for its end: "
                "have it return, and close the application elsewhere."
            )

    def forget_letters(self) -> None:
        """Let go of what stands on the connections that are about to end."""
        self._letters = self._run_letters = self._step_letters = self._replays = None
        if "handlers" in self.__dict__:
            self.handlers.close()
