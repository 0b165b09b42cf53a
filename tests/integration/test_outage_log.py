"""What a process says while its database is away: enough to know of it, and not a line for every try."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
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

    @app.workflow
    def patient() -> str | None:
        return app.recv(timeout=None, type=str)

    def told(what: str) -> list[LogRecord]:
        return [each for each in list(caplog.records) if what in each.getMessage()]

    services = [
        "The beat of executor local fails",  # tried twelve times a second
        "Looking for messages and events fails",
        "Looking for entries of streams fails",
    ]
    with app, ThreadPoolExecutor(1) as pool:
        assert greet() == "hello"
        waits = patient.start()
        reads = pool.submit(lambda: list(app.read_stream(waits.workflow_id, "words")))
        until(lambda: app._engine.communication.bells.waiting and app._engine.feed.waiting)
        server.stop(immediate=True)
        until(lambda: all(len(told(each)) >= 4 for each in services) and told("Looking for work fails"))
        times = {each: [record.created for record in told(each)] for each in services}
        server.start()
        app.send(waits.workflow_id, "done")
        assert (waits.result(), reads.result(), greet()) == ("done", [], "hello")
    assert all(each[3] - each[0] > 3.5 for each in times.values()), times
