"""Every program in ``examples`` runs to a good end, in an empty folder, without a terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PATIENCE = 90


def run(example: str, folder: Path) -> str:
    """Run an example in *folder* and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("DATABASE_URL")}
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / example],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{example} fails:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_example_ends_well_and_says_something(example: str, tmp_path: Path) -> None:
    assert run(example, tmp_path).strip()


def test_examples_can_be_run_one_after_another_in_a_folder() -> None:
    texts = [path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")]
    databases = [name for text in texts for name in set(re.findall(r'Holdfast\("([^"]+)"', text))]
    assert len(databases) > 3
    assert len(databases) == len(set(databases))


def test_demo_goes_on_where_it_stopped_and_charges_once(tmp_path: Path) -> None:
    shown = run("demo.py", tmp_path)
    first, second = shown.split("Second worker")
    assert "SIGKILL" in first
    for step in ("reserve", "charge", "pack"):
        assert f"{step:10}runs" in first
    for step in ("reserve", "charge"):
        assert f"{step:10}recorded" in second
        assert f"{step:10}runs" not in second
    for step in ("pack", "ship"):
        assert f"{step:10}runs" in second
    assert "The bank's ledger: order-17 8900\n" in second
    assert list(tmp_path.iterdir()) == []


def test_async_orders_ask_nobody_twice(tmp_path: Path) -> None:
    assert "600 questions asked" in run("async_orders.py", tmp_path)
    assert ", 0 questions asked" in run("async_orders.py", tmp_path)


def test_undo_takes_back_the_last_booking_first(tmp_path: Path) -> None:
    assert run("undo.py", tmp_path).splitlines() == [
        "Lisbon: train to Lisbon, hotel in Lisbon, concert in Lisbon",
        "Vienna:",
        "  cancelled: hotel in Vienna",
        "  cancelled: train to Vienna",
        "  not booked: no concert left in Vienna",
    ]


def test_approval_asks_a_person_and_goes_on_with_the_answer(tmp_path: Path) -> None:
    assert run("approval.py", tmp_path).splitlines()[2:] == [
        "chairs: 380.00 paid, approved by Ada",
        "yacht: refused by Ada",
    ]


def test_live_progress_goes_on_where_the_connection_broke(tmp_path: Path) -> None:
    shown = run("live_progress.py", tmp_path).splitlines()
    assert shown[2] == "(reconnected)"
    assert [line.split(",")[0] for line in shown if line != "(reconnected)"] == [f"page {n} of 5" for n in range(1, 6)]


def test_nightly_report_is_made_once_a_night_at_three_in_berlin(tmp_path: Path) -> None:
    assert [line[10:26] for line in run("nightly_report.py", tmp_path).splitlines()] == [
        "2026-03-28 02:00",
        "2026-03-29 01:00",
        "2026-03-30 01:00",
    ]


def test_fan_out_adds_up_a_thousand(tmp_path: Path) -> None:
    assert run("fan_out.py", tmp_path) == "1000 pictures, 2997 megabytes saved\n"


def test_agent_that_was_killed_asks_the_model_no_question_twice(tmp_path: Path) -> None:
    shown = run("agent_loop.py", tmp_path).splitlines()
    assert "killed (signal 9)" in shown[0]
    assert shown[-2:] == ["Go to Rome.", "The model was asked 3 times."]


def test_fastapi_checkout_charges_once_however_often_it_is_asked(tmp_path: Path) -> None:
    shown = run("fastapi_checkout.py", tmp_path).splitlines()
    assert shown[0].startswith("Five at once: {201: ")
    assert shown[1:] == [
        "Sent again: 201 replayed: true",
        "Another order under the same key: 422 Idempotency-Key is already used",
        "Without a key: 400",
        "The bank's ledger: book 1900",
    ]


def test_webhook_receiver_handles_each_event_once_and_no_forged_one(tmp_path: Path) -> None:
    shown = run("webhook_receiver.py", tmp_path).splitlines()
    assert shown[:2] == ["First delivery: Handled.", "Second delivery: Handled before."]
    assert shown[2] == "Forged: The signature is wrong."
    assert shown[4] == "Books: invoice.paid evt_1, charge.refunded evt_2"
