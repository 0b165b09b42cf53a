"""The functions an application has made durable, by the names under which they are recorded."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.version import version_of
from holdfast.errors import ConfigurationError
from holdfast.model.workflow import DEFAULT_MAX_RECOVERY_ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.workflow import Duration, Retry
    from holdfast.workflows.payloads import ResultCodec

_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Definition:
    """A workflow: its name, its function, and how often it may take its executor down without progress."""

    name: str
    function: Callable[..., Any]
    is_async: bool
    codec: ResultCodec
    class_name: str | None = None
    binds: Literal["nothing", "class", "instance"] = "nothing"
    max_recovery_attempts: int = DEFAULT_MAX_RECOVERY_ATTEMPTS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepDefinition:
    """A step: its name, its function, how it is tried again and how long it may take."""

    name: str
    function: Callable[..., Any]
    is_async: bool
    codec: ResultCodec
    retry: Retry | None = None
    timeout: Duration | None = None


class Registry:
    """What is registered with one application. Names are unique; a second function of the same name is refused."""

    def __init__(self) -> None:
        self.workflows: dict[str, Definition] = {}
        self.steps: dict[str, StepDefinition] = {}
        self.instances: dict[tuple[str, str], Any] = {}
        self.classes: dict[str, type] = {}

    def add_workflow(self, definition: Definition) -> None:
        """Register a workflow under its name."""
        _refuse_second("workflow", self.workflows.get(definition.name), definition)
        self.workflows[definition.name] = definition

    def add_step(self, definition: StepDefinition) -> None:
        """Register a step under its name."""
        _refuse_second("step", self.steps.get(definition.name), definition)
        self.steps[definition.name] = definition

    def add_instance(self, class_name: str, config_name: str, instance: Any) -> None:
        """Register the object whose methods are run for the pair of names."""
        known = self.instances.setdefault((class_name, config_name), instance)
        if known is not instance:
            raise ConfigurationError(
                f"There is already a {class_name} with the config_name {config_name!r}; give each instance its own."
            )

    def check_instance(self, instance: Any, workflow: str) -> None:
        """Refuse to start a method of an object that a recovery could not find again."""
        config_name = getattr(instance, "config_name", None)
        if self.instances.get((type(instance).__qualname__, config_name or "")) is not instance:
            raise ConfigurationError(
                f"The workflow {workflow!r} is a method of a {type(instance).__qualname__} that is not registered: "
                "give the object a config_name and pass it to app.register_instance() before launch."
            )

    def version(self) -> str | None:
        """Return the version computed from the sources of all workflows, or None if they are not to be had."""
        return version_of((name, each.function) for name, each in self.workflows.items())


def checked_name(name: str | None, function: Callable[..., Any]) -> str:
    """Return the name to record for *function*; refuse one that no table or query could hold."""
    chosen = name if name is not None else function.__qualname__
    if not chosen or len(chosen) > _LONGEST_NAME or '"' in chosen or "\\" in chosen or not chosen.isprintable():
        raise ConfigurationError(
            f"The name {chosen[:80]!r} cannot be recorded: use 1 to {_LONGEST_NAME} printable characters "
            "without quotation marks and backslashes (name=...)."
        )
    return chosen


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Whether calling *function* gives a coroutine."""
    return inspect.iscoroutinefunction(inspect.unwrap(function))


def _refuse_second(what: str, known: Any, new: Any) -> None:
    if known is not None and known.function is not new.function:
        raise ConfigurationError(
            f"Two {what}s are called {new.name!r}: {_where(known.function)} and {_where(new.function)}. "
            "Give one of them another name=."
        )


def _where(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)
