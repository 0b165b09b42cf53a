"""``holdfast workflow``, ``executors``, ``versions`` and ``prune`` as they are typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.cli import asking
from holdfast.client import Client
from holdfast.errors import DatabaseError
from holdfast.testing.workers import until

COMMAND = Path(sys.executable).with_name("holdfast")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who can be asked; click reads the answers from the test."""
    monkeypatch.setattr(asking, "has_terminal", lambda: True)


class TestLooking:
    def test_runs_are_listed_as_a_line_each(self, shop: Any) -> None:
        shop.start("a", "b")
        done = shop.run("workflow", "list")
        assert (done.exit_code, done.stderr) == (0, "")
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        assert lines[0][:3] == ["id", "status", "name"]
        assert {(line[0], line[1], line[2]) for line in lines[1:]} == {
            ("a", "ENQUEUED", "checkout"),
            ("b", "ENQUEUED", "checkout"),
        }

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["--status", "cancelled"], ["c"]),
            (["--status", "CANCELLED", "--status", "ENQUEUED"], ["a", "b", "c"]),
            (["--prefix", "a"], ["a"]),
            (["--attribute", "tier=gold"], ["b"]),
            (["--name", "checkout", "--app-version", "v2"], ["b"]),
            (["--name", "other"], []),
            (["--created-before", "2001-01-01"], []),
            (["--created-after", "2001-01-01"], ["a", "b", "c"]),
            (["--search", '"c"'], ["c"]),
        ],
    )
    def test_runs_are_chosen_by_filters(self, shop: Any, words: list[str], expected: list[str]) -> None:
        shop.start("a", "c")
        shop.start("b", attributes={"tier": "gold"}, application_version="v2")
        shop.client.cancel_workflow("c")
        found = shop.json("workflow", "list", *words)
        assert sorted(each["workflow_id"] for each in found["workflows"]) == expected
        assert found["cursor"] is None

    def test_pages_follow_one_another(self, shop: Any) -> None:
        shop.start(*"abc")
        first = shop.json("workflow", "list", "--limit", "2", "--oldest-first")
        second = shop.json("workflow", "list", "--limit", "2", "--oldest-first", "--cursor", first["cursor"])
        ids = [each["workflow_id"] for page in (first, second) for each in page["workflows"]]
        assert sorted(ids) == ["a", "b", "c"]
        plain = shop.run("workflow", "list", "--limit", "2", "--oldest-first")
        assert len(plain.stdout.splitlines()) == 3  # a header and the rows, and nothing for people
        assert plain.stderr.splitlines()[-1] == f"There are more: --cursor {first['cursor']}"

    def test_run_is_shown_with_its_input(self, shop: Any) -> None:
        shop.start("a", attributes={"tier": "gold"})
        shown = shop.json("workflow", "show", "a")
        assert (shown["status"], shown["attributes"]) == ("ENQUEUED", {"tier": "gold"})
        assert shown["inputs"] == {"positionalArgs": ["a"], "namedArgs": {}}
        lines = shop.run("workflow", "show", "a").stdout.splitlines()
        assert 'attributes\t{"tier":"gold"}' in lines
        assert not any(line.startswith("completed_at") for line in lines)

    def test_run_that_is_not_there_is_an_error_of_one_line(self, shop: Any) -> None:
        for verb in ("show", "steps", "export"):
            done = shop.run("workflow", verb, "nobody")
            assert (done.exit_code, done.stdout) == (2, "")
            assert done.stderr.startswith("Error: There is no run 'nobody'")
            assert len(done.stderr.splitlines()) == 1

    def test_steps_executors_and_versions_are_listed(self, shop: Any) -> None:
        app = Holdfast(shop.path, executor_id="porter", application_version="v7")

        @app.step
        def pay(cents: int) -> str:
            return f"paid {cents}"

        @app.workflow(name="checkout")
        def checkout(cents: int) -> str:
            return pay(cents)

        with app:
            run = checkout.start(5)
            run.result(30)
            [executor] = shop.json("executors")["executors"]
            assert (executor["executor_id"], executor["application_version"]) == ("porter", "v7")
            assert "alive" in shop.run("executors").stdout
        [step] = shop.json("workflow", "steps", run.workflow_id)["steps"]
        assert (step["function_id"], step["output"]) == (1, "paid 5")
        assert "paid 5" in shop.run("workflow", "steps", run.workflow_id).stdout
        [version] = shop.json("versions", "--set-latest", "v7")["versions"]
        assert version["version_name"] == "v7"
        refused = shop.run("versions", "--set-latest", "v8")
        assert (refused.exit_code, "`holdfast versions` shows" in refused.stderr) == (2, True)
        assert shop.json("executors") == {"executors": []}


class TestStarting:
    def test_run_is_stored_with_what_was_said(self, shop: Any) -> None:
        words = ["--args", '["x"]', "--kwargs", '{"n": 2}', "--id", "order-17", "--timeout", "5m", "--attribute", "a=1"]
        assert shop.json("workflow", "start", "checkout", *words) == {"workflow_id": "order-17"}
        run = shop.client.get_workflow("order-17")
        assert run.inputs == {"positionalArgs": ["x"], "namedArgs": {"n": 2}}
        assert (run.workflow_timeout_ms, run.attributes) == (300_000, {"a": 1})
        assert shop.run("workflow", "start", "checkout", *words).stdout == "order-17\n"
        refused = shop.run("workflow", "start", "checkout", "--id", "order-17")
        assert refused.exit_code == 2
        assert "with other arguments" in refused.stderr

    def test_run_is_put_in_a_queue(self, shop: Any) -> None:
        words = ["--queue", "mail", "--deduplication-id", "d", "--priority", "4", "--partition", "p", "--delay", "1h"]
        made = shop.json("workflow", "start", "checkout", *words)
        run = shop.client.get_workflow(made["workflow_id"])
        assert (run.status, run.queue_name, run.deduplication_id) == ("DELAYED", "mail", "d")
        assert (run.priority, run.queue_partition_key) == (4, "p")
        assert run.delay_until_epoch_ms == run.created_at + 3_600_000

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["--delay", "1h"], "belong to a --queue"),
            (["--args", "{}"], "A JSON array is wanted"),
            (["--kwargs", "nonsense"], "This is not JSON"),
            (["--timeout", "soon"], "is no duration"),
        ],
    )
    def test_what_cannot_be_meant_is_refused(self, shop: Any, words: list[str], told: str) -> None:
        done = shop.run("workflow", "start", "checkout", *words)
        assert done.exit_code == 2
        assert told in " ".join(done.stderr.split())
        assert shop.statuses() == {}

    def test_run_that_goes_on_is_named_though_nobody_waits_any_more(self, shop: Any) -> None:
        words = ("workflow", "start", "checkout", "--id", "slow", "--wait-for", "0.01s")
        told = shop.run(*words, "--json")
        assert (told.exit_code, json.loads(told.stdout)) == (2, {"workflow_id": "slow"})
        assert "slow has not ended" in told.stderr
        assert shop.run(*words).stdout == ""

    def test_result_is_waited_for_and_tells_how_the_run_ended(self, shop: Any) -> None:
        app = Holdfast(shop.path, application_version="v1")

        @app.workflow(name="checkout")
        def checkout(cents: int) -> int:
            if cents < 0:
                raise ValueError("That is not enough.")
            return cents * 2

        with app:
            assert shop.run("workflow", "start", "checkout", "--args", "[4]", "--wait").stdout == "8\n"
            assert shop.json("workflow", "start", "checkout", "--args", "[5]", "--wait")["output"] == 10
            failed = shop.run("workflow", "start", "checkout", "--args", "[-1]", "--wait", "--json")
            assert failed.exit_code == 1
            assert json.loads(failed.stdout)["error"] == {"name": "ValueError", "message": "That is not enough."}
            assert "ended with ValueError" in failed.stderr

    def test_run_that_could_not_read_its_arguments_or_store_its_result_has_failed_and_not_the_command(
        self, shop: Any
    ) -> None:
        app = Holdfast(shop.path, application_version="v1")

        @app.workflow(name="checkout")
        def checkout(cents: int) -> object:
            if not cents:
                raise DatabaseError("Another database is away.")
            return object()

        with app:
            for argument, name in (('"x"', "CannotDeserialize"), ("1", "CannotSerialize"), ("0", "DatabaseError")):
                words = ("--args", f"[{argument}]", "--id", f"run-{name}", "--wait", "--json")
                failed = shop.run("workflow", "start", "checkout", *words)
                assert failed.exit_code == 1, failed.stderr
                told = json.loads(failed.stdout)
                assert (told["workflow_id"], told["error"]["name"]) == (f"run-{name}", name)

    def test_run_that_does_not_end_in_time_goes_on(self, shop: Any) -> None:
        done = shop.run("workflow", "start", "nobody", "--id", "slow", "--wait-for", "0.1s")
        assert done.exit_code == 2
        assert "it is ENQUEUED, and goes on when a process that has 'nobody' takes it" in done.stderr
        assert shop.statuses() == {"slow": "ENQUEUED"}


class TestChanging:
    def test_one_run_is_cancelled_without_a_question(self, shop: Any) -> None:
        shop.start("a", "b")
        done = shop.run("workflow", "cancel", "a")
        assert (done.exit_code, done.stdout, done.stderr) == (0, "Cancelled 1 run.\n", "")
        assert shop.statuses() == {"a": "CANCELLED", "b": "ENQUEUED"}

    def test_some_that_were_refused_are_told_and_the_exit_code_is_one(self, shop: Any) -> None:
        shop.start("a", "b")
        shop.client.cancel_workflow("a")
        done = shop.run("workflow", "cancel", "a", "b", "nobody", "--yes")
        assert (done.exit_code, done.stdout) == (1, "Cancelled 1 run.\n")
        assert len(done.stderr.splitlines()) == 2
        told = shop.json("workflow", "cancel", "a", "nobody", "--yes", code=1)
        assert told["changed"] == []
        assert [(each["workflow_id"], each["status"], each["error"]) for each in told["refused"]] == [
            ("a", "CANCELLED", "TransitionRefused"),
            ("nobody", None, "WorkflowNotFound"),
        ]

    @pytest.mark.parametrize(
        "words",
        [
            ["cancel", "a", "b"],
            ["cancel", "--all"],
            ["cancel", "-"],
            ["delete", "a"],
            ["rewind", "a"],
            ["fork", "--all"],
            ["resume", "--all"],
        ],
    )
    def test_nothing_is_lost_where_nobody_can_be_asked(self, shop: Any, words: list[str]) -> None:
        shop.start("a", "b")
        before = shop.statuses()
        done = shop.run("workflow", *words, input="a\nb\n")
        assert done.exit_code == 2
        assert "--yes" in done.stderr
        assert shop.statuses() == before

    @pytest.mark.usefixtures("terminal")
    def test_answer_decides(self, shop: Any) -> None:
        shop.start("a", "b")
        done = shop.run("workflow", "cancel", "a", "b", input="n\n")
        assert (done.exit_code, done.stdout) == (2, "")
        assert "Cancel 2 runs? [y/N]" in done.stderr
        assert "Nothing was changed." in done.stderr
        assert set(shop.statuses().values()) == {"ENQUEUED"}
        assert shop.run("workflow", "cancel", "a", "b", input="y\n").exit_code == 0
        assert set(shop.statuses().values()) == {"CANCELLED"}

    def test_ids_come_from_standard_input(self, shop: Any) -> None:
        shop.start("a", "b", "c")
        done = shop.run("workflow", "cancel", "-", "--yes", input="a\n\n  b  \na\n")
        assert done.stdout == "Cancelled 2 runs.\n"
        assert shop.statuses() == {"a": "CANCELLED", "b": "CANCELLED", "c": "ENQUEUED"}

    def test_all_that_match_are_changed_as_far_as_they_can_be(self, shop: Any) -> None:
        shop.start(*(f"a-{number}" for number in range(230)))
        shop.start("b")
        shop.client.cancel_workflow("a-0")
        done = shop.run("workflow", "cancel", "--all", "--prefix", "a-", "--yes")
        assert (done.exit_code, done.stdout) == (0, "Cancelled 229 runs.\n")
        assert shop.client.get_workflow("b").status == "ENQUEUED"
        assert shop.run("workflow", "resume", "--all", "--prefix", "a-", "--yes").stdout == "Resumed 230 runs.\n"

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            ([], "No run was named"),
            (["--prefix", "a"], "No run was named"),
            (["a", "--all"], "exclude each other"),
            (["a", "--prefix", "a"], "exclude each other"),
            (["-", "a"], "standard input"),
        ],
    )
    def test_unclear_choice_is_refused(self, shop: Any, words: list[str], told: str) -> None:
        done = shop.run("workflow", "cancel", *words, "--yes")
        assert done.exit_code == 2
        assert told in done.stderr

    def test_run_is_resumed_forked_rewound_and_deleted(self, shop: Any) -> None:
        shop.start("a")
        assert shop.json("workflow", "cancel", "a") == {"changed": ["a"], "refused": []}
        assert shop.json("workflow", "resume", "a", "--to-queue", "mail") == {"changed": ["a"], "refused": []}
        assert shop.client.get_workflow("a").queue_name == "mail"
        forked = shop.json("workflow", "fork", "a", "--new-id", "b", "--to-version", "v2")
        assert forked == {"forked": [{"workflow_id": "a", "new_workflow_id": "b"}]}
        assert shop.client.get_workflow("b").application_version == "v2"
        shop.json("workflow", "cancel", "a")
        assert shop.json("workflow", "rewind", "a", "--from-step", "3", "--yes")["changed"] == ["a"]
        assert shop.client.get_workflow("a").generation == 1
        shop.json("workflow", "cancel", "a")
        assert shop.run("workflow", "delete", "a", "--yes").stdout == "Deleted 1 run.\n"
        assert shop.statuses() == {"b": "ENQUEUED"}

    def test_many_are_forked_or_none(self, shop: Any) -> None:
        shop.start("a", "b")
        assert shop.run("workflow", "fork", "a", "nobody").exit_code == 2
        assert sorted(shop.statuses()) == ["a", "b"]
        assert shop.run("workflow", "fork", "a", "b", "--new-id", "c").exit_code == 2
        lines = shop.run("workflow", "fork", "a", "b").stdout.splitlines()
        assert [line.split("\t")[0] for line in lines] == ["id", "a", "b"]


class TestMoving:
    def test_run_goes_out_and_in_again(self, shop: Any, tmp_path: Path) -> None:
        shop.start("a")
        shop.client.cancel_workflow("a")
        file = tmp_path / "a.json"
        assert shop.run("workflow", "export", "a", "--output", str(file)).stdout == ""
        assert json.loads(file.read_text()) == json.loads(shop.run("workflow", "export", "a").stdout)
        nowhere = shop.run("workflow", "export", "a", "--output", str(file.parent / "nowhere" / "a.json"))
        assert (nowhere.exit_code, nowhere.stdout, "No such file" in nowhere.stderr) == (2, "", True)
        taken = shop.run("workflow", "import", str(file))
        assert taken.exit_code == 2
        assert shop.run("workflow", "import", str(file), "--on-conflict", "return_existing").exit_code == 0
        assert shop.json("workflow", "import", str(file), "--id", "b") == {"workflow_id": "b"}
        assert shop.run("workflow", "import", "--id", "c", input=file.read_text()).stdout == "Imported c.\n"
        assert shop.statuses() == dict.fromkeys("abc", "CANCELLED")

    @pytest.mark.parametrize("text", ["", "[]", "nonsense", '{"format": "another"}'])
    def test_document_that_is_no_run_is_refused_in_one_line(self, shop: Any, text: str) -> None:
        done = shop.run("workflow", "import", input=text)
        assert (done.exit_code, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1


class TestPruning:
    def test_old_runs_are_counted_then_deleted(self, shop: Any) -> None:
        shop.start(*"abc")
        for each in "ab":
            shop.client.cancel_workflow(each)
        assert shop.json("prune", "--older-than", "0s", "--dry-run") == {"dry_run": True, "matched": 2, "deleted": 0}
        assert shop.json("prune", "--older-than", "1d", "--dry-run")["matched"] == 0
        assert shop.json("prune", "--older-than", "0s", "--name", "other", "--dry-run")["matched"] == 0
        assert shop.json("prune", "--older-than", "0s", "--status", "error", "--dry-run")["matched"] == 0
        assert shop.json("prune", "--older-than", "0s", "--keep-last", "1", "--dry-run")["matched"] == 1
        refused = shop.run("prune", "--older-than", "0s")
        assert refused.exit_code == 2
        assert "Delete 2 ended runs for good?" in refused.stderr
        assert shop.run("prune", "--older-than", "0s", "--yes").stdout == "Deleted 2 runs.\n"
        assert shop.statuses() == {"c": "ENQUEUED"}

    def test_prune_needs_to_know_what_may_go(self, shop: Any) -> None:
        done = shop.run("prune", "--yes")
        assert done.exit_code == 2
        assert "--older-than, --keep-last" in done.stderr


def test_database_that_is_not_ours_is_refused_in_one_line(tmp_path: Path, shop: Any) -> None:
    for words in (["workflow", "list"], ["executors"], ["versions"], ["prune", "--older-than", "1d"]):
        done = shop.run(*words, "--url", f"sqlite:///{tmp_path}/none.sqlite")
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("Error: There is no file")
        assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "none.sqlite").exists()


class TestInterrupting:
    def test_command_that_waits_is_left_by_an_interrupt_and_its_run_goes_on(self, shop: Any) -> None:
        words = ("workflow", "start", "checkout", "--id", "a", "--wait")
        process = subprocess.Popen([COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: "a" in shop.statuses())
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=60)
        assert (process.returncode, out, "Traceback" in told) == (130, "", False)
        assert shop.statuses() == {"a": "ENQUEUED"}

    @pytest.mark.usefixtures("terminal")
    def test_question_that_is_interrupted_changes_nothing(self, shop: Any) -> None:
        shop.start("a", "b")
        done = shop.run("workflow", "cancel", "a", "b", input="")
        assert (done.exit_code, "Nothing was changed" in done.stderr) == (2, True)
        assert shop.statuses() == {"a": "ENQUEUED", "b": "ENQUEUED"}

    @pytest.mark.usefixtures("terminal")
    def test_interrupt_is_no_answer_to_a_question(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(_: str) -> str:
            raise KeyboardInterrupt

        monkeypatch.setattr("click.termui.visible_prompt_func", interrupted)
        with pytest.raises(KeyboardInterrupt):
            asking.ask("Delete everything?", yes=False)

    def test_work_on_many_that_is_interrupted_tells_what_was_done(
        self, shop: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shop.client.enqueue_many(
            [shop.client.call("w", workflow_id=f"r{number:03}") for number in range(150)], queue_name="q"
        )
        real, calls = Client.cancel_workflows, []

        def interrupted(client: Client, ids: list[str], **options: Any) -> Any:
            calls.append(ids)
            if len(calls) > 1:
                raise KeyboardInterrupt
            return real(client, ids, **options)

        monkeypatch.setattr(Client, "cancel_workflows", interrupted)
        done = shop.run("workflow", "cancel", "--all", "--yes", "--json")
        assert (done.exit_code, json.loads(done.stdout)["changed"]) == (130, calls[0])
        calls[:] = [[]]
        told = shop.run("workflow", "cancel", "--all", "--yes")
        assert (told.exit_code, told.stdout) == (130, "Cancelled 0 runs.\n")
        assert "may have been changed, too" in told.stderr

    def test_forks_that_were_made_before_one_was_refused_are_named(self, shop: Any) -> None:
        ids = [f"r{number:03}" for number in range(100)]
        shop.client.enqueue_many([shop.client.call("w", workflow_id=each) for each in ids], queue_name="q")
        done = shop.run("workflow", "fork", "-", input="\n".join([*ids, "nobody"]))
        lines = [line.split("\t") for line in done.stdout.splitlines()[1:]]
        assert (done.exit_code, [old for old, _ in lines]) == (2, ids)
        assert {new for _, new in lines} == set(shop.statuses()) - set(ids)
        assert "'nobody'" in done.stderr


class TestExporting:
    def test_pipe_that_a_run_is_exported_to_stays_one(self, shop: Any, tmp_path: Path) -> None:
        shop.start("a")
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # a pipe holds more than the document has
        try:
            assert shop.run("workflow", "export", "a", "--output", str(pipe)).exit_code == 0
            assert json.loads(os.read(reader, 65536))["workflow"]["workflow_uuid"] == "a"
        finally:
            os.close(reader)
        assert pipe.is_fifo()

    def test_file_behind_a_link_is_replaced_whole_and_keeps_its_mode(self, shop: Any, tmp_path: Path) -> None:
        shop.start("a")
        (tmp_path / "far").mkdir()
        real, link = tmp_path / "far" / "a.json", tmp_path / "link.json"
        real.write_text("before")
        real.chmod(0o640)
        link.symlink_to(real)
        assert shop.run("workflow", "export", "a", "--output", str(link)).exit_code == 0
        assert (link.is_symlink(), real.stat().st_mode & 0o777) == (True, 0o640)
        assert json.loads(real.read_text())["workflow"]["workflow_uuid"] == "a"
        assert [each.name for each in (tmp_path / "far").iterdir()] == ["a.json"]

    def test_folder_is_refused_by_its_name(self, shop: Any, tmp_path: Path) -> None:
        shop.start("a")
        refused = shop.run("workflow", "export", "a", "--output", str(tmp_path))
        assert (refused.exit_code, str(tmp_path) in refused.stderr) == (2, True)

    def test_import_that_found_its_run_says_that_it_is_here(self, shop: Any, tmp_path: Path) -> None:
        shop.start("a")
        file = tmp_path / "a.json"
        shop.run("workflow", "export", "a", "--output", str(file))
        done = shop.run("workflow", "import", str(file), "--on-conflict", "return_existing")
        assert (done.exit_code, done.stdout) == (0, "a is here.\n")


class TestVariablesThatAreNotSet:
    """An empty text on the command line is a variable that was not set: it is refused, and never taken for "all"."""

    @pytest.mark.parametrize("option", ["--prefix", "--search", "--name", "--queue", "--user"])
    def test_empty_filter_changes_no_run(self, shop: Any, option: str) -> None:
        shop.start("a", "b")
        refused = shop.run("workflow", "cancel", "--all", option, "", "--yes")
        assert (refused.exit_code, option in refused.stderr, "is empty" in refused.stderr) == (2, True, True)
        assert shop.statuses() == {"a": "ENQUEUED", "b": "ENQUEUED"}

    @pytest.mark.parametrize("words", [["workflow", "list"], ["breakers", "list"], ["doctor"], ["migrate"]])
    def test_empty_url_is_not_the_database_of_the_environment(self, shop: Any, words: list[str]) -> None:
        refused = shop.run(*words, "--url", "")
        assert (refused.exit_code, "URL of the database is empty" in refused.stderr) == (2, True)

    def test_attribute_that_is_given_twice_is_refused(self, shop: Any) -> None:
        shop.start("a", attributes={"tier": "gold"})
        twice = ["--attribute", "tier=silver", "--attribute", "tier=gold"]
        for words in (["cancel", "--all", "--yes"], ["start", "checkout"]):
            refused = shop.run("workflow", *words, *twice)
            assert (refused.exit_code, "tier=... is given twice" in refused.stderr) == (2, True)
        assert shop.statuses() == {"a": "ENQUEUED"}
