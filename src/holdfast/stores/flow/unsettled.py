"""Revisions that a transaction of SQLAlchemy has raised: those that checkpoints had before, until it is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import event

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, SessionTransaction

    from holdfast.stores.flow.model import FlowCheckpoint

_KEY = "holdfast.flow.unsettled"


class Unsettled:
    """Gives checkpoints back the revision they had if a transaction of *session* ends otherwise than by a commit.

    So what was stored in it may be stored again, in the next one. A savepoint counts as a transaction: what it keeps
    is its parent's to keep.
    """

    def __init__(self, session: Session) -> None:
        self._before: dict[SessionTransaction, list[tuple[FlowCheckpoint, int]]] = {}
        self._committed: SessionTransaction | None = None
        event.listen(session, "after_commit", self._commits)
        event.listen(session, "after_transaction_end", self._ends)

    @classmethod
    def of(cls, session: Session) -> Unsettled:
        """Return the one of *session*."""
        found = session.info.get(_KEY)
        if not isinstance(found, Unsettled):
            found = session.info[_KEY] = cls(session)
        return found

    def note(self, session: Session, checkpoint: FlowCheckpoint) -> None:
        """Remember the revision of *checkpoint*, which is stored in the transaction that *session* is in."""
        if (transaction := _innermost(session)) is not None:
            self._before.setdefault(transaction, []).append((checkpoint, checkpoint.revision))

    def _commits(self, session: Session) -> None:
        self._committed = _innermost(session)

    def _ends(self, session: Session, transaction: SessionTransaction) -> None:
        noted = self._before.pop(transaction, [])
        if transaction is not self._committed:
            for checkpoint, revision in reversed(noted):
                checkpoint.revision = revision
        elif (around := _innermost(session)) is not None:
            self._before.setdefault(around, []).extend(noted)


def _innermost(session: Session) -> SessionTransaction | None:
    return session.get_nested_transaction() or session.get_transaction()


__all__ = ["Unsettled"]
