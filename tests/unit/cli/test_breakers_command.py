"""``holdfast breakers`` as it is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.stores import SQLCircuitBreakerStateRepository

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def breakers(shop: Any) -> Iterator[SQLCircuitBreakerStateRepository]:
    with SQLCircuitBreakerStateRepository(f"sqlite:///{shop.path}") as repository:
        yield repository


def test_breakers_are_listed_with_their_state_and_control(
    shop: Any, breakers: SQLCircuitBreakerStateRepository
) -> None:
    breakers.get_or_create("mail")
    breakers.trip_to_open("stripe", 5)
    lines = [line.split("\t") for line in shop.run("breakers", "list").stdout.splitlines()]
    assert lines[0][:3] == ["breaker", "state", "since"]
    assert [line[:2] for line in lines[1:]] == [["mail", "closed"], ["stripe", "open"]]
    [only] = shop.json("breakers", "list", "--open")["breakers"]
    assert (only["service_name"], only["failure_count"]) == ("stripe", 5)


def test_operator_opens_for_a_time_and_resets(shop: Any, breakers: SQLCircuitBreakerStateRepository) -> None:
    opened = shop.json("breakers", "open", "stripe", "--for", "30m", "--reason", "maintenance", "--by", "7")
    assert (opened["state"], opened["control_reason"], opened["controlled_by_id"]) == ("open", "maintenance", 7)
    record = breakers.get_by_service_name("stripe")
    assert record is not None
    assert record.manual_override_expires_at is not None
    assert record.opened_at is not None
    assert (record.manual_override_expires_at - record.opened_at).total_seconds() == 1800
    done = shop.run("breakers", "reset", "stripe", "--reason", "over")
    assert done.exit_code == 0
    assert "state\tclosed" in done.stdout.splitlines()
    events = [each["event"] for each in shop.json("breakers", "history", "stripe")["history"]]
    assert events == ["reset", "forced_open"]
    assert "maintenance" in shop.run("breakers", "history", "stripe", "--limit", "5").stdout


def test_operator_closes_for_ever_or_for_a_time(shop: Any, breakers: SQLCircuitBreakerStateRepository) -> None:
    assert shop.json("breakers", "close", "stripe")["manual_override_expires_at"] is None
    assert shop.json("breakers", "close", "stripe", "--for", "1h")["manual_override_expires_at"] is not None
    assert shop.run("breakers", "show", "stripe").exit_code == 0


@pytest.mark.parametrize("verb", ["open", "close"])
def test_no_time_at_all_is_not_taken_as_for_ever(
    shop: Any, breakers: SQLCircuitBreakerStateRepository, verb: str
) -> None:
    refused = shop.run("breakers", verb, "stripe", "--for", "0m")
    assert (refused.exit_code, "no time at all" in refused.stderr) == (2, True)
    assert breakers.get_by_service_name("stripe") is None


@pytest.mark.parametrize("verb", ["show", "reset", "history"])
def test_breaker_that_is_not_there_is_named(shop: Any, verb: str) -> None:
    done = shop.run("breakers", verb, "nowhere")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "nowhere" in done.stderr


def test_times_of_a_breaker_are_shown_as_in_lists(shop: Any, breakers: SQLCircuitBreakerStateRepository) -> None:
    breakers.trip_to_open("stripe", 5)
    fields = dict(line.split("\t", 1) for line in shop.run("breakers", "show", "stripe").stdout.splitlines())
    [listed] = [line.split("\t") for line in shop.run("breakers", "list").stdout.splitlines()[1:]]
    assert (fields["opened_at"], fields["opened_at"][-1]) == (listed[2], "Z")


@pytest.mark.parametrize("verb", ["open", "close"])
def test_breaker_that_nobody_knows_yet_is_made_with_a_remark(
    shop: Any, breakers: SQLCircuitBreakerStateRepository, verb: str
) -> None:
    made = shop.run("breakers", verb, "stirpe")
    assert (made.exit_code, "Nothing has ever happened to a breaker stirpe" in made.stderr) == (0, True)
    assert breakers.get_by_service_name("stirpe") is not None
    assert shop.run("breakers", verb, "stirpe").stderr == ""
    assert shop.json("breakers", verb, "another")["service_name"] == "another"  # for programs, and nothing else
