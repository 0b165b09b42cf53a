"""What the settings of a database server mean for durable runs. Decisions only: no database is asked here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.cli.findings import Finding, Level, judged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_POOL = 20
_BESIDE_THE_POOL = 3  # the beat, the commit pipeline, and somebody who looks
_FOR_THREADS = 4  # PostgreSQL's, for the transactions of sync functions
_OLDEST_POSTGRES = 150_000
_NO_LIMIT = 1 << 31
_SHORTEST_IDLE_MS = 10_000
_SMALLEST_PACKET = 16 * 1024 * 1024
_OLDEST_MARIADB = (10, 6)
_OLDEST_MYSQL = (8, 0)


def postgres_findings(settings: Mapping[str, str], executors: int) -> list[Finding]:
    """Judge a PostgreSQL server by its settings and the number of *executors* that use it."""
    return [
        judged(
            "server version",
            settings["server_version"],
            ok=int(settings["server_version_num"]) >= _OLDEST_POSTGRES,
            remedy="Holdfast is tested with PostgreSQL 15 and later: upgrade the server.",
            level=Level.ADVICE,
        ),
        *_postgres_durability(settings),
        *_postgres_place(settings),
        _connections(
            min(
                int(settings["max_connections"]) - int(settings["superuser_reserved_connections"]),
                int(settings.get("connection_limit", _NO_LIMIT)),
            ),
            executors,
            _POOL + _BESIDE_THE_POOL + _FOR_THREADS,
        ),
    ]


def _postgres_durability(settings: Mapping[str, str]) -> list[Finding]:
    lost = "an acknowledged write may be lost when the server crashes"
    return [
        judged("fsync", settings["fsync"], ok=settings["fsync"] == "on", remedy=f"With fsync off {lost}: turn it on."),
        judged(
            "full_page_writes",
            settings["full_page_writes"],
            ok=settings["full_page_writes"] == "on",
            remedy="Without it a crash can damage tables: turn it on, unless the file system writes whole pages.",
        ),
        judged(
            "synchronous_commit",
            settings["synchronous_commit"],
            ok=settings["synchronous_commit"] != "off",
            remedy=f"With synchronous_commit off {lost}: set it to on.",
        ),
    ]


def _postgres_place(settings: Mapping[str, str]) -> list[Finding]:
    level, idle = settings["default_transaction_isolation"], int(settings["idle_in_transaction_session_timeout"])
    read_only = "on" in {settings["in_recovery"], settings["default_transaction_read_only"]}
    return [
        judged(
            "primary",
            "read-only" if read_only else "takes writes",
            ok=not read_only,
            remedy="This server or database takes no writes: point the URL at the primary.",
        ),
        judged(
            "default_transaction_isolation",
            level,
            ok=level == "read committed",
            remedy="Holdfast is made for read committed: set it for its user or database.",
        ),
        judged(
            "idle_in_transaction_session_timeout",
            f"{idle} ms" if idle else "off",
            ok=idle == 0 or idle >= _SHORTEST_IDLE_MS,
            remedy=f"It ends transactions that pause briefly: set it to {_SHORTEST_IDLE_MS} ms or more, or to 0.",
            level=Level.ADVICE,
        ),
    ]


def _connections(most: int, executors: int, of_each: int) -> Finding:
    needed = max(1, executors) * of_each
    return judged(
        "max_connections",
        f"{most} for {executors} executors",
        ok=most >= needed,
        remedy=(
            f"With the default pool_size of {_POOL} they may want {needed} connections: lower pool_size, "
            "raise max_connections or the limit of the user or database, or put a pooler between."
        ),
        level=Level.ADVICE,
    )


def rights_finding(lacking: Sequence[str]) -> Finding:
    """Judge by the tables that the user may not read and write."""
    return judged(
        "rights",
        f"not enough for {', '.join(lacking)}" if lacking else "enough for every table",
        ok=not lacking,
        remedy="Grant SELECT, INSERT, UPDATE and DELETE on the tables of the schema to this user, and USAGE on it.",
    )


def mysql_findings(settings: Mapping[str, str], executors: int) -> list[Finding]:
    """Judge a MariaDB or MySQL server by its settings and the number of *executors* that use it."""
    version = settings["version"]
    oldest = _OLDEST_MARIADB if "mariadb" in version.lower() else _OLDEST_MYSQL
    packet = int(settings["max_allowed_packet"])
    strict = {"STRICT_TRANS_TABLES", "STRICT_ALL_TABLES"} & set(settings["sql_mode"].split(","))
    return [
        judged(
            "server version",
            version,
            ok=_release(version) >= oldest,
            remedy="Holdfast needs MariaDB 10.6 or MySQL 8.0: upgrade the server.",
        ),
        *_mysql_durability(settings),
        judged(
            "max_allowed_packet",
            f"{packet} bytes",
            ok=packet >= _SMALLEST_PACKET,
            remedy=f"A batch of large payloads may be refused: set it to {_SMALLEST_PACKET} or more.",
            level=Level.ADVICE,
        ),
        judged(
            "sql_mode",
            settings["sql_mode"] or "empty",
            ok=bool(strict),
            remedy="Values that do not fit would be cut in your own sessions: add STRICT_TRANS_TABLES.",
            level=Level.ADVICE,
        ),
        judged(
            "primary",
            "takes writes" if settings["read_only"] == "OFF" else "read-only",
            ok=settings["read_only"] == "OFF",
            remedy="This server takes no writes: point the URL at the primary.",
        ),
        _connections(int(settings["max_connections"]), executors, _POOL + _BESIDE_THE_POOL),
    ]


def _mysql_durability(settings: Mapping[str, str]) -> list[Finding]:
    flush, logged = settings["innodb_flush_log_at_trx_commit"], settings["log_bin"] == "ON"
    return [
        judged(
            "innodb_flush_log_at_trx_commit",
            flush,
            ok=flush in {"1", "3"},
            remedy="An acknowledged write may be lost when the server crashes: set it to 1.",
        ),
        judged(
            "sync_binlog",
            settings["sync_binlog"] if logged else "no binary log",
            ok=not logged or settings["sync_binlog"] == "1",
            remedy="After a crash the replicas may lack acknowledged writes: set it to 1.",
        ),
    ]


def _release(version: str) -> tuple[int, ...]:
    numbers = version.partition("-")[0].split(".")
    return tuple(int(each) for each in numbers if each.isdecimal())


__all__ = ["mysql_findings", "postgres_findings", "rights_finding"]
