"""Reliability state: event log, checkpoints, executions, idempotency keys, tasks, locks, dead letters, breakers.

Each store stands alone, hangs from an application, or comes out of a ``StoreFactory``. What is not used is not loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.stores.redis import RedisLink

__all__ = ["RedisLink"]

# Where each public name is defined; the type checker reads the imports above instead.
_HOMES = {
    "RedisLink": "redis",
}


def __getattr__(name: str) -> Any:
    """Load a store when somebody asks for it: a program uses two or three of them."""
    if name in _HOMES:
        return getattr(import_module(f"holdfast.stores.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
