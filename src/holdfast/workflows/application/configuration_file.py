"""The YAML file that an application may be configured by."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

_KEYS = {
    "name": "name",
    "system_database_url": "url",
    "holdfast_system_schema": "schema",
    "executor_id": "executor_id",
    "application_version": "application_version",
    "compatible_versions": "compatible_versions",
    "lease": "lease",
}
_TEXTS = ("name", "executor_id", "application_version", "compatible_versions")
_DATABASE_KEYS = {"sys_db_pool_size": "pool_size"}
_CONNECT_KEYS = {"connect_timeout": "connect_timeout", "application_name": "application_name"}
_ENGINE_KEYS = {"pool_timeout": "pool_timeout", "pool_size": "pool_size"}


def read_configuration(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a YAML file into the arguments of an application; a key that is not known is refused with its place."""
    import yaml  # noqa: PLC0415 -- only for those who use a file

    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is no YAML{_reason(error)}.") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} must hold keys and values at its top, for instance `name: my-application`.")
    _refuse_unquoted(path, content)
    place = "database.db_engine_kwargs."
    database = _section(path, "database", content.pop("database", None))
    engine = _section(path, place[:-1], database.pop("db_engine_kwargs", None))
    connect = _section(path, f"{place}connect_args", engine.pop("connect_args", None))
    _agree(path, place, "poolclass", engine.get("poolclass"), ("NullPool", "QueuePool"))
    _agree(path, place, "max_overflow", engine.pop("max_overflow", None), (0,))
    engine.pop("pool_pre_ping", None)  # a broken session is always noticed before it is used again
    arguments = _known(path, "", content, _KEYS) | _known(path, "database.", database, _DATABASE_KEYS)
    if engine.pop("poolclass", None) == "NullPool":
        return arguments | {"pooled": False} | _known(path, f"{place}connect_args.", connect, _CONNECT_KEYS)
    arguments |= _known(path, place, engine, _ENGINE_KEYS)
    return arguments | _known(path, f"{place}connect_args.", connect, _CONNECT_KEYS)


def _reason(error: object) -> str:
    """Return what is wrong and where; not the line itself, which may have a password in it."""
    problem, mark = getattr(error, "problem", None), getattr(error, "problem_mark", None)
    return f": {problem}, in line {mark.line + 1}, column {mark.column + 1}" if problem and mark else ""


def _refuse_unquoted(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Raise for a text that YAML has read as a number or a date, which may not be what was written: 1.10 is 1.1."""
    for key in _TEXTS:
        given = content.get(key)
        for each in given if isinstance(given, list) else [given]:
            if isinstance(each, int | float | date):
                raise ConfigurationError(f"{path}: {key} is a text, and YAML reads it as {each}: write it in quotes.")


def _section(path: str | os.PathLike[str], place: str, found: object) -> dict[str, Any]:
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ConfigurationError(f"{path}: {place} holds keys and values, not {found!r:.100}.")
    return dict(found)


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


__all__ = ["read_configuration"]
