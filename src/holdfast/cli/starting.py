"""What the commands that start runs have in common: options that say what is run, and how its result is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

from holdfast.cli.failure import Failure
from holdfast.cli.output import complain, shown
from holdfast.cli.words import array, attribute, duration, mapping, text
from holdfast.model.workflow import WorkflowStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from typing import Any

    from holdfast.cli.output import Output
    from holdfast.client import ClientHandle

F = TypeVar("F", bound="Callable[..., Any]")

_FAILED = 1
_CALL = (
    click.option("--args", "arguments", type=array, default="[]", help='Arguments, as a JSON array: ["order-17", 3].'),
    click.option(
        "--kwargs", "keywords", type=mapping, default="{}", help='Named arguments, as a JSON object: {"order": 17}.'
    ),
    click.option(
        "--id", "workflow_id", type=text, help="The id of the run; the same id and arguments start nothing twice."
    ),
)
_RUN = (
    click.option("--timeout", type=duration, help="How long the run may take, from its beginning; as 15m or 12h."),
    click.option(
        "--attribute",
        "attributes",
        type=attribute,
        multiple=True,
        help="An attribute, as name=value; may be given several times.",
    ),
    click.option(
        "--app-version", "application_version", type=text, help="Only an executor of this version may run it."
    ),
    click.option("--class-name", type=text, help="For a method: its class."),
    click.option("--config-name", type=text, help="For a method: the config_name of its object."),
)
_WAIT = (
    click.option("--wait", is_flag=True, help="Wait for the result and print it; exit with 1 if the run fails."),
    click.option("--wait-for", type=duration, help="Wait no longer than this, as 30s or 15m."),
)


def call_options(command: F) -> F:
    """Add the options that say what is called: ``arguments``, ``keywords`` and ``workflow_id``."""
    return _with(_CALL, command)


def run_options(command: F) -> F:
    """Add the options that say something about the run, whether or not it waits in a queue."""
    return _with(_RUN, command)


def wait_options(command: F) -> F:
    """Add ``wait`` and ``wait_for``, for ``told``."""
    return _with(_WAIT, command)


def _with(options: Sequence[Callable[[F], F]], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def told(out: Output, handle: ClientHandle, *, wait: bool, wait_for: timedelta | None) -> None:
    """Print the result, if it is to be waited for; else the id of the run."""
    if wait or wait_for is not None:
        _finish(out, handle, wait_for)
        return
    out.document({"workflow_id": handle.workflow_id})
    out.say(handle.workflow_id)


def _finish(out: Output, handle: ClientHandle, limit: timedelta | None) -> None:
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


__all__ = ["call_options", "run_options", "told", "wait_options"]
