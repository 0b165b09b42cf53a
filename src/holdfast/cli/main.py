"""The entrance: knows the names of the commands and where they are, so that ``--help`` loads none of them."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

import click

from holdfast.cli.failure import Failure

_INTERRUPTED = 130  # 128 and the number of SIGINT, as shells have it
_NOBODY_READS = 141  # likewise, and SIGPIPE
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


class _Entry(NamedTuple):
    module: str
    summary: str


_COMMANDS = {
    "breakers": _Entry("holdfast.cli.breakers", "Look at circuit breakers; open, close and reset them."),
    "dead-letters": _Entry("holdfast.cli.dead_letters", "Look at work that failed and is kept; replay and resolve it."),
    "doctor": _Entry("holdfast.cli.doctor", "Check a database and its settings, and say what to do."),
    "enqueue": _Entry("holdfast.cli.enqueue", "Put a run of a workflow in a queue."),
    "events": _Entry("holdfast.cli.events", "Show what a run has set for others to see."),
    "executors": _Entry("holdfast.cli.executors", "List the processes that run workflows."),
    "migrate": _Entry("holdfast.cli.migrate", "Bring a database's tables to what this release needs."),
    "prune": _Entry("holdfast.cli.prune", "Delete old runs."),
    "queue": _Entry("holdfast.cli.queue", "Look at queues, set them, pause and drain them."),
    "schedule": _Entry("holdfast.cli.schedule", "Look at schedules, make them, pause them, fire slots by hand."),
    "send": _Entry("holdfast.cli.send", "Send a message to a run."),
    "stream": _Entry("holdfast.cli.stream", "List the streams of a run, and follow one."),
    "versions": _Entry("holdfast.cli.versions", "List the application versions that have registered."),
    "workflow": _Entry("holdfast.cli.workflow", "Look at runs, start them, change them and move them."),
    "worker": _Entry("holdfast.cli.worker", "Run the workflows of an application."),
}


class _LazyGroup(click.Group):
    """Imports the module of a command, which has a ``command``, when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(_COMMANDS[cmd_name].module).command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Say in one line that the output went nowhere.

        Somebody who interrupts a command, or stops to read what it prints, gets the exit code of that, and not that of
        a refusal.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(_INTERRUPTED) from None
        except OSError as error:
            if error.errno not in {errno.EPIPE, *_DISK_ERRORS}:
                raise
            with suppress(OSError):  # what is left in the buffer would be tried, and complained of, once more at exit
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if error.errno == errno.EPIPE:
                raise click.exceptions.Exit(_NOBODY_READS) from None
            raise Failure(f"The output could not be written: {error.strerror}.") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 -- click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name].summary) for name in sorted(_COMMANDS)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast", prog_name="holdfast", message="%(prog)s %(version)s")
def main() -> None:
    """Durable workflows, queues and reliability state in the database you already run."""


__all__ = ["main"]
