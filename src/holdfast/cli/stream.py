"""``holdfast stream``: which streams a run has, and what is in one, as it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from holdfast.cli.output import plain, shown
from holdfast.cli.runs import on_runs
from holdfast.core.numbers import MOST_BITS

if TYPE_CHECKING:
    from holdfast.cli.output import Output
    from holdfast.client import Client

_line = msgspec.json.Encoder(enc_hook=str).encode


@click.group(name="stream")
def command() -> None:
    """Look at the streams of runs."""


@command.command(name="list")
@click.argument("workflow_id", metavar="ID")
@on_runs
def list_(client: Client, out: Output, *, workflow_id: str) -> None:
    """List the streams of a run."""
    found = client.list_streams(workflow_id)
    out.document({"streams": [plain(each) for each in found]})
    out.table(
        ("stream", "entries", "next offset", "closed"),
        [(each.key, each.entries, each.next_offset, "yes" if each.closed else "no") for each in found],
    )


@command.command(short_help="Print the values of a stream as they come.")
@click.argument("workflow_id", metavar="ID")
@click.argument("key")
@click.option("--offset", type=click.IntRange(0, MOST_BITS), default=0, show_default=True, help="Where to begin.")
@click.option("--no-follow", is_flag=True, help="Do not wait for what comes: end with what is there.")
@on_runs
def tail(client: Client, out: Output, *, workflow_id: str, key: str, offset: int, no_follow: bool) -> None:
    """Print the values of a stream, a line each, until it is closed or its run has ended."""
    reader = client.read_stream(workflow_id, key, offset=offset, follow=not no_follow)
    for value in reader:
        if out.as_json:  # a line each: a document would have no end
            click.echo(_line({"offset": reader.offset - 1, "value": value}))
        else:
            click.echo(f"{reader.offset - 1}\t{shown(value)}")


__all__ = ["command"]
