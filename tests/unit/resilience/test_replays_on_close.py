"""Calls that are made again when their breaker has closed: on threads, to the end, and with the types they had."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.errors import ConfigurationError
from holdfast.stores import SQLFailedOperationRepository
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.model.dead_letter import FailedOperationData

FAILED = Decimal("1.50")


class Dependency:
    """A protected function that fails until it is mended, and what it was called with."""

    def __init__(self, app: Holdfast) -> None:
        self.mended = False
        self.end: Callable[[], object] = bool
        self.seen: list[Decimal] = []
        breaker = app.breaker("pay", failures=1, open_for=0, open_jitter=0, successes=1)

        @app.protect("pay", breaker=breaker, dead_letter=True, replay_on_close=True)
        def pay(cents: Decimal) -> None:
            if not self.mended:
                raise OSError("away")
            self.seen.append(cents)
            if cents == FAILED:
                self.end()

        self.pay = pay

    def fail_and_close(self) -> None:
        """Make one call that fails, and others that close the breaker until it is made again.

        Once is not enough: what this process has seen may reach the others, and open the breaker, after it has closed.
        """
        with pytest.raises(OSError, match="away"):
            self.pay(FAILED)
        self.mended = True
        until(lambda: FAILED in self.seen or (self._passes() and FAILED in self.seen))

    def _passes(self) -> bool:
        try:
            self.pay(Decimal(7))
        except Exception:  # noqa: BLE001 -- it refuses for a moment
            return False
        return True


def letter(url: str) -> FailedOperationData:
    """Return the letter of the call that failed; calls that the breaker refused have some too."""
    with SQLFailedOperationRepository(url) as repository:
        [found] = [each for each in repository.find() if each.request_data["positionalArgs"] == [str(FAILED)]]
        return found


def test_call_is_made_again_with_its_types(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.sqlite"
    with Holdfast(url) as app:
        dependency = Dependency(app)
        dependency.fail_and_close()
        until(lambda: letter(url).status == "resolved")
        assert dependency.seen.count(FAILED) == 1


def test_whatever_the_call_raises_the_application_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.sqlite"
    with Holdfast(url) as app:
        dependency = Dependency(app)
        dependency.end = lambda: next(iter(()))
        dependency.fail_and_close()
        until(lambda: "StopIteration" in letter(url).error_message)
        assert letter(url).status != "resolved"


def test_call_that_ends_while_the_application_closes_is_noted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.sqlite"
    app = Holdfast(url)
    app.launch()
    dependency, begun = Dependency(app), threading.Event()

    def end() -> None:
        begun.set()
        until(lambda: not app._engine.launched or app._engine.closing)

    dependency.end = end
    dependency.fail_and_close()
    assert begun.wait(60)
    app.close()
    assert letter(url).status == "resolved"


def test_annotation_that_cannot_be_read_back_is_refused_at_once(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/app.sqlite")

    def pay(cents: list[int] | tuple[int, ...]) -> None:
        raise AssertionError

    with pytest.raises(ConfigurationError, match="cents"):
        app.protect("pay", dead_letter=True, replay_on_close=True)(pay)


def test_error_of_an_async_function_is_not_hidden_by_a_letter_that_cannot_be_written(tmp_path: Path) -> None:
    app = AsyncHoldfast(f"sqlite:///{tmp_path}/app.sqlite")

    @app.protect("pay", dead_letter=True)
    async def pay() -> None:
        raise OSError("away")

    with pytest.raises(OSError, match="away") as raised:  # the application is not launched
        asyncio.run(pay())
    assert "could not be kept" in raised.value.__notes__[0]
