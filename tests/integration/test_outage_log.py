"""What a process says while its database is away: enough to know of it, and not a line for every try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast import Holdfast
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from logging import LogRecord

    import pytest

    from holdfast.testing.servers import Server


def test_database_that_is_away_is_told_of_at_once_and_then_ever_more_rarely(
    own_server: Callable[..., Server], caplog: pytest.LogCaptureFixture
) -> None:
    server = own_server("postgres")
    app = Holdfast(server.create_database(), lease=1)

    @app.workflow
    def greet() -> str:
        return "hello"

    def told(what: str) -> list[LogRecord]:
        return [each for each in list(caplog.records) if what in each.getMessage()]

    with app:
        assert greet() == "hello"
        server.stop(immediate=True)
        until(lambda: len(told("The beat of executor local fails")) >= 4 and told("Looking for work fails"))
        beats = [each.created for each in told("The beat of executor local fails")]
        server.start()
        assert greet() == "hello"
    assert beats[3] - beats[0] > 3.5  # tried twelve times a second
