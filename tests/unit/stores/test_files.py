"""Folders that writers of many processes have to themselves, one after the other."""

from __future__ import annotations

import fcntl
import os
import signal
from typing import TYPE_CHECKING

from holdfast.stores.files import alone_in

if TYPE_CHECKING:
    from pathlib import Path


def test_folder_is_free_again_while_a_child_lives_that_was_forked_meanwhile(tmp_path: Path) -> None:
    with alone_in(tmp_path):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        with (tmp_path / ".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if the child had kept it
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
