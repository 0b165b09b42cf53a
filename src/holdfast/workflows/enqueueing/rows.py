"""What goes into a queue: the row of a run that nobody has begun, made before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from holdfast.core.durations import milliseconds
from holdfast.core.moments import milliseconds_of
from holdfast.core.options import several
from holdfast.errors import ConfigurationError, Deduplicated
from holdfast.model.workflow import WorkflowStatus
from holdfast.workflows.declaring.names import check_name
from holdfast.workflows.enqueueing.options import NONE_SAID, chosen
from holdfast.workflows.facts import STARTED, Duplicate, Existing
from holdfast.workflows.running.ids import check_id
from holdfast.workflows.running.starts import behalf_of, class_name, refuse_other_call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.db.pipeline.operation import Values
    from holdfast.model.workflow import StartOptions
    from holdfast.workflows.payloads import Codec, Payloads
    from holdfast.workflows.remote.remote import DebounceOptions, QueueOptions, RunOptions
    from holdfast.workflows.running.run import Run
    from holdfast.workflows.running.ticket import Call

# Places in a row of run_enqueue.
_STATUS, _NAME, _CLASS, _CONFIG, KEY, _MARK, _QUEUE, DEDUPLICATION = 1, 2, 3, 4, 7, 9, 17, 18


Delivered: TypeAlias = "Callable[[tuple[Any, ...], dict[str, Any], str, str], tuple[tuple[Any, ...], dict[str, Any]]]"


class Work(NamedTuple):
    """A run that is wanted: its function by name, what it is given, and what was said about it.

    *owner* is whose method it is: its class, and its object by name; nothing where neither is needed to call it.
    *delivered* gives arguments, which were just stored, as the function will get them, where the function is known.
    """

    name: str
    class_name: str | None
    config_name: str | None
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    options: StartOptions
    codec: Codec
    owner: tuple[str, ...] = ()
    delivered: Delivered | None = None


class Entry(NamedTuple):
    """A run on its way into a queue: its row of ``run_enqueue``, and what is to happen if one of its ids is taken."""

    row: Values
    on_conflict: str
    on_duplicate: str


def work_of(call: Call) -> Work:
    """Return what a call of a function of this process asks for."""
    definition = call.definition
    config_name = getattr(call.instance, "config_name", None) if definition.binds == "instance" else None
    owner_class = class_name(definition, call.instance)
    return Work(
        definition.name,
        owner_class,
        config_name,
        call.arguments,
        call.keywords,
        call.options,
        definition.codec,
        () if definition.binds == "nothing" else _said(owner_class, config_name),
        definition.codec.delivered_call,
    )


def named_work(
    payloads: Payloads,
    name: str,
    arguments: Sequence[Any],
    keywords: Mapping[str, Any] | None,
    options: RunOptions | QueueOptions | DebounceOptions,
    queue_name: str,
) -> Work:
    """Return what a call by name asks for; its result comes back as plain JSON values. Refuse what was said wrongly."""
    said: dict[str, Any] = {**options, "queue_name": queue_name}
    names = said.pop("class_name", None), said.pop("config_name", None)
    _refuse_function(name)
    check_name(name)
    for each in names:
        if each is not None:
            check_name(each)
    return Work(name, *names, *given(arguments, keywords), chosen(NONE_SAID, said), payloads.plain, _said(*names))


def _said(*names: str | None) -> tuple[str, ...]:
    return tuple(each for each in names if each is not None)


def given(args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call by name; ``ConfigurationError`` for those that come in no list and no mapping."""
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise ConfigurationError(
            f"kwargs are names and their values, as in {{'to': 'ann'}}, not {type(kwargs).__name__}."
        )
    return several("args", args), dict(kwargs or {})


def _refuse_function(name: object) -> None:
    known = getattr(getattr(name, "definition", None), "name", None)
    if known is not None:
        raise ConfigurationError(f"A call by name has the name of a workflow, not the workflow itself: pass {known!r}.")


def entry(
    payloads: Payloads, new_id: Callable[[], str], work: Work, *, run_id: str | None = None, parent: Run | None = None
) -> Entry:
    """Make the row; refuse what cannot be stored.

    A child has no more time than its *parent*, and acts on the same behalf. The time of a run counts from its first
    claim, and so does its version, unless one was said.
    """
    options = work.options
    workflow_id = check_id(options.workflow_id if options.workflow_id is not None else run_id or new_id())
    inputs, format_ = payloads.dump_call(work.arguments, work.keywords, work.name)
    arguments, keywords = work.arguments, work.keywords
    if work.delivered is not None:
        arguments, keywords = work.delivered(arguments, keywords, inputs, format_)
    delayed = options.delay is not None or options.delay_until is not None
    attributes = options.attributes
    row = (
        workflow_id,
        (WorkflowStatus.DELAYED if delayed else WorkflowStatus.ENQUEUED).value,
        work.name,
        work.class_name,
        work.config_name,
        inputs,
        format_,
        new_id(),
        None if parent is None else parent.id,
        payloads.mark(work.name, arguments, keywords),
        None if options.timeout is None else milliseconds(options.timeout, "timeout"),
        None if parent is None else parent.deadline_ms,
        None if attributes is None else payloads.dump_open(dict(attributes)),
        *behalf_of(options, payloads, parent),
        options.application_version,
        options.queue_name,
        options.deduplication_id,
        options.priority,
        options.queue_partition_key,
        None if options.delay is None else milliseconds(options.delay, "delay"),
        None if options.delay_until is None else milliseconds_of(options.delay_until),
    )
    return Entry(row, options.on_conflict, options.on_duplicate)


def run_meant(wanted: Entry, outcome: Any) -> str:
    """Return the id of the run that stands for *wanted*: its own, or that of the run that has one of its ids.

    Raises ``WorkflowConflict`` or ``Deduplicated`` if the policy does not allow that one.
    """
    row = wanted.row
    if outcome is STARTED:
        return str(row[0])
    if isinstance(outcome, Duplicate):
        if wanted.on_duplicate == "reject":
            raise deduplicated(row[_QUEUE], row[DEDUPLICATION], outcome.row)
        return str(outcome.row["workflow_uuid"])
    if not isinstance(outcome, Existing):
        raise outcome
    if wanted.on_conflict == "reject":
        refuse_other_call(row[0], row[_NAME], (row[_CLASS], row[_CONFIG]), row[_MARK], outcome.row)
    return str(row[0])


def waits_in(wanted: Entry) -> str | None:
    """Return the queue in which a run waits to be claimed; None if it is not in it before it is due."""
    return str(wanted.row[_QUEUE]) if wanted.row[_STATUS] == WorkflowStatus.ENQUEUED.value else None


def runs_meant(wanted: Sequence[Entry], outcomes: Sequence[Any]) -> list[str]:
    """Do as ``run_meant`` for many."""
    return [run_meant(each, outcome) for each, outcome in zip(wanted, outcomes, strict=True)]


def deduplicated(queue_name: str, deduplication_id: str, there: Any) -> Deduplicated:
    """Return the error of a run whose deduplication id another run has."""
    return Deduplicated(
        f"The queue {queue_name!r} has a run with the deduplication id {deduplication_id!r} that has not ended: "
        f"{there['workflow_uuid']} ({there['status']}). Wait for it, choose another deduplication_id, or pass "
        'on_duplicate="return_existing" to get that run.'
    )
