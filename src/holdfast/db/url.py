"""Where the database is: one record made from a URL or a path.

A password reaches this module in the middle of text that may be malformed, so no error raised here quotes the
text it refuses, and none is raised while another one that quotes it is being handled.
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from holdfast.db.mysql import tls as mysql_tls
from holdfast.errors import InvalidURL

if TYPE_CHECKING:
    from collections.abc import Mapping


class DialectName(StrEnum):
    """The kinds of database there are."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"
    MYSQL = "mysql"


class _Scheme(NamedTuple):
    """How a URL of one dialect is written; ``drivers`` are suffixes other libraries want, dropped here."""

    names: tuple[str, ...]
    drivers: frozenset[str]
    default_port: int | None


_SCHEMES = {
    DialectName.SQLITE: _Scheme(("sqlite",), frozenset({"aiosqlite", "pysqlite"}), None),
    DialectName.POSTGRES: _Scheme(
        ("postgresql", "postgres"),
        frozenset({"aiopg", "asyncpg", "pg8000", "psycopg", "psycopg2", "psycopg2cffi", "psycopg_async"}),
        5432,
    ),
    DialectName.MYSQL: _Scheme(
        ("mysql", "mariadb"),
        frozenset(
            {
                "aiomysql",
                "asyncmy",
                "cymysql",
                "mariadbconnector",
                "mysqlclient",
                "mysqlconnector",
                "mysqldb",
                "pymysql",
            }
        ),
        3306,
    ),
}
# As SQLAlchemy and Django call them too.
DIALECTS = {name: dialect for dialect, scheme in _SCHEMES.items() for name in scheme.names}
_FORMS = "sqlite:///file.db, postgresql://user:password@host/database or mysql://user:password@host/database"
_ENCODE = "in a user name, password or database name write : / ? # @ % and spaces percent-encoded (@ is %40)"

_URL = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9]*)(?:\+(?P<driver>[A-Za-z0-9_]+))?://(?P<rest>[^#\s\x00-\x1f]*)")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DRIVE = re.compile(r"\A[A-Za-z]:(?=[\\/])")
_LOGIN = re.compile(r"//[^/]*:|:.*@|passw(?:or)?d\s*=", re.IGNORECASE | re.DOTALL)
_HOST = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True, repr=False)
class DatabaseURL:
    """One database. Its text, representation and ``safe`` form never show the password or the options.

    ``host`` is a name, an address, or the absolute path of the folder with PostgreSQL's unix socket; None
    leaves the choice to the driver. ``path`` is SQLite's file; None there means a database in memory. A
    server's ``database`` and ``port`` are always set.
    """

    dialect: DialectName
    host: str | None = None
    port: int | None = None
    user: str | None = None
    password: str | None = None
    database: str | None = None
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    @classmethod
    def parse(cls, text: str | os.PathLike[str]) -> DatabaseURL:
        """Read a URL, ``:memory:`` or the path of a SQLite file.

        Raises InvalidURL, with the remedy and without the text, for anything that could be a mistyped URL.
        """
        plain = os.fspath(text)
        if "://" not in plain:
            return _from_path(plain)
        match = _URL.fullmatch(plain)
        if match is None:
            raise InvalidURL(f"The database URL is malformed: write {_FORMS}, and {_ENCODE}.")
        dialect = _dialect(match["name"], match["driver"])
        head, mark, query = match["rest"].partition("?")
        options = _options(query) if mark else {}
        if dialect is DialectName.SQLITE:
            return _from_sqlite(head, options)
        return _from_server(dialect, head, options)

    @property
    def safe(self) -> str:
        """The URL without secrets, fit for logs and messages: ``postgresql://user:***@host:5432/db``."""
        return self._text("***")

    @property
    def in_memory(self) -> bool:
        """Whether this is a SQLite database that ends with its connection."""
        return self.dialect is DialectName.SQLITE and self.path is None

    @property
    def socket(self) -> str | None:
        """The unix socket to connect to (PostgreSQL: the folder it is in), or None."""
        if self.dialect is DialectName.MYSQL:
            return self.options.get("unix_socket")
        return self.host if self.host is not None and self.host.startswith("/") else None

    def secret_text(self) -> str:
        """Return the whole URL, password and options included; ``parse`` reads it back. Never log it."""
        options = dict(self.options)
        if self._address() == "" and self.port is not None:
            options |= {"port": str(self.port)} | ({} if self.host is None else {"host": self.host})
        query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in options.items())
        password = None if self.password is None else quote(self.password, safe="")
        return self._text(password) + (f"?{query}" if query else "")

    def with_database(self, name: str) -> DatabaseURL:
        """Return a copy that names another database on the same server."""
        if self.dialect is DialectName.SQLITE:
            raise InvalidURL("A SQLite database is a file: parse the path of the other file instead.")
        if not name:
            raise InvalidURL("The database's name is empty: give the name of a database on the server.")
        return replace(self, database=name)

    def _text(self, password: str | None) -> str:
        scheme = _SCHEMES[self.dialect].names[0]
        if self.dialect is DialectName.SQLITE:
            return (
                f"{scheme}://" if self.path is None else f"{scheme}:///{quote(self.path, safe='/', errors='replace')}"
            )
        login = "" if self.user is None else quote(self.user, safe="")
        if self.password is not None:
            login += f":{password}"
        return f"{scheme}://{login}{'@' if login else ''}{self._address()}/{quote(self.database or '', safe='')}"

    def _address(self) -> str:
        if self.host is None or self.host.startswith("/"):
            return ""
        host = f"[{self.host.replace('%', '%25')}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return self.safe

    def __repr__(self) -> str:
        return f"DatabaseURL({self.safe!r})"


def _dialect(name: str, driver: str | None) -> DialectName:
    dialect = DIALECTS.get(name.lower())
    if dialect is None:
        raise InvalidURL(f"The database URL begins with a scheme that is not known: write {_FORMS}.")
    if driver is not None and driver.lower() not in _SCHEMES[dialect].drivers:
        raise InvalidURL(
            f"The database URL asks for a driver that is not known for {dialect}: leave the +driver out,"
            f" as in {_SCHEMES[dialect].names[0]}://."
        )
    return dialect


def _from_path(path: str) -> DatabaseURL:
    if path == ":memory:":
        return DatabaseURL(DialectName.SQLITE)
    # postgresql:/u:secret@h/db and u:secret@h/db must not become a file's name, which messages may show.
    first = _DRIVE.sub("", path, count=1).partition("/")[0]
    if not path or ":" in first or path.startswith("//"):
        raise InvalidURL(
            f"This is neither a database URL nor a path: write {_FORMS}; a path with a colon begins with ./."
        )
    return _sqlite_file(path, path)


def _from_sqlite(head: str, options: dict[str, str]) -> DatabaseURL:
    if options:
        raise InvalidURL("The SQLite URL has options, and SQLite takes none here: leave out the ? and what follows it.")
    if head in {"", "/:memory:"}:
        return DatabaseURL(DialectName.SQLITE)
    if not head.startswith("/") or head == "/" or head.startswith("/file:"):
        raise InvalidURL(
            "The SQLite URL names no file: write sqlite:///relative.db (three slashes), sqlite:////absolute.db"
            " (four) or sqlite:// for a database in memory."
        )
    return _sqlite_file(head[1:], _decoded(head[1:]))


def _sqlite_file(raw: str, path: str) -> DatabaseURL:
    if _LOGIN.search(_DRIVE.sub("", raw, count=1)) is not None:
        raise InvalidURL(
            "The path of the SQLite file looks like a login: if it is one, write sqlite:/// with %40 for @."
        )
    if "\x00" in path:
        raise InvalidURL("The path of the SQLite file holds a NUL character: leave it out.")
    return DatabaseURL(DialectName.SQLITE, path=os.path.expanduser(path))  # noqa: PTH111 -- stays text as it was given


def _from_server(dialect: DialectName, head: str, options: dict[str, str]) -> DatabaseURL:
    authority, _, name = head.partition("/")
    login, at, address = authority.rpartition("@")
    user, colon, password = login.partition(":")
    host, port = _address(address)
    fields = {
        "host": host,
        "port": port,
        "user": _decoded(user) if user else None,
        "password": _decoded(password) if at and colon else None,
    }
    for option in fields.keys() & options.keys():
        if fields[option] is not None:
            raise InvalidURL(f"The database URL gives its {option} twice: leave the option out.")
        fields[option] = options.pop(option)
    if dialect is DialectName.MYSQL:
        _refuse_unknown(options)
    return DatabaseURL(
        dialect,
        host=fields["host"],
        port=_port(fields["port"], dialect),
        user=fields["user"],
        password=fields["password"],
        database=_database(name),
        options=MappingProxyType(options),
    )


def _address(address: str) -> tuple[str | None, str | None]:
    if address.startswith("["):
        inside, closed, after = address[1:].partition("]")
        host = _decoded(inside)
        if not closed or (after and not after.startswith(":")) or not _is_ipv6(host):
            raise InvalidURL("The host in the database URL is no IPv6 address: write it as [::1] or [::1]:5432.")
        return host, after[1:] or None
    host, _, port = address.partition(":")
    host = _decoded(host)
    if host and not host.startswith("/") and _HOST.fullmatch(host) is None:
        raise InvalidURL(f"The database URL must name one host, by name or address: write {_FORMS}, and {_ENCODE}.")
    return host or None, port or None


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True


def _port(text: str | None, dialect: DialectName) -> int | None:
    if text is None:
        return _SCHEMES[dialect].default_port
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536):
        raise InvalidURL(f"The port in the database URL is no number from 1 to 65535; also, {_ENCODE}.")
    return int(text)


def _database(raw: str) -> str:
    if not raw:
        raise InvalidURL(f"The database URL names no database: write its name after the host, as in {_FORMS}.")
    # A raw / ? or @ in a password puts the rest of it here.
    if any(mark in raw for mark in ":/@"):
        raise InvalidURL(f"The database's name in the URL cannot be told from the rest: {_ENCODE}.")
    return _decoded(raw)


def _options(query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        if not name or not equals or "@" in part:
            raise InvalidURL(f"An option of the database URL is not of the form name=value; also, {_ENCODE}.")
        name = _decoded(name)
        if name in options:
            raise InvalidURL("The database URL gives one option twice: keep one of the two.")
        options[name] = _decoded(value)
    return options


def _refuse_unknown(options: dict[str, str]) -> None:
    """Refuse what MariaDB's driver would never hear of; PostgreSQL and its driver refuse for themselves."""
    names = [mysql_tls.hyphened(name) for name in options]
    known = {*mysql_tls.OPTIONS, "unix_socket", "charset"}
    if len(set(names)) < len(names) or not known.issuperset(names) or options.get("charset", "utf8mb4") != "utf8mb4":
        raise InvalidURL(
            "The database URL has an option that MariaDB and MySQL do not take here: there are unix_socket, "
            f"{', '.join(mysql_tls.OPTIONS)}, each once, and charset=utf8mb4."
        )
    mysql_tls.TLS.of(options)


def _decoded(raw: str) -> str:
    decoded = None if _BROKEN_ESCAPE.search(raw) else _unquoted(raw)
    if decoded is None or "\x00" in decoded:
        raise InvalidURL(f"The database URL holds a % that encodes no character: write %25 for it; also, {_ENCODE}.")
    return decoded


def _unquoted(raw: str) -> str | None:
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeError:
        return None


__all__ = ["DIALECTS", "DatabaseURL", "DialectName"]
