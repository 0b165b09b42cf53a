"""The worker of the protocol tests with streams: written by the workflow, by its step, and live."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a program beside this one, which is not a package when it runs
    from tests.acceptance.programs.worker import SETTINGS, AsyncSide, SyncSide, note
else:
    from worker import SETTINGS, AsyncSide, SyncSide, note


class SyncStreamer(SyncSide):
    """Streams with ``Holdfast``."""

    def __init__(self) -> None:
        super().__init__()
        app = self.app

        @app.step(name="talk")
        def talk(value: int) -> int:
            note("talk")
            app.write_stream("s", f"step {value}")
            app.write_stream("live", "x", live=True)
            app.write_stream("live", "y", live=True)
            return value

        @app.workflow(name="streaming")
        def streaming(value: int) -> int:
            note("begin")
            app.write_stream("s", "begin")
            found = talk(value)
            app.write_stream("s", "end")
            app.close_stream("s")
            return found

        self.workflows["streaming"] = streaming


class AsyncStreamer(AsyncSide):
    """Streams with ``AsyncHoldfast``."""

    def __init__(self) -> None:
        super().__init__()
        app = self.app

        @app.step(name="talk")
        async def talk(value: int) -> int:
            note("talk")
            await app.write_stream("s", f"step {value}")
            await app.write_stream("live", "x", live=True)
            await app.write_stream("live", "y", live=True)
            return value

        @app.workflow(name="streaming")
        async def streaming(value: int) -> int:
            note("begin")
            await app.write_stream("s", "begin")
            found = await talk(value)
            await app.write_stream("s", "end")
            await app.close_stream("s")
            return found

        self.workflows["streaming"] = streaming


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(name)s %(message)s")
    (SyncStreamer() if SETTINGS["colour"] == "sync" else AsyncStreamer()).main()
