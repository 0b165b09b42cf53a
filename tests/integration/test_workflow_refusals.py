"""What the database refuses for good ends the run with the reason, and does not leave it running for ever."""

from __future__ import annotations

import secrets

import pytest

from holdfast import Holdfast
from holdfast.errors import TooLong
from holdfast.testing.servers import databases_of

LARGE = "x" * (17 * 1024 * 1024)  # more than MariaDB takes in one packet by default


@pytest.mark.parametrize("where", ["result", "step"])
def test_value_larger_than_the_database_takes_ends_the_run_with_the_reason(mariadb_url: str, where: str) -> None:
    url = databases_of(mariadb_url).create(mariadb_url)
    app = Holdfast(url, application_version=secrets.token_hex(4))

    @app.step
    def make() -> str:
        return LARGE

    @app.workflow
    def hoard() -> str:
        return make() if where == "step" else LARGE

    with app:
        handle = hoard.start()
        with pytest.raises(TooLong, match="max_allowed_packet"):
            handle.result(timeout=60)
        assert handle.status().status == "ERROR"
    databases_of(mariadb_url).drop(url)
