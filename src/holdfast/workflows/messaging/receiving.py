"""The fact that a run has received a message: the record of ``recv`` and the consumption, both or neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import HoldfastError, Retryable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.db.queries.queries import Queries
    from holdfast.db.session import Row, Transaction
    from holdfast.workflows.facts import RecordSteps

# Where these stand in a row of step_record.
_ID, _TOKEN, _POSITION, _NAME, _IDENTITY, _MARK, _OUTPUT, _FORMAT = 0, 1, 2, 3, 4, 5, 6, 9


class Instead(NamedTuple):
    """What is recorded in the place of a message if there is none: an operation of this name and outcome."""

    name: str
    mark: str | None
    output: str | None
    serialization: str | None


class Received(NamedTuple):
    """What is recorded: a message, or what was to be recorded instead."""

    name: str
    output: str | None
    serialization: str | None


class NothingThere(HoldfastError):
    """There is no message, and nothing was written."""


class ReceiveMessages:
    """Rows are (step row, (topic, what is recorded instead or None)); the result is ``Received``.

    A row for which there is no message and nothing else to record fails with ``NothingThere``. Several rows of one run
    and topic get one message each, in their order. Only the holder of the token consumes, and only where the record was
    inserted. ``recall`` waits until an earlier call, whose outcome is in doubt, is over: the runs' rows, which it has
    locked, tell.
    """

    name = "message received"
    one_statement = False

    def __init__(self, record: RecordSteps, queries: Queries, messaging: Queries) -> None:
        self._record = record
        self._hold = queries["runs_hold_to_ask"]
        self._next = messaging["messages_next"]
        self._consume = messaging["messages_consume"]

    async def apply(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        """Give each row its message; as many rounds as there are rows of one run and topic."""
        outcomes: list[Any] = [None] * len(rows)
        left = list(range(len(rows)))
        while left:
            turn: dict[tuple[str, str], int] = {}
            for place in left:
                turn.setdefault(_box(rows[place]), place)
            for place, outcome in (await self._round(transaction, rows, turn)).items():
                outcomes[place] = outcome
            left = [place for place in left if place not in turn.values()]
        return outcomes

    async def recall(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[Any]:
        """Return what is recorded under the token of each row."""
        ids = sorted({row[0][_ID] for row in rows})
        await transaction.fetch_batch(self._hold, [(each,) for each in ids])
        found = await self._record.found(transaction, [row[0] for row in rows])
        return [
            Received(there["function_name"], there["output"], there["serialization"])
            if (there := found[row[0][_ID], row[0][_IDENTITY]])["recorded_by"] == row[0][_TOKEN]
            else None
            for row in rows
        ]

    async def stands(self, transaction: Transaction, rows: Sequence[Values]) -> Sequence[bool | None]:
        """Return what ``Witness.stands`` returns, by the records."""
        return await self._record.stands(transaction, [row[0] for row in rows])

    async def _round(
        self, transaction: Transaction, rows: Sequence[Values], turn: dict[tuple[str, str], int]
    ) -> dict[int, Any]:
        """Do one row of each run and topic."""
        answer = await transaction.fetch_batch(self._next, list(turn))
        found = {(row["destination_uuid"], row["topic"]): row for row in answer}
        wanted = {place: _step(rows[place], found.get(box)) for box, place in turn.items()}
        outcomes: dict[int, Any] = {place: _NOTHING for place, step in wanted.items() if step is None}
        steps = {place: step for place, step in wanted.items() if step is not None}
        recorded = await self._record.apply(transaction, list(steps.values())) if steps else ()
        consumed: list[tuple[str, int]] = []
        for (place, step), outcome in zip(steps.items(), recorded, strict=True):
            outcomes[place] = outcome
            if outcome is True:
                outcomes[place] = Received(step[_NAME], step[_OUTPUT], step[_FORMAT])
                message = found.get(_box(rows[place]))
                consumed += [] if message is None else [(message["message_uuid"], step[_POSITION])]
        if consumed and await transaction.execute_batch(self._consume, consumed) != len(consumed):
            raise Retryable("A message was consumed at the same moment; it is looked for again.")
        return outcomes


_NOTHING = NothingThere("There is no message.")


def _box(row: Values) -> tuple[str, str]:
    """Return the run and the topic of a row."""
    return row[0][_ID], row[1][0]


def _step(row: Values, message: Row | None) -> Values | None:
    """Return the row of the record: with the message, or with what is recorded instead."""
    step, (_, instead) = row
    if message is not None:
        return (*step[:_OUTPUT], message["message"], *step[_OUTPUT + 1 : _FORMAT], message["serialization"], step[-1])
    if instead is None:
        return None
    return (
        *step[:_NAME],
        instead.name,
        step[_IDENTITY],
        instead.mark,
        instead.output,
        *step[_OUTPUT + 1 : _FORMAT],
        instead.serialization,
        step[-1],
    )
