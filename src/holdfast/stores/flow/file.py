"""Flow checkpoints as files that people can read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.model.world import RealWorld, World
from holdfast.stores.flow.backend import MAX_BYTES, ShelfBackend
from holdfast.stores.flow.file_shelf import FileShelf
from holdfast.stores.flow.straight import Straight
from holdfast.stores.flow.verbs import as_storage_error

if TYPE_CHECKING:
    import os

    from holdfast.model.workflow import Duration

FOLDER = ".holdfast_flow_checkpoints"


class FileCheckpointBackend(ShelfBackend):
    """Flow checkpoints in a folder, one JSON file each, safe for any number of processes on one machine."""

    def __init__(
        self,
        directory: str | os.PathLike[str] = FOLDER,
        *,
        max_bytes: int = MAX_BYTES,
        max_checkpoints: int | None = None,
        ttl: Duration | None = None,
        world: World | None = None,
    ) -> None:
        surroundings = world or RealWorld()
        self.base_dir = Path(directory)
        self.checkpoints_dir = self.base_dir / "checkpoints"
        self.indexes_dir = self.base_dir / "indexes"
        self._are_mended = False

        async def opened(*, here: bool) -> FileShelf:
            shelf = FileShelf(self.base_dir, surroundings, here=here)
            with as_storage_error("The checkpoints could not be opened"):
                await shelf.initialize(mend=not self._are_mended)
            self._are_mended = True
            return shelf

        way = Straight(lambda: opened(here=False), lambda: opened(here=True))
        super().__init__(way, max_bytes=max_bytes, max_checkpoints=max_checkpoints, ttl=ttl, world=surroundings)
