"""Starting runs: the run and its row are made, written, and begun here; or attached to, if the id is taken."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast import faults
from holdfast.core.durations import milliseconds
from holdfast.errors import NotInitialized, WentBack, WorkflowConflict
from holdfast.workflows.facts import STARTED, Existing
from holdfast.workflows.operations.place import is_in_step, refuse_closed_attempt
from holdfast.workflows.running.ids import check_id
from holdfast.workflows.running.run import Behalf, Run
from holdfast.workflows.running.ticket import Call, Ticket

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.db.pipeline.operation import Kind, Values
    from holdfast.db.session import Row
    from holdfast.model.workflow import StartOptions
    from holdfast.workflows.declaring.registry import Definition
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.payloads import Payloads
    from holdfast.workflows.running.run import Outcome

_LOOK_AGAIN = 0.05


class Starts:
    """Starts the runs of one engine, from its loop or, with ``_blocking``, from threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def _row(self, run: Run, options: StartOptions, inputs: str, format_: str) -> Values:
        """Return the row of ``run_start``."""
        definition = run.definition
        return (
            run.id,
            definition.name,
            class_name(definition, run.instance),
            getattr(run.instance, "config_name", None) if definition.binds == "instance" else None,
            inputs,
            format_,
            run.token,
            run.parent_id,
            self._engine.payloads.mark(definition.name, run.arguments, run.keywords),
            None if options.timeout is None else milliseconds(options.timeout, "timeout"),
            run.deadline_ms,
            None if options.attributes is None else self._engine.payloads.dump_open(dict(options.attributes)),
            *run.behalf,
            run.version,
        )

    def prepare(self, call: Call, *, run_id: str | None = None, parent: Run | None = None) -> tuple[Run, Values]:
        """Make the run and its row; refuse what cannot be stored before anything is written.

        A child has no more time than its *parent*, and acts on the same behalf.
        """
        definition, options = call.definition, call.options
        self._engine.check_launched()
        named = None if options.workflow_id is None else check_id(options.workflow_id)
        chosen = named or run_id or self._engine.settings.world.new_id()
        inputs, format_ = self._engine.payloads.dump_call(call.arguments, call.keywords, definition.name)
        run = Run(
            definition,
            chosen,
            self._engine.settings.world.new_id(),
            (),
            {},
            parent_id=None if parent is None else parent.id,
            deadline_ms=self._deadline(options, None if parent is None else parent.deadline_ms),
            behalf=behalf_of(options, self._engine.payloads, parent),
            version=options.application_version or self._engine.executor.application_version,
        )
        # The function gets its arguments as a recovered run would get them: from the record.
        run.arguments, run.keywords = definition.codec.delivered_call(call.arguments, call.keywords, inputs, format_)
        run.instance = call.instance
        run.engine = self._engine
        return run, self._row(run, options, inputs, format_)

    def _deadline(self, options: StartOptions, inherited: int | None) -> int | None:
        if options.timeout is None:
            return inherited
        own = int(self._engine.now() * 1000) + milliseconds(options.timeout, "timeout")
        return own if inherited is None else min(own, inherited)

    async def start_and_wait(self, call: Call) -> Outcome:
        """Start a run and wait for its outcome."""
        ticket = await self.start(call, called=True)
        with awaited(ticket):
            return await self._engine.waiting.outcome(ticket)

    async def start(self, call: Call, *, called: bool = False) -> Ticket:
        """Start a run in the background, or attach to the one that has its id; of *called* see ``Runner.launch``."""
        self._engine.refuse_other_loop()
        self._refuse_start()
        run, row = self.prepare(call)
        outcome = await self.written(self._engine.start_kind, row)
        if outcome is not STARTED:
            return self.attach(run, row, outcome, call.options)
        faults.point("run.started")
        self._engine.runner.launch(run, called=called)
        return Ticket(run.id, run.codec, run)

    def start_blocking(self, call: Call, *, here: bool = False) -> Ticket:
        """Do as ``start`` from a thread; with *here* a sync run is carried to its end on this thread."""
        self._refuse_start()
        run, row = self.prepare(call)
        outcome = self.written_blocking(self._engine.start_kind, row)
        if outcome is not STARTED:
            return self.attach(run, row, outcome, call.options)
        faults.point("run.started")
        if here and not call.definition.is_async:
            self._engine.runner.execute_blocking(run)
        else:
            self._engine.on_loop(lambda: self._engine.runner.launch(run))
        return Ticket(run.id, run.codec, run)

    async def written(self, kind: Kind[Any], row: Values) -> Any:
        """Write a new run; it stands on nothing, so a database that went back in time is waited for."""
        while True:
            try:
                return await self._engine.pipeline.write(kind, row)
            except WentBack:
                await self._engine.settings.world.sleep(_LOOK_AGAIN)

    def written_blocking(self, kind: Kind[Any], row: Values) -> Any:
        """Do as ``written`` from a thread."""
        while True:
            try:
                return self._engine.pipeline.write_blocking(kind, row)
            except WentBack:
                time.sleep(_LOOK_AGAIN)

    def _refuse_start(self) -> None:
        """Refuse new runs when closing, but not what belongs to those that have time to end; and a closed attempt's."""
        if self._engine.closing and not is_in_step(self._engine):
            raise NotInitialized("The application is closing and starts no more runs; launch() it again.")
        refuse_closed_attempt()

    def attach(self, run: Run, row: Values, outcome: Any, options: StartOptions) -> Ticket:
        """Return a ticket for the run that has the id, if it is the same call, or if the policy does not mind."""
        if not isinstance(outcome, Existing):
            raise outcome
        if options.on_conflict == "reject":
            refuse_other_call(run.id, row[1], (row[2], row[3]), row[8], outcome.row)
        return Ticket(run.id, run.codec, self._engine.runner.running.get(run.id))


@contextmanager
def awaited(ticket: Ticket) -> Iterator[None]:
    """Wait for a run that was called; one whose caller is cancelled goes on, and nobody is told of its end."""
    try:
        yield
    except asyncio.CancelledError:
        if ticket.run is not None:
            ticket.run.in_background = True
        raise


def behalf_of(options: StartOptions, payloads: Payloads, parent: Run | None) -> Behalf:
    """Return on whose behalf a run is to act: a child on its *parent's*, with what is said of the roles in *options*.

    A user who is named there has none of the roles of another.
    """
    roles = options.authenticated_roles
    own = Behalf(
        options.authenticated_user,
        options.assumed_role,
        None if roles is None else payloads.dump_open(list(roles)),
    )
    if parent is None or own.user is not None:
        return own
    return Behalf(*(theirs if said is None else said for said, theirs in zip(own, parent.behalf, strict=True)))


def refuse_other_call(run_id: str, name: str, owner: tuple[str | None, str | None], mark: str, there: Row) -> None:
    """Raise ``WorkflowConflict`` unless the run that has the id is one of this function with these arguments.

    *owner* is the class and the object whose method it is; a caller of a static method by its name may say no class. A
    run that was enqueued with plain SQL has no fingerprint: its arguments are taken for these.
    """
    class_, config_name = owner
    same = there["name"] == name and there["config_name"] == config_name
    others = same and None not in (class_, there["class_name"]) and class_ != there["class_name"]
    if others or not (same and there["fingerprint"] in (mark, None)):
        whose = f" of the class {there['class_name']}" if others else ""
        what = "with other arguments" if same and not others else f"of {there['name']!r}{whose}"
        raise WorkflowConflict(
            f"The id {run_id!r} belongs to a run {what} ({there['status']}). Choose another workflow_id, or pass "
            'on_conflict="return_existing" to get that run.'
        )


def class_name(definition: Definition, instance: Any) -> str | None:
    """Return the class that a recovery has to look for: that of the object, which may inherit the method."""
    match definition.binds:
        case "class":
            name: str = instance.__qualname__
        case "instance":
            name = type(instance).__qualname__
        case _:
            return definition.class_name
    return name
