"""Runs that commands put in queues: what is refused is said in the words of the command line."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.cli.failure import Failure
from holdfast.errors import Deduplicated, WorkflowConflict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.cli.output import Output
    from holdfast.client import Client


@contextmanager
def put_in_words(
    client: Client, workflow_id: str | None, queue: str | None, deduplication_id: str | None
) -> Iterator[None]:
    """Say of an id or a deduplication id that is taken what the person can type about it."""
    try:
        yield
    except Deduplicated as error:
        runs = client.list_workflows(queue_name=queue, deduplication_id=deduplication_id, limit=1)
        which = f": {runs[0].workflow_id} ({runs[0].status})" if runs else ""
        raise Failure(
            f"The queue {queue!r} has a run with the deduplication id {deduplication_id!r} that has not ended{which}. "
            "Wait for it, choose another --deduplication-id, or get that run with `holdfast enqueue --on-duplicate "
            "return_existing`."
        ) from error
    except WorkflowConflict as error:
        raise Failure(
            f"The id {workflow_id!r} belongs to a run of another workflow or with other arguments: choose another "
            "--id. `holdfast workflow show` shows that run."
        ) from error


def remark_unregistered(client: Client, out: Output, queue: str | None) -> None:
    """Say that nobody serves a queue, which may be mistyped; what was put there is stored all the same."""
    if queue is not None and client.retrieve_queue(queue) is None:
        out.remark(f"The queue {queue} is not registered: what is put there waits until it is.")


__all__ = ["put_in_words", "remark_unregistered"]
