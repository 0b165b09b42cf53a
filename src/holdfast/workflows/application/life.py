"""How an application opens and closes, in both colours."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.durations import checked_seconds
from holdfast.errors import NotInitialized

if TYPE_CHECKING:
    from typing import Self

    from holdfast.db.portal import Portal
    from holdfast.model.workflow import Duration
    from holdfast.workflows.engine.engine import Engine


class AppLife:
    """The life of an application for code without an event loop."""

    _engine: Engine
    _portal: Portal

    def launch(self) -> None:
        """Open the database, bring its tables up to date, and begin to run workflows."""
        self._portal.refuse_own_thread()
        self._portal.start()
        try:
            self._portal.call(self._engine.launch())
        except BaseException:
            self._portal.stop()
            raise

    def close(self, drain: Duration = 0) -> None:
        """Let runs end for *drain* seconds, hand over what still runs, and close the database.

        An interruption, by Ctrl-C or because the task is cancelled, ends the drain and is raised when all is closed; a
        second one breaks that off. A second call waits for the end of the first.
        """
        length = checked_seconds(drain, "drain")
        self._engine.refuse_in_handlers()
        self._engine.forget_parent()
        if not self._portal.is_running:
            return
        self._portal.refuse_own_thread()
        try:
            self._close(length)
        except BaseException:
            self._close(0)
            raise
        finally:
            self._portal.stop()

    def _close(self, drain: float) -> None:
        with suppress(NotInitialized):  # another thread has closed it meanwhile
            self._portal.call(self._engine.close(drain))

    def __enter__(self) -> Self:
        self.launch()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncAppLife:
    """The life of an application on the caller's event loop."""

    _engine: Engine

    async def launch(self) -> None:
        """Open the database, bring its tables up to date, and begin to run workflows."""
        await self._engine.launch()

    async def close(self, drain: Duration = 0) -> None:
        """Let runs end for *drain* seconds, hand over what still runs, and close the database.

        An interruption, by Ctrl-C or because the task is cancelled, ends the drain and is raised when all is closed; a
        second one breaks that off. A second call waits for the end of the first.
        """
        length = checked_seconds(drain, "drain")
        self._engine.refuse_in_handlers()
        await self._engine.close(length)

    async def __aenter__(self) -> Self:
        await self.launch()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


__all__ = ["AppLife", "AsyncAppLife"]
