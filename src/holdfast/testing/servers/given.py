"""A server that somebody else runs, named by an environment variable."""

from __future__ import annotations

import os
from typing import NoReturn, Self
from urllib.parse import urlsplit

from holdfast.errors import MisuseError, Unavailable
from holdfast.testing.servers.databases import databases_of

VARIABLES = {
    "postgres": "HOLDFAST_TEST_POSTGRES_URL",
    "mariadb": "HOLDFAST_TEST_MARIADB_URL",
    "redis": "HOLDFAST_TEST_REDIS_URL",
}


class GivenServer:
    """Used like a private server, but its life is not ours: it is neither stopped nor killed nor closed."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self.url = url

    @classmethod
    def from_environment(cls, kind: str) -> GivenServer | None:
        """Return the server that the environment names for *kind*, or None if it names none."""
        url = os.environ.get(VARIABLES[kind])
        return None if not url else cls(kind, url)

    @property
    def port(self) -> int | None:
        """The port in its URL."""
        return urlsplit(self.url).port

    def start(self) -> Self:
        """See that it answers; ``Unavailable`` if not, since a server that was named must be there."""
        try:
            databases_of(self.url).ping(self.url)
        except Unavailable as error:
            raise Unavailable(f"{VARIABLES[self.kind]} names a server that cannot be used: {error}") from error
        return self

    def create_database(self) -> str:
        """Make an empty database of the caller's own and return its URL."""
        return databases_of(self.url).create(self.url)

    def close(self) -> None:
        """Leave it as it is."""

    def stop(self, *, immediate: bool = False) -> NoReturn:  # noqa: ARG002 -- the signature of a private server
        self._refuse("stopped")

    def kill(self) -> NoReturn:
        self._refuse("killed")

    def restart(self, *, immediate: bool = False) -> NoReturn:  # noqa: ARG002 -- the signature of a private server
        self._refuse("restarted")

    def _refuse(self, what: str) -> NoReturn:
        raise MisuseError(
            f"The {self.kind} server is one that {VARIABLES[self.kind]} names, so it is not {what} here."
            " Unset the variable to have a private server started."
        )
