"""``app.breaker`` and ``app.protect``: what an application puts around calls that may fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypedDict, TypeVar, Unpack, overload

from holdfast.core.options import check_retry, refuse_unknown
from holdfast.errors import ConfigurationError
from holdfast.workflows.dead_letters.handlers import domain_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.model.workflow import Duration, Retry
    from holdfast.resilience.breaker import CircuitBreaker
    from holdfast.resilience.events import Listener
    from holdfast.resilience.keyed import KeyedBreakers
    from holdfast.resilience.policy import BreakerOptions
    from holdfast.resilience.protect import Protection
    from holdfast.stores.idempotency.memory import InMemoryIdempotencyStore
    from holdfast.workflows.declaring.decorators import FallbackDecorator
    from holdfast.workflows.engine.engine import Engine

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F")


class Guarded(TypedDict, total=False):
    """What ``protect`` and ``step`` may be told beyond retry and timeout."""

    breaker: bool | str | CircuitBreaker | None
    dead_letter: bool | str
    idempotency_key: str | Callable[..., str] | None
    idempotency_store: InMemoryIdempotencyStore | None


class Layers(Guarded, total=False):
    """The same with the *fallback*, which is a part of the type of what is guarded."""

    fallback: Any


_OPTIONS_OF_PROTECT = ("retry", "timeout", "interrupt", "replay_on_close", *Layers.__annotations__)
_OPTIONS_OF_STEP = ("name", "retry", "timeout", *Layers.__annotations__)


class Guarding:
    """The methods of an application that guard calls."""

    _engine: Engine

    def breaker(
        self, name: str, *, listeners: Iterable[Listener] = (), **options: Unpack[BreakerOptions]
    ) -> CircuitBreaker:
        """Return the circuit breaker *name*, the same object each time; all processes of the database share it.

        Its options are said once: ``ConfigurationError`` for others later. Before launch and after close it goes by
        what this process sees alone.
        """
        return self._engine.guards.breaker(name, listeners, **options)

    def keyed_breakers(
        self,
        name: str,
        *,
        most: int = 1000,
        listeners: Iterable[Listener] = (),
        **options: Unpack[BreakerOptions],
    ) -> KeyedBreakers:
        """Return breakers by key, for hosts or tenants: ``breakers["example.com"]``; at most so many are kept here."""
        return self._engine.guards.keyed(name, most, listeners, **options)

    @overload
    def protect(
        self,
        name: str,
        *,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        interrupt: bool = False,
        replay_on_close: bool = False,
        **guarded: Unpack[Guarded],
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
    @overload
    def protect(
        self,
        name: str,
        *,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        interrupt: bool = False,
        replay_on_close: bool = False,
        fallback: Callable[..., F],
        **guarded: Unpack[Guarded],
    ) -> FallbackDecorator[F]: ...
    @overload
    def protect(
        self,
        name: str,
        *,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        interrupt: bool = False,
        replay_on_close: bool = False,
        fallback: F,
        **guarded: Unpack[Guarded],
    ) -> FallbackDecorator[F]: ...
    def protect(
        self,
        name: str,
        *,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        interrupt: bool = False,
        replay_on_close: bool = False,
        **guarded: Unpack[Layers],
    ) -> Any:
        """Guard every call of a function, sync or async; as ``@app.protect("stripe", retry=Retry(), timeout=10)``.

        From the outside in: *fallback*, a value or a function of the same arguments, stands in for an error. With an
        *idempotency_key*, a text or a function of the arguments, there is one call for each key, of all processes; with
        an *idempotency_store* in memory as well, of this one. With *dead_letter* what failed for good is kept with its
        arguments, under *name* or the domain that is given. *retry* tries again.
        The *breaker* is the one called *name*; another by name or object, or False for none. *timeout* is for each try.

        A sync function with a *timeout* runs on a thread of its own, which is left behind when its time is up. With
        *interrupt* it runs where it is called, which costs less, and is interrupted there: once it is in Python code,
        so late if it waits for a socket or a lock.

        With *replay_on_close* the dead letters of this function are replayed when the breaker closes.
        """
        refuse_unknown(f"protect({name!r})", guarded, _OPTIONS_OF_PROTECT)
        check_retry(f"protect({name!r})", retry)
        if interrupt and timeout is None:
            raise ConfigurationError(f"interrupt of {name!r} needs a timeout, at which to interrupt.")
        protection = protection_of(
            self._engine, name, retry, timeout, guarded, interrupt=interrupt, replay_on_close=replay_on_close
        )
        return protection.around


def protection_of(
    engine: Engine,
    name: str,
    retry: Retry | None,
    timeout: Duration | None,
    guarded: Layers,
    *,
    interrupt: bool = False,
    replay_on_close: bool = False,
) -> Protection:
    """Return the layers that were asked for."""
    from holdfast.resilience.protect import NO_FALLBACK  # noqa: PLC0415 -- what is not used is not loaded

    return engine.guards.protection(
        name,
        retry=retry,
        timeout=timeout,
        interrupt=interrupt,
        breaker=guarded.get("breaker", True),
        fallback=guarded.get("fallback", NO_FALLBACK),
        dead_letter=guarded.get("dead_letter", False),
        idempotency_key=guarded.get("idempotency_key"),
        idempotency_store=guarded.get("idempotency_store"),
        replay_on_close=replay_on_close,
    )


def step_protection(engine: Engine, name: str, guarded: Layers) -> Protection | None:
    """Return the layers of a step besides its attempts; None if it has none, ``ConfigurationError`` for an unknown one.

    Its dead letter is none of them: it is written in the commit of the step's record.
    """
    refuse_unknown(f"The step {name!r}", guarded, _OPTIONS_OF_STEP)
    if not guarded.keys() - {"dead_letter"}:
        return None
    return protection_of(engine, name, None, None, {"breaker": None, **guarded, "dead_letter": False})


def step_letter_domain(name: str, guarded: Guarded) -> str | None:
    """Return the domain of the dead letters of a step; None if there are to be none."""
    return domain_of(f"the step {name!r}", guarded.get("dead_letter"), name)


__all__ = ["Guarded", "Guarding", "Layers", "protection_of", "step_letter_domain", "step_protection"]
