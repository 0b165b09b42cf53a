"""The functions an application has made durable, by the names under which they are recorded."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast.core.functions import plain_function
from holdfast.core.version import version_of
from holdfast.errors import ConfigurationError
from holdfast.model.workflow import DEFAULT_MAX_RECOVERY_ATTEMPTS
from holdfast.workflows.declaring.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.model.workflow import Duration, Retry
    from holdfast.resilience.breaker import CircuitBreaker
    from holdfast.resilience.protect import Protection
    from holdfast.workflows.declaring.codec import FunctionCodec

Binds = Literal["nothing", "class", "instance"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Definition:
    """A workflow: its name, its function, how it is tried again, and how often it may take its executor down."""

    name: str
    function: Callable[..., Any]
    is_async: bool
    codec: FunctionCodec
    class_name: str | None = None
    binds: Binds = "nothing"
    max_recovery_attempts: int = DEFAULT_MAX_RECOVERY_ATTEMPTS
    retry: Retry | None = None
    dead_letter: str | None = None  # the domain of the letters of runs that end as ERROR, if there are to be any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepDefinition:
    """A step: its name, its function, how it is tried again and how long it may take."""

    name: str
    function: Callable[..., Any]
    is_async: bool
    codec: FunctionCodec
    binds: Binds = "nothing"
    retry: Retry | None = None
    timeout: Duration | None = None
    protection: Protection | None = None
    dead_letter: str | None = None  # the domain of the letters of calls that failed for good
    is_plain: bool = field(init=False)  # whether an attempt is the function and nothing else

    def __post_init__(self) -> None:
        """Work out once what every attempt asks."""
        object.__setattr__(self, "is_plain", self.timeout is None and self.breaker is None)

    @property
    def breaker(self) -> CircuitBreaker | None:
        """The breaker that each attempt passes, if there is one."""
        return None if self.protection is None else self.protection.breaker


class Registry:
    """What is registered with one application. Names are unique; a second function of the same name is refused.

    With *anew* one that is defined anew takes the place of the old one: see ``is_defined_anew``.
    """

    def __init__(self) -> None:
        self.workflows: dict[str, Definition] = {}
        self.steps: dict[str, StepDefinition] = {}
        self.instances: dict[tuple[str, str], Any] = {}
        self.classes: set[type] = set()

    def add_workflow(self, definition: Definition, *, anew: bool = False) -> None:
        """Register a workflow under its name."""
        _refuse_second("workflow", self.workflows.get(definition.name), definition, anew=anew)
        self.workflows[definition.name] = definition

    def add_step(self, definition: StepDefinition, *, anew: bool = False) -> None:
        """Register a step under its name."""
        _refuse_second("step", self.steps.get(definition.name), definition, anew=anew)
        self.steps[definition.name] = definition

    def add_instance(self, class_name: str, config_name: str, instance: Any) -> None:
        """Register the object whose methods are run for the pair of names."""
        check_name(class_name)
        check_name(config_name)
        known = self.instances.setdefault((class_name, config_name), instance)
        if known is not instance:
            raise ConfigurationError(
                f"There is already a {class_name} with the config_name {config_name!r}; give each instance its own."
            )

    def owners(self) -> Iterable[str]:
        """Return the objects whose methods can be run here, as class/configuration."""
        return (f"{class_name}/{config_name}" for class_name, config_name in list(self.instances))

    def check_instance(self, instance: Any, workflow: str) -> None:
        """Refuse to start a method of an object that a recovery could not find again."""
        config_name = getattr(instance, "config_name", None)
        if self.instances.get((type(instance).__qualname__, config_name or "")) is not instance:
            raise ConfigurationError(
                f"The workflow {workflow!r} is a method of a {type(instance).__qualname__} that is not registered: "
                "give the object a config_name and pass it to app.register_instance() before launch."
            )

    def bound_to(self, definition: Definition, class_name: str | None, config_name: str | None) -> Any:
        """Return what a recorded method belongs to: its class, its object, or None; ``LookupError`` if not here."""
        if definition.binds == "nothing":
            return None
        if definition.binds == "class":
            return self._class_named(class_name or "", definition.function)
        known = self.instances.get((class_name or "", config_name or ""))
        if known is None:
            raise LookupError(
                f"There is no {class_name} with the config_name {config_name!r} here; register it before launch."
            )
        return known

    def _class_named(self, name: str, function: Callable[..., Any]) -> type:
        for each in _with_subclasses(self.classes):
            if each.__qualname__ == name:
                return each
        found: Any = None
        for part in name.split("."):  # @classmethod was put above @app.workflow, which then does not see the class
            found = function.__globals__.get(part) if found is None else getattr(found, part, None)
        if isinstance(found, type):
            return found
        raise LookupError(f"There is no class {name!r} here; import its module before launch.")

    def version(self) -> str | None:
        """Return the version computed from the sources of all workflows, or None if they cannot be read."""
        return version_of((name, each.function) for name, each in self.workflows.items())


def checked_name(name: str | None, function: Callable[..., Any]) -> str:
    """Return the name to record for *function*; refuse one that no table or query could hold."""
    return check_name(name if name is not None else _name_of(function))


def bound_to(binds: Binds, instance: Any, owner: type | None) -> Any:
    """Return what a method is bound to: its object, its class, or None for a function."""
    if binds == "class":
        return owner if owner is not None else type(instance)
    return instance if binds == "instance" else None


def binds_to(function: Any) -> tuple[Binds, Callable[..., Any]]:
    """Return what a decorated function is bound to when it is called, and the plain function.

    ``@staticmethod`` and ``@classmethod`` may stand above or below. Below, they say so themselves; above, they are not
    seen, and the first parameter tells: ``self``, ``cls``, or something else. A generator is refused, and what cannot
    be called.
    """
    if not callable(getattr(function, "__func__", function)):
        raise ConfigurationError(
            f"{function!r:.80} is no function, which is what a workflow or a step is made of. Options are named, as in "
            '@app.step(name="charge").'
        )
    refuse_generator(getattr(function, "__func__", function))
    if isinstance(function, classmethod):
        return "class", function.__func__
    if isinstance(function, staticmethod):
        return "nothing", function.__func__
    if not class_of(function):
        return "nothing", function
    first = next(iter(inspect.signature(function).parameters), None)
    return ("instance" if first == "self" else "class" if first == "cls" else "nothing"), function


def class_of(function: Callable[..., Any]) -> str | None:
    """Return the name of the class in whose body *function* stands, or None."""
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    return owner if owner and not owner.endswith("<locals>") else None


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Whether calling *function* gives a coroutine: it says so itself, or what it wraps does."""
    return any(map(inspect.iscoroutinefunction, (function, inspect.unwrap(function), plain_function(function))))


def refuse_generator(function: Callable[..., Any]) -> None:
    """Raise for a function whose call gives a generator: there is no value in it that could be recorded."""
    plain = plain_function(function)
    if inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain):
        raise ConfigurationError(
            f"{_name_of(function)!r} yields, so a call of it has no outcome to record: have it return its values, as a "
            "list for instance, or write them to a stream with write_stream()."
        )


def is_defined_anew(known: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """Whether *new* is *known* once more: the same definition read again by ``reload()``, or typed in another cell.

    What a loop or a factory makes twice is not: its code was compiled once, and both functions are in use.
    """
    codes = _code(known), _code(new)
    if None in codes or codes[0] is codes[1] or _module_and_name(known) != _module_and_name(new):
        return False
    (file, line), (new_file, new_line) = ((code.co_filename, code.co_firstlineno) for code in codes)
    if file == new_file:
        return bool(line == new_line)
    return known.__module__ == "__main__" and not Path(file).exists() and not Path(new_file).exists()


def _refuse_second(what: str, known: Any, new: Any, *, anew: bool) -> None:
    if known is None or known.function is new.function:
        return
    again = is_defined_anew(known.function, new.function)
    if not (again and anew):
        remedy = "To define it anew, close() the application first" if again else "Give one of them another name="
        raise ConfigurationError(
            f"Two {what}s are called {new.name!r}: {_where(known.function)} and {_where(new.function)}. {remedy}."
        )


def _module_and_name(function: Any) -> tuple[str | None, str | None]:
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)


def _code(function: Callable[..., Any]) -> Any:
    return getattr(inspect.unwrap(function), "__code__", None)


def _where(function: Callable[..., Any]) -> str:
    code = _code(function)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name: str = getattr(function, "__qualname__", None) or type(function).__qualname__
    return name


def _with_subclasses(classes: Iterable[type]) -> Iterable[type]:
    for each in classes:
        yield each
        yield from _with_subclasses(type.__subclasses__(each))
