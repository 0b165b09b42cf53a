"""``holdfast executors``: the processes that run workflows, and when each was heard of last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.output import moment, plain
from holdfast.cli.runs import on_runs

if TYPE_CHECKING:
    from holdfast.cli.output import Output
    from holdfast.client import Client
    from holdfast.model.workflow import ExecutorState


@click.command(name="executors")
@on_runs
def command(client: Client, out: Output) -> None:
    """List the processes that run workflows."""
    found = client.list_executors()
    out.document({"executors": [plain(each) for each in found]})
    out.table(
        ("executor", "state", "last beat", "host", "pid", "started", "version", "incarnation"),
        [
            (
                each.executor_id,
                _state(each),
                f"{each.silent_ms / 1000:.1f} s ago",
                each.hostname,
                each.pid,
                moment(each.started_at),
                each.application_version,
                each.incarnation,
            )
            for each in found
        ],
    )


def _state(executor: ExecutorState) -> str:
    if executor.silent_ms > executor.lease_ms:
        return "silent"
    return "alive" if executor.stalled_since is None else "stalled"


__all__ = ["command"]
