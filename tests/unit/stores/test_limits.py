"""What no limit of a store can be, refused where the store is made: False is no size, and True not one entry."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.db import ConnectionManager
from holdfast.stores import DBCheckpointStore, DiskStorage, InMemoryExecutionStore, InMemoryIdempotencyStore
from holdfast.testing.contract.store_wrong_values import NO_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("limit", [0, -1, *NO_NUMBERS])
def test_limit_is_a_whole_number_of_at_least_one(tmp_path: Path, limit: Any) -> None:
    makers: list[tuple[Callable[..., object], tuple[str, ...]]] = [
        (DiskStorage, ("max_bytes", "max_entries")),
        (partial(DBCheckpointStore, ConnectionManager(tmp_path / "x.db")), ("max_bytes", "max_entries")),
        (InMemoryExecutionStore, ("max_entries",)),
        (InMemoryIdempotencyStore, ("max_entries",)),
    ]
    for make, names in makers:
        for name in names:
            with pytest.raises(ValueError, match=f"^{name} is a whole number from 1 to"):
                make(**{name: limit})
