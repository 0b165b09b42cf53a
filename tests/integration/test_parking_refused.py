"""A run whose waiting the database refuses to write down ends with that error: it is not begun again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdfast import AsyncHoldfast
from holdfast.db import SyncConnectionManager
from holdfast.errors import DatabaseError

FreshDatabase = Callable[[str], str]

REFUSING = {
    "sqlite": [
        (
            "CREATE TRIGGER refuse BEFORE UPDATE ON workflow_status WHEN NEW.status = 'DELAYED' "
            "BEGIN SELECT RAISE(ABORT, 'refused by a test'); END"
        )
    ],
    "postgres": [
        (
            "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $body$ BEGIN "
            "RAISE EXCEPTION 'refused by a test' USING ERRCODE = '22003'; END $body$"
        ),
        (
            "CREATE TRIGGER refuse BEFORE UPDATE ON holdfast.workflow_status FOR EACH ROW "
            "WHEN (NEW.status = 'DELAYED') EXECUTE FUNCTION public.refuse()"
        ),
    ],
    "mariadb": [
        (
            "CREATE TRIGGER refuse BEFORE UPDATE ON workflow_status FOR EACH ROW BEGIN "
            "IF NEW.status = 'DELAYED' THEN SIGNAL SQLSTATE '22003' SET MESSAGE_TEXT = 'refused by a test'; END IF; END"
        )
    ],
}


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_run_that_cannot_be_put_away_ends_with_the_refusal(kind: str, fresh_database: FreshDatabase) -> None:
    url, begun = fresh_database(kind), list[int]()
    app = AsyncHoldfast(url, lease=2)

    @app.workflow
    async def sleeper() -> None:
        begun.append(1)
        await app.sleep(3600)

    async def scene() -> None:
        async with app:
            with SyncConnectionManager(url) as manager:
                for statement in REFUSING[kind]:
                    manager.execute(statement)
            handle = await sleeper.start()
            with pytest.raises(DatabaseError, match="refused by a test"):
                await handle.result(timeout=60)
            assert (await handle.status()).status == "ERROR"
        assert begun == [1]

    asyncio.run(scene())
