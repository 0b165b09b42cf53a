"""How backends of flow checkpoints are made: what cannot be meant is refused at once, by the name of what was given."""

from __future__ import annotations

from typing import Any, cast

import pytest

from holdfast.errors import ConfigurationError, InvalidIdentifier, InvalidURL
from holdfast.stores import (
    InMemoryCheckpointBackend,
    MySQLCheckpointBackend,
    PostgresCheckpointBackend,
    RedisCheckpointBackend,
    SQLiteCheckpointBackend,
    from_url,
)

POSTGRES = "postgresql://user@localhost/database"


@pytest.mark.parametrize("size", [0, -1, None, 1.5])
@pytest.mark.parametrize(
    ("kind", "url"), [(PostgresCheckpointBackend, POSTGRES), (MySQLCheckpointBackend, "mysql://h/d")]
)
def test_pool_of_no_size_is_refused(kind: Any, url: str, size: Any) -> None:
    with pytest.raises(ConfigurationError, match="pool_size"):
        kind(url, pool_size=size)


@pytest.mark.parametrize("name", ["a b", 'a"b', "Ünï", "", "1a", None])
def test_wrong_name_of_a_table_is_said_of_the_table(name: Any) -> None:
    for make in (lambda: PostgresCheckpointBackend(POSTGRES, name), lambda: SQLiteCheckpointBackend(table_name=name)):
        with pytest.raises(InvalidIdentifier, match="name of the table"):
            make()


def test_settings_of_a_driver_are_no_url() -> None:
    with pytest.raises(InvalidURL, match="postgresql://user:password@host/database"):
        PostgresCheckpointBackend("host=localhost dbname=flows")
    with pytest.raises(InvalidURL, match="mysql://"):
        MySQLCheckpointBackend("flows")


@pytest.mark.parametrize("url", ["http://host", "file:flows", "memory:", ""])
def test_url_of_nothing_is_told_what_there_is(url: str) -> None:
    with pytest.raises(InvalidURL, match=r"sqlite:///file\.db.*redis://.*file:///folder.*memory://"):
        from_url(url)


def test_scheme_is_the_same_in_capitals() -> None:
    assert isinstance(from_url("MEMORY://"), InMemoryCheckpointBackend)
    assert isinstance(from_url("Redis://localhost:6379/0"), RedisCheckpointBackend)
    assert isinstance(from_url("PostgreSQL://user@localhost/database"), PostgresCheckpointBackend)


@pytest.mark.parametrize("size", [0, -1, None, 1.5, "9"])
def test_largest_checkpoint_has_a_size(size: object) -> None:
    with pytest.raises(ConfigurationError, match="max_bytes"):
        InMemoryCheckpointBackend(max_bytes=cast("int", size))
