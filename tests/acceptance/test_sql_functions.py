"""SQL as a client: ``psql`` enqueues runs and sends messages, and a worker sees typed values."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from holdfast import AsyncHoldfast
from holdfast.db import DatabaseURL
from holdfast.errors import WorkflowConflict
from holdfast.testing.servers.postgres import newest_postgres, packaged_postgres

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class Order:
    """What a workflow is given."""

    number: int
    items: list[str]


class Psql:
    """The client that comes with the server."""

    def __init__(self, url: str) -> None:
        self._url = DatabaseURL.parse(url)
        folder = packaged_postgres() or newest_postgres()
        found = shutil.which("psql") or (folder and shutil.which("psql", path=str(folder)))
        assert found, "psql comes with the server that the suite has started"
        self._program = found

    def __call__(self, sql: str, *, fails: bool = False) -> str:
        """Run *sql*; return what it printed, or with *fails* what it said about its failure."""
        url = self._url
        command = [
            *(self._program, "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1"),
            *("-h", url.host or "", "-p", str(url.port), "-U", url.user or "", "-d", url.database or "", "-c", sql),
        ]
        environment = {**os.environ, "PGPASSWORD": url.password or ""}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode != 0) is fails, done.stderr
        return (done.stderr if fails else done.stdout).strip()


@pytest.fixture
def url(fresh_database: Callable[[str], str]) -> str:
    return fresh_database("postgres")


def test_run_enqueued_with_psql_gets_typed_arguments_and_messages(url: str) -> None:
    psql = Psql(url)
    app = AsyncHoldfast(url)

    @app.workflow(name="ship")
    async def ship(order: Order, *, express: bool) -> list[object]:
        first = await app.recv("change", timeout=60)
        second = await app.recv(timeout=60)
        return [type(order).__name__, order.number, order.items, express, first, second]

    async def main() -> None:
        async with app:
            await app.register_queue("orders")
            run_id = await asyncio.to_thread(
                psql,
                "SELECT holdfast.enqueue_workflow('ship', 'orders',"
                """ ARRAY['{"number": 17, "items": ["a", "b"]}'::json], '{"express": true}')""",
            )
            await asyncio.to_thread(
                psql, f"""SELECT holdfast.send_message('{run_id}', '{{"to": "Berlin"}}', 'change')"""
            )
            for _ in range(2):  # the second is the same message once more
                await asyncio.to_thread(
                    psql, f"SELECT holdfast.send_message('{run_id}', '[1, 2]', message_id => 'm-{run_id}')"
                )
            result = await app.retrieve_workflow(run_id).result(timeout=60)
            assert result == ["Order", 17, ["a", "b"], True, {"to": "Berlin"}, [1, 2]]
            assert [each.consumed for each in await app.get_all_notifications(run_id)] == [True, True]

    asyncio.run(main())


def test_same_call_again_is_the_same_run_and_another_call_is_refused(url: str) -> None:
    psql = Psql(url)
    app = AsyncHoldfast(url)

    @app.workflow(name="count")
    async def count(n: int) -> int:
        return n

    async def main() -> None:
        async with app:
            call = "SELECT holdfast.enqueue_workflow('count', 'q', ARRAY['{}'::json], workflow_id => 'one')"
            assert [psql(call.format(1)) for _ in range(2)] == ["one", "one"]
            assert "the id one belongs to another call" in psql(call.format(2), fails=True)
            other = "SELECT holdfast.enqueue_workflow('other', 'q', workflow_id => 'one')"
            assert "the id one belongs to another call" in psql(other, fails=True)
            # To a program its arguments are taken for the same; its function is not.
            assert (await count.options(workflow_id="one", queue_name="q").enqueue(1)).workflow_id == "one"
            with pytest.raises(WorkflowConflict, match="'one'"):
                await app.enqueue("other", queue_name="q", workflow_id="one")
            dedup = "SELECT holdfast.enqueue_workflow('count', 'q', workflow_id => '{}', deduplication_id => 'd')"
            assert psql(dedup.format("a")) == "a"
            assert "deduplication id d that has not ended: a (ENQUEUED)" in psql(dedup.format("b"), fails=True)

    asyncio.run(main())


def test_same_call_again_is_the_same_run_whatever_has_become_of_it(url: str) -> None:
    psql = Psql(url)
    app = AsyncHoldfast(url)

    class Counter:
        @app.workflow(name="count")
        @staticmethod
        async def count(n: int) -> int:
            return n

    async def main() -> None:
        async with app:
            call = "SELECT holdfast.enqueue_workflow('count', 'q', ARRAY['{}'::json], workflow_id => '{}')"
            assert psql(call.format(1, "one")) == "one"
            await app.cancel_workflow("one")
            assert psql(call.format(1, "one")) == "one"
            await app.resume_workflow("one")
            assert await app.retrieve_workflow("one").result(timeout=60) == 1
            assert psql(call.format(1, "one")) == "one"
            await app.rewind_workflow("one", queue_name="elsewhere")
            assert psql(call.format(1, "one")) == "one"
            assert "the id one belongs to another call" in psql(call.format(2, "one"), fails=True)
            await Counter.count.options(workflow_id="two", queue_name="q").enqueue(2)
            assert psql(call.format(2, "two")) == "two"

    asyncio.run(main())


def test_every_parameter_is_stored(url: str) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url):
            pass

    asyncio.run(main())
    psql = Psql(url)
    run_id = psql(
        "SELECT holdfast.enqueue_workflow('w', 'q', class_name => 'C', config_name => 'c', app_version => 'v',"
        " timeout_ms => 1000, deadline_epoch_ms => 4102444800000, deduplication_id => 'd', priority => 3,"
        " queue_partition_key => 'p')"
    )
    columns = (
        "status, name, queue_name, inputs, class_name, config_name, application_version, workflow_timeout_ms,"
        " workflow_deadline_epoch_ms, deduplication_id, priority, queue_partition_key"
    )
    row = psql(f"SELECT {columns} FROM holdfast.workflow_status WHERE workflow_uuid = '{run_id}'").split("|")
    assert row[:3] == ["ENQUEUED", "w", "q"]
    assert json.loads(row[3]) == {"positionalArgs": [], "namedArgs": {}}
    assert row[4:] == ["C", "c", "v", "1000", "4102444800000", "d", "3", "p"]
    assert psql(f"SELECT holdfast.send_message('{run_id}', '[1]')") == ""  # VOID
    message = psql("SELECT destination_uuid, topic, message, message_uuid FROM holdfast.notifications").split("|")
    assert message[:3] == [run_id, "__null__topic__", "[1]"]
    assert str(uuid.UUID(message[3])) == message[3]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("enqueue_workflow('', 'q')", "workflow_name is missing"),
        ("enqueue_workflow('a\"b', 'q')", "no workflow, class or object can have such a name"),
        ("enqueue_workflow('w', 'q', config_name => 'a\\b')", "no workflow, class or object can have such a name"),
        ("enqueue_workflow('w', NULL)", "queue_name is missing"),
        ("enqueue_workflow('w', '_holdfast_sys_internal')", "are reserved"),
        ("enqueue_workflow('w', 'q', named_args => '[1]')", "named_args must be a JSON object, not array"),
        ("enqueue_workflow('w', 'q', priority => -1)", "a priority is 0, which goes first, or more, not -1"),
        ("enqueue_workflow('w', 'q', timeout_ms => 0)", "more than 0, and a hundred years at most, not 0"),
        ("enqueue_workflow('w', 'q', timeout_ms => 9223372036854775807)", "years at most, not 9223372036854775807"),
        ("enqueue_workflow('w', repeat('q', 256))", "queue_name and app_version have 1 to 255 characters"),
        ("enqueue_workflow('w', 'q', app_version => '')", "queue_name and app_version have 1 to 255 characters"),
        ("enqueue_workflow('w', 'q', workflow_id => '')", "a workflow_id has 1 to 255 characters, this one has 0"),
        ("enqueue_workflow('w', 'q', deduplication_id => '')", "NULL or not empty"),
        ("send_message('nobody', '1')", "there is no run nobody"),
        ("send_message('', '1')", "destination_id is missing"),
        ("send_message('nobody', NULL)", "message is missing"),
    ],
)
def test_wrong_parameters_are_refused_with_the_reason(url: str, call: str, says: str) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url):
            pass

    asyncio.run(main())
    psql = Psql(url)
    assert says in psql(f"SELECT holdfast.{call}", fails=True)
    assert psql("SELECT count(*) FROM holdfast.workflow_status") == "0"


def test_functions_look_nothing_up_in_schemas_of_others(url: str) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url):
            pass

    asyncio.run(main())
    psql = Psql(url)
    pinned = psql(
        "SELECT proname || ' ' || array_to_string(proconfig, ';') FROM pg_proc"
        " WHERE pronamespace = 'holdfast'::regnamespace AND proname IN ('enqueue_workflow', 'send_message')"
        " ORDER BY proname"
    )
    assert pinned.splitlines() == [
        "enqueue_workflow search_path=pg_catalog, pg_temp",
        "send_message search_path=pg_catalog, pg_temp",
    ]
