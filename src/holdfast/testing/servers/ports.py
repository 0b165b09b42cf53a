"""Choice of a port to listen on."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

from holdfast.errors import ConfigurationError

_LOWEST = 10_000
_DEFAULT_EPHEMERAL = 32_768
_TRIES = 200


def free_port() -> int:
    """Return a port of 127.0.0.1 that is free now; it may be taken before it is used: be ready to ask again.

    It is taken from below the ephemeral range. Inside that range, a client that tries again and again while
    its server is down may be given the server's own port to call from: it then talks to itself, and the
    server cannot come back.
    """
    below = _first_ephemeral()
    for _ in range(_TRIES):
        port = _LOWEST + secrets.randbelow(below - _LOWEST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise ConfigurationError(f"No free port between {_LOWEST} and {below} on 127.0.0.1 after {_TRIES} tries.")


def _first_ephemeral() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return _DEFAULT_EPHEMERAL
    return first if first > _LOWEST + 1000 else _DEFAULT_EPHEMERAL
