"""HTTP requests that happen once: deduplication by idempotency key, as middleware and by hand.

Nothing here needs a web framework; ``holdfast.web.django`` needs Django. What is not used is not loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.web.asgi import IdempotencyMiddleware
    from holdfast.web.deduplicator import CachedResponse, RequestDeduplicator
    from holdfast.web.fingerprint import RequestFingerprinter
    from holdfast.web.wsgi import WSGIIdempotencyMiddleware

__all__ = [
    "CachedResponse",
    "IdempotencyMiddleware",
    "RequestDeduplicator",
    "RequestFingerprinter",
    "WSGIIdempotencyMiddleware",
]

# Where each public name is defined; the type checker reads the imports above instead.
_HOMES = {
    "CachedResponse": "deduplicator",
    "IdempotencyMiddleware": "asgi",
    "RequestDeduplicator": "deduplicator",
    "RequestFingerprinter": "fingerprint",
    "WSGIIdempotencyMiddleware": "wsgi",
}


def __getattr__(name: str) -> Any:
    """Load a part when somebody asks for it."""
    if name in _HOMES:
        return getattr(import_module(f"holdfast.web.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
