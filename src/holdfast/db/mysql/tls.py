"""TLS to MariaDB and MySQL, as the options of a URL ask for it; nothing is ever sent in the clear instead.

The names are those of the servers' own programs; an underscore may stand for the hyphen.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from holdfast.errors import InvalidURL

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIONS = ("ssl-mode", "ssl-ca", "ssl-cert", "ssl-key")


class Mode(StrEnum):
    """How much is asked of the server. PREFERRED is missing: whoever is in between could choose for us."""

    DISABLED = "DISABLED"
    REQUIRED = "REQUIRED"
    VERIFY_CA = "VERIFY_CA"
    VERIFY_IDENTITY = "VERIFY_IDENTITY"


@dataclass(frozen=True, slots=True)
class TLS:
    """What the options ask for: a *mode*, and files of certificates."""

    mode: Mode
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> TLS:
        """Read the options of a URL; ``InvalidURL`` if they contradict each other or say nothing that is known.

        Without a mode a file of authorities asks for the strictest, and a certificate of one's own for any at all.
        """
        asked = {hyphened(name): value for name, value in options.items() if hyphened(name) in OPTIONS}
        ca, cert, key = (asked.get(name) for name in OPTIONS[1:])
        if key is not None and cert is None:
            raise InvalidURL("The database URL gives ssl-key without the ssl-cert that it belongs to: give both.")
        usual = Mode.VERIFY_IDENTITY if ca is not None else Mode.REQUIRED if cert is not None else Mode.DISABLED
        mode = asked.get("ssl-mode", usual).upper()
        if mode not in list(Mode):
            raise InvalidURL(f"The ssl-mode in the database URL is none of {', '.join(Mode)}: choose one of them.")
        if mode == Mode.DISABLED and len(asked) > 1:
            raise InvalidURL("The database URL gives certificates and ssl-mode=DISABLED: leave one of them out.")
        return cls(Mode(mode), ca, cert, key)

    def context(self) -> ssl.SSLContext | None:
        """Return what the driver wants, or None for no TLS; ``OSError`` if a file cannot be read."""
        if self.mode is Mode.DISABLED:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.mode is Mode.VERIFY_IDENTITY
        if self.mode is Mode.REQUIRED:
            context.verify_mode = ssl.CERT_NONE
        elif self.ca is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(self.ca)
        if self.cert is not None:
            context.load_cert_chain(self.cert, self.key)
        return context


def hyphened(name: str) -> str:
    """Return the name of an option with hyphens, as OPTIONS has it."""
    return name.replace("_", "-") if name.startswith("ssl") else name


__all__ = ["OPTIONS", "TLS", "Mode", "hyphened"]
