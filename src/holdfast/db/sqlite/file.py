"""The file that a SQLite connection has open, and whether it is still the one that others find under its name.

SQLite goes on writing to a file that was deleted, moved or replaced; what it acknowledges there nobody ever sees.
"""

from __future__ import annotations

import os

from holdfast.errors import Retryable


class OpenFile:
    """The file at *path*, which a connection has just opened."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100 -- as text: it is asked for with every commit
        self._opened = os.stat(self.path)  # noqa: PTH116 -- likewise

    @property
    def is_there(self) -> bool:
        """Whether others who open the path come to this file; a moment that one cannot look is no reason to say no."""
        try:
            return os.path.samestat(self._opened, os.stat(self.path))  # noqa: PTH116 -- likewise
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True

    def is_same(self, other: OpenFile) -> bool:
        """Whether *other* is the same file, by whatever path."""
        return os.path.samestat(self._opened, other._opened)

    def refuse_if_gone(self) -> None:
        """Raise ``Retryable`` if it is not there: it may be put back."""
        if not self.is_there:
            raise Retryable(
                f"The SQLite file {self.path} was deleted, moved or replaced while this process has it open; nothing "
                "is written any more. Put it back, or end this process and start it anew with the file that is there."
            )


__all__ = ["OpenFile"]
