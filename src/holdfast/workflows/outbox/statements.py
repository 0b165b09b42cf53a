"""Statements of ours on a connection of another library, in the transaction it is in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from holdfast.db.url import DIALECTS
from holdfast.errors import MisuseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Query
    from holdfast.db.session import Row
    from holdfast.db.url import DialectName
    from holdfast.errors import DatabaseError


class Statements(ABC):
    """The verbs of a transaction of ours that a kind uses; they never wait. *errors* are those of the library."""

    errors: type[Exception]

    @abstractmethod
    def run(self, sql: str, values: Sequence[Any]) -> tuple[list[Row], int]:
        """Run a statement in our dialect's words; return its rows, and how many it found or changed."""

    @abstractmethod
    def meaning(self, error: Any) -> DatabaseError:
        """Return an error of the library in our words."""

    async def execute_batch(self, query: Query, rows: Sequence[Values], **named: Any) -> int:
        count = 0
        for sql, values in query.batch(rows, named):
            _, count = self.run(sql, values)
        return count

    async def fetch_batch(self, query: Query, rows: Sequence[Values], **named: Any) -> list[Row]:
        found: list[Row] = []
        for sql, values in query.batch(rows, named):
            found += self.run(sql, values)[0]
        return found

    async def fetch(self, query: Query) -> list[Row]:
        """Run a query; what is wrong with it is told in our words."""
        found: list[Row] = []
        for sql, values in query.bind({}):
            try:
                found, _ = self.run(sql, values)
            except self.errors as error:
                raise self.meaning(error) from error
        return found


def refuse_other_kind(named: str, wanted: DialectName) -> None:
    """Raise unless a transaction in what its library calls *named* may be in the application's database."""
    if DIALECTS.get(named) is not wanted:
        raise MisuseError(
            f"enqueue_in() was given a transaction in {named}, but the application's runs are in {wanted}: both must "
            "be in one database, to commit together."
        )


__all__ = ["Statements", "refuse_other_kind"]
