"""The version of an application, computed from the sources of its workflows."""

from __future__ import annotations

import hashlib
import inspect
from typing import TYPE_CHECKING, Any

from holdfast.core.functions import plain_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DEFAULT_VERSION = "DEFAULT_VERSION"


def version_of(functions: Iterable[tuple[str, Callable[..., Any]]]) -> str | None:
    """Return the MD5 of names and sources in the order of the names; None if a source is not to be had."""
    digest = hashlib.md5(usedforsecurity=False)
    for name, function in sorted(functions, key=lambda pair: pair[0]):
        try:
            source = inspect.getsource(plain_function(function))
        except (OSError, TypeError):
            return None
        digest.update(name.encode())
        digest.update(b"\0")
        digest.update(source.encode())
        digest.update(b"\0")
    return digest.hexdigest()
