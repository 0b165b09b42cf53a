"""Calls that are interrupted on their caller's own thread: in this call, once, and nowhere else."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import Holdfast
from holdfast.errors import CallTimeout, CircuitOpen, ConfigurationError
from holdfast.resilience.interrupting import Interruption, Late, Watch
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LONG = 60.0


def for_ever() -> None:
    while True:
        len("busy")


class Stage:
    """A watch, and calls whose time is up when the test says so."""

    def __init__(self) -> None:
        self.watch = Watch()
        self.seen: list[Any] = []

    def run(self, call: Callable[..., Any], *args: Any, limit: float = LONG) -> Any:
        return self.watch.run(call, limit, args, {})

    def is_over(self, *, outer: bool = False) -> None:
        """Have the time of the call that runs here be over, or of the one around it."""
        note = self.watch._innermost[threading.get_ident()]
        late = note.outer if outer else note
        assert late is not None
        late.deadline = 0.0
        self.watch._stir()

    def late(self) -> None:
        """Be late."""
        self.is_over()
        for_ever()


def test_call_in_time_returns_or_raises_its_own() -> None:
    stage = Stage()

    def own() -> None:
        raise TimeoutError("mine")

    assert stage.run(str, 1) == "1"
    with pytest.raises(ValueError, match="invalid"):
        stage.run(int, "x")
    with pytest.raises(TimeoutError, match="mine") as raised:
        stage.run(own)
    assert not isinstance(raised.value, Late)


def test_late_call_is_interrupted_on_its_callers_thread_and_its_handlers_let_it_pass() -> None:
    stage = Stage()

    def call() -> None:
        stage.seen.append(threading.get_ident())
        try:
            stage.late()
        except Exception:  # noqa: BLE001 -- what calls are full of
            stage.seen.append("caught")
        finally:
            stage.seen.append("left")

    with pytest.raises(Late):
        stage.run(call)
    assert stage.seen == [threading.get_ident(), "left"]
    assert stage.run(str, 2) == "2"


def test_call_that_waits_inside_of_c_is_interrupted_when_it_comes_back() -> None:
    stage, gate = Stage(), threading.Event()

    def open_gate() -> None:
        until(lambda: not stage.watch._running)
        gate.set()

    def call() -> None:
        stage.is_over()
        gate.wait(LONG)
        for_ever()

    threading.Thread(target=open_gate, daemon=True).start()
    with pytest.raises(Late):
        stage.run(call)


def test_call_that_swallows_its_interruption_is_late_all_the_same() -> None:
    stage = Stage()

    def call() -> str:
        with suppress(Interruption):
            stage.late()
        return "done"

    with pytest.raises(Late):
        stage.run(call)


def test_call_that_ends_while_its_interruption_is_being_sent_is_late_and_nothing_comes_after_it() -> None:
    stage = Stage()

    def call() -> None:
        stage.is_over()
        until(lambda: not stage.watch._running)

    with pytest.raises(Late):
        stage.run(call)
    for _ in range(1000):
        len("busy")


def test_late_inner_call_leaves_the_outer_one_to_go_on() -> None:
    stage = Stage()

    def outer() -> Any:
        with pytest.raises(Late):
            stage.run(stage.late)
        return stage.run(str, "on")

    assert stage.run(outer) == "on"


@pytest.mark.parametrize("both", [False, True])
def test_late_outer_call_ends_the_inner_one_and_is_late_itself(both: bool) -> None:
    stage = Stage()

    def inner() -> None:
        stage.is_over(outer=True)
        if both:
            stage.is_over()
        for_ever()

    def outer() -> None:
        with suppress(Late):
            stage.run(inner)
        stage.seen.append("went on")
        if both:  # the inner one was seen to be late before the outer one
            for_ever()

    with pytest.raises(Late):
        stage.run(outer)
    assert both or stage.seen == []
    assert (stage.watch._running, stage.watch._innermost) == ({}, {})


def _busy(span: float) -> None:
    end = time.perf_counter() + span
    while time.perf_counter() < end:
        pass


def _calls_in_calls(stage: Stage, seed: int) -> None:
    """Make calls that are late or in time by a hair; whatever reaches this frame is kept."""
    draw = random.Random(seed)  # noqa: S311 -- no secret

    def nested() -> None:
        with suppress(Late):
            stage.run(_busy, draw.uniform(0, 0.0005), limit=draw.uniform(0, 0.0005))
        _busy(0.0001)

    try:
        for _ in range(150):
            with suppress(Late):
                stage.run(nested, limit=draw.uniform(0, 0.0005))
            _busy(0.0001)
    except BaseException as error:  # noqa: BLE001 -- shown by the test
        stage.seen.append(error)


def test_interruptions_never_reach_what_comes_after_a_call() -> None:
    stage = Stage()
    threads = [threading.Thread(target=_calls_in_calls, args=(stage, seed)) for seed in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(LONG)
    assert stage.seen == []
    assert (stage.watch._running, stage.watch._innermost) == ({}, {})


def test_protected_call_that_is_interrupted_counts_against_the_breaker(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/app.sqlite", name="interrupting")
    app.breaker("stripe", failures=1)

    @app.protect("stripe", timeout=0.01, interrupt=True)
    def charge() -> None:
        for_ever()

    with app:
        with pytest.raises(CallTimeout, match=r"'stripe' took longer than its timeout of 0\.01 s, and was interrupted"):
            charge()
        with pytest.raises(CircuitOpen):
            charge()


def test_interrupt_is_refused_where_it_means_nothing(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/app.sqlite", name="interrupting")
    with pytest.raises(ConfigurationError, match="needs a timeout"):
        app.protect("stripe", interrupt=True)
    with pytest.raises(ConfigurationError, match="async ones are cancelled"):
        app.protect("stripe", timeout=1, interrupt=True)(asyncio.sleep)
