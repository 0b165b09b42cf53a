"""What every command about runs has in common: the database, a client of it, and the form of the answer."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from holdfast.cli.database import database_options, named_database, quietly
from holdfast.cli.failure import failures
from holdfast.cli.output import Output
from holdfast.client import Client

if TYPE_CHECKING:
    from collections.abc import Callable


def on_runs(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make *function*, which takes a ``Client`` and an ``Output`` first, a command body with the database options."""

    @database_options
    @wraps(function)
    def command(*args: Any, url: str | None, schema: str, as_json: bool, **options: Any) -> None:
        with failures(), quietly():
            place = named_database(url)
            with Client(place.secret_text(), schema=schema, pool_size=2, application_name="holdfast-cli") as client:
                function(client, Output(as_json=as_json), *args, **options)

    return command


__all__ = ["on_runs"]
