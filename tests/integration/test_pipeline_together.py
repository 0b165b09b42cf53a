"""Facts of several kinds in one statement on PostgreSQL: each has its own outcome, and none is lost or made up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager, Pipeline
from holdfast.db.migrations.migrator import Migrator
from holdfast.db.queries.text import together
from holdfast.errors import Conflict, Superseded
from holdfast.workflows.facts import STARTED, Existing, FinishRuns, RecordSteps, StartRuns
from holdfast.workflows.queries import workflow_queries

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_STATEMENTS = "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def _run(run_id: str, token: str) -> tuple[Any, ...]:
    return (run_id, "f", None, None, "{}", "portable_json", token, *[None] * 8, "v1")


def _step(run_id: str, token: str, place: int) -> tuple[Any, ...]:
    return (run_id, token, place + 1, "s", str(place), None, "1", None, None, "portable_json", 0)


def _end(run_id: str, token: str) -> tuple[Any, ...]:
    return (run_id, token, "SUCCESS", "1", None, "portable_json")


async def _written(
    url: str, *late: tuple[str, tuple[Any, ...]], early: Sequence[tuple[Any, ...]] = ()
) -> tuple[list[Any], list[str], dict[str, Any]]:
    """Start three runs, record the steps *early*, then write *late* in one batch.

    Return the outcomes, the last statements and the runs.
    """
    async with ConnectionManager(url) as manager:
        await Migrator(manager).migrate()
        queries = workflow_queries(manager.dialect, "holdfast")
        kinds: dict[str, Any] = {
            "start": StartRuns(queries, application_id="a", executor_id="e", incarnation="i"),
            "step": RecordSteps(queries),
            "end": FinishRuns(queries),
        }
        async with Pipeline(manager) as pipeline:
            for name in ("one", "two", "three"):
                await pipeline.write(kinds["start"], _run(name, f"token-{name}"))
            for row in early:
                await pipeline.write(kinds["step"], row)
            before = pipeline.commits
            writes = [pipeline.write(kinds[kind], row) for kind, row in late]
            outcomes = await asyncio.gather(*writes, return_exceptions=True)
            assert pipeline.commits == before + 1
            statements = [row["query"] for row in await manager.fetch(_STATEMENTS)]
            runs = await manager.fetch(
                "SELECT w.workflow_uuid, w.status, (SELECT count(*) FROM holdfast.operation_outputs AS o "
                "WHERE o.workflow_uuid = w.workflow_uuid) AS steps FROM holdfast.workflow_status AS w"
            )
        return list(outcomes), statements, {row["workflow_uuid"]: (row["status"], row["steps"]) for row in runs}


def test_facts_of_three_kinds_are_written_by_one_statement(fresh_database: Callable[[str], str]) -> None:
    outcomes, statements, runs = asyncio.run(
        _written(
            fresh_database("postgres"),
            ("start", _run("four", "token-four")),
            ("step", _step("two", "token-two", 0)),
            ("step", _step("two", "token-two", 1)),
            ("end", _end("one", "token-one")),
        )
    )
    assert any(text.startswith("WITH s0 AS (") for text in statements)
    assert outcomes == [STARTED, True, True, True]
    assert runs == {"one": ("SUCCESS", 0), "two": ("PENDING", 2), "three": ("PENDING", 0), "four": ("PENDING", 0)}


def test_a_fact_that_is_refused_fails_alone_among_those_of_other_kinds(fresh_database: Callable[[str], str]) -> None:
    outcomes, _, runs = asyncio.run(
        _written(
            fresh_database("postgres"),
            ("start", _run("four", "token-four")),
            ("start", _run("one", "another")),
            ("step", _step("two", "token-two", 0)),
            ("step", _step("five", "lost", 0)),
            ("end", _end("three", "token-three")),
            ("end", _end("six", "lost")),
        )
    )
    assert outcomes[0] is STARTED
    assert isinstance(outcomes[1], Existing)
    assert outcomes[2] is True
    assert isinstance(outcomes[3], Superseded)
    assert outcomes[4] is True
    assert isinstance(outcomes[5], Superseded)
    assert runs == {"one": ("PENDING", 0), "two": ("PENDING", 1), "three": ("SUCCESS", 0), "four": ("PENDING", 0)}


def test_a_step_and_the_end_of_the_same_run_are_two_statements_and_both_are_kept(
    fresh_database: Callable[[str], str],
) -> None:
    outcomes, statements, runs = asyncio.run(
        _written(
            fresh_database("postgres"),
            ("step", _step("one", "token-one", 0)),
            ("end", _end("one", "token-one")),
            ("step", _step("two", "token-two", 0)),
        )
    )
    assert not any(text.startswith("WITH s0 AS (") for text in statements)
    assert outcomes == [True, True, True]
    assert runs == {"one": ("SUCCESS", 1), "two": ("PENDING", 1), "three": ("PENDING", 0)}


def test_a_step_that_comes_after_the_end_of_its_run_is_refused_alone(fresh_database: Callable[[str], str]) -> None:
    outcomes, _, runs = asyncio.run(
        _written(
            fresh_database("postgres"),
            ("end", _end("one", "token-one")),
            ("step", _step("one", "token-one", 0)),
            ("step", _step("two", "token-two", 0)),
        )
    )
    assert outcomes[0] is True
    assert isinstance(outcomes[1], Superseded)
    assert outcomes[2] is True
    assert runs == {"one": ("SUCCESS", 0), "two": ("PENDING", 1), "three": ("PENDING", 0)}


@pytest.mark.parametrize("others", ["none", "of the kind", "of two kinds"])
def test_a_step_that_is_recorded_already_by_its_token_is_told_so_and_the_others_are_written(
    fresh_database: Callable[[str], str], others: str
) -> None:
    late = [("step", _step("one", "token-one", 0)), ("step", _step("one", "token-one", 1))]
    late += [("step", _step("two", "token-two", 0))] * (others != "none")
    late += [("end", _end("three", "token-three"))] * (others == "of two kinds")
    url = fresh_database("postgres")
    outcomes, _, runs = asyncio.run(_written(url, *late, early=[_step("one", "token-one", 0)]))
    assert outcomes == [True] * len(late)
    assert runs["one"] == ("PENDING", 2)
    assert runs["two"] == ("PENDING", int(others != "none"))
    assert runs["three"] == ("SUCCESS" if others == "of two kinds" else "PENDING", 0)


def test_a_step_in_whose_place_another_is_recorded_fails_alone(fresh_database: Callable[[str], str]) -> None:
    other = ("one", "token-one", 1, "other", "elsewhere", None, "2", None, None, "portable_json", 0)
    outcomes, _, runs = asyncio.run(
        _written(
            fresh_database("postgres"),
            ("step", _step("one", "token-one", 0)),
            ("step", _step("two", "token-two", 0)),
            ("end", _end("three", "token-three")),
            early=[other],
        )
    )
    assert isinstance(outcomes[0], Conflict)
    assert outcomes[1:] == [True, True]
    assert runs == {"one": ("PENDING", 1), "two": ("PENDING", 1), "three": ("SUCCESS", 0)}


def test_together_moves_placeholders_on_and_leaves_literals_alone() -> None:
    text = together([("INSERT INTO a VALUES ($1, $2, '$1')", 2), ("DELETE FROM b WHERE c = $1", 1)])
    assert text == (
        "WITH s0 AS (INSERT INTO a VALUES ($1, $2, '$1') RETURNING 1), s1 AS (DELETE FROM b WHERE c = $3 RETURNING 1) "
        "SELECT (SELECT count(*) FROM s0) AS n0, (SELECT count(*) FROM s1) AS n1"
    )
