"""The settings of a middleware as users give them, checked where it is made: what is taken is what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from holdfast.core.functions import makes_coroutine

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_NAME = re.compile(r"[!#$%&'*+.^`|~0-9A-Za-z-]+")  # HTTP's token, without "_": servers drop or change such headers


def header_name(given: Any, what: str) -> str:
    """Return the name of a header; ``ValueError`` if no request can have it."""
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise ValueError(f"{what} is the name of a header, of letters, digits and '-', not {given!r:.50}.")
    return given


def header_names(given: Any, what: str) -> tuple[str, ...]:
    """Return names of headers in lower case, as requests and answers have them here."""
    return tuple(header_name(name, f"Each of {what}").lower() for name in texts(given, what))


def method_names(given: Any) -> frozenset[str]:
    """Return names of methods in upper case; ``ValueError`` for one that changes nothing."""
    methods = frozenset(name.upper() for name in texts(given, "methods"))
    if unsafe := methods & SAFE_METHODS:
        raise ValueError(f"Safe methods change nothing, so they need no key: leave out {', '.join(sorted(unsafe))}.")
    return methods


def routes(given: Any, what: str) -> Any:
    """Return what says which requests are meant: a flag, a function, or patterns of paths."""
    return given if isinstance(given, bool) or callable(given) else texts(given, what)


def client_function(given: Any) -> Any:
    """Return what tells whose request it is: a function, or None if nobody asks."""
    if given is None or (callable(given) and not makes_coroutine(given)):
        return given
    raise ValueError(f"client is a function, not an async one, that returns whose a request is, not {given!r:.50}.")


def texts(given: Any, what: str) -> tuple[str, ...]:
    """Return several texts. One text is several too, one a character, and never meant so."""
    if isinstance(given, Iterable) and not isinstance(given, str | bytes):
        texts = tuple(given)
        if all(isinstance(text, str) for text in texts):
            return texts
    raise ValueError(f"{what} are texts in a list or a set, not {given!r:.50}.")


__all__ = ["client_function", "header_name", "header_names", "method_names", "routes", "texts"]
