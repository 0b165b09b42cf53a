"""``holdfast workflow export|import``: a run as a JSON document, out of one database and into another."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import click
import msgspec

from holdfast.cli.failure import Failure
from holdfast.cli.runs import on_runs

if TYPE_CHECKING:
    from holdfast.cli.output import Output
    from holdfast.client import Client
    from holdfast.workflows.looking.transfer import OnConflict


@click.command(name="export")
@click.argument("workflow_id", metavar="ID")
@click.option(
    "--output", "target", type=click.File("wb", atomic=True), default="-", help="A file; by default the screen."
)
@on_runs
def export_(client: Client, out: Output, *, workflow_id: str, target: IO[bytes]) -> None:  # noqa: ARG001 -- JSON anyhow
    """Write one run and all it has recorded as a JSON document. Payloads are as they are stored."""
    document = client.export_workflow(workflow_id)
    try:
        target.write(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    except click.FileError as error:  # it is opened now
        raise Failure(error.format_message()) from error


@click.command(name="import", short_help="Make a run of an exported document.")
@click.argument("source", type=click.File("rb"), default="-", metavar="[FILE]")
@click.option("--id", "workflow_id", help="The id of the run here; by default that of the document.")
@click.option(
    "--on-conflict",
    type=click.Choice(["reject", "return_existing"]),
    default="reject",
    show_default=True,
    help="What to do if the id is taken.",
)
@on_runs
def import_(
    client: Client, out: Output, *, source: IO[bytes], workflow_id: str | None, on_conflict: OnConflict
) -> None:
    """Make a run of a document that `holdfast workflow export` wrote; one that had not ended goes on here."""
    try:
        document = msgspec.json.decode(source.read(), type=dict)
    except msgspec.DecodeError as error:
        raise Failure(f"The document is no exported run: {error}.") from error
    handle = client.import_workflow(document, workflow_id=workflow_id, on_conflict=on_conflict)
    out.document({"workflow_id": handle.workflow_id})
    out.say(f"Imported {handle.workflow_id}.")


__all__ = ["export_", "import_"]
