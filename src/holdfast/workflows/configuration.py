"""What an application is configured by: arguments, then the environment, then defaults; or a YAML file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, get_args

from holdfast.core.durations import checked_seconds
from holdfast.errors import ConfigurationError
from holdfast.model.world import RealWorld, World
from holdfast.resilience.letters import DEFAULT_BYTES
from holdfast.serialize import Serialization
from holdfast.workflows.engine_settings import DeadLetterPolicy, EngineSettings
from holdfast.workflows.parking import PUT_AWAY_AFTER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.model.workflow import Duration

_SHORTEST = 0.001  # seconds
_YAML_KEYS = {
    "name": "name",
    "system_database_url": "url",
    "holdfast_system_schema": "schema",
    "executor_id": "executor_id",
    "application_version": "application_version",
    "compatible_versions": "compatible_versions",
    "lease": "lease",
}
_DATABASE_KEYS = {"sys_db_pool_size": "pool_size"}
_CONNECT_KEYS = {"connect_timeout": "connect_timeout", "application_name": "application_name"}
_ENGINE_KEYS = {"pool_timeout": "pool_timeout", "pool_size": "pool_size"}


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
    _check_counts(max_workflow_threads=max_workflow_threads, max_runs=max_runs, max_run_bytes=max_run_bytes)
    if dead_letters not in get_args(DeadLetterPolicy):
        raise ConfigurationError(f'dead_letters is "exhausted" or "errors", not {dead_letters!r}.')
    return EngineSettings(
        url=resolve_url(url, name),
        name=name,
        executor_id=executor_id,
        application_version=application_version,
        compatible_versions=compatible_versions,
        lease=checked_seconds(lease, "lease", least=_SHORTEST),
        schema=schema,
        serialization=serializer or Serialization(),
        max_workflow_threads=max_workflow_threads,
        max_runs=max_runs,
        max_run_bytes=max_run_bytes,
        put_away_after=checked_seconds(put_away_after, "put_away_after", least=_SHORTEST),
        notify=notify,
        dead_letters=dead_letters,
        mask_fields=_fields(mask_fields),
        dead_letter_bytes=dead_letter_bytes,
        connection={
            "pool_size": pool_size,
            "pool_timeout": checked_seconds(pool_timeout, "pool_timeout"),
            "connect_timeout": checked_seconds(connect_timeout, "connect_timeout"),
            "pooled": pooled,
            "prepared": prepared,
            "application_name": application_name,
        },
        world=world or RealWorld(),
        clock_offset_ms=clock_offset_ms,
    )


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise ConfigurationError(f"{name} must be at least 1, not {count}.")


def _fields(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ConfigurationError(f"mask_fields are several names, not one text: pass [{names!r}].")
    return tuple(names)


def resolve_url(url: str | os.PathLike[str] | None, name: str) -> str:
    """Return the URL given, or the environment's, or that of a SQLite file named after the application."""
    if url is not None and str(url):
        return str(url)
    return os.environ.get("HOLDFAST_DATABASE_URL") or os.environ.get("DATABASE_URL") or f"sqlite:///{name}.sqlite"


def read_configuration(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a YAML file into the arguments of an application; a key that is not known is refused with its place."""
    import yaml  # noqa: PLC0415 -- only for those who use a file

    content = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} must hold keys and values at its top, for instance `name: my-application`.")
    database = dict(content.pop("database", None) or {})
    engine = dict(database.pop("db_engine_kwargs", None) or {})
    connect = dict(engine.pop("connect_args", None) or {})
    place = "database.db_engine_kwargs."
    _agree(path, place, "poolclass", engine.get("poolclass"), ("NullPool", "QueuePool"))
    _agree(path, place, "max_overflow", engine.pop("max_overflow", None), (0,))
    engine.pop("pool_pre_ping", None)  # a broken session is always noticed before it is used again
    arguments = _known(path, "", content, _YAML_KEYS) | _known(path, "database.", database, _DATABASE_KEYS)
    if engine.pop("poolclass", None) == "NullPool":
        return arguments | {"pooled": False} | _known(path, f"{place}connect_args.", connect, _CONNECT_KEYS)
    arguments |= _known(path, place, engine, _ENGINE_KEYS)
    return arguments | _known(path, f"{place}connect_args.", connect, _CONNECT_KEYS)


def _agree(path: str | os.PathLike[str], place: str, key: str, value: object, allowed: tuple[object, ...]) -> None:
    if value is not None and value not in allowed:
        raise ConfigurationError(f"{path}: {place}{key} is {value!r}; here it may be {' or '.join(map(str, allowed))}.")


def _known(
    path: str | os.PathLike[str], place: str, found: Mapping[str, Any], keys: Mapping[str, str]
) -> dict[str, Any]:
    for key in found:
        if key not in keys:
            raise ConfigurationError(
                f"{path}: {place}{key} is not a setting; here it may be {', '.join(sorted(keys))}."
            )
    return {keys[key]: value for key, value in found.items()}
