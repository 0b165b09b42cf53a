"""``CircuitBreaker``: what a user puts around calls that may fail."""

from __future__ import annotations

import functools
import weakref
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast

from holdfast.core.breaker_rules import CountWindow
from holdfast.errors import ConfigurationError
from holdfast.model.world import RealWorld
from holdfast.resilience.admission import Admission
from holdfast.resilience.blocks import innermost_of
from holdfast.resilience.colour import is_awaited
from holdfast.resilience.events import BreakerMetrics, Listeners
from holdfast.resilience.policy import BreakerMode, policy_of
from holdfast.resilience.sharing import Later, Sharing
from holdfast.resilience.standing import Standing
from holdfast.stores.breakers.blocking import BlockingBreakers, InMemoryCircuitBreakerStateRepository
from holdfast.stores.breakers.interface import AsyncCircuitBreakerStateRepository
from holdfast.stores.breakers.memory import AsyncInMemoryCircuitBreakerStateRepository

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from types import TracebackType
    from typing import Self

    from holdfast.model.world import World
    from holdfast.resilience.blocks import Block
    from holdfast.resilience.events import Listener
    from holdfast.resilience.policy import BreakerOptions
    from holdfast.resilience.trials import Trial

P = ParamSpec("P")
R = TypeVar("R")

# The innermost ``with breaker`` of a task or thread. A block takes a fifth longer if this is imported from elsewhere.
_entered: ContextVar[Block | None] = ContextVar("holdfast_breakers", default=None)


class CircuitBreaker:
    """Refuses calls to a dependency that keeps failing, and tries a few now and then until it works again.

    Put it around calls as a decorator, as a block (``with`` or ``async with``), or with ``call`` and ``call_async``.
    One object serves any number of threads and tasks. A call that is not made raises ``CircuitOpen``.

    With a *repository* all processes that share it open and close together, and an operator's word holds in all of
    them; without one the breaker stands alone. While it is closed nothing is read or written anywhere. If the
    repository is away the breaker goes on by what this process sees, and says so to its log and its *listeners*.
    """

    def __init__(
        self,
        name: str,
        *,
        repository: BlockingBreakers | AsyncCircuitBreakerStateRepository | Later | None = None,
        listeners: Iterable[Listener] = (),
        world: World | None = None,
        **options: Unpack[BreakerOptions],
    ) -> None:
        self.name = name
        self.policy = policy = policy_of(**options)
        self._world = world or RealWorld()
        self._listeners = Listeners(listeners)
        own, sharing = self._storage(repository)
        # Calls that succeed quickly need not be timed: then remembering them is one append.
        self._is_plain = policy.rules.slow_call_seconds is None and policy.rules.window_seconds is None
        self._is_plain = self._is_plain and policy.failed_result is None and policy.mode is not BreakerMode.DISABLED
        self._clock = self._world.monotonic
        self._slow_from = policy.rules.slow_call_seconds
        self._failed_result = policy.failed_result
        self._fast = self._passes = False
        self._trials: dict[str, tuple[Trial, float]] = {}  # of blocks that were entered and not left
        changed = _while_there(self._changed)
        self._standing = Standing(name, policy, own, sharing, self._listeners, self._world, changed)
        self._admission = Admission(self._standing, changed)
        window = self._standing.window
        self._remember = window.succeeded if isinstance(window, CountWindow) else _remember_nothing
        self._standing.watch()
        weakref.finalize(self, self._standing.end).atexit = False

    def _storage(
        self, repository: BlockingBreakers | AsyncCircuitBreakerStateRepository | Later | None
    ) -> tuple[AsyncInMemoryCircuitBreakerStateRepository, Sharing | None]:
        """Return where this process decides, and how it shares; a repository in memory is both in one."""
        if repository is None:
            repository = InMemoryCircuitBreakerStateRepository(world=self._world)
        if not isinstance(repository, BlockingBreakers | AsyncCircuitBreakerStateRepository | Later):
            raise ConfigurationError(
                f"The repository of the breaker {self.name} is one of holdfast.stores, or derives from "
                f"AsyncCircuitBreakerStateRepository, which a {type(repository).__name__} does not: it has no watch()."
            )
        self.repository = repository
        store = repository.store if isinstance(repository, BlockingBreakers) else repository
        if isinstance(store, AsyncInMemoryCircuitBreakerStateRepository):
            return store, None
        own = AsyncInMemoryCircuitBreakerStateRepository(world=self._world)
        return own, Sharing(repository, patience=self.policy.storage_timeout)

    def _changed(self) -> None:
        self._passes = self._standing.ready and self._standing.is_closed
        self._fast = self._passes and self._is_plain

    @property
    def state(self) -> str:
        """How it stands for this process: "closed", "open" or "half_open"."""
        return self._standing.current.state

    @property
    def storage_away(self) -> bool:
        """Whether the repository does not answer, so that this process decides by itself."""
        return self._standing.away is not None

    @property
    def metrics(self) -> BreakerMetrics:
        """What it has seen and done in this process."""
        standing = self._standing
        return BreakerMetrics(
            state=standing.current.state,
            window=standing.window.tally(self._world.monotonic()),
            failures_in_a_row=standing.in_a_row,
            rejected=standing.rejected,
            opened=standing.opened,
            storage_away=self.storage_away,
        )

    def listen(self, listener: Listener) -> None:
        """Call *listener* with every ``BreakerEvent`` from now on, on the thread where it happens; it must not wait."""
        self._listeners.add(listener)

    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call *function*, or raise ``CircuitOpen``."""
        if not self._fast:
            return self._call(function, args, kwargs)
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            self._failed(error)
            raise
        self._remember(0)
        self._standing.in_a_row = 0
        return result

    async def call_async(
        self, function: Callable[P, Coroutine[Any, Any, R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Await *function*, or raise ``CircuitOpen``."""
        if not self._fast:
            return await self._call_async(function, args, kwargs)
        try:
            result = await function(*args, **kwargs)
        except Exception as error:
            self._failed(error)
            raise
        self._remember(0)
        self._standing.in_a_row = 0
        return result

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Guard every call of *function*, sync or async; as ``@breaker``. ``ConfigurationError`` for a generator's."""
        if is_awaited(function, f"The breaker {self.name!r}"):

            @functools.wraps(function)
            async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
                return await self.call_async(cast("Any", function), *args, **kwargs)

            return cast("Callable[P, R]", awaited)

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            return self.call(function, *args, **kwargs)

        return called

    def __enter__(self) -> Self:
        self._enter(None if self._passes else self._admission.admit())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exit(error)

    async def __aenter__(self) -> Self:
        self._enter(None if self._passes else await self._admission.admit_async())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exit(error)

    def _enter(self, trial: Trial | None) -> None:
        began = 0.0 if self._is_plain else self._clock()
        if trial is not None:
            self._trials[trial.token] = trial, began
        _entered.set((self, trial, began, _entered.get()))

    def _exit(self, error: BaseException | None) -> None:
        block = _entered.get()
        if block is None or block[0] is not self:
            # Entered in another context than this one, as web frameworks do, a block ends the oldest trial that is
            # open: which one is its own is not known, and no slot may be kept for ever.
            oldest = next(iter(list(self._trials.values())), (None, self._clock()))
            block = innermost_of(self, block) or (self, *oldest, block)
        _, trial, began, around = block
        _entered.set(around)
        if trial is None and error is None and self._is_plain:
            self._remember(0)
            self._standing.in_a_row = 0
        elif self.policy.mode is not BreakerMode.DISABLED:
            if trial is not None and self._trials.pop(trial.token, None) is None:
                trial = None  # a block that was entered elsewhere has ended it
            self._settle(trial, began, error)

    def _call(self, function: Callable[..., R], args: Any, kwargs: Any) -> R:
        if self.policy.mode is BreakerMode.DISABLED:
            return function(*args, **kwargs)
        trial = None if self._passes else self._admission.admit()
        began = self._clock()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            self._settle(trial, began, error)
            raise
        self._returned(trial, began, result)
        return result

    async def _call_async(self, function: Callable[..., Coroutine[Any, Any, R]], args: Any, kwargs: Any) -> R:
        if self.policy.mode is BreakerMode.DISABLED:
            return await function(*args, **kwargs)
        trial = None if self._passes else await self._admission.admit_async()
        began = self._clock()
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            self._settle(trial, began, error)
            raise
        self._returned(trial, began, result)
        return result

    def _returned(self, trial: Trial | None, began: float, result: Any) -> None:
        failed = self._failed_result is not None and self._asked(self._failed_result, result, trial)
        if trial is None and not failed:
            self._succeeded(began)
        else:
            self._settle(trial, began, None, failed=failed)

    def _settle(self, trial: Trial | None, began: float, error: BaseException | None, *, failed: bool = False) -> None:
        """Count what came of a call."""
        failed = failed or (error is not None and self._speaks_against(error, trial))
        ignored = error is not None and not failed
        if trial is not None:
            self._settle_trial(trial, error, failed=failed, ignored=ignored)
        elif failed:
            self._standing.failed(error, slow=self._is_slow(began, self._clock()))
        elif not ignored:
            self._succeeded(began)

    def _settle_trial(self, trial: Trial, error: BaseException | None, *, failed: bool, ignored: bool) -> None:
        if failed:
            self._standing.failed_trial(trial, error)
        elif ignored:
            self._standing.released(trial)
        else:
            self._standing.succeeded(trial)

    def _succeeded(self, began: float) -> None:
        """Count a success of a call that a closed breaker let through."""
        standing, now = self._standing, self._clock()
        standing.in_a_row = 0
        if self._slow_from is None:
            standing.window.add(now)
        else:
            slow = self._is_slow(began, now)
            standing.window.add(now, slow=slow)
            if slow:
                standing.judge(0, now, None)

    def _is_slow(self, began: float, now: float) -> bool:
        return self._slow_from is not None and now - began >= self._slow_from

    def _failed(self, error: Exception) -> None:
        if self._speaks_against(error):
            self._standing.failed(error)

    def _speaks_against(self, error: BaseException, trial: Trial | None = None) -> bool:
        """Whether *error* counts; the end of a task, or of the program, never does."""
        return isinstance(error, Exception) and self._asked(self.policy.counts, error, trial)

    def _asked(self, judge: Callable[[Any], bool], what: Any, trial: Trial | None) -> bool:
        """Return what a function of the user's says. If it raises, the call counts for nothing and its slot is free."""
        try:
            return bool(judge(what))
        except BaseException:
            if trial is not None:
                self._standing.released(trial)
            raise

    def __repr__(self) -> str:
        return f"<breaker {self.name} {self.state}>"


def _while_there(method: Callable[[], None]) -> Callable[[], None]:
    """Return what calls *method* as long as its object is there, and does not keep it.

    A repository knows those who watch it: a breaker that nobody else has must not stay for that.
    """
    weak = weakref.WeakMethod(method)

    def call() -> None:
        method = weak()
        if method is not None:
            method()

    return call


def _remember_nothing(_: int) -> None:
    """Stand in where calls are timed, and the quick way is not taken."""


__all__ = ["CircuitBreaker"]
