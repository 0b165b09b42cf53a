"""``holdfast workflow start``: a run by the name of its workflow, for whichever executor has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.examples import examples
from holdfast.cli.failure import Failure
from holdfast.cli.output import complain, shown
from holdfast.cli.putting import put_in_words, remark_unregistered
from holdfast.cli.runs import on_runs
from holdfast.cli.words import POSITION, array, attribute, distinct, duration, mapping, text
from holdfast.model.workflow import WorkflowStatus

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from holdfast.cli.output import Output
    from holdfast.client import Client, ClientHandle
    from holdfast.workflows.remote.remote import QueueOptions

_FAILED = 1


@click.command(
    epilog=examples(
        "workflow start checkout --args '[\"order-17\", 400]' --id order-17",
        'workflow start checkout --kwargs \'{"order": "order-18"}\' --wait-for 30s',
    )
)
@click.argument("name", metavar="NAME")
@click.option("--args", "arguments", type=array, default="[]", help='Arguments, as a JSON array: ["order-17", 3].')
@click.option(
    "--kwargs", "keywords", type=mapping, default="{}", help='Named arguments, as a JSON object: {"order": 17}.'
)
@click.option(
    "--id", "workflow_id", type=text, help="The id of the run; the same id and arguments start nothing twice."
)
@click.option("--timeout", type=duration, help="How long the run may take, from its beginning; as 15m or 12h.")
@click.option(
    "--attribute",
    "attributes",
    type=attribute,
    multiple=True,
    help="An attribute, as name=value; may be given several times.",
)
@click.option("--app-version", "application_version", type=text, help="Only an executor of this version may run it.")
@click.option("--class-name", type=text, help="For a method: its class.")
@click.option("--config-name", type=text, help="For a method: the config_name of its object.")
@click.option(
    "--queue", "queue_name", type=text, help="The queue to put it in; by default any executor may run it at once."
)
@click.option("--deduplication-id", type=text, help="In the queue: refuse a second run of this word.")
@click.option("--priority", type=POSITION, default=0, show_default=True, help="In the queue: smaller comes first.")
@click.option("--partition", "queue_partition_key", type=text, help="In the queue: its partition.")
@click.option("--delay", type=duration, help="In the queue: not before this time has passed, as 15m.")
@click.option("--wait", is_flag=True, help="Wait for the result and print it; exit with 1 if the run fails.")
@click.option("--wait-for", type=duration, help="Wait no longer than this, as 30s or 15m.")
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
    if wait or wait_for is not None:
        finish(out, handle, wait_for)
        return
    out.document({"workflow_id": handle.workflow_id})
    out.say(handle.workflow_id)


def finish(out: Output, handle: ClientHandle, limit: timedelta | None) -> None:
    """Print the result; or, on standard error, what the run ended with. Whoever does not get it learns the run's id."""
    known = {"workflow_id": handle.workflow_id}
    try:
        value = handle.result(limit)
    except KeyboardInterrupt:
        out.document(known)
        complain(f"{handle.workflow_id} goes on, though nobody waits for it here any more.")
        raise
    except Exception as error:
        # The run's own error, of whatever class: that it failed is the answer. Or our patience is over, or its result
        # cannot be read here, or the database is away: then it does not say that the run has failed.
        status = handle.status().status
        if not status.has_ended or status is WorkflowStatus.SUCCESS:
            out.document(known)
            raise Failure(" ".join(str(error).split())) from error
        told = {"name": type(error).__name__, "message": str(error)}
        out.document(known | {"error": told})
        complain(f"{handle.workflow_id} ended with {type(error).__name__}: {error}")
        raise click.exceptions.Exit(_FAILED) from error
    out.document(known | {"output": value})
    out.say(shown(value))


__all__ = ["finish", "start"]
