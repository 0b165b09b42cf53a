"""The contract of listings: filters show what fits them and no more; pages miss nothing and repeat nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError
from holdfast.model.workflow import WorkflowStatus
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App

Run = dict[str, Any]
Fits = Callable[[Run], bool]
FIRST = 1_700_000_000_000
_TEXTS = (
    "name", "class_name", "config_name", "application_version", "application_id", "executor_id", "authenticated_user",
    "assumed_role", "queue_name", "queue_partition_key", "parent_workflow_id", "forked_from",
)  # fmt: skip
_TIMES = {
    "created": "created_at",
    "started": "started_at_epoch_ms",
    "completed": "completed_at",
    "updated": "updated_at",
}


def made(stage: Stage, number: int, **columns: Any) -> Run:
    """Insert a run behind the library's back; return its row."""
    row: Run = {
        "workflow_uuid": f"{stage.version}-{number:04}",
        "status": "SUCCESS",
        "name": "flow",
        "created_at": FIRST + number,
        "updated_at": FIRST + number + 50,
        "priority": 0,
        "recovery_attempts": 0,
        "was_forked_from": False,
        **columns,
    }
    marks = ", ".join("?" for _ in row)
    stage.execute(f"INSERT INTO {stage.table('workflow_status')} ({', '.join(row)}) VALUES ({marks})", *row.values())
    return row


_LARGE = [f'{{"n":{2**60}}}', f'{{"n":{2**60 + 1}}}']  # one number to whoever counts in floats


def various(stage: Stage, amount: int) -> list[Run]:
    """Insert runs that differ in every column, a few values each; some are NULL where they may be."""
    draw = random.Random(7)  # noqa: S311 -- the same runs every time
    runs = []
    for number in range(amount):
        columns: Run = {name: draw.choice(["a", "A", "b%", "é"]) for name in _TEXTS}
        columns |= {name: None for name in _TEXTS[1:] if draw.random() < 0.4}
        columns["status"] = draw.choice(list(WorkflowStatus)).value
        columns |= {"created_at": FIRST + number // 3, "priority": draw.choice([0, 0, 1, -2])}
        columns |= {"recovery_attempts": draw.choice([0, 0, 3]), "was_forked_from": draw.random() < 0.2}
        columns["started_at_epoch_ms"] = columns["created_at"] + draw.choice([0, 20])
        columns["completed_at"] = columns["created_at"] + 30 if draw.random() < 0.6 else None
        columns["workflow_deadline_epoch_ms"] = draw.choice([None, FIRST])
        columns["attributes"] = draw.choice(
            [
                None,
                '{"n":1}',
                '{"n":"1"}',
                '{"n":true}',
                '{"n":[1]}',
                '{"k\\"é":"x","n":1.5}',
                '{"z":"\\u0000"}',
                '{"n":"1\\u0000"}',
                '{"n\\u0000":"1"}',
                '{"n":1,"z":"\\u0000"}',
                *_LARGE,
            ]
        )
        runs.append(made(stage, number, **columns))
    return runs


async def found(stage: Stage, app: App, **filters: Any) -> list[str]:
    """Return the ids of this stage's runs that a listing shows, newest first; the oldest first says the same."""
    newest = [run.workflow_id for run in await app.do("list_workflows", limit=10_000, **filters)]
    oldest = [run.workflow_id for run in await app.do("list_workflows", limit=10_000, newest_first=False, **filters)]
    ours = [each for each in newest if each.startswith(stage.version)]
    assert ours == [each for each in oldest if each.startswith(stage.version)][::-1]
    return ours


def fitting(runs: Sequence[Run], fits: Fits) -> list[str]:
    """Return the ids of the runs that fit, in the order of a listing."""
    ordered = sorted(runs, key=lambda run: (run["created_at"], run["workflow_uuid"]), reverse=True)
    return [run["workflow_uuid"] for run in ordered if fits(run)]


def one_of(column: str, values: Sequence[Any]) -> Fits:
    return lambda run: run[column] in values


def is_set(column: str, *, yes: bool) -> Fits:
    return lambda run: (run[column] is not None) is yes


def between(column: str, first: int, last: int) -> Fits:
    return lambda run: run[column] is not None and first <= run[column] < last


def both(one: Fits, other: Fits) -> Fits:
    return lambda run: one(run) and other(run)


def expectations() -> Iterator[tuple[dict[str, Any], Fits]]:
    """Yield filters, and what a run must be to fit them."""
    at, end = FIRST + 30, FIRST * 2
    for name in (*_TEXTS, "status"):
        some: tuple[str, ...] = ("a", "b%") if name != "status" else ("ERROR", "PENDING")
        yield from (({name: value}, one_of(name, [value])) for value in some)
        yield from (({name: values}, one_of(name, values)) for values in (some, ()))
    for moment, column in _TIMES.items():
        yield {f"{moment}_after": at}, between(column, at, end)
        yield {f"{moment}_before": at}, between(column, 0, at)
    for yes in (True, False):
        yield {"was_forked_from": yes}, one_of("was_forked_from", [yes])
        yield {"is_fork": yes}, is_set("forked_from", yes=yes)
        yield {"has_parent": yes}, is_set("parent_workflow_id", yes=yes)
        yield {"has_deadline": yes}, is_set("workflow_deadline_epoch_ms", yes=yes)
    yield from (({"priority": value}, one_of("priority", [value])) for value in (0, 1, -2))
    yield {"priority": (1, -2)}, one_of("priority", (1, -2))
    yield from (({"min_recovery_attempts": least}, between("recovery_attempts", least, 9)) for least in (0, 1, 4))
    waiting = one_of("status", ["ENQUEUED", "DELAYED", "PENDING"])
    yield {"queues_only": True}, both(waiting, is_set("queue_name", yes=True))
    yield {"name": "a", "status": "ERROR"}, both(one_of("name", ["a"]), one_of("status", ["ERROR"]))
    yield {"name": ("a", "A"), "completed_after": at}, both(one_of("name", "aA"), between("completed_at", at, end))


ATTRIBUTES: list[tuple[dict[str, Any], list[str]]] = [
    ({"n": 1}, ['{"n":1}']),
    ({"n": 1.0}, ['{"n":1}']),
    ({"n": 2**60}, [_LARGE[0]]),
    ({"n": "1"}, ['{"n":"1"}']),
    ({"n": True}, ['{"n":true}']),
    ({'k"é': "x"}, ['{"k\\"é":"x","n":1.5}']),
    ({'k"é': "x", "n": 1.5}, ['{"k\\"é":"x","n":1.5}']),
    ({'k"é': "x", "n": 2}, []),
    ({"m": None}, []),
]


class FiltersContract:
    """Every column as a filter."""

    def test_filters_show_the_runs_that_fit_and_no_others(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app(application_version=f"{stage.version}-looker") as app:
                runs = various(stage, 120)
                for filters, fits in expectations():
                    assert await found(stage, app, **filters) == fitting(runs, fits), filters
                    counts = await app.do("count_workflows", group_by=["status"], **filters)
                    assert counts == await app.do("count_workflows", group_by="status", **filters)
                    assert sum(each.count for each in counts) >= len(fitting(runs, fits)), filters
                for attributes, texts in ATTRIBUTES:
                    expected = fitting(runs, one_of("attributes", texts))
                    assert await found(stage, app, attributes=attributes) == expected, attributes

        Stage(venue).play(scene)

    def test_runs_are_found_by_their_ids(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                ids = [made(stage, number)["workflow_uuid"] for number in range(4)]
                assert await found(stage, app, workflow_ids=ids[2]) == [ids[2]]
                assert await found(stage, app, workflow_ids=[ids[0], ids[3], "nobody"]) == [ids[3], ids[0]]
                assert await found(stage, app, workflow_ids=[]) == []

        Stage(venue).play(scene)

    def test_prefix_of_an_id_is_taken_letter_by_letter(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                tails = ["a%b", "a_b", "axb", "A_b", "a\\b", "a é", "a ", "a", "a\U0010ffffz", "a'b", "ab"]
                ids = [f"{stage.version}-{tail}" for tail in tails]
                for number, each in enumerate(ids):
                    made(stage, number, workflow_uuid=each)
                for prefix in ["a", "a%", "a_", "a\\", "A", "a ", "a\U0010ffff", "a'", "b", "aé"]:
                    expected = [each for each in reversed(ids) if each.startswith(f"{stage.version}-{prefix}")]
                    shown = await found(stage, app, workflow_id_prefix=f"{stage.version}-{prefix}")
                    assert shown == expected, prefix

        Stage(venue).play(scene)

    def test_run_is_found_by_its_deduplication_id(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                columns = {"status": "ENQUEUED", "queue_name": f"{stage.version}-queue"}
                ids = [made(stage, n, **columns, deduplication_id=f"d{n}")["workflow_uuid"] for n in range(3)]
                assert await found(stage, app, deduplication_id="d1") == [ids[1]]
                assert await found(stage, app, deduplication_id=["d0", "d2"]) == [ids[2], ids[0]]

        Stage(venue).play(scene)

    def test_payloads_are_searched_unless_they_are_encoded(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                plain = {"serialization": "portable_json", "output_serialization": "portable_json"}
                inputs = made(stage, 1, inputs='{"positionalArgs":["50% _ \\"é\\""]}', **plain)["workflow_uuid"]
                output = made(stage, 2, output='{"total":12}', **plain)["workflow_uuid"]
                error = made(stage, 3, error='{"name":"Oops","message":"50"}', **plain)["workflow_uuid"]
                pending = made(stage, 4, inputs='"50"', status="PENDING")["workflow_uuid"]
                made(stage, 5, inputs="NTA=50", serialization="portable_json+zlib")
                for text, expected in {
                    "50": [pending, error, inputs],
                    "50%": [inputs],
                    '"é"': [inputs],
                    '"total":12': [output],
                    "oops": [],
                    "Oops": [error],
                    "NTA": [],
                }.items():
                    assert await found(stage, app, search=text) == expected, text

        Stage(venue).play(scene)

    def test_run_with_roles_and_attributes_that_are_none_hides_no_other(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            async def work() -> None:
                return None

            flow = app.workflow(work, name="work")
            async with app:
                ids = [(await flow.start()).workflow_id for _ in range(2)]
                stage.execute(
                    f"UPDATE {stage.table('workflow_status')} SET authenticated_roles = '{{', attributes = '[]' "
                    f"WHERE workflow_uuid = '{ids[0]}'"
                )
                found = {each.workflow_id: each for each in await app.do("list_workflows", workflow_ids=ids)}
                assert found.keys() == set(ids)
                assert found[ids[0]].authenticated_roles == ("<cannot be read: JSON>",)
                assert found[ids[0]].attributes == {"<cannot be read: JSON>": None}
                assert (await app.do("get_workflow", ids[1])).attributes is None

        Stage(venue).play(scene)

    def test_time_may_be_given_with_its_zone(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                ids = [made(stage, number)["workflow_uuid"] for number in range(3)]
                at = datetime.fromtimestamp(FIRST / 1000, UTC) + timedelta(milliseconds=1)
                assert await found(stage, app, created_after=at) == [ids[2], ids[1]]
                assert await found(stage, app, created_before=at) == [ids[0]]

        Stage(venue).play(scene)


class PagesContract:
    """Cursors."""

    @pytest.mark.parametrize("newest_first", [True, False])
    def test_pages_show_every_run_once_and_in_order(self, venue: Venue, newest_first: bool) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                runs = various(stage, 50)
                for filters in ({"workflow_id_prefix": stage.version}, {"name": ["a", "A", "b%", "é"]}):
                    shown, cursor = list[str](), None
                    while True:
                        page = await app.do(
                            "list_workflows", limit=7, newest_first=newest_first, cursor=cursor, **filters
                        )
                        shown += [run.workflow_id for run in page if run.workflow_id.startswith(stage.version)]
                        cursor = page.cursor
                        if cursor is None:
                            break
                        assert len(page) == 7
                    expected = fitting(runs, lambda _: True)
                    assert shown == (expected if newest_first else expected[::-1])

        Stage(venue).play(scene)

    @pytest.mark.parametrize("newest_first", [True, False])
    def test_pages_miss_nothing_while_others_write(self, venue: Venue, newest_first: bool) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app(application_version=f"{stage.version}-looker") as app:
                before = {made(stage, n, created_at=FIRST + n // 4)["workflow_uuid"] for n in range(200)}
                doomed = {each for each in before if each.endswith("3")}
                stop = threading.Event()
                writer = threading.Thread(target=_disturb, args=(venue, stage, sorted(doomed), stop))
                writer.start()
                try:
                    for _ in range(3):
                        shown, cursor = list[str](), None
                        while True:
                            page = await app.do(
                                "list_workflows",
                                limit=11,
                                newest_first=newest_first,
                                cursor=cursor,
                                workflow_id_prefix=stage.version,
                            )
                            shown += [run.workflow_id for run in page]
                            if (cursor := page.cursor) is None:
                                break
                        assert len(shown) == len(set(shown))
                        assert before - doomed <= set(shown)
                finally:
                    stop.set()
                    writer.join()

        Stage(venue).play(scene)

    def test_cursor_is_refused_in_the_other_order_and_if_it_is_none(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app() as app:
                for number in range(3):
                    made(stage, number)
                page = await app.do("list_workflows", limit=1, workflow_id_prefix=stage.version)
                with pytest.raises(ConfigurationError, match="newest first"):
                    await app.do("list_workflows", cursor=page.cursor, newest_first=False)
                for nonsense in ("", "x", "W10", page.cursor[:-3], "é"):
                    with pytest.raises(ConfigurationError, match="cursor"):
                        await app.do("list_workflows", cursor=nonsense)
                for limit in (0, -1, 10_001, "5"):
                    with pytest.raises(ConfigurationError, match="limit"):
                        await app.do("list_workflows", limit=limit)

        Stage(venue).play(scene)


def _disturb(venue: Venue, stage: Stage, doomed: list[str], stop: threading.Event) -> None:
    """Insert runs at both ends and in the middle, change all of them, and delete some, until *stop*."""
    other = Stage(venue)
    other.version = stage.version
    table = other.table("workflow_status")
    for number in count(1000):
        if stop.is_set():
            break
        made(other, number, created_at=FIRST + number * 37 % 50)
        status = ("SUCCESS", "PENDING", "ENQUEUED")[number % 3]
        other.execute(
            f"UPDATE {table} SET status = ?, updated_at = updated_at + 1 WHERE workflow_uuid = ?",
            status,
            f"{stage.version}-{number % 200:04}",
        )
        if doomed:
            other.execute(f"DELETE FROM {table} WHERE workflow_uuid = ?", doomed.pop())
    other.execute(f"UPDATE {table} SET status = 'SUCCESS' WHERE workflow_uuid LIKE ?", f"{stage.version}-%")
    other._observer.close()  # noqa: SLF001 -- it has no scene of its own that would close it


class LookingContract(FiltersContract, PagesContract):
    """All there is about listings."""
