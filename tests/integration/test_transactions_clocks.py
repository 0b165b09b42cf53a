"""Outputs of transactions in other databases are as old as that database says, whatever the clocks of processes say."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import URL, create_engine, text

from holdfast.db import DatabaseURL
from holdfast.testing.clocks import WrongClock
from holdfast.testing.workers import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROGRAM = Path(__file__).parent / "programs" / "outputs.py"
DRIVERS = {"postgres": "postgresql+psycopg", "mariadb": "mysql+pymysql"}
TABLES = {"postgres": "holdfast.transaction_outputs", "mariadb": "transaction_outputs"}


@pytest.mark.parametrize("kind", list(DRIVERS))
def test_process_with_a_wrong_clock_forgets_no_output_and_makes_none_that_is_forgotten(
    kind: str, fresh_database: Callable[[str], str], tmp_path: Path
) -> None:
    parsed = DatabaseURL.parse(fresh_database(kind))
    data = URL.create(
        DRIVERS[kind], parsed.user, parsed.password, parsed.host, parsed.port, parsed.database
    ).render_as_string(hide_password=False)
    clocks: dict[str, Mapping[str, str]] = {
        "right": {"PYTHONUTF8": "1"},
        "ahead": WrongClock(tmp_path / "ahead", "+40d").environment,
        "behind": WrongClock(tmp_path / "behind", "-40d").environment,
        "right again": {"PYTHONUTF8": "1"},
    }
    for name, environment in clocks.items():
        url = f"sqlite:///{tmp_path}/runs-{name[:5]}.sqlite"  # whose clock is that of the process
        with Worker(PROGRAM, environment=environment, url=url, data=data, id=name) as worker:
            worker.hear("paid")

    engine = create_engine(data)
    with engine.connect() as connection:
        rows = connection.execute(text(f"SELECT workflow_id, created_at FROM {TABLES[kind]}")).all()
    engine.dispose()
    assert {row.workflow_id for row in rows} == set(clocks)
    assert all(abs(row.created_at / 1000 - time.time()) < 3600 for row in rows)
