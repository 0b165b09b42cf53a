"""``holdfast send``, ``events`` and ``stream`` as they are typed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Holdfast

if TYPE_CHECKING:
    from pathlib import Path


def finished(shop: Any) -> str:
    """Run a workflow that sets an event and writes two streams; return its id."""
    app = Holdfast(f"sqlite:///{shop.path}")

    @app.workflow
    def talks() -> str:
        app.set_event("status", {"paid": True})
        app.write_stream("progress", {"done": 1})
        app.write_stream("progress", "two\nlines")
        app.close_stream("progress")
        app.write_stream("log", 3)
        return "said"

    with app:
        handle = talks.start()
        assert handle.result(60) == "said"
    return handle.workflow_id


class TestStream:
    def test_streams_are_listed(self, shop: Any) -> None:
        run = finished(shop)
        assert shop.json("stream", "list", run) == {
            "streams": [
                {"key": "log", "entries": 1, "next_offset": 1, "closed": False},
                {"key": "progress", "entries": 2, "next_offset": 3, "closed": True},
            ]
        }
        lines = shop.run("stream", "list", run).stdout.splitlines()
        assert lines == ["stream\tentries\tnext offset\tclosed", "log\t1\t1\tno", "progress\t2\t3\tyes"]

    def test_tail_prints_a_line_a_value_and_ends_with_the_stream(self, shop: Any) -> None:
        run = finished(shop)
        done = shop.run("stream", "tail", run, "progress")
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout.splitlines() == ['0\t{"done":1}', r"1	two\nlines"]

    @pytest.mark.parametrize("words", [[], ["--no-follow"]])
    def test_tail_as_json_is_a_document_a_line(self, shop: Any, words: list[str]) -> None:
        run = finished(shop)
        done = shop.run("stream", "tail", run, "progress", "--offset", "1", "--json", *words)
        assert [json.loads(line) for line in done.stdout.splitlines()] == [{"offset": 1, "value": "two\nlines"}]

    def test_tail_without_following_ends_though_the_run_waits(self, shop: Any) -> None:
        shop.start("a")
        done = shop.run("stream", "tail", "a", "progress", "--no-follow")
        assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")

    @pytest.mark.parametrize("words", [["stream", "list", "nobody"], ["stream", "tail", "nobody", "s"]])
    def test_run_that_is_not_there_is_an_error(self, shop: Any, words: list[str]) -> None:
        done = shop.run(*words)
        assert done.exit_code == 2
        assert "nobody" in done.stderr


class TestEvents:
    def test_events_are_shown_with_their_last_values(self, shop: Any) -> None:
        run = finished(shop)
        assert shop.json("events", run) == {"events": {"status": {"paid": True}}}
        assert shop.run("events", run).stdout.splitlines() == ["key\tvalue", 'status\t{"paid":true}']


class TestSend:
    def test_message_is_json_if_it_can_be_read_so_and_a_text_else(self, shop: Any) -> None:
        shop.start("a")
        assert shop.json("send", "a", '{"amount": 3}', "--topic", "change") == {
            "destination_id": "a",
            "topic": "change",
        }
        done = shop.run("send", "a", "hello there")
        assert (done.exit_code, done.stdout) == (0, "Sent to a.\n")
        sent = shop.client.get_all_notifications("a")
        assert [(each.topic, each.message) for each in sent] == [("change", {"amount": 3}), (None, "hello there")]

    def test_same_key_sends_nothing_twice(self, shop: Any) -> None:
        shop.start("a")
        for _ in range(2):
            assert shop.run("send", "a", "1", "--key", "once").exit_code == 0
        assert len(shop.client.get_all_notifications("a")) == 1

    def test_message_comes_from_a_file_or_standard_input(self, shop: Any, tmp_path: Path) -> None:
        shop.start("a")
        (tmp_path / "message.json").write_text("[1, 2]", encoding="utf-8")
        assert shop.run("send", "a", "--json-file", str(tmp_path / "message.json")).exit_code == 0
        assert shop.run("send", "a", "--json-file", "-", input='{"b": 2}').exit_code == 0
        assert [each.message for each in shop.client.get_all_notifications("a")] == [[1, 2], {"b": 2}]

    def test_what_cannot_be_sent_is_refused(self, shop: Any) -> None:
        shop.start("a")
        assert "either MESSAGE or --json-file" in shop.run("send", "a").stderr
        assert "either MESSAGE or --json-file" in shop.run("send", "a", "1", "--json-file", "-", input="1").stderr
        assert "no JSON" in shop.run("send", "a", "--json-file", "-", input="{").stderr
        missing = shop.run("send", "nobody", "1")
        assert missing.exit_code == 2
        assert "nobody" in missing.stderr
