"""Messages and events of an engine, put together when it is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.workflows.messaging.bells import Bells
from holdfast.workflows.messaging.event_reader import EventReader
from holdfast.workflows.messaging.events import Events
from holdfast.workflows.messaging.messages import Messages
from holdfast.workflows.messaging.telling import Telling
from holdfast.workflows.queries import messaging_queries

if TYPE_CHECKING:
    from holdfast.db.queries.queries import Queries
    from holdfast.workflows.engine.engine import Engine


class Communication:
    """What runs say to each other and to the world; *parking* are the queries of runs that are put away."""

    def __init__(self, engine: Engine, parking: Queries) -> None:
        settings, world = engine.settings, engine.settings.world
        queries = messaging_queries(engine.manager.dialect, settings.schema, clock_offset_ms=settings.clock_offset_ms)
        self.bells = Bells(engine.manager, parking, world, lambda: engine.wakeups.alive)
        reader = EventReader(engine.manager, queries, self.bells, world)
        telling = Telling(engine, self.bells)
        self.messages = Messages(engine, queries, self.bells, telling)
        self.events = Events(engine, queries, reader, self.bells, telling)
