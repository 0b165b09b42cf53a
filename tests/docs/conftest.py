"""What the tests of the documentation share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.testing.nursery import Nursery

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def strict_nursery() -> Iterator[Nursery]:
    """Where programs are born to which a warning is an error."""
    with Nursery("-W", "error") as nursery:
        yield nursery
