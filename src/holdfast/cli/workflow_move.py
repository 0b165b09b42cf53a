"""``holdfast workflow export|import``: a run as a JSON document, out of one database and into another."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click
import msgspec

from holdfast.cli.failure import Failure
from holdfast.cli.runs import on_runs
from holdfast.cli.words import text
from holdfast.errors import WorkflowConflict

if TYPE_CHECKING:
    from holdfast.cli.output import Output
    from holdfast.client import Client
    from holdfast.workflows.looking.transfer import OnConflict


@click.command(name="export")
@click.argument("workflow_id", metavar="ID")
@click.option("--output", "target", default="-", metavar="FILE", help="A file; by default the screen.")
@on_runs
def export_(client: Client, out: Output, *, workflow_id: str, target: str) -> None:  # noqa: ARG001 -- JSON anyhow
    """Write one run and all it has recorded as a JSON document. Payloads are as they are stored."""
    document = msgspec.json.format(msgspec.json.encode(client.export_workflow(workflow_id)), indent=2) + b"\n"
    if target == "-":
        click.echo(document, nl=False)
        return
    try:
        _write(Path(target), document)
    except OSError as error:
        raise Failure(f"{target} could not be written: {error.strerror}.") from error


def _write(target: Path, document: bytes) -> None:
    """Write a file whole or not at all; a device or a pipe is written to, and not replaced by a file."""
    if target.exists() and not target.is_file():
        target.write_bytes(document)
        return
    real = target.resolve()
    beside = real.with_name(f".{real.name[:100]}.{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as file:
            file.write(document)
        if real.exists():
            beside.chmod(real.stat().st_mode)
        beside.replace(real)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


@click.command(name="import", short_help="Make a run of an exported document.")
@click.argument("source", type=click.File("rb"), default="-", metavar="[FILE]")
@click.option("--id", "workflow_id", type=text, help="The id of the run here; by default that of the document.")
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
    try:
        handle = client.import_workflow(document, workflow_id=workflow_id, on_conflict=on_conflict)
    except WorkflowConflict as error:
        raise Failure(
            "The id of the run is taken here: import it under another --id, or leave the run that is here as it is "
            "with --on-conflict return_existing."
        ) from error
    out.document({"workflow_id": handle.workflow_id})
    out.say(f"Imported {handle.workflow_id}." if on_conflict == "reject" else f"{handle.workflow_id} is here.")


__all__ = ["export_", "import_"]
