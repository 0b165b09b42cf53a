"""Clients of a database that others run workflows in, on every database and in both colours."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.client import AsyncClient, Client
from holdfast.db import ConnectionManager, SyncConnectionManager
from holdfast.db.migrations.migrator import Migrator
from holdfast.errors import (
    CodecError,
    ConfigurationError,
    MisuseError,
    NotInitialized,
    NotOurDatabase,
    QueryFailed,
    SchemaTooNew,
    SchemaTooOld,
    TransitionRefused,
    Unavailable,
    WorkflowCancelled,
    WorkflowConflict,
    WorkflowNotFound,
)
from holdfast.model.workflow import WorkflowStatus
from holdfast.serialize import Compression, Encryption, Serialization
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_stage import PATIENCE, Stage
from holdfast.testing.proxy import Cut, Proxy
from holdfast.workflows.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from typing import Self

    from holdfast.testing.contract import Venue

    FreshDatabase = Callable[[str], str]


@dataclass
class Order:
    sku: str
    count: int


class Visitor:
    """A client of either colour, awaited; its runs are of the stage's application version."""

    def __init__(self, stage: Stage, **settings: Any) -> None:
        self._stage = stage
        self.raw: Any = (AsyncClient if stage.colour is Colour.ASYNC else Client)(stage.url, **settings)

    async def value(self, made: Any) -> Any:
        return await made if self._stage.colour is Colour.ASYNC else made

    async def do(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        return await self.value(getattr(self.raw, verb)(*args, **kwargs))

    async def start(self, name: str, *args: Any, **options: Any) -> Any:
        options.setdefault("application_version", self._stage.version)
        return await self.do("start_workflow", name, args, options.pop("kwargs", None), **options)

    async def enqueue(self, name: str, *args: Any, **options: Any) -> Any:
        return await self.do("enqueue", name, args, application_version=self._stage.version, **options)

    async def result(self, handle: Any, patience: float = PATIENCE) -> Any:
        return await self.value(handle.result(patience))

    async def status(self, handle: Any) -> Any:
        return await self.value(handle.status())

    async def __aenter__(self) -> Self:
        await self.do("open")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.do("close")


async def add(first: int, second: int = 1) -> int:
    return first + second


async def fail(text: str) -> None:
    raise ValueError(text)


def fresh(word: str) -> str:
    return f"{word}-{secrets.token_hex(8)}"


async def refusal(work: Awaitable[Any]) -> BaseException:
    """Await *work* and return the error it raises."""
    try:
        value = await work
    except Exception as error:  # noqa: BLE001 -- what a test looks at
        return error
    raise AssertionError(f"It gave {value!r}, not an error.")


class TestStarting:
    def test_run_is_started_by_name_and_waited_for(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            app.workflow(add)
            async with app, Visitor(stage) as visitor:
                handle = await visitor.start("add", 2, kwargs={"second": 3}, attributes={"tier": "gold"})
                assert await visitor.result(handle) == 5
                state = await visitor.status(handle)
                assert (state.status, state.name, state.attributes) == (WorkflowStatus.SUCCESS, "add", {"tier": "gold"})
                assert handle.workflow_id in repr(handle)

        Stage(venue).play(scene)

    def test_same_call_is_one_run_whoever_made_it_first(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, ours, theirs = stage.app(), fresh("ours"), fresh("theirs")
            flow = app.workflow(add)
            async with app, Visitor(stage) as visitor:
                await visitor.start("add", 2, workflow_id=ours)
                assert await (await flow.options(workflow_id=ours).start(2)).result() == 3
                await (await flow.options(workflow_id=theirs).start(4, second=4)).result()
                handle = await visitor.start("add", 4, kwargs={"second": 4}, workflow_id=theirs)
                assert await visitor.result(handle) == 8
                error = await refusal(visitor.start("add", 5, workflow_id=theirs))
                assert isinstance(error, WorkflowConflict)
                assert "with other arguments" in str(error)
                assert isinstance(await refusal(visitor.start("fail", 4, workflow_id=theirs)), WorkflowConflict)
                there = await visitor.start("add", 5, workflow_id=theirs, on_conflict="return_existing")
                assert await visitor.result(there) == 8

        Stage(venue).play(scene)

    def test_call_has_the_fingerprint_that_an_application_gives_it(self, venue: Venue) -> None:
        async def everything(a: str, b: list[int], c: Order, d: datetime, e: Decimal, f: float | None = None) -> int:
            return len(a) + len(b) + c.count

        async def scene(stage: Stage) -> None:
            app, workflow_id = stage.app(), fresh("same")
            flow = app.workflow(everything, name="everything")
            given = ("ä", [1, 2], Order("x", 3), datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), Decimal("1.50"))
            async with app, Visitor(stage) as visitor:
                assert await (await flow.options(workflow_id=workflow_id).start(*given, f=1.5)).result() == 6
                handle = await visitor.start("everything", *given, kwargs={"f": 1.5}, workflow_id=workflow_id)
                assert await visitor.result(handle) == 6
                plain = ("ä", [1, 2], {"sku": "x", "count": 3}, "2030-01-02T03:04:05Z", "1.50")
                handle = await visitor.start("everything", *plain, kwargs={"f": 1.5}, workflow_id=workflow_id)
                assert await visitor.result(handle) == 6

        Stage(venue).play(scene)

    def test_run_waits_until_somebody_has_its_function(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app():
                pass
            async with Visitor(stage) as visitor:
                handle = await visitor.start("add", 1, timeout=60)
                state = await visitor.status(handle)
                assert state.status is WorkflowStatus.ENQUEUED
                assert (state.workflow_timeout_ms, state.workflow_deadline_epoch_ms) == (60_000, None)
                assert isinstance(await refusal(visitor.result(handle, 0.05)), TimeoutError)
                app = stage.app()
                app.workflow(add)
                async with app:
                    assert await visitor.result(handle) == 2
                state = await visitor.status(handle)
                assert state.workflow_deadline_epoch_ms == state.started_at_epoch_ms + 60_000

        Stage(venue).play(scene)

    def test_id_or_argument_that_cannot_be_stored_is_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app(), Visitor(stage) as visitor:
                for workflow_id in ("", "x" * 256, "a\0b"):
                    assert isinstance(await refusal(visitor.start("add", workflow_id=workflow_id)), ConfigurationError)
                assert isinstance(await refusal(visitor.start("add", object())), TypeError)

        Stage(venue).play(scene)

    def test_name_that_no_function_can_have_is_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app(), Visitor(stage) as visitor:
                for name in ('a"b', "a\\b", ""):
                    for wrong in (
                        visitor.start(name),
                        visitor.start("add", class_name=name, config_name="c"),
                        visitor.start("add", class_name="C", config_name=name),
                        visitor.enqueue(name, queue_name="queue"),
                        visitor.do("enqueue_many", [visitor.raw.call(name)], queue_name="queue"),
                        visitor.do("debounce", name, "key", 60, queue_name="queue"),
                    ):
                        error = await refusal(wrong)
                        assert isinstance(error, ConfigurationError)
                        assert "cannot be recorded" in str(error)

        Stage(venue).play(scene)


class TestWaiting:
    def test_error_of_the_run_is_raised(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            app.workflow(fail)
            async with app, Visitor(stage) as visitor:
                error = await refusal(visitor.result(await visitor.start("fail", "no luck")))
                assert isinstance(error, ValueError)
                assert str(error) == "no luck"
                unknown = visitor.raw.retrieve_workflow(fresh("nobody"))
                assert isinstance(await refusal(visitor.result(unknown)), WorkflowNotFound)
                assert isinstance(await refusal(visitor.status(unknown)), WorkflowNotFound)

        Stage(venue).play(scene)

    def test_payloads_are_opaque_in_the_tables_and_read_with_the_key_alone(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            word, old = fresh("sesame"), {"k1": b"k" * 32}
            sealed = Serialization(codecs=[Compression(), Encryption(keys=old, current="k1")])
            rotated = Serialization(codecs=[Compression(), Encryption(keys={**old, "k2": b"q" * 32}, current="k2")])
            app = stage.app(serializer=sealed)
            step = app.step(fail)

            async def whisper(what: str) -> str:
                await app.do("set_event", "said", what)
                await app.do("write_stream", "log", what)
                with suppress(ValueError):
                    await step(what)
                return what

            app.workflow(whisper, name="whisper")
            async with app, Visitor(stage, serializer=sealed) as visitor, Visitor(stage) as stranger:
                handle = await visitor.start("whisper", word)
                assert await visitor.result(handle) == word
                for table in ("workflow_status", "operation_outputs", "workflow_events", "streams"):
                    kept = stage.rows(f"SELECT * FROM {stage.table(table)} WHERE workflow_uuid = ?", handle.workflow_id)
                    assert kept
                    assert word not in str(kept), table
                other = stranger.raw.retrieve_workflow(handle.workflow_id)
                assert isinstance(await refusal(stranger.result(other)), CodecError)
                async with Visitor(stage, serializer=rotated) as later:
                    assert await later.result(later.raw.retrieve_workflow(handle.workflow_id)) == word

        Stage(venue).play(scene)


class TestSteering:
    def test_run_is_cancelled_resumed_rewound_forked_and_deleted(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, gate, workflow_id = stage.app(), stage.gate(), fresh("steered")
            step = app.step(add)

            async def waits(number: int) -> int:
                first = await step(number)
                await gate()
                return int(await step(first))

            app.workflow(waits, name="waits")
            async with app, Visitor(stage) as visitor:
                handle = await visitor.start("waits", 1, workflow_id=workflow_id)
                await gate.reached()
                await visitor.do("cancel_workflow", workflow_id)
                assert isinstance(await refusal(visitor.result(handle)), WorkflowCancelled)
                assert isinstance(await refusal(visitor.do("cancel_workflow", workflow_id)), TransitionRefused)
                gate.open()
                assert await visitor.result(await visitor.do("resume_workflow", workflow_id)) == 3
                assert [each.output for each in await visitor.do("list_steps", workflow_id)] == [2, 3]
                copy = await visitor.do("fork_workflow", workflow_id, 2, new_workflow_id=f"{workflow_id}-copy")
                assert copy.workflow_id == f"{workflow_id}-copy"
                assert await visitor.result(copy) == 3
                assert await visitor.result(await visitor.do("rewind_workflow", workflow_id, 2)) == 3
                assert (await visitor.do("get_workflow", workflow_id)).generation == 1
                await visitor.do("delete_workflow", workflow_id)
                assert isinstance(await refusal(visitor.do("get_workflow", workflow_id)), WorkflowNotFound)

        Stage(venue).play(scene)

    def test_many_are_changed_at_once_and_each_refusal_is_told(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app(), Visitor(stage) as visitor:
                ids = [fresh("many") for _ in range(3)]
                for each in ids:
                    await visitor.start("nobody", workflow_id=each)
                changes = await visitor.do("cancel_workflows", [*ids, "nowhere"])
                assert changes.changed == tuple(ids)
                assert [(each, type(why)) for each, why in changes.refused.items()] == [("nowhere", WorkflowNotFound)]
                again = await visitor.do("cancel_workflows", ids[:1])
                assert again.refused[ids[0]].status == "CANCELLED"
                handles = await visitor.do("fork_workflows", ids, application_version="elsewhere")
                assert len({each.workflow_id for each in handles} - set(ids)) == 3
                assert isinstance(await refusal(visitor.do("delete_workflows", "one-text")), MisuseError)
                assert (await visitor.do("delete_workflows", ids)).changed == tuple(ids)

        Stage(venue).play(scene)

    def test_queued_run_is_delayed_deduplicated_and_described(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            queue = fresh("queue")
            async with stage.app(), Visitor(stage) as visitor:
                options = {"queue_name": queue, "deduplication_id": "once", "priority": 3, "queue_partition_key": "p"}
                handle = await visitor.enqueue("nobody", 1, delay=timedelta(hours=1), **options)
                state = await visitor.status(handle)
                assert state.status is WorkflowStatus.DELAYED
                assert state.delay_until_epoch_ms == state.created_at + 3_600_000
                assert (state.deduplication_id, state.priority, state.queue_partition_key) == ("once", 3, "p")
                error = await refusal(visitor.enqueue("nobody", 2, **options))
                assert isinstance(error, WorkflowConflict)
                assert "'once'" in str(error)
                moment = datetime(2035, 7, 1, tzinfo=ZoneInfo("Europe/Berlin"))
                await visitor.do("set_workflow_delay", handle.workflow_id, delay_until=moment)
                await visitor.do("update_workflow_attributes", handle.workflow_id, {"a": 1, "b": 2})
                await visitor.do("update_workflow_attributes", handle.workflow_id, {"b": None, "c": 3}, merge=True)
                state = await visitor.status(handle)
                assert state.delay_until_epoch_ms == int(moment.timestamp() * 1000)
                assert state.attributes == {"a": 1, "c": 3}
                assert isinstance(await refusal(visitor.do("set_workflow_delay", handle.workflow_id)), MisuseError)
                await visitor.do("cancel_workflow", handle.workflow_id)

        Stage(venue).play(scene)


class TestEnqueueing:
    def test_many_runs_are_enqueued_together_or_none_of_them(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, queue = stage.app(), fresh("queue")
            app.workflow(add, name=f"add-{stage.version}")
            async with app, Visitor(stage) as visitor:
                call = partial(visitor.raw.call, f"add-{stage.version}")
                calls = [call([number], workflow_id=fresh("run")) for number in range(3)]
                calls.append(call([3], {"second": 5}, priority=1))
                handles = await visitor.do("enqueue_many", calls, queue_name=queue, priority=2)
                assert [(await visitor.status(each)).priority for each in handles] == [2, 2, 2, 1]
                taken = [call([9], workflow_id=fresh("run")), call([9], workflow_id=handles[0].workflow_id)]
                error = await refusal(visitor.do("enqueue_many", taken, queue_name=queue))
                assert isinstance(error, WorkflowConflict)
                page = await visitor.do("list_workflows", queue_name=queue)
                assert len(page) == 4
                for wrong in (["add"], [call([1], deduplication_id="")]):
                    error = await refusal(visitor.do("enqueue_many", wrong, queue_name=queue))
                    assert isinstance(error, (MisuseError, ConfigurationError))
                assert await visitor.do("enqueue_many", [], queue_name=queue) == []
                await visitor.do("register_queue", queue)
                assert [await visitor.result(each) for each in handles] == [1, 2, 3, 8]

        Stage(venue).play(scene)

    def test_start_refuses_what_only_a_queue_can_heed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app(), Visitor(stage) as visitor:
                name = f"nobody-{stage.version}"
                for said in ({"priority": "x"}, {"delay": 5}, {"deduplication_id": "d"}, {"debounce_timeout": 1}):
                    error = await refusal(visitor.do("start_workflow", name, [1], **said))
                    assert isinstance(error, MisuseError)
                    assert next(iter(said)) in str(error)
                assert await visitor.do("list_workflows", name=name) == []

        Stage(venue).play(scene)

    def test_debounced_calls_of_clients_and_applications_are_one_run(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, queue, name = stage.app(), fresh("queue"), f"add-{stage.version}"
            flow = app.workflow(add, name=name)
            async with app, Visitor(stage) as visitor:
                first = await app.value(flow.raw.options(queue_name=queue).debounce("key", 600, 1))
                again = await visitor.do("debounce", name, "key", 600, [2], queue_name=queue)
                assert again.workflow_id == first.workflow_id
                other = await visitor.do(
                    "debounce", name, "other", 600, [3], {"second": 4}, queue_name=queue, debounce_timeout=5, priority=7
                )
                state = await visitor.status(other)
                assert (state.status, state.priority) == (WorkflowStatus.DELAYED, 7)
                assert state.delay_until_epoch_ms == state.created_at + 5_000
                for each in (again, other):
                    await visitor.do("set_workflow_delay", each.workflow_id, 0)
                await visitor.do("register_queue", queue)
                assert [await visitor.result(each) for each in (again, other)] == [3, 7]
                error = await refusal(visitor.do("debounce", name, "key", -1, [2], queue_name=queue))
                assert isinstance(error, ConfigurationError)

        Stage(venue).play(scene)


class TestLooking:
    def test_runs_are_listed_page_by_page_and_counted(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app(), Visitor(stage) as visitor:
                ids = [(await visitor.start("nobody")).workflow_id for _ in range(5)]
                mine = {"application_version": stage.version, "status": WorkflowStatus.ENQUEUED}
                page = await visitor.do("list_workflows", limit=3, newest_first=False, **mine)
                rest = await visitor.do("list_workflows", limit=3, newest_first=False, cursor=page.cursor, **mine)
                assert sorted(each.workflow_id for each in [*page, *rest]) == sorted(ids)
                assert (len(page), len(rest), rest.cursor) == (3, 2, None)
                [counted] = await visitor.do("count_workflows", group_by=("status", "name"), **mine)
                assert (counted.group, counted.count) == ({"status": "ENQUEUED", "name": "nobody"}, 5)
                error = await refusal(visitor.do("list_workflows", no_such_filter=1))
                assert isinstance(error, ConfigurationError)
                await visitor.do("cancel_workflows", ids)

        Stage(venue).play(scene)

    def test_executors_and_versions_are_listed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app(executor_id="porter"), Visitor(stage) as visitor:
                found = await visitor.do("list_executors")
                [mine] = [each for each in found if each.application_version == stage.version]
                assert (mine.executor_id, mine.lease_ms) == ("porter", 5000)
                await visitor.do("set_latest_application_version", stage.version)
                assert (await visitor.do("get_latest_application_version")).version_name == stage.version
                versions = await visitor.do("list_application_versions")
                assert stage.version in {each.version_name for each in versions}

        Stage(venue).play(scene)

    def test_run_is_exported_deleted_and_imported_again(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            app.workflow(add)
            async with app, Visitor(stage) as visitor:
                handle = await visitor.start("add", 1)
                await visitor.result(handle)
                document = await visitor.do("export_workflow", handle.workflow_id)
                assert isinstance(await refusal(visitor.do("import_workflow", document)), WorkflowConflict)
                there = await visitor.do("import_workflow", document, on_conflict="return_existing")
                assert there.workflow_id == handle.workflow_id
                report = await visitor.do("prune", Retention(older_than=0, name="add"), dry_run=True)
                assert report.matched >= 1
                assert report.deleted == 0
                await visitor.do("delete_workflow", handle.workflow_id)
                assert await visitor.result(await visitor.do("import_workflow", document)) == 2
                other = await visitor.do("import_workflow", document, workflow_id=fresh("other"))
                assert await visitor.result(other) == 2

        Stage(venue).play(scene)


class TestLife:
    def test_client_is_used_only_while_it_is_open(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with stage.app():
                visitor = Visitor(stage)
                assert isinstance(await refusal(visitor.do("list_executors")), NotInitialized)
                await visitor.do("open")
                await visitor.do("open")
                assert await visitor.do("list_executors")
                await visitor.do("close")
                await visitor.do("close")
                assert isinstance(await refusal(visitor.start("nobody")), NotInitialized)
                await visitor.do("open")
                assert await visitor.do("list_executors")
                await visitor.do("close")

        Stage(venue).play(scene)


def test_whoever_waits_is_told_of_the_close(fresh_database: FreshDatabase) -> None:
    async def scene() -> None:
        url = fresh_database("sqlite")
        async with AsyncHoldfast(url), AsyncClient(url) as client:
            waiting = asyncio.create_task((await client.start_workflow("nobody")).result())
            while client._remote._results.waiting == 0:  # noqa: ASYNC110 -- a number that nobody announces
                await asyncio.sleep(0)
            await client.close()
            with pytest.raises(NotInitialized, match="closed before run"):
                await waiting

    asyncio.run(scene())


@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.parametrize(("kind", "commit"), [("postgres", b"COMMIT\x00"), ("mariadb", b"\x03COMMIT")])
def test_start_whose_commit_is_lost_happens_once(
    kind: str, commit: bytes, cut: Cut, fresh_database: FreshDatabase
) -> None:
    async def scene() -> None:
        url, workflow_id = fresh_database(kind), fresh("once")
        port = urlsplit(url).port or 0
        async with (
            AsyncHoldfast(url),
            Proxy("127.0.0.1", port) as proxy,
            AsyncClient(url.replace(f":{port}/", f":{proxy.port}/")) as client,
        ):
            proxy.arm(commit, cut)
            handle = await client.start_workflow("nobody", [1], workflow_id=workflow_id)
            assert proxy.cuts == 1
            assert (await handle.status()).status is WorkflowStatus.ENQUEUED
            with pytest.raises(WorkflowConflict):
                await client.start_workflow("nobody", [2], workflow_id=workflow_id)

    asyncio.run(scene())


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
class TestDatabase:
    def test_database_without_our_tables_is_refused_and_left_as_it_is(
        self, kind: str, fresh_database: FreshDatabase
    ) -> None:
        url = fresh_database(kind)
        with SyncConnectionManager(url) as manager:
            manager.execute("CREATE TABLE mine (k INTEGER)")
        with pytest.raises(NotOurDatabase, match="holdfast migrate"):
            Client(url).open()
        with SyncConnectionManager(url) as manager:
            assert manager.fetch("SELECT k FROM mine") == []
            with pytest.raises(QueryFailed):
                manager.fetch(f"SELECT 1 FROM {migrations(kind)}")

    @pytest.mark.parametrize(("change", "error"), [(-1, SchemaTooOld), (1, SchemaTooNew)])
    def test_database_of_another_release_is_refused(
        self, kind: str, change: int, error: type[Exception], fresh_database: FreshDatabase
    ) -> None:
        url = fresh_database(kind)
        with Holdfast(url), SyncConnectionManager(url) as manager:
            manager.execute(f"UPDATE {migrations(kind)} SET version = version + ?", change)
            with pytest.raises(error):
                Client(url).open()
            manager.execute(f"UPDATE {migrations(kind)} SET version = version - ?", change)
            with Client(url) as client:
                assert len(client.list_executors()) == 1

    def test_other_schema_has_no_runs_of_ours(self, kind: str, fresh_database: FreshDatabase) -> None:
        url = fresh_database(kind)
        with Holdfast(url, schema="mine"):
            with Client(url, schema="mine") as client:
                assert len(client.list_executors()) == 1
            if kind == "postgres":
                with pytest.raises(NotOurDatabase, match="schema 'holdfast'"):
                    Client(url).open()


def migrations(kind: str) -> str:
    return "holdfast.holdfast_migrations" if kind == "postgres" else "holdfast_migrations"


class TestSqliteFile:
    def test_missing_file_is_not_created(self, tmp_path: Path) -> None:
        with pytest.raises(NotOurDatabase, match=r"no file .*missing\.sqlite"):
            Client(tmp_path / "missing.sqlite").open()
        assert list(tmp_path.iterdir()) == []

    def test_file_of_another_program_keeps_its_journal_mode(self, tmp_path: Path) -> None:
        path = tmp_path / "theirs.sqlite"
        with closing(sqlite3.connect(path)) as theirs:
            theirs.execute("CREATE TABLE mine (k INTEGER)")
        before = path.read_bytes()
        with pytest.raises(NotOurDatabase):
            Client(path).open()
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_file_that_is_no_database_is_refused_and_left_as_it_is(self, tmp_path: Path) -> None:
        path = tmp_path / "letter.txt"
        path.write_text("Dear Sir or Madam, " * 100)
        with pytest.raises(Unavailable, match="cannot be used as a SQLite database"):
            Client(path).open()
        assert path.read_text().startswith("Dear Sir")

    def test_copy_of_our_file_that_left_wal_is_ours(self, tmp_path: Path) -> None:
        with Holdfast(tmp_path / "app.sqlite"):
            pass
        with closing(sqlite3.connect(tmp_path / "app.sqlite")) as original:
            original.execute("VACUUM INTO ?", (str(tmp_path / "copy.sqlite"),))
        with Client(tmp_path / "copy.sqlite") as client:
            assert len(client.list_application_versions()) == 1

    def test_database_in_memory_has_no_runs(self) -> None:
        with pytest.raises(ConfigurationError, match="in memory"):
            Client("sqlite://").open()

    def test_database_that_no_application_was_launched_in_has_no_latest_version(self, tmp_path: Path) -> None:
        asyncio.run(_migrate(tmp_path / "app.sqlite"))
        with Client(tmp_path / "app.sqlite") as client, pytest.raises(WorkflowNotFound, match="ever launched"):
            client.get_latest_application_version()


async def _migrate(path: Path) -> None:
    async with ConnectionManager(path) as manager:
        await Migrator(manager).migrate()
