"""The places where the transactions of one application have their data: its own database, others, and engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.workflows.transactions.asking import Asked
from holdfast.workflows.transactions.carrying import BlockingCarrier, Carrier
from holdfast.workflows.transactions.own import OwnDatabase

if TYPE_CHECKING:
    from holdfast.workflows.engine import Engine
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
        self._own = OwnDatabase(engine)

    def home(self, definition: TransactionDefinition, database: str | None, engine: Any) -> Chosen:
        """Choose by what the decorator was given."""
        return Chosen(self._carrier(definition, self._own), own=True)

    async def close(self) -> None:
        """End the connections to other databases."""

    def _carrier(self, definition: TransactionDefinition, home: Home) -> Carrier | BlockingCarrier:
        if definition.step.is_async:
            return Carrier(self._engine, home, definition)
        return BlockingCarrier(self._engine, Asked(self._engine, home), definition)
