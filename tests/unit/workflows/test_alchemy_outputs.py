"""The table of outputs over SQLAlchemy: what threads that begin to use it at the same moment see of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import create_engine

from holdfast.workflows.transactions.alchemy_outputs import Outputs

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from holdfast.workflows.operations.operation import Operation


class _Run:
    creation_key = "key"
    generation = 0

    def __init__(self, workflow_id: str) -> None:
        self.id = workflow_id


class _WhileOthersPrepare:
    """An operation; whenever its run is asked for, another thread has just prepared the same outputs."""

    identity = "0"
    name = "pay"

    def __init__(self, outputs: Outputs, connection: Connection, workflow_id: str) -> None:
        self._outputs = outputs
        self._connection = connection
        self._run = _Run(workflow_id)

    @property
    def run(self) -> Any:
        self._outputs.prepare(self._connection)
        return self._run


def test_output_is_filled_alone_though_another_thread_prepares_the_table_meanwhile(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/outputs.sqlite")
    outputs = Outputs()
    with engine.connect() as connection, engine.connect() as another:
        first, second = (
            cast("Operation", _WhileOthersPrepare(outputs, another, workflow_id)) for workflow_id in ("a", "b")
        )
        outputs.prepare(connection)
        outputs.open(connection, first)
        outputs.open(connection, second)
        connection.commit()
        assert outputs.fill(connection, first, "1", "portable_json")
        connection.commit()
        kept = outputs.look(connection, first)
        assert kept is not None
        assert kept.output == "1"
        connection.rollback()
        assert outputs.fill(connection, second, "2", "portable_json")  # it is still empty
