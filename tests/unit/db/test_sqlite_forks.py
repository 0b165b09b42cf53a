"""A fork beside connections to SQLite, whatever has become of them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from holdfast.db.settings import Settings
from holdfast.db.sqlite.checkpoint import Checkpointer
from holdfast.db.sqlite.sqlite import opener
from holdfast.db.url import DatabaseURL

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_connection_that_was_closed_keeps_nobody_from_forking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)  # an error before a fork has nobody to go to
    path = tmp_path / "app.db"
    connect = opener(Settings(url=DatabaseURL.parse(path)), Checkpointer(str(path)), shared=True)
    closed, other = connect(), connect()
    closed.close()
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    other.execute("CREATE TABLE t (x INTEGER)", ())
    other.close()
    assert ignored == []
