"""``holdfast send``: a message to a run."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click
import msgspec

from holdfast.cli.examples import examples
from holdfast.cli.runs import on_runs

if TYPE_CHECKING:
    from holdfast.cli.output import Output
    from holdfast.client import Client


@click.command(name="send", epilog=examples("send order-17 approved --topic boss", "send order-17 '{\"cents\": 400}'"))
@click.argument("destination", metavar="ID")
@click.argument("message", required=False)
@click.option("--topic", help="The topic that recv() of the run waits for; by default none.")
@click.option("--key", "idempotency_key", help="The same key sends nothing twice.")
@click.option("--json-file", type=click.File("rb"), help="Read the message from this file, - for standard input.")
@on_runs
def command(
    client: Client,
    out: Output,
    *,
    destination: str,
    message: str | None,
    topic: str | None,
    idempotency_key: str | None,
    json_file: IO[bytes] | None,
) -> None:
    """Send MESSAGE to the run ID; it is JSON if it can be read as that, else a text."""
    if (message is None) is (json_file is None):
        raise click.UsageError("Say what to send: either MESSAGE or --json-file.")
    value = _read(json_file) if json_file is not None else _value(message or "")
    client.send(destination, value, topic, idempotency_key=idempotency_key)
    out.document({"destination_id": destination, "topic": topic})
    out.say(f"Sent to {destination}.")


def _value(word: str) -> Any:
    try:
        return msgspec.json.decode(word)
    except msgspec.DecodeError:
        return word


def _read(file: IO[bytes]) -> Any:
    try:
        return msgspec.json.decode(file.read())
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"There is no JSON in it ({error}).", param_hint="--json-file") from None


__all__ = ["command"]
