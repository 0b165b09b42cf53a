"""Debouncing: calls with the same key within a period are one run, which has the arguments of the last of them.

The run is DELAYED and has the key as its deduplication id. A call that finds it waiting replaces its arguments and puts
it off again, in one guarded statement; once it is due it keeps its arguments and gives the key up, in one statement
too. So a call is either in a run that has not begun, or begins a new one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.core.durations import milliseconds
from holdfast.core.texts import check_text
from holdfast.errors import ConfigurationError, Retryable
from holdfast.model.workflow import seconds
from holdfast.workflows.enqueueing.options import check_debounce_options, check_key
from holdfast.workflows.enqueueing.rows import DEDUPLICATION, KEY, deduplicated, run_meant
from holdfast.workflows.facts import STARTED, Duplicate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Transaction
    from holdfast.model.workflow import Duration
    from holdfast.workflows.enqueueing.rows import Entry, Work
    from holdfast.workflows.facts import EnqueueRuns

_ROUNDS = 10
_INPUTS, _FORMAT, _MARK, _QUEUE = 5, 6, 9, 17


class PutOff:
    """Puts one debounced run in its queue, or puts off the one that waits there; made for a single call."""

    def __init__(self, enqueue: EnqueueRuns, queries: Queries, period: Duration, timeout: Duration | None) -> None:
        self._enqueue = enqueue
        self._extend = queries["debounce_extend"]
        self._begin = queries["debounce_begin"]
        self._look = queries["runs_look"]
        self._period_ms = milliseconds(period, "period")
        self._timeout_ms = None if timeout is None else milliseconds(timeout, "debounce_timeout")
        self._touched = ""

    async def put(self, transaction: Transaction, wanted: Sequence[Entry]) -> list[str]:
        """Begin a run or extend the one that waits; a run that becomes due meanwhile makes it try the other way."""
        [each] = wanted
        row, refused = each.row, ""
        for _ in range(_ROUNDS):
            [outcome] = await self._enqueue.apply(transaction, [row])
            if outcome is STARTED:
                await transaction.execute(self._begin, id=row[0], key=row[KEY], timeout_ms=self._timeout_ms)
            if not isinstance(outcome, Duplicate):
                return [run_meant(each, outcome)]
            self._touched = str(outcome.row["workflow_uuid"])
            if self._touched == refused:  # it keeps the key, as no debounced run does that cannot be put off any more
                raise deduplicated(row[_QUEUE], row[DEDUPLICATION], outcome.row)
            if await self._put_off(transaction, row):
                return [self._touched]
            refused = self._touched
        raise Retryable("Debounced runs became due faster than they could be put off.")

    async def is_there(self, transaction: Transaction, wanted: Sequence[Entry]) -> bool:
        """Tell by the key of this call, which is the run's creation key or that of its last change."""
        [each] = wanted
        ids = [(run_id,) for run_id in (each.row[0], self._touched)]
        return any(
            each.row[KEY] in {found["creation_key"], found["change_key"]}
            for found in await transaction.fetch_batch(self._look, ids)
        )

    async def _put_off(self, transaction: Transaction, row: Values) -> int:
        return await transaction.execute(
            self._extend,
            id=self._touched,
            deduplication_id=row[DEDUPLICATION],
            inputs=row[_INPUTS],
            serialization=row[_FORMAT],
            fingerprint=row[_MARK],
            delay_ms=self._period_ms,
            key=row[KEY],
        )


def debounced(work: Work, key: str, period: Duration) -> Work:
    """Return the run that a debounced call asks for if none waits; refuse what was said wrongly.

    Keys are told apart by function, class and object, since they share the queue's deduplication ids. In the names of
    those ``/`` is written ``~1``, and ``~`` as ``~0``: what comes after the last of them is the key.
    """
    check_debounce_options(work.options, period)
    check_text("The key of debounce()", key)
    names = [each.replace("~", "~0").replace("/", "~1") for each in (work.name, *work.owner)]
    whole = "/".join([*names, key])
    try:
        check_key("deduplication_id", whole)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"The key of debounce() is kept as a deduplication id, after the name of the function: {error}"
        ) from None
    timeout = work.options.debounce_timeout
    delay = seconds(period) if timeout is None else min(seconds(period), seconds(timeout))
    return work._replace(options=replace(work.options, deduplication_id=whole, delay=delay, debounce_timeout=None))
