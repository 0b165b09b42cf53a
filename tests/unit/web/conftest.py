"""What the tests of the middlewares share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.db.portal import Portal
from holdfast.stores import InMemoryIdempotencyStore, SyncIdempotencyStore

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def store() -> Iterator[SyncIdempotencyStore]:
    portal = Portal()
    portal.start()
    yield SyncIdempotencyStore(InMemoryIdempotencyStore(), portal)
    portal.stop()
