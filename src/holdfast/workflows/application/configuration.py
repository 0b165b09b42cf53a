"""What an application is configured by: arguments, then the environment, then defaults."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from holdfast.core.durations import checked_seconds
from holdfast.core.options import several
from holdfast.core.texts import as_text, check_text, demand_text
from holdfast.db.queries.identifiers import check_identifier
from holdfast.db.settings import Settings as ConnectionSettings
from holdfast.db.url import DatabaseURL
from holdfast.errors import ConfigurationError, InvalidURL
from holdfast.model.world import RealWorld, World
from holdfast.resilience.letters import DEFAULT_BYTES
from holdfast.serialize import Serialization
from holdfast.workflows.engine.settings import DeadLetterPolicy, EngineSettings
from holdfast.workflows.parking import PUT_AWAY_AFTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model.workflow import Duration

_SHORTEST = 0.001  # seconds
# A server has to be reached and to answer three times a lease. And servers keep time by it: some count no further than
# 24 days.
_SHORTEST_LEASE, _LONGEST_LEASE = 0.1, 86_400.0
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}")


class Settings(TypedDict, total=False):
    """What an application may be given besides its URL; ``engine_settings`` has the defaults."""

    name: str
    executor_id: str
    application_version: str | None
    compatible_versions: Sequence[str]
    lease: Duration
    serializer: Serialization | None
    schema: str
    pool_size: int
    pool_timeout: Duration
    connect_timeout: Duration
    pooled: bool
    prepared: bool
    application_name: str
    max_workflow_threads: int
    max_runs: int
    max_run_bytes: int
    put_away_after: Duration
    notify: bool
    dead_letters: DeadLetterPolicy
    mask_fields: Sequence[str]
    dead_letter_bytes: int
    world: World | None
    clock_offset_ms: str | None


def engine_settings(
    url: str | os.PathLike[str] | None,
    *,
    name: str = "holdfast",
    executor_id: str = "local",
    application_version: str | None = None,
    compatible_versions: Sequence[str] = (),
    lease: Duration = 10.0,
    serializer: Serialization | None = None,
    schema: str = "holdfast",
    pool_size: int = 20,
    pool_timeout: Duration = 30.0,
    connect_timeout: Duration = 10.0,
    pooled: bool = True,
    prepared: bool = True,
    application_name: str = "holdfast",
    max_workflow_threads: int = 64,
    max_runs: int = 20_000,
    max_run_bytes: int = 256 * 1024 * 1024,
    put_away_after: Duration = PUT_AWAY_AFTER,
    notify: bool = True,
    dead_letters: DeadLetterPolicy = "exhausted",
    mask_fields: Sequence[str] = (),
    dead_letter_bytes: int = DEFAULT_BYTES,
    world: World | None = None,
    clock_offset_ms: str | None = None,
) -> EngineSettings:
    """Return the settings of an engine, checked."""
    check_text("name", name)
    check_text("executor_id", executor_id)
    if application_version is not None:
        check_text("application_version", application_version)
    _check_switches(notify=notify)
    _check_counts(max_workflow_threads=max_workflow_threads, max_runs=max_runs, max_run_bytes=max_run_bytes)
    _check_counts(least=0, dead_letter_bytes=dead_letter_bytes)
    if dead_letters not in get_args(DeadLetterPolicy):
        raise ConfigurationError(f'dead_letters is "exhausted" or "errors", not {dead_letters!r}.')
    found = resolve_url(url, name)
    return EngineSettings(
        url=found,
        name=name,
        executor_id=executor_id,
        application_version=application_version,
        compatible_versions=_texts("compatible_versions", compatible_versions),
        lease=checked_seconds(lease, "lease", least=_SHORTEST_LEASE, most=_LONGEST_LEASE),
        schema=schema,
        serialization=serialization_of(serializer),
        max_workflow_threads=max_workflow_threads,
        max_runs=max_runs,
        max_run_bytes=max_run_bytes,
        put_away_after=checked_seconds(put_away_after, "put_away_after", least=_SHORTEST),
        notify=notify,
        dead_letters=dead_letters,
        mask_fields=_texts("mask_fields", mask_fields),
        dead_letter_bytes=dead_letter_bytes,
        connection=connection_settings(
            found,
            schema,
            pool_size=pool_size,
            pool_timeout=pool_timeout,
            connect_timeout=connect_timeout,
            pooled=pooled,
            prepared=prepared,
            application_name=application_name,
        ),
        world=world or RealWorld(),
        clock_offset_ms=clock_offset_ms,
    )


def connection_settings(
    url: str,
    schema: str,
    *,
    pool_size: int,
    pool_timeout: Duration,
    connect_timeout: Duration,
    pooled: bool,
    prepared: bool,
    application_name: str,
) -> dict[str, Any]:
    """Return how to reach a database, checked as if it were opened, which is later: mistakes show where they are."""
    _check_switches(pooled=pooled, prepared=prepared)
    connection: dict[str, Any] = {
        "pool_size": pool_size,
        "pool_timeout": checked_seconds(pool_timeout, "pool_timeout"),
        "connect_timeout": checked_seconds(connect_timeout, "connect_timeout"),
        "pooled": pooled,
        "prepared": prepared,
        "application_name": check_text("application_name", application_name),
    }
    settings = ConnectionSettings(url=DatabaseURL.parse(url), **connection)
    check_identifier(demand_text("schema", schema), settings.url.dialect, "schema")
    return connection


def serialization_of(serializer: object) -> Serialization:
    """Return what was given as *serializer*, or the usual one; ``ConfigurationError`` for anything else."""
    if serializer is None:
        return Serialization()
    if not isinstance(serializer, Serialization):
        raise ConfigurationError(
            f"serializer is a Serialization, as in serializer=Serialization(PickleFormat()), not {serializer!r:.100}."
        )
    return serializer


def refuse_one_loop(world: object) -> None:
    """Raise for a world whose time moves on one event loop, where an application or a client has one of its own."""
    if getattr(world, "for_one_loop", False):
        raise ConfigurationError(
            f"A {type(world).__name__} belongs to the event loop of the test that moves its time: use AsyncHoldfast, "
            "or AsyncClient, there."
        )


def _check_counts(least: int = 1, **counts: int) -> None:
    for name, count in counts.items():
        if type(count) is not int or count < least:
            raise ConfigurationError(f"{name} is a whole number and at least {least}, not {count!r:.100}.")


def _check_switches(**switches: object) -> None:
    for name, switch in switches.items():
        if not isinstance(switch, bool):
            raise ConfigurationError(f"{name} is True or False, not {switch!r:.100}.")


def _texts(what: str, given: object) -> tuple[str, ...]:
    return tuple(demand_text(f"Each of {what}", each) for each in several(what, given))


def resolve_url(url: str | os.PathLike[str] | None, name: str) -> str:
    """Return the URL given, or the environment's, or that of a SQLite file named after the application.

    ``InvalidURL`` for an empty one, for what is none, and for one with a placeholder in it that nobody has filled in.
    """
    found = None if url is None else _written_url(url)
    if found == "":
        raise InvalidURL(
            "The URL of the database is an empty text: a variable that is not set, perhaps. Pass None, or nothing, for "
            "that of the environment or a SQLite file."
        )
    found = found or os.environ.get("HOLDFAST_DATABASE_URL") or os.environ.get("DATABASE_URL")
    left = _PLACEHOLDER.search(found or "")
    if left is not None:
        raise InvalidURL(
            f"The URL of the database has {left[0]} in it, and nobody puts a value in its place here: leave the URL "
            "out and set HOLDFAST_DATABASE_URL."
        )
    return found or f"sqlite:///{name}.sqlite"


def _written_url(url: object) -> str:
    """Return a URL or a path as a text; objects of other libraries are what they write, if that is a URL."""
    if isinstance(url, str):
        return as_text(url)
    written = str(url)
    if not isinstance(url, os.PathLike) and "://" not in written:  # a file would be named after it
        raise InvalidURL(f"The URL of the database is a text or a path, not a {type(url).__name__}.")
    return written
