"""``holdfast enqueue``: a run by the name of its workflow, put in a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.examples import examples
from holdfast.cli.putting import put_in_words, remark_unregistered
from holdfast.cli.runs import on_runs
from holdfast.cli.starting import call_options, run_options, told, wait_options
from holdfast.cli.words import POSITION, distinct, duration, text, time

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from holdfast.cli.output import Output
    from holdfast.client import Client
    from holdfast.workflows.remote.remote import QueueOptions

_ON_DUPLICATE = click.Choice(["reject", "return_existing"])


@click.command(
    name="enqueue",
    epilog=examples(
        "enqueue checkout --queue orders --args '[\"order-17\", 400]' --id order-17",
        "enqueue remind --queue mails --delay 12h --deduplication-id ada --on-duplicate return_existing",
    ),
)
@click.argument("name", metavar="NAME")
@click.option("--queue", "queue_name", type=text, required=True, help="The queue to put it in.")
@call_options
@click.option("--delay", type=duration, help="Not before this time has passed, as 15m or 7d.")
@click.option("--delay-until", type=time, help="Not before then; ISO-8601, without a zone it is UTC.")
@click.option("--priority", type=POSITION, default=0, show_default=True, help="Smaller comes first.")
@click.option("--deduplication-id", type=text, help="One run of this word at a time, until it has ended.")
@click.option(
    "--on-duplicate", type=_ON_DUPLICATE, default="reject", show_default=True, help="If there is one already."
)
@click.option("--partition", "queue_partition_key", type=text, help="Its partition of the queue.")
@run_options
@wait_options
@on_runs
def command(
    client: Client,
    out: Output,
    *,
    name: str,
    queue_name: str,
    arguments: list[Any],
    keywords: dict[str, Any],
    attributes: Sequence[tuple[str, Any]],
    wait: bool,
    wait_for: timedelta | None,
    **said: Any,
) -> None:
    """Put a run of the workflow NAME in a queue. No check is made that anybody has it: until then the run waits."""
    if said["delay"] is not None and said["delay_until"] is not None:
        raise click.UsageError("--delay and --delay-until exclude each other: give one of them.")
    options: QueueOptions = {**said, "attributes": distinct(attributes) or None}  # type: ignore[typeddict-item]
    with put_in_words(client, said["workflow_id"], queue_name, said["deduplication_id"]):
        handle = client.enqueue(name, arguments, keywords, queue_name=queue_name, **options)
    remark_unregistered(client, out, queue_name)
    told(out, handle, wait=wait, wait_for=wait_for)


__all__ = ["command"]
