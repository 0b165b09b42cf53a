"""What both application classes have in common: settings, registration, and where the running code stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from holdfast.core.durations import checked_seconds
from holdfast.core.options import check_count, check_retry, refuse_unknown, several
from holdfast.errors import ConfigurationError, MisuseError
from holdfast.workflows.application.configuration import Settings, engine_settings
from holdfast.workflows.application.configuration_file import read_configuration
from holdfast.workflows.application.guarding import Guarded, Guarding, Layers, step_letter_domain, step_protection
from holdfast.workflows.dead_letters.handlers import ReplayHandlers, letter_domain
from holdfast.workflows.declaring.registry import (
    Definition,
    StepDefinition,
    binds_to,
    checked_name,
    class_of,
    is_coroutine_function,
    refuse_generator,
)
from holdfast.workflows.declaring.steps import Step
from holdfast.workflows.engine.engine import Engine
from holdfast.workflows.operations.branches import drop
from holdfast.workflows.operations.place import StepPlace, here
from holdfast.workflows.operations.saga import Saga
from holdfast.workflows.queues.settings import check_name as check_queue_name
from holdfast.workflows.retention import RETENTION_INTERVAL, Retention
from holdfast.workflows.running.cancel_token import CancelToken
from holdfast.workflows.running.ids import sought_id
from holdfast.workflows.running.ticket import Ticket
from holdfast.workflows.schedules import ScheduleSpec
from holdfast.workflows.transactions import TransactionDecorator

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from typing import Self

    from holdfast.model.schedule import Overlap
    from holdfast.model.workflow import Duration, Retry
    from holdfast.workflows.declaring.decorators import FallbackStepDecorator, StepDecorator

_SHORTEST = 0.001  # seconds

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound="Callable[..., Any]")


class Application(TransactionDecorator, Guarding, ReplayHandlers, ABC):
    """What both colours have in common: settings, registration, and where the running code stands."""

    def __init__(self, url: str | os.PathLike[str] | None = None, **settings: Unpack[Settings]) -> None:
        refuse_unknown("An application", settings, Settings.__annotations__, "setting")
        self._engine = Engine(engine_settings(url, **settings))

    @classmethod
    def from_config(cls, path: str | os.PathLike[str]) -> Self:
        """Make an application as a YAML file says; see the reference for its keys."""
        return cls(**read_configuration(path))

    @property
    def workflow_id(self) -> str | None:
        """The id of the run this code belongs to, in a workflow or a step; None elsewhere."""
        place = here.get()
        return None if place is None else place.run.id

    @property
    def step_id(self) -> int | None:
        """The ordinal of the step this code belongs to; None outside of steps."""
        place = here.get()
        return place.position if isinstance(place, StepPlace) else None

    @property
    def cancel_token(self) -> CancelToken:
        """Tells code of a run that cannot be interrupted, like a sync step, whether to go on."""
        return CancelToken(here.get())

    def saga(self) -> Saga:
        """Return a block for a workflow, ``with app.saga() as saga``, that is undone if it raises; see ``Saga``."""
        return Saga(self)

    @abstractmethod
    def run_step(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function as a step that was not declared as one."""

    @property
    def application_version(self) -> str:
        """The version under which this process runs workflows; known after launch."""
        return self._running.executor.application_version

    @property
    def _running(self) -> Engine:
        """The engine, if it is launched."""
        self._engine.check_launched()
        return self._engine

    @overload
    def step(self, function: Callable[P, R], /) -> Step[P, R]: ...
    @overload
    def step(
        self,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        **guarded: Unpack[Guarded],
    ) -> StepDecorator: ...
    @overload
    def step(
        self,
        *,
        fallback: Callable[..., T],
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        **guarded: Unpack[Guarded],
    ) -> FallbackStepDecorator[T]: ...
    @overload
    def step(
        self,
        *,
        fallback: T,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        **guarded: Unpack[Guarded],
    ) -> FallbackStepDecorator[T]: ...
    def step(
        self,
        function: Any = None,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        **guarded: Unpack[Layers],
    ) -> Any:
        """Make a function a step; as ``@app.step`` or ``@app.step(retry=Retry(...), timeout=..., breaker="stripe")``.

        *breaker*, *fallback*, *dead_letter* and *idempotency_key* are those of ``protect``; a step has no breaker
        unless one is named. They guard it in workflows, as retry and timeout do.
        """

        def decorate(function: Any) -> Any:
            return Step(self._engine, self._define_step(function, name, retry, timeout, guarded))

        return decorate if function is None else decorate(function)

    def scheduled(
        self,
        schedule: str,
        *,
        name: str | None = None,
        context: Any = None,
        cron_timezone: str | None = None,
        queue_name: str | None = None,
        automatic_backfill: bool = False,
        jitter: Duration = 0,
        overlap: Overlap = "allow",
    ) -> Callable[[F], F]:
        """Run the workflow below, or above, at every slot of a cron expression; see ``create_schedule``.

        The schedule has the *name* of its workflow if no other is said. It is made, or set so, at launch; taking the
        decorator away deletes nothing.
        """
        if self._engine.launched:
            raise MisuseError("scheduled() comes before launch(); a running application has create_schedule().")
        spec = ScheduleSpec(
            name or "",
            "",
            schedule,
            context=context,
            cron_timezone=cron_timezone,
            queue_name=queue_name,
            automatic_backfill=automatic_backfill,
            jitter=jitter,
            overlap=overlap,
        )

        def decorate(function: F) -> F:
            self._engine.declared.add(spec, function)
            return function

        return decorate

    def listen_queues(self, names: Iterable[str]) -> None:
        """Claim from these queues alone, from the next launch on; by default from every one that is registered."""
        if self._engine.launched:
            raise MisuseError("listen_queues() comes before launch(): a running application keeps its queues.")
        if isinstance(names, str):
            raise MisuseError(f"Several names are wanted, not one text: pass [{names!r}].")
        self._engine.listens = frozenset(check_queue_name(name) for name in several("names", names))

    def retention(self, *policies: Retention, interval: Duration = RETENTION_INTERVAL) -> None:
        """Delete ended runs that fit one of *policies* every *interval*, from the next launch on; off without any."""
        if self._engine.launched:
            raise MisuseError("retention() is said before launch(); to delete old runs once, use prune().")
        checked_seconds(interval, "interval", least=_SHORTEST)
        for each in policies:
            if not isinstance(each, Retention):
                raise MisuseError(f"retention() takes policies, as in Retention(older_than=86400), not {each!r:.100}.")
        self._engine.retention = policies
        self._engine.retention_interval = interval

    def register_instance(self, instance: Any) -> None:
        """Make *instance*, by its class and its ``config_name``, the object whose workflow methods can be recovered."""
        config_name = getattr(instance, "config_name", None)
        if not isinstance(config_name, str) or not config_name:
            raise MisuseError(
                f"A {type(instance).__qualname__} needs a config_name to be registered: a text that is unique."
            )
        self._engine.registry.add_instance(type(instance).__qualname__, config_name, instance)

    def _define(
        self,
        function: Any,
        name: str | None,
        retry: Retry | None,
        max_recovery_attempts: int,
        dead_letter: bool | str | None,
    ) -> Definition:
        binds, plain = binds_to(function)
        named = checked_name(name, plain)
        if isinstance(plain, type):
            raise ConfigurationError(f"The workflow {named!r} is a class: put @app.workflow on one of its methods.")
        check_retry(f"the workflow {named!r}", retry)
        check_count(f"max_recovery_attempts of the workflow {named!r}", max_recovery_attempts)
        definition = Definition(
            name=named,
            function=plain,
            is_async=is_coroutine_function(plain),
            codec=self._engine.payloads.codec(plain, skip=0 if binds == "nothing" else 1),
            class_name=class_of(plain),
            binds=binds,
            max_recovery_attempts=max_recovery_attempts,
            retry=retry,
            dead_letter=letter_domain(self._engine, named, dead_letter),
        )
        self._engine.registry.add_workflow(definition, anew=not self._engine.launched)
        return definition

    def _define_step(
        self, function: Any, name: str | None, retry: Retry | None, timeout: Duration | None, guarded: Layers
    ) -> StepDefinition:
        binds, plain = binds_to(function)
        named = checked_name(name, plain)
        check_retry(f"the step {named!r}", retry)
        if timeout is not None:
            checked_seconds(timeout, f"The timeout of the step {named!r}")
        definition = StepDefinition(
            name=named,
            protection=step_protection(self._engine, named, guarded),
            dead_letter=step_letter_domain(named, guarded),
            function=plain,
            is_async=is_coroutine_function(plain),
            codec=self._engine.payloads.codec(plain),
            binds=binds,
            retry=retry,
            timeout=timeout,
        )
        self._engine.registry.add_step(definition, anew=not self._engine.launched)
        return definition

    def _ad_hoc(self, function: Any) -> StepDefinition:
        if isinstance(function, Step):
            return function.definition
        if not callable(function):
            drop(function)
            raise MisuseError(
                f"run_step() takes a function and its arguments, not {function!r:.80}: write `run_step(price, 1)` in "
                "place of `run_step(price(1))`."
            )
        refuse_generator(function)
        return StepDefinition(
            name=checked_name(None, function),
            function=function,
            is_async=is_coroutine_function(function),
            codec=self._engine.payloads.codec(function),
        )

    def _ticket(self, workflow_id: str) -> Ticket:
        return Ticket(sought_id(workflow_id), self._engine.payloads.plain, None)
