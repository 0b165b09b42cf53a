"""What is decided about requests with an idempotency key, without doing anything: no I/O and no framework.

The header is a quoted string of HTTP's structured fields (``"8e03978e"``); many clients send it bare, and both mean the
same key.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict

import msgspec

from holdfast.core.durations import SHORTEST_LEASE, checked_seconds
from holdfast.core.numbers import count
from holdfast.stores.keys import LONGEST_KEY as STORED_KEY
from holdfast.web import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

Headers: TypeAlias = "list[tuple[str, str]]"
Save: TypeAlias = "Literal['final', 'success', 'all'] | Callable[[int], bool]"
Routes: TypeAlias = "bool | Iterable[str] | Callable[[str, str], bool]"

REPLAYED = "idempotency-replayed"
LONGEST_KEY = 255
_LONGEST_MARK = len("http:of::") + 32  # what is put before a key where it is stored
# Of one exchange or one connection, or a secret of one client: these are never stored.
UNSTORED_HEADERS = frozenset(
    {
        "authentication-info", "authorization", "connection", "cookie", "date", "keep-alive", "proxy-authenticate",
        "proxy-authentication-info", "proxy-authorization", "server", "set-cookie", "set-cookie2", "te", "trailer",
        "transfer-encoding", "upgrade", "www-authenticate", "x-api-key", "x-auth-token", "x-csrf-token", REPLAYED,
    }
)  # fmt: skip
_DIGITS = 18
_STREAM = "text/event-stream"
_PASSING = frozenset({408, 425, 429})  # answers that say no more than: not now
_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"(?:[ \t]*;.*)?')
_BARE = re.compile(r"[\x21\x23-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_encode = msgspec.json.encode


class Refused(Exception):
    """A request that is answered without the application; *answer* says how."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class Answer(NamedTuple):
    """A whole response. Names of headers are in lower case."""

    status: int
    headers: Headers
    body: bytes

    @property
    def is_stream(self) -> bool:
        """Whether these are server-sent events, of which each is to reach the client when it comes."""
        for name, value in self.headers:
            if name == "content-type":
                return value.lower().startswith(_STREAM)
        return False


class Request(NamedTuple):
    """What is known of a request before its body; *client* is who sent it, for the scope of its key."""

    method: str
    path: str
    query: bytes
    headers: Headers
    client: str | None = None

    def values(self, name: str) -> list[str]:
        """Return the values of a header, given in lower case."""
        return [value for each, value in self.headers if each == name]


class RuleSettings(TypedDict, total=False):
    """The settings of ``Rules``, for type checkers."""

    header: str
    required: Routes
    exclude: Routes
    methods: Collection[str]
    save: Save
    ttl_seconds: float
    lease_seconds: float
    wait_seconds: float
    max_key_length: int
    max_body_bytes: int
    max_response_bytes: int
    unstored_headers: Collection[str]
    include_headers: Collection[str]
    docs_url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How requests with a key are treated; see the reference for each."""

    header: str = "Idempotency-Key"
    required: Routes = False
    exclude: Routes = False
    methods: Collection[str] = frozenset({"POST", "PUT", "PATCH", "DELETE"})
    save: Save = "final"
    ttl_seconds: float = 86400.0
    lease_seconds: float = 30.0
    wait_seconds: float = 0.0
    max_key_length: int = LONGEST_KEY
    max_body_bytes: int = 10 * 1024 * 1024
    max_response_bytes: int = 1024 * 1024
    unstored_headers: Collection[str] = UNSTORED_HEADERS
    include_headers: Collection[str] = ()
    docs_url: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant, and take names in any case."""
        settings.header_name(self.header, "header")
        for name, checked in (
            ("required", settings.routes(self.required, "The patterns of required")),
            ("exclude", settings.routes(self.exclude, "The patterns of exclude")),
            ("methods", settings.method_names(self.methods)),
            ("unstored_headers", frozenset(settings.header_names(self.unstored_headers, "unstored_headers"))),
            ("include_headers", settings.header_names(self.include_headers, "include_headers")),
            ("ttl_seconds", checked_seconds(self.ttl_seconds, "ttl_seconds", least=SHORTEST_LEASE)),
            ("lease_seconds", checked_seconds(self.lease_seconds, "lease_seconds", least=SHORTEST_LEASE)),
            ("wait_seconds", checked_seconds(self.wait_seconds, "wait_seconds")),
        ):
            object.__setattr__(self, name, checked)
        count(self.max_key_length, "max_key_length", least=1, most=STORED_KEY - _LONGEST_MARK)
        count(self.max_body_bytes, "max_body_bytes")
        count(self.max_response_bytes, "max_response_bytes")
        if not callable(self.save) and self.save not in {"final", "success", "all"}:
            raise ValueError(f"save is 'final', 'success', 'all' or a function, not {self.save!r}.")

    def key_of(self, request: Request) -> str | None:
        """Return the key of a request that is to happen once, None for one that is left alone; or raise ``Refused``."""
        if request.method not in self.methods or _matches(self.exclude, request):
            return None
        given = request.values(self.header.lower())
        if given:
            return self._parsed(given)
        if _matches(self.required, request):
            raise Refused(
                self.problem(400, f"{self.header} is missing", f"This request needs the header {self.header}.")
            )
        return None

    def saves(self, status: int) -> bool:
        """Whether an answer of this status is stored; if not the key is free again."""
        if callable(self.save):
            return self.save(status)
        if self.save == "success":
            return 200 <= status < 300
        return self.save == "all" or (status < 500 and status not in _PASSING)

    def problem(self, status: int, title: str, detail: str, *, retry_after: int | None = None) -> Answer:
        """Return an answer of ours, as ``application/problem+json``."""
        told = {"type": self.docs_url or "about:blank", "title": title, "status": status, "detail": detail}
        body = _encode(told)
        headers = [("content-type", "application/problem+json"), ("content-length", str(len(body)))]
        if retry_after is not None:
            headers.append(("retry-after", str(retry_after)))
        if self.docs_url is not None:
            headers.append(("link", f'<{self.docs_url}>; rel="describedby"'))
        return Answer(status, headers, body)

    def conflict(self) -> Answer:
        """Return the answer to a key that came with another request before."""
        return self.problem(
            422, f"{self.header} is already used", "The key was used for another request: use a new one for this one."
        )

    def outstanding(self) -> Answer:
        """Return the answer to a key whose first request has none yet."""
        return self.problem(
            409,
            f"A request is outstanding for this {self.header}",
            "The first request with this key has not been answered yet: try again in a moment.",
            retry_after=1,
        )

    def length(self, told: str | None) -> int | None:
        """Return what a Content-Length says, None if it says nothing; ``Refused`` if that is more than may be held."""
        length = body_length(told)
        if length is not None and length > self.max_body_bytes:
            raise Refused(self.too_large())
        return length

    def too_large(self) -> Answer:
        """Return the answer to a request whose body is larger than may be held."""
        detail = f"A request with the header {self.header} may have {self.max_body_bytes} bytes."
        return self.problem(413, "The request is too large", detail)

    def incomplete(self) -> Answer:
        """Return the answer to a request whose client has gone before its body was whole."""
        return self.problem(
            400, "The request is not whole", "Its body is shorter than its Content-Length says: send it again."
        )

    def unavailable(self) -> Answer:
        """Return the answer while it cannot be told whether a request happened before."""
        return self.problem(
            503,
            "Idempotency keys cannot be checked",
            "The request was not carried out: try again in a moment.",
            retry_after=1,
        )

    def packed(self, answer: Answer) -> tuple[dict[str, str] | None, dict[str, Any]]:
        """Return data and headers of an answer as they are stored; no data for one that is too large to keep."""
        headers: dict[str, Any] = {}
        for name, value in answer.headers:
            if name not in self.unstored_headers:
                before = headers.get(name)
                headers[name] = value if before is None else [*([before] if isinstance(before, str) else before), value]
        return (_packed_body(answer.body) if len(answer.body) <= self.max_response_bytes else None), headers

    def unpacked(self, status: int, data: Any, headers: Mapping[str, Any]) -> Answer:
        """Return a stored answer, marked as one that is given again."""
        if not isinstance(data, dict):
            return self.problem(
                409,
                "The answer is not kept",
                f"The request was carried out and answered with {status}; its answer was too large to be kept, or was "
                "sent as it came.",
            )
        pairs = [
            (name, one) for name, given in headers.items() for one in ([given] if isinstance(given, str) else given)
        ]
        body = data["text"].encode() if "text" in data else b64decode(data["base64"])
        return Answer(status, [*pairs, (REPLAYED, "true")], body)

    def _parsed(self, given: list[str]) -> str:
        key = key_in(given[0])
        if len(given) > 1 or not key:
            detail = f"The header {self.header} is one string of printable ASCII characters, quoted or bare."
            raise Refused(self.problem(400, f"{self.header} cannot be read", detail))
        if len(key) > self.max_key_length:
            detail = f"A key may have {self.max_key_length} characters."
            raise Refused(self.problem(400, f"{self.header} is too long", detail))
        return key


def key_in(header: str) -> str:
    """Return the key that a header says, quoted or bare; an empty text if it cannot be read."""
    quoted = _QUOTED.fullmatch(header.strip())
    bare = _BARE.fullmatch(header.strip())
    return re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else bare[0] if bare else ""


def body_length(given: str | None) -> int | None:
    """Return the number that a Content-Length says; None if it is missing or no number."""
    if not given or not (given.isascii() and given.isdecimal()):
        return None
    return int(given.lstrip("0")[:_DIGITS] or "0")  # a longer number is too large however it ends


def store_key(key: str, client: str | None) -> str:
    """Return the key as it is stored: one client's keys are not another's, nor those of nobody, whatever they say."""
    if client is None:
        return f"http:any:{key}"
    if not isinstance(client, str):  # 1 and True, or the texts of two objects, would be told apart by nobody
        raise TypeError(
            f"Who sent a request is said by a text, or None, not by {type(client).__name__}: as str(user.id)."
        )
    return f"http:of:{sha256(client.encode(errors='surrogatepass')).hexdigest()[:32]}:{key}"


def _packed_body(body: bytes) -> dict[str, str]:
    try:
        return {"text": body.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(body).decode()}


def _matches(routes: Routes, request: Request) -> bool:
    if isinstance(routes, bool):
        return routes
    if callable(routes):
        return routes(request.method, request.path)
    return any(fnmatchcase(request.path, pattern) for pattern in routes)


__all__ = ["Answer", "Headers", "Refused", "Request", "RuleSettings", "Rules", "body_length", "key_in", "store_key"]
