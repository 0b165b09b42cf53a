"""Flow checkpoints as files that people can read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.model.world import RealWorld, World
from holdfast.stores.flow.backend import CheckpointBackend
from holdfast.stores.flow.file_shelf import FileShelf

if TYPE_CHECKING:
    import os

FOLDER = ".holdfast_flow_checkpoints"


class FileCheckpointBackend(CheckpointBackend):
    """Flow checkpoints in a folder, one JSON file each, safe for any number of processes on one machine."""

    def __init__(self, directory: str | os.PathLike[str] = FOLDER, *, world: World | None = None) -> None:
        surroundings = world or RealWorld()
        folder = Path(directory)

        async def opened() -> FileShelf:
            shelf = FileShelf(folder, surroundings)
            await shelf.initialize()
            return shelf

        super().__init__(opened, world=surroundings)
