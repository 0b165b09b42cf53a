"""The places where the transactions of one application have their data: its own database, others, and engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.db.url import DatabaseURL
from holdfast.errors import ConfigurationError, DriverMissing
from holdfast.workflows.transactions.asking import Asked
from holdfast.workflows.transactions.carrying import BlockingCarrier, Carrier
from holdfast.workflows.transactions.elsewhere import OtherDatabase
from holdfast.workflows.transactions.on_thread import OnThread
from holdfast.workflows.transactions.own import OwnDatabase

if TYPE_CHECKING:
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.transactions.alchemy import AsyncAlchemy, SyncAlchemy
    from holdfast.workflows.transactions.home import Home, TransactionDefinition


@dataclass(frozen=True, slots=True)
class Chosen:
    """How a transaction is carried out, and whether its record is part of it."""

    carrier: Carrier | BlockingCarrier
    own: bool


class Homes:
    """All places of one engine; what is opened here is closed with it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.own = OwnDatabase(engine)
        self._others: dict[str, OtherDatabase] = {}
        self._alchemies: dict[int, SyncAlchemy | AsyncAlchemy] = {}

    def home(self, definition: TransactionDefinition, database: str | None, engine: Any) -> Chosen:
        """Choose by what the decorator was given. The application's own URL means the application's own database."""
        if engine is not None:
            return Chosen(self._alchemy(definition, engine), own=False)
        if database is None or DatabaseURL.parse(database) == DatabaseURL.parse(self._engine.settings.url):
            return Chosen(self._carrier(definition, self.own), own=True)
        if DatabaseURL.parse(database).in_memory:
            raise ConfigurationError("A SQLite database in memory ends with its connection: name a file for database=.")
        other = self._others.setdefault(database, OtherDatabase(self._engine, database))
        return Chosen(self._carrier(definition, other), own=False)

    def forget(self) -> None:
        """Forget, in a forked child, what the parent has open."""
        for other in self._others.values():
            other.forget()

    async def close(self) -> None:
        """End the connections to other databases. Engines of SQLAlchemy are their makers' to dispose of."""
        for other in self._others.values():
            await other.close()

    def _carrier(self, definition: TransactionDefinition, home: Home) -> Carrier | BlockingCarrier:
        if definition.step.is_async:
            return Carrier(self._engine, home, definition)
        asked = Asked(self._engine, home)
        if home is self.own and definition.timeout is None:
            return BlockingCarrier(self._engine, OnThread(self._engine, self.own, asked), definition)
        return BlockingCarrier(self._engine, asked, definition)

    def _alchemy(self, definition: TransactionDefinition, bind: Any) -> Carrier | BlockingCarrier:
        try:
            from holdfast.workflows.transactions import alchemy  # noqa: PLC0415 -- only for those who have SQLAlchemy
        except ImportError as error:
            raise DriverMissing("engine= is an engine of SQLAlchemy 2: pip install sqlalchemy.") from error
        home = self._alchemies.get(id(bind))
        if home is None:
            home = self._alchemies[id(bind)] = alchemy.home_for(self._engine, bind)
        if isinstance(home, alchemy.AsyncAlchemy) and definition.step.is_async:
            return Carrier(self._engine, home, definition)
        if isinstance(home, alchemy.SyncAlchemy) and not definition.step.is_async:
            return BlockingCarrier(self._engine, home, definition)
        raise ConfigurationError(
            f"The transaction {definition.name!r} and its engine differ: an AsyncEngine goes with async def, an Engine "
            "with def."
        )
