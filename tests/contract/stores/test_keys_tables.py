"""The tables of keys and checkpoints are as they are documented, on every database."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.testing.contract import store_checkpoints, store_idempotency

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb")
_INDEXES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ?",
    "postgres": "SELECT indexname AS name FROM pg_indexes WHERE schemaname = 'holdfast' AND tablename = ?",
    "mariadb": "SELECT DISTINCT index_name AS name FROM information_schema.statistics"
    " WHERE table_schema = DATABASE() AND table_name = ?",
}


async def indexes(ground: Ground, table: str) -> set[str]:
    return {row["name"] for row in await ground.fetch(_INDEXES[ground.venue.name], table)}


def is_utc(text: Any) -> bool:
    return datetime.fromisoformat(text).utcoffset() == timedelta(0) and len(text) == len(
        "2026-01-01T00:00:00.000000+00:00"
    )


def test_holdfast_idempotency_has_its_documented_columns(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        store = await store_idempotency.open_store(ground)
        await store.try_claim("claimed", "f")
        await store.set("stored", "g", {"a": 1}, 201, {"x": "y"})
        columns = "idempotency_key, fingerprint, response_data, status_code, headers, created_at, expires_at"
        found = await ground.fetch(f"SELECT {columns} FROM {{holdfast_idempotency}} ORDER BY idempotency_key")
        claimed, stored = ([*row.values()][:5] for row in found)
        assert claimed == ["claimed", "f", "null", 0, "{}"]
        assert stored == ["stored", "g", '{"a":1}', 201, '{"x":"y"}']
        assert all(is_utc(row["created_at"]) and is_utc(row["expires_at"]) for row in found)
        assert "idx_idempotency_expires" in await indexes(ground, "holdfast_idempotency")

    store_venue.play(scene, empty=store_idempotency.TABLES)


def test_holdfast_checkpoints_has_its_documented_columns(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        store = await store_checkpoints.open_store(ground)
        await store.save("k", b"\x1f\x8b12")
        quoted = "`key`" if store_venue.name == "mariadb" else '"key"'
        columns = f"{quoted}, data, size_bytes, compressed, created_at, accessed_at"
        [row] = await ground.fetch(f"SELECT {columns} FROM {{holdfast_checkpoints}}")
        assert [*row.values()][:4] == ["k", b"\x1f\x8b12", 4, 1]
        assert is_utc(row["created_at"])
        assert is_utc(row["accessed_at"])
        assert "idx_holdfast_checkpoints_accessed" in await indexes(ground, "holdfast_checkpoints")

    store_venue.play(scene, empty=store_checkpoints.TABLES)


def test_rows_with_the_documented_columns_alone_are_taken_and_used(store_venue: StoreVenue) -> None:
    async def scene(ground: Ground) -> None:
        keys, checkpoints = await store_idempotency.open_store(ground), await store_checkpoints.open_store(ground)
        now, later = "2026-01-01T00:00:00.000000+00:00", "2999-01-01T00:00:00.000000+00:00"
        columns = "idempotency_key, fingerprint, response_data, status_code, created_at, expires_at"
        await ground.execute(
            f"INSERT INTO {{holdfast_idempotency}} ({columns}) VALUES ('k', 'f', '[1]', 200, '{now}', '{later}')"
        )
        assert (await keys.get("k"))["response_data"] == [1]
        assert await keys.try_claim("k", "f") is False
        quoted = "`key`" if store_venue.name == "mariadb" else '"key"'
        columns = f"{quoted}, data, size_bytes, created_at, accessed_at"
        await ground.execute(
            f"INSERT INTO {{holdfast_checkpoints}} ({columns}) VALUES ('k', ?, 1, '{now}', '{now}')", b"x"
        )
        assert await checkpoints.load("k") == b"x"
        await checkpoints.save("k", b"yy")
        assert await checkpoints.load("k") == b"yy"

    store_venue.play(scene, empty=(*store_idempotency.TABLES, *store_checkpoints.TABLES))
