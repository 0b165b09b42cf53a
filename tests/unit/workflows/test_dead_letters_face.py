"""``app.dead_letters`` has the same calls in both colours, and letters of runs the same ids on every database."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from holdfast import Holdfast
from holdfast.errors import ConfigurationError, InvalidDuration
from holdfast.model.dead_letter import FailedOperationData
from holdfast.workflows.dead_letters.face import AsyncDeadLetters, DeadLetters
from holdfast.workflows.dead_letters.letters import failed_again, letter_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def _methods(kind: type) -> dict[str, str]:
    return {
        name: str(inspect.signature(each))
        for name, each in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_both_colours_have_the_same_calls() -> None:
    ours, theirs = _methods(DeadLetters), _methods(AsyncDeadLetters)
    only_async = {"enqueue_in", "within", "for_threads"}  # inside of an async transaction; and what the other stands on
    assert ours == {name: text for name, text in theirs.items() if name not in only_async}


def test_both_colours_say_the_same_of_replay() -> None:
    assert inspect.getdoc(DeadLetters.replay) == inspect.getdoc(AsyncDeadLetters.replay)


@pytest.mark.parametrize("run_id", ["order-17", "x" * 255, "größe", "tab\there"])
def test_letter_ids_are_stable_short_and_plain(run_id: str) -> None:
    made = letter_id("run", run_id)
    assert made == letter_id("run", run_id) != letter_id("run", run_id + "1")
    assert len(made) <= 64
    assert made.isascii()
    assert made.isprintable()


def test_letter_of_a_step_is_its_own() -> None:
    ids = {letter_id("step", "r", "1"), letter_id("step", "r", "2"), letter_id("run", "r"), letter_id("step", "q", "1")}
    assert len(ids) == 4


def letter(status: str, *errors: str, retry_count: int = 0) -> FailedOperationData:
    history = [{"error": each} for each in errors]
    return FailedOperationData(
        id="run-r", domain="workflow", failure_type="t", status=status, retry_count=retry_count,
        metadata={"history": history}, error_message=errors[-1],
    )  # fmt: skip


@pytest.mark.parametrize("status", ["resolved", "rejected", "archived", "expired", "permanently_failed", "replayed"])
def test_letter_that_was_ended_is_pending_when_its_run_fails_again(status: str) -> None:
    after = failed_again(letter(status, "a", retry_count=2), letter("pending", "b"), NOW)
    assert (after.status, after.retry_count, after.error_message, after.version) == ("pending", 0, "b", 2)
    assert after.metadata["history"] == [{"error": "a"}, {"error": "b"}]


@pytest.mark.parametrize("status", ["pending", "replaying", "reviewing", "requires_review"])
def test_letter_that_is_open_stays_where_it_is_when_its_run_fails_again(status: str) -> None:
    after = failed_again(letter(status, "a", retry_count=2), letter("pending", "b"), NOW)
    assert (after.status, after.retry_count, after.error_message, after.version) == (status, 2, "b", 2)


def test_history_does_not_grow_without_end() -> None:
    found = letter("pending", "0")
    for number in range(1, 50):
        found = failed_again(found, letter("pending", str(number)), NOW)
    assert [each["error"] for each in found.metadata["history"]] == [str(number) for number in range(30, 50)]


def _yields(letter: FailedOperationData) -> Iterator[str]:
    yield letter.id


async def _yields_later(letter: FailedOperationData) -> AsyncIterator[str]:
    yield letter.id


class _YieldsWhenCalled:
    def __call__(self, letter: FailedOperationData) -> Iterator[str]:
        yield letter.id


@pytest.mark.parametrize("handler", [_yields, _yields_later, _YieldsWhenCalled(), partial(_yields)])
@pytest.mark.parametrize("with_arguments", [True, False])
def test_handler_whose_calls_do_nothing_yet_is_refused(handler: Any, with_arguments: bool) -> None:
    app = Holdfast("sqlite:///x.sqlite")
    with pytest.raises(ConfigurationError, match="generator function"):
        app.replay_handler("mail", handler, with_arguments=with_arguments)
    assert app._engine.handlers.of("mail") is None


def test_handler_that_is_refused_is_not_registered() -> None:
    app = Holdfast("sqlite:///x.sqlite")
    with pytest.raises(InvalidDuration):
        app.replay_handler("mail", print, automatic=True, delay=-1)
    app.replay_handler("mail", print, automatic=True, delay=1)
    assert app._engine.handlers.delay_of("mail") == 1


@pytest.mark.parametrize("domain", ["a\0b", "half \ud800", "x" * 256])
def test_domain_that_no_letter_can_have_is_refused(domain: str) -> None:
    app = Holdfast("sqlite:///x.sqlite")
    with pytest.raises(ConfigurationError, match="domain of a replay handler"):
        app.replay_handler(domain, print, automatic=True)
    with pytest.raises(ConfigurationError, match="domain of replay_runs"):
        app.replay_runs(domain)
    app.replay_handler("", print)  # which a letter can have


def test_handler_without_a_domain_is_refused() -> None:
    app = Holdfast("sqlite:///x.sqlite")
    with pytest.raises(ConfigurationError, match="domain of a replay handler is a text"):
        app.replay_handler(cast("Any", print))
    with pytest.raises(ConfigurationError, match="domain of replay_runs is a text"):
        app.replay_runs(cast("Any", None))
