"""``holdfast workflow start``: a run by the name of its workflow, for whichever executor has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.examples import examples
from holdfast.cli.putting import put_in_words, remark_unregistered
from holdfast.cli.runs import on_runs
from holdfast.cli.starting import call_options, run_options, told, wait_options
from holdfast.cli.words import POSITION, distinct, duration, text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from holdfast.cli.output import Output
    from holdfast.client import Client
    from holdfast.workflows.remote.remote import QueueOptions


@click.command(
    epilog=examples(
        "workflow start checkout --args '[\"order-17\", 400]' --id order-17",
        'workflow start checkout --kwargs \'{"order": "order-18"}\' --wait-for 30s',
    )
)
@click.argument("name", metavar="NAME")
@call_options
@run_options
@click.option(
    "--queue", "queue_name", type=text, help="The queue to put it in; by default any executor may run it at once."
)
@click.option("--deduplication-id", type=text, help="In the queue: refuse a second run of this word.")
@click.option("--priority", type=POSITION, default=0, show_default=True, help="In the queue: smaller comes first.")
@click.option("--partition", "queue_partition_key", type=text, help="In the queue: its partition.")
@click.option("--delay", type=duration, help="In the queue: not before this time has passed, as 15m.")
@wait_options
@on_runs
def start(
    client: Client,
    out: Output,
    *,
    name: str,
    arguments: list[Any],
    keywords: dict[str, Any],
    queue_name: str | None,
    attributes: Sequence[tuple[str, Any]],
    wait: bool,
    wait_for: timedelta | None,
    **said: Any,
) -> None:
    """Start a workflow by its NAME. No check is made that anybody has it: until then the run waits."""
    in_queue = {each: said.pop(each) for each in ("deduplication_id", "priority", "queue_partition_key", "delay")}
    options: QueueOptions = {**said, "attributes": distinct(attributes) or None}  # type: ignore[typeddict-item]
    if queue_name is None and any(in_queue.values()):
        raise click.UsageError("--deduplication-id, --priority, --partition and --delay belong to a --queue.")
    with put_in_words(client, said["workflow_id"], queue_name, in_queue["deduplication_id"]):
        if queue_name is None:
            handle = client.start_workflow(name, arguments, keywords, **said, attributes=distinct(attributes) or None)
        else:
            handle = client.enqueue(name, arguments, keywords, queue_name=queue_name, **{**options, **in_queue})
    remark_unregistered(client, out, queue_name)
    told(out, handle, wait=wait, wait_for=wait_for)


__all__ = ["start"]
