"""What an application says of its dead letters: who replays them, and which runs become one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from holdfast.core.durations import milliseconds
from holdfast.core.texts import as_text, check_text, demand_text
from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.workflow import Duration
    from holdfast.workflows.declaring.decorators import L, ReplayDecorator, W
    from holdfast.workflows.engine.engine import Engine

F = TypeVar("F", bound="Callable[..., Any]")
DOMAIN = "workflow"


def domain_of(what: str, dead_letter: object, own: str) -> str | None:
    """Return the domain of the dead letters of *what*, which is its *own* for True; None if there are to be none.

    ``ConfigurationError`` for one that no letter can have: it would be lost when it is made.
    """
    if dead_letter is None or dead_letter is False:
        return None
    if dead_letter is not True and not isinstance(dead_letter, str):
        raise ConfigurationError(
            f"dead_letter of {what} is the domain of its dead letters, or True or False, not {dead_letter!r:.100}."
        )
    return as_text(check_text(f"The domain of the dead letters of {what}", own if dead_letter is True else dead_letter))


def letter_domain(engine: Engine, name: str, dead_letter: bool | str | None) -> str | None:
    """Return the domain of the letters of runs of a workflow that end as ERROR; None if there are to be none."""
    if dead_letter is None:
        dead_letter = engine.settings.dead_letters == "errors"
    return domain_of(f"the workflow {name!r}", dead_letter, DOMAIN)


class ReplayHandlers:
    """The method of an application that registers who replays dead letters."""

    _engine: Engine

    @overload
    def replay_handler(
        self,
        domain: str,
        *,
        automatic: bool = False,
        delay: Duration = 60.0,
        with_arguments: Literal[False] | None = None,
    ) -> ReplayDecorator: ...
    @overload
    def replay_handler(
        self, domain: str, *, automatic: bool = False, delay: Duration = 60.0, with_arguments: bool
    ) -> Callable[[F], F]: ...
    @overload
    def replay_handler(
        self,
        domain: str,
        handler: W,
        *,
        automatic: bool = False,
        delay: Duration = 60.0,
        with_arguments: bool | None = None,
    ) -> W: ...
    @overload
    def replay_handler(
        self,
        domain: str,
        handler: L,
        *,
        automatic: bool = False,
        delay: Duration = 60.0,
        with_arguments: Literal[False] | None = None,
    ) -> L: ...
    @overload
    def replay_handler(
        self, domain: str, handler: F, *, automatic: bool = False, delay: Duration = 60.0, with_arguments: bool
    ) -> F: ...
    def replay_handler(
        self,
        domain: str,
        handler: Any = None,
        *,
        automatic: bool = False,
        delay: Duration = 60.0,
        with_arguments: bool | None = None,
    ) -> Any:
        """Have dead letters of *domain* replayed by a function, a workflow or a step: ``@app.replay_handler("mail")``.

        A function, sync or async, gets the letter, or with *with_arguments* the arguments that it keeps; a workflow or
        a step always gets those. What it raises is the failure of the replay. With *automatic* the letters that are
        made here from now on are due by themselves while the application is launched, *delay* seconds after the first
        failure, then twice as many. ``ConfigurationError`` if the domain has a handler; what is refused is as if it
        had not been said.
        """
        _check_domain("The domain of a replay handler", domain)

        def register(handler: Any) -> Any:
            from holdfast.workflows.dead_letters.replay import handle_for  # noqa: PLC0415 -- as below

            wait = self._delay(delay) if automatic else None
            self._engine.handlers.add(domain, handle_for(self._engine, handler, with_arguments=with_arguments))
            self._automatic(domain, wait)
            return handler

        return register if handler is None else register(handler)

    def replay_runs(self, domain: str = DOMAIN, *, automatic: bool = True, delay: Duration = 60.0) -> None:
        """Have letters of runs in *domain*, which need no handler, be due by themselves; as ``replay_handler`` says."""
        _check_domain("The domain of replay_runs", domain)
        self._automatic(domain, self._delay(delay) if automatic else None)

    def _delay(self, delay: Duration) -> float:
        """Return the delay of what is due by itself, if that may be said now."""
        if self._engine.launched:
            raise ConfigurationError("What is replayed automatically is said before launch().")
        return milliseconds(delay, "delay") / 1000

    def _automatic(self, domain: str, delay: float | None) -> None:
        from holdfast.resilience.handlers import Automatic  # noqa: PLC0415 -- what is not used is not loaded

        if delay is not None:
            self._engine.handlers.automatic[domain] = Automatic(delay)


def _check_domain(what: str, domain: str) -> None:
    """Raise ``ConfigurationError`` for a domain that no letter can have; the empty one is one of those that can be."""
    if demand_text(what, domain):
        check_text(what, domain)


__all__ = ["DOMAIN", "ReplayHandlers", "domain_of", "letter_domain"]
