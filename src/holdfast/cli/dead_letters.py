"""``holdfast dead-letters``: what failed and is kept; replaying it, resolving it, and keeping it small."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import asdict

from holdfast.app import AsyncHoldfast, Holdfast
from holdfast.cli.application import application_place, find_application
from holdfast.cli.asking import ask, progress
from holdfast.cli.database import quietly
from holdfast.cli.examples import examples
from holdfast.cli.failure import Failure, failures
from holdfast.cli.output import Output, moment
from holdfast.cli.repositories import on_repository
from holdfast.cli.signals import interrupted
from holdfast.cli.words import COUNT, DAYS, person, text
from holdfast.model.dead_letter import FailedOperationStatus
from holdfast.stores.dead_letters.repositories import RedisDLQRepository, SQLFailedOperationRepository
from holdfast.stores.dead_letters.sql import AsyncSQLFailedOperationRepository
from holdfast.workflows.application.worker import refuse_launched

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.resilience.replay_report import ReplayOutcome, ReplayReport
    from holdfast.stores.dead_letters.blocking import BlockingFailedOperations
    from holdfast.workflows.application.application import Application

_COLUMNS = ("letter", "status", "domain", "type", "replays", "created", "error")
_STATUSES = [each.value for each in FailedOperationStatus]

_named = click.argument(
    "ids",
    nargs=-1,
    metavar="[ID]...",
    callback=lambda _, __, ids: tuple(dict.fromkeys(ids)),  # each is one letter
)
_yes = click.option("--yes", is_flag=True, help="Do not ask.")
_domain = click.option("--domain", type=text, help="Letters of this domain.")
_type = click.option("--type", "failure_type", type=text, help="Letters of this failure type.")


_on_letters = on_repository(
    RedisDLQRepository,
    lambda manager, schema: AsyncSQLFailedOperationRepository(manager, schema=schema),
    SQLFailedOperationRepository,
)


@click.group(name="dead-letters")
def command() -> None:
    """Look at work that failed and is kept; replay it, resolve it, archive and purge it."""


@command.command(name="list")
@click.option("--status", type=click.Choice(_STATUSES), help="Letters in this status.")
@_domain
@_type
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many at most.")
@_on_letters
def list_(
    letters: BlockingFailedOperations,
    out: Output,
    *,
    status: str | None,
    domain: str | None,
    failure_type: str | None,
    limit: int,
) -> None:
    """List dead letters, newest first."""
    found = letters.find_page(status=status, domain=domain, failure_type=failure_type, limit=limit)
    out.document({"dead_letters": [_document(each) for each in found]})
    out.table(_COLUMNS, [_line(each) for each in found])


@command.command()
@click.argument("id", metavar="ID")
@_on_letters
def show(letters: BlockingFailedOperations, out: Output, *, id: str) -> None:  # noqa: A002 -- the documented word
    """Show one dead letter, with what it keeps."""
    document = _document(_found(letters, id))
    out.document(document)
    out.facts((name, value) for name, value in document.items() if value not in ("", {}, None))


@command.command(short_help="Say that letters were put right by hand.")
@_named
@click.option("--note", default="", help="Why; it is kept with the letter.")
@click.option("--by", "by_id", type=person, metavar="INTEGER", help="The id of whoever decides this.")
@_yes
@_on_letters
def resolve(
    letters: BlockingFailedOperations, out: Output, *, ids: Sequence[str], note: str, by_id: int | None, yes: bool
) -> None:
    """Say that letters were put right by hand: they are not replayed any more."""
    for each in _some(ids):
        _found(letters, each)
    if len(ids) > 1:
        ask(f"Resolve {len(ids)} dead letters?", yes=yes)
    done = [each for each in ids if letters.mark_as_resolved(each, "manual", note, by_id)]
    out.document({"resolved": done})
    out.say(f"Resolved {len(done)}.")


@command.command()
@click.option("--days", type=DAYS, default=30, show_default=True, help="Resolved more days ago than that.")
@_yes
@_on_letters
def archive(letters: BlockingFailedOperations, out: Output, *, days: int, yes: bool) -> None:
    """Archive letters that were resolved long ago. Their data is kept until they are purged."""
    ask(f"Archive what was resolved more than {days} days ago?", yes=yes)
    number = letters.archive_old_resolved(days)
    out.document({"archived": number})
    out.say(f"Archived {number}.")


@command.command()
@_named
@click.option("--days", type=DAYS, help="Those archived more days ago than that; 0 for all.")
@_yes
@_on_letters
def purge(letters: BlockingFailedOperations, out: Output, *, ids: Sequence[str], days: int | None, yes: bool) -> None:
    """Delete archived letters for good: by id, or by age."""
    if bool(ids) is (days is not None):
        raise click.UsageError("Name archived letters, or say --days: one of the two.")
    what = f"{len(ids)} archived letters" if ids else f"what was archived more than {days} days ago"
    for each in ids:
        _found(letters, each)
    ask(f"Delete {what} for good?", yes=yes)
    try:
        number = letters.purge_archived(list(ids) or None, days)
    except ValueError as error:
        raise Failure(str(error)) from error
    out.document({"purged": number})
    out.say(f"Purged {number}.")


@command.command(short_help="Count letters by status and domain.")
@_on_letters
def stats(letters: BlockingFailedOperations, out: Output) -> None:
    """Count letters by domain and status, and those that may be archived or purged."""
    counted = letters.get_statistics() | letters.get_cleanup_stats()
    out.document(counted)
    by_status, pending = counted["by_status"], counted["pending_by_domain"]
    out.table(("status", "letters"), sorted(by_status.items()))
    out.table(
        ("domain", "letters", "pending"),
        [(domain, number, pending.get(domain, 0)) for domain, number in sorted(counted["by_domain"].items())],
    )


@command.command(
    short_help="Replay pending letters with an application's handlers.",
    epilog=examples(
        "dead-letters replay shop.main:app --domain mail --rate 5 --dry-run",
        "dead-letters replay shop.main:app run-order-17 --force",
    ),
)
@click.argument("place", metavar="MODULE:APP", type=application_place)
@_named
@_domain
@_type
@click.option("--limit", type=COUNT, help="How many at most.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="How many are begun in a second at most.")
@click.option("--concurrency", type=COUNT, default=32, show_default=True, help="How many at once.")
@click.option("--force", is_flag=True, help="Also those that were replayed often enough, or require review.")
@click.option("--dry-run", is_flag=True, help="Only say what would be replayed.")
@click.option("--by", "by_id", type=person, metavar="INTEGER", help="The id of whoever decides this.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@_yes
def replay(
    place: tuple[str, str], *, ids: Sequence[str], yes: bool, as_json: bool, by_id: int | None, **options: Any
) -> None:
    """Replay pending letters with the handlers of the application APP in MODULE, oldest first.

    Letters of runs need no handler: the run goes on, here or in a worker that listens to its queue, and is waited for.
    Exit codes: 0 all were replayed, 1 some were not, or are not there.
    """
    if ids and (options["domain"] or options["failure_type"] or options["limit"]):
        raise click.UsageError("Ids and filters exclude each other.")
    if not options["dry_run"] and len(ids) != 1:
        ask(f"Replay {len(ids) or 'all'} dead letters{' that fit' if not ids else ''}?", yes=yes)
    out = Output(as_json=as_json)
    with failures(), quietly(), interrupted():
        app = find_application(*place)
        reports = _replayed(app, ids, {**options, "resolved_by_id": by_id})
    _show(out, reports, missing=[each for each, report in zip(ids, reports, strict=False) if not report.matched])


def _replayed(app: Application, ids: Sequence[str], options: dict[str, Any]) -> list[ReplayReport]:
    """Launch the application, which claims from no queue, and replay that which was asked for and nothing else."""
    refuse_launched(app)
    app.listen_queues(())
    app._engine.replays_by_itself = False  # noqa: SLF001 -- no application says this of itself
    filters = {name: options.pop(name) for name in ("domain", "failure_type", "limit")}
    calls: list[dict[str, Any]] = [{"id": each} for each in ids] or [filters]
    which = {name: filters[name] for name in ("domain", "failure_type")}
    statuses = ("pending", "requires_review") if options["force"] else ("pending",)
    if isinstance(app, Holdfast):
        with app:
            found = sum(app.dead_letters.count(status=each, **which) for each in statuses)
            with progress("Replaying", _total(found, ids, filters)) as tell:
                told = _telling(tell)
                return [app.dead_letters.replay(**each, **options, progress=told) for each in calls]
    assert isinstance(app, AsyncHoldfast)  # noqa: S101 -- there are two

    async def main() -> list[ReplayReport]:
        async with app:
            found = sum([await app.dead_letters.count(status=each, **which) for each in statuses])
            with progress("Replaying", _total(found, ids, filters)) as tell:
                told = _telling(tell)
                return [await app.dead_letters.replay(**each, **options, progress=told) for each in calls]

    return asyncio.run(main())


def _total(found: int, ids: Sequence[str], filters: dict[str, Any]) -> int:
    return len(ids) or min(found, filters["limit"] or found)


def _telling(tell: Callable[[int], None]) -> Callable[[int, ReplayOutcome], None]:
    done = count(1)  # over all calls, each of which begins with 1
    return lambda _, __: tell(next(done))


def _show(out: Output, reports: Sequence[ReplayReport], missing: Sequence[str]) -> None:
    outcomes = [each for report in reports for each in report.outcomes]
    counts = {result.value: sum(each.counts[result] for each in reports) for result in reports[0].counts}
    matched = sum(each.matched for each in reports)
    document = {"matched": matched, **counts, "outcomes": [_outcome(each) for each in outcomes], "missing": missing}
    out.document(document)
    rows = [(each.id, each.domain, each.result.value, each.why) for each in outcomes]
    out.table(("letter", "domain", "result", "why"), rows, about="letter")
    for each in missing:
        out.remark(_nowhere(each))
    told = ", ".join(f"{number} {result}" for result, number in counts.items() if number)
    out.remark(f"{matched} matched: {told}." if matched else "Nothing was replayed: no letter matched.")
    if counts["failed"] or counts["skipped"] or counts["lost"] or missing:
        raise SystemExit(1)


def _outcome(outcome: ReplayOutcome) -> dict[str, Any]:
    return {"id": outcome.id, "domain": outcome.domain, "result": outcome.result.value, "why": outcome.why}


def _some(ids: Sequence[str]) -> Sequence[str]:
    if not ids:
        raise click.UsageError("No dead letter was named: give ids, as `holdfast dead-letters list` shows them.")
    return ids


def _found(letters: BlockingFailedOperations, id: str) -> FailedOperationData:  # noqa: A002 -- the documented word
    record = letters.get_by_id(id)
    if record is None:
        raise Failure(_nowhere(id))
    return record


def _nowhere(id: str) -> str:  # noqa: A002 -- the documented word
    return f"There is no dead letter {id!r}: `holdfast dead-letters list` shows those there are."


def _document(record: FailedOperationData) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(asdict(record))  # the record by itself would leave its defaults out
    return {name: value for name, value in shown.items() if name not in {"replay_token", "version"}}


def _line(record: FailedOperationData) -> tuple[Any, ...]:
    return (
        record.id,
        record.status,
        record.domain,
        record.failure_type,
        f"{record.retry_count}/{record.max_retries}",
        moment(record.created_at),
        record.error_message,
    )


__all__ = ["command"]
