"""Says when it is ready and waits for a line, so that all begin together; then tells the versions it applied."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from holdfast import faults
from holdfast.db import ConnectionManager
from holdfast.db.migrations import lock as migration_lock
from holdfast.db.migrations.migrator import Migrator
from holdfast.testing.program import say


async def main(url: str, folder: str | None, lock: bool, point: str | None, at: int) -> None:
    if not lock:
        migration_lock.LOOKS = 0
    manager = ConnectionManager(url)
    migrator = Migrator(manager, folder=Path(folder) if folder else None)
    if point:
        faults.arm(point, at=at)
    say("ready")
    sys.stdin.readline()
    applied = await migrator.migrate()
    version = await migrator.current_version()
    await manager.close()
    say("migrated", version, [each.version for each in applied])


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
