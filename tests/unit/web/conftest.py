"""What the tests of the middlewares share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.db.portal import Portal
from holdfast.stores import InMemoryIdempotencyStore, SyncIdempotencyStore

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def django_project() -> None:
    """A Django project, of which a process has one: whoever needs other settings patches them."""
    import django  # type: ignore[import-untyped]
    from django.conf import settings  # type: ignore[import-untyped]

    settings.configure(
        ALLOWED_HOSTS=["*"], SECRET_KEY="not one", MIDDLEWARE=["holdfast.web.django.IdempotencyMiddleware"]
    )
    django.setup()


@pytest.fixture
def store() -> Iterator[SyncIdempotencyStore]:
    portal = Portal()
    portal.start()
    yield SyncIdempotencyStore(InMemoryIdempotencyStore(), portal)
    portal.stop()
