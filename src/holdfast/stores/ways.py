"""The way to its database that a store is handed: a manager or a link, which its caller opens and closes; no URL."""

from __future__ import annotations

from holdfast.db.manager import ConnectionManager
from holdfast.errors import ConfigurationError
from holdfast.stores.opened import Opened


def check_manager(store: object, manager: object) -> None:
    """Raise ``ConfigurationError`` unless *store* is handed a ``ConnectionManager``."""
    if not isinstance(manager, ConnectionManager):
        raise _wrong(store, manager, "ConnectionManager")


def check_link(store: object, link: object) -> None:
    """Raise ``ConfigurationError`` unless *store* is handed a ``RedisLink``."""
    if not isinstance(link, Opened):
        raise _wrong(store, link, "RedisLink")


def _wrong(store: object, given: object, wanted: str) -> ConfigurationError:
    name = type(store).__name__
    what = "a URL or a path" if isinstance(given, str) else f"a {type(given).__name__}"  # a URL has a password in it
    return ConfigurationError(f"{name} wants a {wanted}, not {what}: write {name}({wanted}(url)), and close both.")


__all__ = ["check_link", "check_manager"]
