"""``holdfast breakers``: how circuit breakers stand; opening, closing and resetting them for a whole fleet."""

from __future__ import annotations

import getpass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.examples import examples
from holdfast.cli.failure import Failure
from holdfast.cli.output import Output, moment, plain
from holdfast.cli.repositories import on_repository
from holdfast.cli.words import duration, person
from holdfast.stores.breakers.blocking import RedisCircuitBreakerStateRepository, SQLCircuitBreakerStateRepository
from holdfast.stores.breakers.sql_store import AsyncSQLCircuitBreakerStateRepository

if TYPE_CHECKING:
    from datetime import timedelta

    from holdfast.model.breaker import CircuitBreakerChange, CircuitBreakerStateData
    from holdfast.stores.breakers.documented import CircuitBreakerStateRepository

_COLUMNS = ("breaker", "state", "since", "retry at", "failures", "control", "until", "by", "reason")
_HISTORY = ("at", "event", "from", "to", "by", "until", "reason")


def _while(word: str) -> timedelta:
    """Read for how long an operator's word holds. No time would be taken as for ever, which nobody means by it."""
    length = duration(word)
    if not length:
        raise click.BadParameter(f"{word!r} is no time at all: say how long, as in 30m.")
    return length


_named = click.argument("name", metavar="NAME")
_reason = click.option("--reason", default="", help="Why; it is kept in the history.")
_by = click.option("--by", "by_id", type=person, metavar="INTEGER", help="The id of whoever decides this.")
_for = click.option(
    "--for", "ttl", type=_while, metavar="DURATION", help="For how long, as in 30m; after that it goes its own way."
)


_on_breakers = on_repository(
    RedisCircuitBreakerStateRepository,
    lambda manager, schema: AsyncSQLCircuitBreakerStateRepository(manager, schema=schema),
    SQLCircuitBreakerStateRepository,
)


@click.group(name="breakers")
def command() -> None:
    """Look at circuit breakers; open, close and reset them for the whole fleet."""


@command.command(name="list")
@click.option("--open", "only_open", is_flag=True, help="Those that are open, the one that has been longest first.")
@_on_breakers
def list_(breakers: CircuitBreakerStateRepository, out: Output, *, only_open: bool) -> None:
    """List the breakers that anything has ever happened to."""
    found = breakers.get_open_states() if only_open else breakers.get_all_states()
    out.document({"breakers": [_document(each) for each in found]})
    out.table(_COLUMNS, [_line(each) for each in found])


@command.command()
@_named
@_on_breakers
def show(breakers: CircuitBreakerStateRepository, out: Output, *, name: str) -> None:
    """Show one breaker."""
    _show(breakers, out, name)


@command.command(
    name="open",
    short_help="Have every process refuse calls, for a time.",
    epilog=examples("breakers open bank --for 2h --reason 'they move house'"),
)
@_named
@_for
@_reason
@_by
@_on_breakers
def open_(
    breakers: CircuitBreakerStateRepository,
    out: Output,
    *,
    name: str,
    ttl: timedelta | None,
    reason: str,
    by_id: int | None,
) -> None:
    """Have every process refuse calls, for 90 minutes if nothing else is said."""
    minutes = 90 if ttl is None else ttl.total_seconds() / 60
    _remark_new(breakers, out, name)
    breakers.atomic_force_open(name, reason, by_id, minutes, controlled_by=_operator())
    _show(breakers, out, name)


@command.command(short_help="Have every process let calls through.")
@_named
@_for
@_reason
@_by
@_on_breakers
def close(
    breakers: CircuitBreakerStateRepository,
    out: Output,
    *,
    name: str,
    ttl: timedelta | None,
    reason: str,
    by_id: int | None,
) -> None:
    """Have every process let calls through, whatever fails, until the breaker is reset or the time is over."""
    minutes = None if ttl is None else ttl.total_seconds() / 60
    _remark_new(breakers, out, name)
    breakers.atomic_force_close(name, reason, by_id, ttl_minutes=minutes, controlled_by=_operator())
    _show(breakers, out, name)


@command.command(short_help="Close a breaker, and let it go its own way.")
@_named
@_reason
@_by
@_on_breakers
def reset(breakers: CircuitBreakerStateRepository, out: Output, *, name: str, reason: str, by_id: int | None) -> None:
    """Close a breaker, forget what was counted, and let it go its own way."""
    done, _, _ = breakers.atomic_reset(name, reason, by_id, controlled_by=_operator())
    if not done:
        raise _unknown(name)
    _show(breakers, out, name)


@command.command()
@_named
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="How many at most.")
@_on_breakers
def history(breakers: CircuitBreakerStateRepository, out: Output, *, name: str, limit: int) -> None:
    """Show what has happened to a breaker, newest first."""
    if breakers.get_by_service_name(name) is None:
        raise _unknown(name)
    found = breakers.get_history(name, limit)
    out.document({"history": [plain(each) for each in found]})
    out.table(_HISTORY, [_entry(each) for each in found])


def _show(breakers: CircuitBreakerStateRepository, out: Output, name: str) -> None:
    record = breakers.get_by_service_name(name)
    if record is None:
        raise _unknown(name)
    document = _document(record)
    out.document(document)
    out.facts(
        (key, moment(value) if isinstance(value, datetime) else value)
        for key, value in document.items()
        if value not in ("", (), {})
    )


def _remark_new(breakers: CircuitBreakerStateRepository, out: Output, name: str) -> None:
    """Say that nothing has happened to a breaker yet: it is one that was never needed, or its name is mistyped."""
    if breakers.get_by_service_name(name) is None:
        out.remark(
            f"Nothing has ever happened to a breaker {name}, and it is made now: if the name is mistyped, take this "
            f"back with `holdfast breakers reset {name}`."
        )


def _unknown(name: str) -> Failure:
    return Failure(f"There is no breaker {name!r}: `holdfast breakers list` shows those there are.")


def _operator() -> str:
    """Return the name of whoever types; a container may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _document(record: CircuitBreakerStateData) -> dict[str, Any]:
    hidden = {"id", "slots", "reports"}
    return {name: value for name, value in plain(record).items() if name not in hidden}


def _line(record: CircuitBreakerStateData) -> tuple[Any, ...]:
    return (
        record.service_name,
        record.state,
        moment(record.opened_at),
        moment(record.retry_at),
        record.failure_count,
        "manual" if record.manually_controlled else None,
        moment(record.manual_override_expires_at),
        record.controlled_by or record.controlled_by_id,
        record.control_reason,
    )


def _entry(change: CircuitBreakerChange) -> tuple[Any, ...]:
    return (
        moment(change.at),
        change.event,
        change.from_state,
        change.to_state,
        change.controlled_by or change.controlled_by_id,
        moment(change.expires_at),
        change.reason,
    )


__all__ = ["command"]
