"""Which checkpoints may be deleted: a pure decision, the same for every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.stores.flow.model import CheckpointStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.stores.flow.shelf import Card


def deletable(cards: Sequence[Card], *, keep_count: int | None, older_than: str | None) -> list[Card]:
    """Return those of *cards*, newest first, beyond the first *keep_count* or created before *older_than*.

    Never one that waits, and never the newest of a run that has not ended: that run would have nothing to go on from.
    """
    newest: set[tuple[str, str]] = set()
    going: list[Card] = []
    for place, card in enumerate(cards):
        status = CheckpointStatus(card.status)
        run = card.flow_id, card.wf_run_id
        is_newest = run not in newest
        newest.add(run)
        if status.waits or (is_newest and not status.has_ended):
            continue
        beyond = keep_count is not None and place >= keep_count
        too_old = older_than is not None and card.created_at < older_than
        if beyond or too_old:
            going.append(card)
    return going
