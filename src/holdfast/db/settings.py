"""How to reach a database: everything a driver needs to know, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.db.url import DatabaseURL


LARGE_PAGES = 8192  # bytes; a row of 100 KB is written in 0.88 of the time that pages of 4096 take, one of 1 MB in 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of a ``ConnectionManager``; seconds throughout.

    *page_bytes* is for a SQLite file that this program makes; one that is there keeps its own. Without it they are
    SQLite's 4096, which serve small rows best.
    """

    url: DatabaseURL
    pool_size: int = 20
    pool_timeout: float = 30.0
    connect_timeout: float = 10.0
    command_timeout: float | None = None
    busy_timeout: float = 30.0
    pooled: bool = True
    prepared: bool = True
    synchronous: str = "FULL"
    application_name: str = "holdfast"
    lookups: bool = False
    longest_pause: float | None = None
    page_bytes: int | None = None

    def __post_init__(self) -> None:
        if type(self.pool_size) is not int or self.pool_size < 1:
            raise ConfigurationError(f"pool_size is a whole number and at least 1, not {self.pool_size!r}.")
        for name in ("pool_timeout", "connect_timeout", "busy_timeout"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name} must be more than 0 seconds, not {getattr(self, name)}.")
        if self.synchronous not in {"FULL", "NORMAL", "OFF", "EXTRA"}:
            raise ConfigurationError(
                f"synchronous must be FULL (durable), EXTRA, NORMAL or OFF, not {self.synchronous!r}."
            )

    @property
    def server_settings(self) -> dict[str, str]:
        """What a PostgreSQL session is told at its start.

        With *longest_pause* the server ends a session that leaves a transaction open and says nothing for so long: a
        process that was stopped in the middle must not hold rows that others want. Nor is a row waited for longer, and
        a client that has vanished from the network is noticed as soon.

        Such sessions, and those for *lookups*, are for short statements, so their plans are not compiled: where a table
        was never analysed a plan counts as dear, and compiling it takes half a second.

        A session for *lookups* never walks a table or builds a hash of it: for a table that was small when the plan
        was made, and was never analysed, PostgreSQL would go on doing so when it has a million rows. Its plans are the
        same whatever the values are, so they are made once: to make one for each batch takes longer than to run it.
        """
        told = {"application_name": self.application_name}
        if self.prepared:
            told["standard_conforming_strings"] = "on"  # a backslash in a literal of ours is one
        if self.longest_pause is not None and self.prepared:
            milliseconds = str(int(self.longest_pause * 1000))
            told |= {"idle_in_transaction_session_timeout": milliseconds, "lock_timeout": milliseconds}
            told |= {"tcp_keepalives_idle": str(max(1, round(self.longest_pause))), "tcp_keepalives_interval": "1"}
            told |= {"tcp_keepalives_count": "3", "jit": "off"}
        if self.lookups and self.prepared:  # a pooler between us and the server may not pass these on
            told |= {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"}
            told |= {"plan_cache_mode": "force_generic_plan"}
        return told

    @property
    def statement_cache_size(self) -> int:
        """How many prepared statements a connection keeps: none where a pooler hands connections around."""
        return 256 if self.prepared else 0
