"""``holdfast schedule`` as it is typed."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def nightly(shop: Any) -> Any:
    """The shop with a schedule."""
    shop.client.create_schedule("nightly", "report", "0 0 3 * * *", cron_timezone="Europe/Berlin", context={"a": 1})
    return shop


def test_schedules_are_listed_with_their_next_slot(nightly: Any) -> None:
    nightly.client.create_schedule("weekly", "report", "@weekly", queue_name=None)
    nightly.client.pause_schedule("weekly")
    lines = [line.split("\t") for line in nightly.run("schedule", "list").stdout.splitlines()]
    assert lines[0] == ["schedule", "state", "cron", "zone", "workflow", "queue", "last fired", "next due"]
    assert lines[1][:7] == ["nightly", "active", "0 0 3 * * *", "Europe/Berlin", "report", "", ""]
    assert lines[1][7].endswith(("T01:00:00Z", "T02:00:00Z"))
    assert lines[2] == ["weekly", "paused", "@weekly", "UTC", "report", "", "", ""]
    assert [each["schedule_name"] for each in nightly.json("schedule", "list", "--status", "paused")["schedules"]] == [
        "weekly"
    ]
    [found] = nightly.json("schedule", "list", "--status", "ACTIVE", "--workflow", "report", "--prefix", "n")[
        "schedules"
    ]
    assert (found["schedule_name"], found["context"]) == ("nightly", {"a": 1})


def test_schedule_is_shown_by_field(nightly: Any) -> None:
    fields = dict(line.split("\t", 1) for line in nightly.run("schedule", "get", "nightly").stdout.splitlines())
    assert (fields["schedule_name"], fields["status"], fields["overlap"]) == ("nightly", "ACTIVE", "allow")
    assert fields["created_at"].endswith("Z")
    assert fields["next_due_at"].endswith("Z")


@pytest.mark.parametrize("verb", ["get", "pause", "resume", "delete", "trigger", "backfill", "next"])
def test_schedule_that_is_not_there_is_named(shop: Any, verb: str) -> None:
    span = ["--from", "2030-01-01", "--to", "2030-01-02"] if verb == "backfill" else []
    done = shop.run("schedule", verb, "nowhere", *span)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "Error: There is no schedule 'nowhere': `holdfast schedule list` shows those there are.\n"


def test_schedule_is_made_as_said(shop: Any) -> None:
    shop.client.register_queue("reports")
    words = ("--context", '{"to": "all"}', "--timezone", "Asia/Tokyo", "--queue", "reports", "--backfill")
    made = shop.json("schedule", "create", "r", "report", "0 9 * * MON", *words, "--jitter", "5s", "--overlap", "queue")
    assert (made["workflow_name"], made["schedule"], made["cron_timezone"]) == ("report", "0 9 * * MON", "Asia/Tokyo")
    assert (made["context"], made["queue_name"], made["automatic_backfill"]) == ({"to": "all"}, "reports", True)
    assert (made["jitter"], made["overlap"]) == (5.0, "queue")
    assert shop.json("schedule", "create", "r", "other", "@daily", "--keep")["workflow_name"] == "report"
    refused = shop.run("schedule", "create", "r", "other", "@daily", "--reject")
    assert refused.exit_code == 2
    assert "already: choose another name, or leave out --reject" in refused.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("0 25 * * *",), "Field 2 (hour)"),
        (("@daily", "--timezone", "Mars"), "no time zone 'Mars'"),
        (("@daily", "--queue", "nowhere"), "no queue 'nowhere'"),
        (("@daily", "--context", "{"), "not JSON"),
        (("@daily", "--keep", "--reject"), "--keep and --reject exclude each other"),
    ],
)
def test_mistake_is_refused_with_its_place(shop: Any, words: tuple[str, ...], complaint: str) -> None:
    done = shop.run("schedule", "create", "r", "report", *words)
    assert done.exit_code == 2
    assert complaint in done.stderr
    assert shop.client.list_schedules() == []


def test_schedule_is_paused_resumed_and_deleted(nightly: Any) -> None:
    assert nightly.json("schedule", "pause", "nightly") == {"schedule": "nightly", "status": "PAUSED"}
    assert nightly.client.get_schedule("nightly").next_due_at is None
    assert nightly.run("schedule", "resume", "nightly").stdout == "Resumed nightly.\n"
    assert nightly.client.get_schedule("nightly").next_due_at is not None
    refused = nightly.run("schedule", "delete", "nightly")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert nightly.json("schedule", "delete", "nightly", "--yes") == {"schedule": "nightly", "deleted": True}
    assert nightly.client.list_schedules() == []


def test_slots_are_fired_by_hand(nightly: Any) -> None:
    triggered = nightly.run("schedule", "trigger", "nightly").stdout.strip()
    assert triggered.startswith("sched-nightly-trigger-")
    span = ("--from", "2026-03-01", "--to", "2026-03-03T12:00:00+01:00")
    ids = nightly.json("schedule", "backfill", "nightly", *span)["workflow_ids"]
    assert ids == [f"sched-nightly-2026-03-0{day}T02:00:00+00:00" for day in (1, 2, 3)]
    assert nightly.run("schedule", "backfill", "nightly", *span).stdout.splitlines() == ids
    back = nightly.run("schedule", "backfill", "nightly", "--from", "2026-03-03", "--to", "2026-03-01")
    assert (back.exit_code, "lies before the start" in back.stderr) == (2, True)
    assert set(nightly.statuses()) == {triggered, *ids}
    waited = nightly.run("schedule", "trigger", "nightly", "--wait-for", "0.1s")
    assert waited.exit_code != 0


def test_next_ten_slots_are_shown_in_the_zone_and_in_utc(nightly: Any) -> None:
    lines = [line.split("\t") for line in nightly.run("schedule", "next", "nightly").stdout.splitlines()]
    assert lines[0] == ["Europe/Berlin", "UTC"]
    assert len(lines) == 11
    assert all(" 03:00:00 CE" in local for local, _ in lines[1:])
    found = nightly.json("schedule", "next", "nightly", "--count", "2")
    assert [slot["local"][10:19] for slot in found["slots"]] == ["T03:00:00"] * 2
    nightly.client.pause_schedule("nightly")
    paused = nightly.run("schedule", "next", "nightly", "--count", "1")
    assert paused.stderr == "nightly is paused: these would be its slots.\n"
    assert len(paused.stdout.splitlines()) == 2
