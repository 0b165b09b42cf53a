"""``holdfast queue`` and ``holdfast enqueue`` as they are typed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Holdfast
from holdfast.cli import asking

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who can be asked; click reads the answers from the test."""
    monkeypatch.setattr(asking, "has_terminal", lambda: True)


@pytest.fixture
def mails(shop: Any) -> Any:
    """The shop with a queue."""
    shop.client.register_queue("mails", concurrency=5)
    return shop


class TestLooking:
    def test_queues_are_listed_with_what_is_in_them(self, mails: Any) -> None:
        mails.client.enqueue("send", queue_name="mails")
        mails.client.enqueue("send", queue_name="mails", delay=3600)
        mails.client.enqueue("send", queue_name="forgotten")
        mails.start("elsewhere")
        lines = [line.split("\t") for line in mails.run("queue", "list").stdout.splitlines()]
        assert lines[0][:5] == ["queue", "state", "waiting", "running", "delayed"]
        assert [line[:6] for line in lines[1:]] == [
            ["forgotten", "not registered", "1", "0", "0", ""],
            ["mails", "open", "1", "0", "1", "5"],
        ]
        forgotten, found = mails.json("queue", "list")["queues"]
        assert (forgotten["name"], forgotten["registered"]) == ("forgotten", False)
        assert (found["waiting"], found["delayed"], found["concurrency"]) == (1, 1, 5)

    def test_ended_runs_are_not_counted(self, mails: Any) -> None:
        run = mails.client.enqueue("send", queue_name="mails")
        mails.client.cancel_workflow(run.workflow_id)
        assert mails.json("queue", "show", "mails")["waiting"] == 0

    def test_queue_is_shown_by_field(self, mails: Any) -> None:
        fields = dict(line.split("\t", 1) for line in mails.run("queue", "show", "mails").stdout.splitlines())
        assert (fields["name"], fields["concurrency"], fields["paused"]) == ("mails", "5", "false")
        assert fields["created_at"].endswith("Z")

    @pytest.mark.parametrize("verb", ["show", "pause", "resume", "drain", "delete"])
    def test_queue_that_is_not_there_is_named(self, shop: Any, verb: str) -> None:
        done = shop.run("queue", verb, "nowhere")
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == "Error: There is no queue 'nowhere': `holdfast queue list` shows those there are.\n"

    def test_queue_to_set_that_is_not_there_can_be_made(self, shop: Any) -> None:
        done = shop.run("queue", "set", "nowhere", "--concurrency", "3")
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("Error: There is no queue 'nowhere':")
        assert "--create makes one" in done.stderr


class TestSetting:
    def test_settings_are_changed_and_the_others_kept(self, mails: Any) -> None:
        found = mails.json("queue", "set", "mails", "--rate-limit", "100/1m", "--priority", "--polling-interval", "5s")
        assert (found["rate_limit_max"], found["rate_limit_period_sec"]) == (100, 60.0)
        assert (found["concurrency"], found["priority_enabled"], found["polling_interval_sec"]) == (5, True, 5.0)
        assert mails.run("queue", "list").stdout.splitlines()[1].split("\t")[7] == "100/60s"

    def test_settings_are_taken_back(self, mails: Any) -> None:
        mails.run("queue", "set", "mails", "--rate-limit", "100/1m", "--priority")
        words = ("--no-rate-limit", "--no-priority", "--no-concurrency")
        found = mails.json("queue", "set", "mails", *words)
        assert (found["rate_limit_max"], found["rate_limit_period_sec"], found["concurrency"]) == (None, None, None)
        assert found["priority_enabled"] is False

    def test_partitions_have_limits_of_their_own(self, mails: Any) -> None:
        words = ("--partitions", "--partition-concurrency", "1", "--partition-rate-limit", "3/1s")
        found = mails.json("queue", "set", "mails", *words, "--worker-concurrency", "2")
        assert (found["partition_queue"], found["partition_concurrency"], found["worker_concurrency"]) == (True, 1, 2)
        assert (found["partition_rate_limit_max"], found["partition_rate_limit_period_sec"]) == (3, 1.0)

    def test_queue_is_made_if_it_is_said(self, shop: Any) -> None:
        done = shop.run("queue", "set", "mails", "--concurrency", "2")
        assert done.exit_code == 2
        assert shop.client.list_queues() == []
        for _ in range(2):
            assert shop.json("queue", "set", "mails", "--create", "--concurrency", "2")["concurrency"] == 2
        assert shop.json("queue", "set", "mails", "--create")["concurrency"] == 2

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            ([], "Nothing is to be set"),
            (["--concurrency", "0"], "--concurrency"),
            (["--concurrency", "2", "--no-concurrency"], "exclude each other"),
            (["--priority", "--no-priority"], "exclude each other"),
            (["--rate-limit", "100"], "is no rate"),
            (["--rate-limit", "many/1m"], "is no rate"),
            (["--rate-limit", "100/1y"], "is no duration"),
            (["--partition-concurrency", "1"], "would have no partitions"),
        ],
    )
    def test_setting_that_does_not_fit_is_refused(self, mails: Any, words: list[str], told: str) -> None:
        before = mails.client.retrieve_queue("mails")
        done = mails.run("queue", "set", "mails", *words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert told in done.stderr
        assert mails.client.retrieve_queue("mails") == before


class TestStopping:
    def test_queue_is_paused_and_resumed(self, mails: Any) -> None:
        assert mails.run("queue", "pause", "mails").stdout == "Paused mails.\n"
        assert mails.client.retrieve_queue("mails").paused
        assert mails.run("queue", "list").stdout.splitlines()[1].split("\t")[1] == "paused"
        assert mails.json("queue", "resume", "mails") == {"queue": "mails", "paused": False}
        assert not mails.client.retrieve_queue("mails").paused

    def test_drain_of_a_queue_at_rest_ends_at_once(self, mails: Any) -> None:
        mails.client.enqueue("send", queue_name="mails")
        assert mails.run("queue", "drain", "mails").stdout == "Paused mails; nothing of it runs.\n"
        assert mails.client.retrieve_queue("mails").paused

    def test_drain_says_what_still_runs_when_patience_is_over(self, held: Any) -> None:
        found = held.json("queue", "drain", "mails", "--wait-for", "0.1s", code=1)
        assert found == {"queue": "mails", "paused": True, "running": 1}

    def test_queue_with_runs_is_deleted_by_force_alone(self, mails: Any) -> None:
        run = mails.client.enqueue("send", queue_name="mails")
        refused = mails.run("queue", "delete", "mails", "--yes")
        assert (refused.exit_code, "--force" in refused.stderr) == (2, True)
        assert mails.client.retrieve_queue("mails") is not None
        assert mails.run("queue", "delete", "mails", "--yes", "--force").stdout == "Deleted mails.\n"
        assert mails.client.retrieve_queue("mails") is None
        assert run.status().status == "ENQUEUED"

    def test_nobody_to_ask_means_no(self, mails: Any) -> None:
        done = mails.run("queue", "delete", "mails")
        assert done.exit_code == 2
        assert "--yes" in done.stderr
        assert mails.client.retrieve_queue("mails") is not None

    @pytest.mark.usefixtures("terminal")
    def test_answer_counts(self, mails: Any) -> None:
        assert mails.run("queue", "delete", "mails", input="n\n").exit_code == 2
        assert mails.client.retrieve_queue("mails") is not None
        assert mails.run("queue", "delete", "mails", input="y\n").exit_code == 0
        assert mails.client.retrieve_queue("mails") is None


@pytest.fixture
def held(mails: Any) -> Iterator[Any]:
    """The shop, with a run of the queue under way until the test is over."""
    app = Holdfast(mails.path, application_version="v1")
    begun, gate = threading.Event(), threading.Event()

    @app.workflow(name="send")
    def send() -> None:
        begun.set()
        gate.wait(60)

    with app:
        mails.client.enqueue("send", queue_name="mails")
        assert begun.wait(60)
        yield mails
        gate.set()


class TestEnqueueing:
    def test_run_is_put_in_the_queue_as_it_was_said(self, mails: Any) -> None:
        words = ("--args", "[1]", "--kwargs", '{"to": "you"}', "--priority", "3", "--attribute", "tier=gold")
        done = mails.run("enqueue", "send", "--queue", "mails", "--id", "a", *words)
        assert (done.exit_code, done.stdout, done.stderr) == (0, "a\n", "")
        run = mails.client.get_workflow("a")
        assert (run.status, run.queue_name, run.priority, run.attributes) == ("ENQUEUED", "mails", 3, {"tier": "gold"})
        assert mails.json("enqueue", "send", "--queue", "mails", "--id", "a", *words) == {"workflow_id": "a"}
        assert len(mails.statuses()) == 1

    @pytest.mark.parametrize("words", [("--delay", "10m"), ("--delay-until", "2999-01-01")])
    def test_run_may_wait_for_a_moment(self, mails: Any, words: tuple[str, ...]) -> None:
        mails.run("enqueue", "send", "--queue", "mails", "--id", "a", *words)
        assert mails.statuses() == {"a": "DELAYED"}

    def test_second_run_of_a_word_is_refused_or_is_the_first(self, mails: Any) -> None:
        words = ("enqueue", "send", "--queue", "mails", "--deduplication-id", "customer-7")
        assert mails.run(*words, "--id", "a").exit_code == 0
        refused = mails.run(*words)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "customer-7" in refused.stderr
        assert mails.run(*words, "--on-duplicate", "return_existing").stdout == "a\n"
        assert mails.statuses() == {"a": "ENQUEUED"}

    def test_run_has_its_partition(self, mails: Any) -> None:
        mails.run("queue", "set", "mails", "--partitions")
        mails.run("enqueue", "send", "--queue", "mails", "--partition", "tenant-1", "--id", "a")
        assert mails.client.get_workflow("a").queue_partition_key == "tenant-1"

    def test_queue_that_is_not_registered_is_remarked(self, shop: Any) -> None:
        done = shop.run("enqueue", "send", "--queue", "mails", "--id", "a")
        assert (done.exit_code, done.stdout) == (0, "a\n")
        assert "mails is not registered" in done.stderr

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            ((), "--queue"),
            (("--queue", "mails", "--delay", "1m", "--delay-until", "2999-01-01"), "exclude each other"),
            (("--queue", "mails", "--args", "{}"), "JSON array"),
            (("--queue", "mails", "--on-duplicate", "replace"), "--on-duplicate"),
        ],
    )
    def test_what_is_unclear_is_refused(self, mails: Any, words: tuple[str, ...], told: str) -> None:
        done = mails.run("enqueue", "send", *words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert told in done.stderr
        assert mails.statuses() == {}

    def test_result_is_waited_for(self, mails: Any) -> None:
        app = Holdfast(mails.path)

        @app.workflow(name="double")
        def double(number: int) -> int:
            return number * 2

        with app:
            found = mails.json("enqueue", "double", "--queue", "mails", "--args", "[21]", "--wait-for", "60s")
        assert found["output"] == 42


class TestWordsOfTheCommandLine:
    """What is refused is told in options that can be typed, and not in those of a program."""

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["queue", "set", "mails", "--partition-concurrency", "1"], "say --partitions, or --no-partition-concurr"),
            (["queue", "set", "new", "--create", "--partition-rate-limit", "1/1s"], "--no-partition-rate-limit"),
            (["queue", "set", "parts", "--no-partitions"], "say --partitions, or --no-partition-concurrency"),
            (["queue", "set", "mails", "--rate-limit", "0/1s"], "'--rate-limit': '0/1s' lets nothing begin"),
            (["queue", "set", "mails", "--rate-limit", "1/0s"], "'--rate-limit': '0s' is too short"),
            (["queue", "set", "mails", "--polling-interval", "0s"], "'--polling-interval': '0s' is too short"),
            (["queue", "set", "mails", "--concurrency", "9999999999"], "'--concurrency'"),
            (["enqueue", "send", "--queue", "mails", "--id", "a", "--args", "[2]"], "choose another --id"),
            (["workflow", "start", "send", "--id", "a", "--args", "[2]"], "choose another --id"),
            (["enqueue", "send", "--queue", "mails", "--deduplication-id", "d"], "ended: a (ENQUEUED). Wait"),
            (
                ["workflow", "start", "send", "--queue", "mails", "--deduplication-id", "d"],
                "another --deduplication-id",
            ),
            (["enqueue", "send", "--queue", ""], "'--queue': It is empty"),
            (["schedule", "create", "s", "w", "@daily", "--queue", "no"], "`holdfast queue set no --create` makes one"),
            (["schedule", "create", "s", "w", "@daily", "--jitter", "2d"], "'--jitter': '2d' is longer than a day"),
            (["schedule", "create", "s", "w", "@daily", "--timezone", ""], "'--timezone': It is empty"),
            (["schedule", "create", "s", "w", "@daily", "--context", "{"], "'--context': This is not JSON"),
            (["workflow", "list", "--attribute", "a=[1]"], "--attribute a: runs are found by texts, numbers"),
            (["dead-letters", "replay", "nowhere:app", "--yes"], "go to the folder it is in, or install it"),
        ],
    )
    def test_refusal_names_what_can_be_typed(self, mails: Any, words: list[str], told: str) -> None:
        mails.client.register_queue("parts", partition_queue=True, partition_concurrency=1)
        mails.client.enqueue("send", [1], workflow_id="a", queue_name="mails", deduplication_id="d")
        before = mails.client.list_queues()
        done = mails.run(*words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert told in " ".join(done.stderr.split()), done.stderr
        for name in ("queue_name", "workflow_id", "on_conflict", "on_duplicate", "register_queue", "timedelta", "_sec"):
            assert name not in done.stderr
        assert mails.client.list_queues() == before

    def test_import_of_a_run_that_is_here_names_its_options(self, mails: Any) -> None:
        mails.start("b")
        document = mails.run("workflow", "export", "b").stdout
        done = mails.run("workflow", "import", input=document)
        assert (done.exit_code, "another --id" in done.stderr) == (2, True)
        assert "--on-conflict return_existing" in done.stderr

    def test_queue_that_nobody_registered_is_remarked_wherever_runs_are_put_there(self, mails: Any) -> None:
        mails.start("b", "c")
        mails.client.cancel_workflows(["b", "c"])
        for words in (
            ["enqueue", "send", "--queue", "mials"],
            ["workflow", "start", "send", "--queue", "mials"],
            ["workflow", "fork", "b", "--to-queue", "mials"],
            ["workflow", "resume", "b", "--to-queue", "mials"],
            ["workflow", "rewind", "c", "--to-queue", "mials", "--yes"],
        ):
            done = mails.run(*words)
            assert (done.exit_code, "The queue mials is not registered" in done.stderr) == (0, True), words
            right = [each.replace("mials", "mails") for each in words]
            assert "not registered" not in mails.run(*right).stderr
