"""Under which account a server runs, and where in the file system that account can work.

PostgreSQL and MariaDB refuse to run as root. When the test run is root, its servers run as the user that the
distribution's package has made for them.
"""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import ConfigurationError

# A unix socket's path holds 107 bytes; what is put below the folder takes the rest.
_LONGEST_BASE = 60


@dataclass(frozen=True)
class Account:
    """Numbers of a user without privileges."""

    user: int
    group: int


def unprivileged(preferred: str) -> Account | None:
    """Return the account to run as: None when this process is not root and can only be itself."""
    if os.geteuid() != 0:
        return None
    for name in (preferred, "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise ConfigurationError(
        f"Running as root, and there is neither a user {preferred!r} nor 'nobody' to run a server as."
    )


def open_to_all(path: Path) -> bool:
    """Say whether every folder down to *path* lets every user pass."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents))


def base_folder() -> Path:
    """Return a folder for temporary folders that has a short name and lets every user pass."""
    for candidate in (Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")):  # noqa: S108 -- mkdtemp below it
        base = candidate.resolve()
        if base.is_dir() and len(str(base)) <= _LONGEST_BASE and os.access(base, os.W_OK) and open_to_all(base):
            return base
    raise ConfigurationError(
        "No folder for temporary files is short, writable and open to all users; set TMPDIR to one."
    )
