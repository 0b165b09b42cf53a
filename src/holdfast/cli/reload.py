"""Noticing that a program's files have changed, for those who write it, and starting it anew in the same process."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

logger = logging.getLogger("holdfast.worker")

_EVERY = 0.5
_WATCHED = frozenset({".py", ".yaml", ".yml"})
_PASSED_OVER = frozenset({"__pycache__", "node_modules", "site-packages"})


class Watch:
    """Looks at the Python and YAML files in a folder and below, except in hidden folders and installed packages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = self._look()

    def wait(self) -> None:
        """Return when files have changed, and all of those that are Python can be read as such."""
        unread: set[Path] = set()
        while True:
            time.sleep(_EVERY)
            if self.is_unchanged():
                continue
            before, self._seen = self._seen, self._look()
            changed = {path for path, when in self._seen.items() if before.get(path) != when}
            unread = {path for path in unread | changed if path in self._seen and not _is_readable(path)}
            if not unread:
                return

    def is_unchanged(self) -> bool:
        """Whether all files are as they were at the last look."""
        return self._look() == self._seen

    def tell(self, changed: Callable[[], None]) -> None:
        """Have *changed* called once, from a thread, when files have changed."""

        def watch() -> None:
            self.wait()
            changed()

        threading.Thread(target=watch, name="holdfast-reload", daemon=True).start()

    def _look(self) -> dict[Path, int]:
        found: dict[Path, int] = {}
        for path in _files(self._folder):
            try:
                found[path] = path.stat().st_mtime_ns
            except OSError:  # deleted between the two looks, or not ours to see
                continue
        return found


def start_anew() -> NoReturn:
    """Replace this process by the same command, under the same process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 -- our own command line, no shell


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in _PASSED_OVER]
        yield from (Path(place, name) for name in names if Path(name).suffix in _WATCHED)


def _is_readable(path: Path) -> bool:
    if path.suffix != ".py":
        return True
    try:
        compile(path.read_bytes(), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        logger.warning("What is loaded goes on until %s can be read: %s", path, error)
        return False
    except OSError:  # deleted: its absence is a change too
        return True
    return True


__all__ = ["Watch", "start_anew"]
