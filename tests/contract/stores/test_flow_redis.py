"""What only Redis does with flow checkpoints: it lets them go in time, and leaves no name behind. On a cluster too."""

from __future__ import annotations

import asyncio
import math
import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from holdfast.errors import ConfigurationError, InvalidURL, StorageError, Unavailable
from holdfast.stores import CheckpointStatus, RedisCheckpointBackend, RedisLink, from_url
from holdfast.stores.redis_blocking import BlockingRedisLink
from holdfast.testing.contract.store_flow_stage import checkpoint, ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    FreshDatabase = Callable[[str], str]


PREFIX = "{flow}:"


@pytest.fixture
def url(fresh_database: FreshDatabase) -> str:
    return fresh_database("redis")


@pytest.fixture
def raw(url: str) -> Iterator[Any]:
    """A client of the tests' own, to look at the keys."""
    import redis

    with redis.Redis.from_url(url, decode_responses=True) as client:
        yield client


def members(raw: Any) -> dict[str, list[str]]:
    """Return what stands in each sorted set, by ids."""
    names = [name for name in raw.keys(f"{PREFIX}*") if raw.type(name) == "zset"]
    return {name.removeprefix(PREFIX): [each[21:] for each in raw.zrange(name, 0, -1)] for name in names}


def wait_until_gone(raw: Any, key: str) -> None:
    deadline = time.monotonic() + 60
    while raw.exists(key):
        assert time.monotonic() < deadline, f"{key} does not expire"
        time.sleep(0.05)


def test_keys_are_the_documented_ones(url: str, raw: Any) -> None:
    with RedisCheckpointBackend.from_url(url, prefix=PREFIX) as backend:
        backend.save(checkpoint("a:b", "r", id="1"))
        assert raw.hget(f"{PREFIX}checkpoint:1", "id") == "1"
        assert '"flow_id":"a:b"' in raw.hget(f"{PREFIX}checkpoint:1", "data")
        assert members(raw) == {"flow:a%3Ab:checkpoints": ["1"], "flow:a%3Ab:status:active": ["1"], "run:r": ["1"]}
        backend.delete("1")
        assert members(raw) == {}
        assert raw.keys(f"{PREFIX}checkpoint*") == []


def test_run_goes_in_time_once_it_has_ended_and_not_before(url: str, raw: Any) -> None:
    with RedisCheckpointBackend.from_url(url, prefix=PREFIX, default_ttl=1000) as backend:
        first, second = checkpoint(id="1"), checkpoint(id="2", minute=1)
        waits = checkpoint("flow", "other", id="3")
        waits.mark_pending_input("node")
        for each in (first, second, waits):
            backend.save(each)
        assert [raw.ttl(f"{PREFIX}checkpoint:{n}") for n in "123"] == [-1, -1, -1]
        second.status = CheckpointStatus.FAILED
        backend.update(second)
        assert all(0 < raw.ttl(f"{PREFIX}{name}") <= 1000 for name in ("checkpoint:1", "checkpoint:2"))
        assert raw.ttl(f"{PREFIX}checkpoint:3") == -1
        backend.save(checkpoint(id="4", minute=2))  # somebody has gone on from the failure
        assert [raw.ttl(f"{PREFIX}checkpoint:{n}") for n in "124"] == [-1] * 3


def test_run_of_another_flow_with_the_same_id_neither_goes_nor_stays_with_it(url: str, raw: Any) -> None:
    with RedisCheckpointBackend.from_url(url, prefix=PREFIX, default_ttl=1000) as backend:
        backend.save(checkpoint("other", id="live"))
        backend.save(checkpoint(id="1"))
        backend.save(ended(1, id="2"))
        assert raw.ttl(f"{PREFIX}checkpoint:live") == -1
        assert all(raw.ttl(f"{PREFIX}checkpoint:{n}") > 0 for n in "12")
        backend.save(checkpoint("other", id="goes on", minute=2))
        assert all(raw.ttl(f"{PREFIX}checkpoint:{n}") > 0 for n in "12")
        backend.save(checkpoint(id="3", minute=3))
        assert [raw.ttl(f"{PREFIX}checkpoint:{n}") for n in ("1", "2", "3", "live", "goes on")] == [-1] * 5


def test_waiting_checkpoint_of_an_ended_run_stays(url: str, raw: Any) -> None:
    with RedisCheckpointBackend.from_url(url, prefix=PREFIX, default_ttl=1000) as backend:
        waits = checkpoint(id="1")
        waits.mark_pending_input("node")
        backend.save(waits)
        backend.save(ended(1, id="2"))
        assert raw.ttl(f"{PREFIX}checkpoint:1") == -1
        assert raw.ttl(f"{PREFIX}checkpoint:2") > 0


def test_what_has_expired_leaves_no_name_behind_and_hides_nothing(url: str, raw: Any) -> None:
    with RedisCheckpointBackend.from_url(url, prefix=PREFIX, default_ttl=1) as backend:
        backend.save(checkpoint(run_id="live", id="old"))
        for number in range(3):
            backend.save(ended(number + 1, run_id=f"r{number}", id=f"new{number}"))
        for number in range(3):
            wait_until_gone(raw, f"{PREFIX}checkpoint:new{number}")
        latest = backend.get_latest("flow")
        assert latest is not None
        assert latest.id == "old"
        assert members(raw)["flow:flow:checkpoints"] == ["old"]
        backend.save(checkpoint("elsewhere", "x", id="x"))  # a write takes away what reads have not come across
        left = members(raw)
        assert left.pop("flow:flow:status:active") == ["old"]
        assert not any("new" in member for names in left.values() for member in names)
        assert backend.cleanup("flow", keep_count=0) == 0


@pytest.mark.parametrize("ttl", [999.5, timedelta(seconds=1000)])
def test_time_to_live_is_any_duration(url: str, raw: Any, ttl: float | timedelta) -> None:
    with RedisCheckpointBackend.from_url(url, prefix=PREFIX, default_ttl=ttl) as backend:
        backend.save(ended(0, id="1"))
        assert 990 < raw.ttl(f"{PREFIX}checkpoint:1") <= 1000


def test_many_are_read_in_one_round_trip(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    ask = BlockingRedisLink._ask  # each is one packet and its reply

    def counted(link: BlockingRedisLink, command: tuple[Any, ...]) -> Any:
        asked.append(command[0])
        return ask(link, command)

    monkeypatch.setattr(BlockingRedisLink, "_ask", counted)
    with RedisCheckpointBackend.from_url(url, prefix=PREFIX) as backend:
        for minute in range(12):
            backend.save(checkpoint(minute=minute))
        backend.list_by_flow("flow", limit=1)  # the server knows the script from now on
        for status in (None, CheckpointStatus.ACTIVE):
            asked.clear()
            assert len(backend.list_by_flow("flow", status=status, limit=None)) == 12
            assert asked == ["EVALSHA"]


def test_without_a_ttl_nothing_goes(url: str, raw: Any) -> None:
    with RedisCheckpointBackend.from_url(url, prefix=PREFIX, default_ttl=None) as backend:
        backend.save(ended(0, id="1"))
        assert raw.ttl(f"{PREFIX}checkpoint:1") == -1


def test_password_and_options_reach_the_server(url: str) -> None:
    parts = urlsplit(url)
    host, port, db = parts.hostname or "", parts.port or 0, int(parts.path[1:])
    made = RedisCheckpointBackend(
        host,
        port,
        db,
        parts.password,
        prefix=PREFIX,
        socket_timeout=5,
        client_name="flows",
        username=None,
        ssl_ca_certs=None,
    )
    with made as backend:
        assert backend.load(backend.save(checkpoint())) is not None
    wrong = RedisCheckpointBackend(host, port, db, "wrong p@ss")
    with wrong, pytest.raises(StorageError) as refused:
        wrong.load("1")
    assert "p@ss" not in str(refused.value)
    assert "p%40ss" not in str(refused.value)


def test_options_beside_a_url_reach_the_server(url: str, raw: Any) -> None:
    for made in (
        RedisCheckpointBackend(
            url=f"{url}?socket_timeout=5", prefix=PREFIX, client_name="beside", decode_responses=True
        ),
        from_url(url, prefix=PREFIX, client_name="beside"),
    ):
        with made as backend:
            assert backend.load(backend.save(checkpoint())) is not None
            assert "beside" in {client["name"] for client in raw.client_list()}
    for unknown in (RedisCheckpointBackend(url=url, nonsense=1), from_url(url, nonsense=1)):
        with unknown as backend, pytest.raises(InvalidURL, match="option"):
            backend.load("1")
    with pytest.raises(ConfigurationError, match="once"):
        RedisCheckpointBackend("elsewhere", url=url)


def test_server_may_be_behind_a_socket_of_the_machine(tmp_path: Path) -> None:
    backend = RedisCheckpointBackend(unix_socket_path=str(tmp_path / "no one's"), db=3, password="p@ss")
    with backend, pytest.raises(StorageError, match="cannot be reached"):
        backend.load("1")


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="hash tag"):
        RedisCheckpointBackend.from_url("redis+cluster://localhost:7000", prefix="plain:")
    wrong: Any
    for wrong in (0, 0.5, math.nan, math.inf, "5", 10**30):
        with pytest.raises(ConfigurationError, match="default_ttl"):
            RedisCheckpointBackend(default_ttl=wrong)
    for wrong in (None, 5):
        with pytest.raises(ConfigurationError, match="host of Redis"):
            RedisCheckpointBackend(wrong)
        with pytest.raises(ConfigurationError, match="prefix"):
            RedisCheckpointBackend(prefix=wrong)
    with pytest.raises(ConfigurationError, match="retry"):
        RedisCheckpointBackend(retry=object())
    with pytest.raises(ConfigurationError, match="url=") as refused:
        RedisCheckpointBackend("redis://:secret@localhost:6379/0")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("host", "place"), [("127.0.0.1", "127.0.0.1:1/3"), ("::1", "[::1]:1/3")])
def test_server_that_is_not_there_is_a_storage_error_that_names_it(host: str, place: str) -> None:
    backend = RedisCheckpointBackend(host, 1, 3, "s3cret")
    with pytest.raises(StorageError, match="cannot be reached") as refused:
        backend.load("1")
    assert f"Redis at {place} " in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_loop_is_told_which_server_is_not_there() -> None:
    with pytest.raises(Unavailable, match=re.escape("Redis at 127.0.0.1:1/0 cannot")) as refused:
        asyncio.run(RedisLink("redis://ada:s3cret@127.0.0.1:1?password=s3cret").initialize())
    assert "s3cret" not in str(refused.value)
