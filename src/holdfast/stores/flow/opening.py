"""A backend of flow checkpoints by the URL of where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from holdfast.db.url import DatabaseURL, DialectName
from holdfast.errors import InvalidURL
from holdfast.stores.redis_url import REDIS_SCHEMES

if TYPE_CHECKING:
    import os

    from holdfast.stores.flow.documented import CheckpointBackend

_FILE, _MEMORY = "file://", "memory://"
_OTHERS = "redis://host:6379/0, redis+cluster://host:6379, file:///folder and memory://"


def from_url(url: str | os.PathLike[str], **options: Any) -> CheckpointBackend:
    """Return the backend that *url* names; nothing is opened before the first call.

    ``sqlite:///file.db``, ``postgresql://``, ``mysql://``, ``redis://``, ``redis+cluster://``, ``file:///folder``,
    ``memory://``; a path without a scheme is a SQLite file. Options are those of the backend's class. Raises
    ``InvalidURL``.
    """
    scheme, mark, rest = str(url).partition("://")
    text = f"{scheme.lower()}{mark}{rest}"
    if text.startswith(_MEMORY):
        from holdfast.stores.flow.memory import InMemoryCheckpointBackend  # noqa: PLC0415 -- what is not used stays out

        return InMemoryCheckpointBackend(**options)
    if text.startswith(_FILE):
        from holdfast.stores.flow.file import FileCheckpointBackend  # noqa: PLC0415 -- as above

        return FileCheckpointBackend(unquote(text.removeprefix(_FILE)), **options)
    if text.startswith(REDIS_SCHEMES):
        from holdfast.stores.flow.redis import RedisCheckpointBackend  # noqa: PLC0415 -- as above

        return RedisCheckpointBackend(url=text, **options)
    return _in_a_database(url, options)


def _in_a_database(url: str | os.PathLike[str], options: dict[str, Any]) -> CheckpointBackend:
    from holdfast.stores.flow import sql  # noqa: PLC0415 -- as above

    try:
        parsed = DatabaseURL.parse(url)
    except InvalidURL as error:
        raise InvalidURL(f"{error} Flow checkpoints may be at {_OTHERS} too.") from None
    if parsed.dialect is DialectName.POSTGRES:
        return sql.PostgresCheckpointBackend(parsed.secret_text(), **options)
    if parsed.dialect is DialectName.MYSQL:
        return sql.MySQLCheckpointBackend(parsed.secret_text(), **options)
    return sql.SQLiteCheckpointBackend(url, **options)
