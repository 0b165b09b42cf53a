"""``holdfast versions``: the application versions that have registered, and which is the latest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.failure import Failure
from holdfast.cli.output import moment, plain
from holdfast.cli.runs import on_runs
from holdfast.errors import WorkflowNotFound

if TYPE_CHECKING:
    from holdfast.cli.output import Output
    from holdfast.client import Client


@click.command(name="versions")
@click.option("--set-latest", "latest", metavar="VERSION", help="Make a registered version the latest.")
@on_runs
def command(client: Client, out: Output, *, latest: str | None) -> None:
    """List the application versions that have registered, the latest first."""
    if latest is not None:
        try:
            client.set_latest_application_version(latest)
        except WorkflowNotFound as error:
            raise Failure(
                f"No version {latest!r} has registered: `holdfast versions` shows those that have."
            ) from error
    found = client.list_application_versions()
    out.document({"versions": [plain(each) for each in found]})
    rows = [(each.version_name, moment(each.version_timestamp), moment(each.created_at)) for each in found]
    out.table(("version", "latest since", "registered"), rows)


__all__ = ["command"]
