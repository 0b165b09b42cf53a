"""The versions of the application that have registered, and which of them is the latest."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.core.version import DEFAULT_VERSION
from holdfast.errors import WorkflowNotFound
from holdfast.model.workflow import ApplicationVersion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.db.joined import Verbs
    from holdfast.db.queries.queries import Queries
    from holdfast.model.world import World
    from holdfast.workflows.declaring.registry import Registry
    from holdfast.workflows.engine.settings import EngineSettings

logger = logging.getLogger("holdfast.workflows")


def version_here(settings: EngineSettings, registry: Registry) -> str:
    """Return the version of this process: the one that was set, or else the one that its workflows' sources give."""
    if settings.application_version is not None:
        return settings.application_version
    version = registry.version()
    if version is None:
        logger.warning(
            "The sources of the workflows cannot be read, so the application version is %s; "
            "set application_version= to tell releases apart.",
            DEFAULT_VERSION,
        )
    return version or DEFAULT_VERSION


class Versions:
    """The table ``application_versions``."""

    def __init__(self, verbs: Verbs, queries: Queries, world: World) -> None:
        self._verbs = verbs
        self._queries = queries
        self._world = world

    def within(self, verbs: Verbs) -> Versions:
        """Return the same, with all that is read and written through *verbs*."""
        return Versions(verbs, self._queries, self._world)

    async def register(self, name: str, workflows: Iterable[str]) -> None:
        """Register *name* if it is new, with the *workflows* it has, and warn if it is not the latest."""
        await self._verbs.execute(self._queries["version_register"], version_id=self._world.new_id(), version_name=name)
        has = [(each, name) for each in sorted(workflows)]
        if has:
            await self._verbs.run(lambda transaction: transaction.execute_batch(self._queries["version_has"], has))
        latest = await self.latest()
        if latest.version_name != name:
            logger.warning("This process runs application version %s; the latest is %s.", name, latest.version_name)

    async def all(self) -> list[ApplicationVersion]:
        """Return all versions, newest first."""
        return [ApplicationVersion(**row) for row in await self._verbs.fetch(self._queries["versions_list"])]

    async def latest(self) -> ApplicationVersion:
        """Return the version that was set as latest last."""
        found = await self.all()
        if not found:
            raise WorkflowNotFound("No application version has registered: no application was ever launched here.")
        return found[0]

    async def later(self, name: str, workflows: Iterable[str]) -> str | None:
        """Return the latest version that is later than *name* and has one of the *workflows*; None if there is none."""
        asked = [(each,) for each in sorted(set(workflows))]
        found = await self._verbs.run(
            lambda transaction: transaction.fetch_batch(self._queries["versions_later"], asked, version=name)
        )
        return found[0]["version_name"] if found else None

    async def set_latest(self, name: str) -> None:
        """Make *name* the latest; it must have registered."""
        if not await self._verbs.execute(self._queries["version_set_latest"], version_name=name):
            raise WorkflowNotFound(
                f"No application version {name!r} has registered; list_application_versions() shows all."
            )
