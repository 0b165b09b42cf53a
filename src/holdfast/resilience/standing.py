"""Where a breaker stands: what this process has decided by itself, what the fleet has, and which of them counts.

Theory of operation. There are two records. The *own* one is in the memory of this process; the *shared* one is in the
repository, and what is known of it here is a view that the repository's watch renews. Own evidence opens the own record
at once, and is then reported: if the fleet's record opens too, the own one is closed again and the fleet's counts; if
it does not, since a quorum is wanted, the own one stays and only this process refuses calls. While the storage is away
the own record takes over what was known, and everything is decided here. So it is in a forked child as well, from its
first call on until the repository is open there.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from holdfast.core.breaker_rules import TimeWindow, window_for
from holdfast.db.process import this_process
from holdfast.db.session import run_sync
from holdfast.errors import CircuitOpen, Unavailable
from holdfast.model.breaker import CLOSED, HALF_OPEN, OPEN, OpenTime
from holdfast.resilience.events import BreakerEvent
from holdfast.resilience.policy import BreakerMode
from holdfast.resilience.trials import Trial, Trials
from holdfast.resilience.view import Hearing, View, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import datetime

    from holdfast.model.breaker import CircuitBreakerOpenAttempt, CircuitBreakerStateData
    from holdfast.model.world import World
    from holdfast.resilience.events import EventKind, Listeners
    from holdfast.resilience.policy import BreakerPolicy
    from holdfast.resilience.sharing import Sharing
    from holdfast.stores.breakers.interface import AsyncCircuitBreakerStateRepository
    from holdfast.stores.breakers.memory import AsyncInMemoryCircuitBreakerStateRepository

logger = logging.getLogger("holdfast.breakers")

_ASK_AGAIN = 0.05  # after a slot was refused: whoever calls meanwhile is refused without asking
_KINDS: dict[str, EventKind] = {CLOSED: "closed", OPEN: "opened", HALF_OPEN: "half_opened"}


class Standing:
    """One breaker in one process. *changed* is called after every change; nothing here waits but where it says so."""

    def __init__(
        self,
        name: str,
        policy: BreakerPolicy,
        own: AsyncInMemoryCircuitBreakerStateRepository,
        sharing: Sharing | None,
        listeners: Listeners,
        world: World,
        changed: Callable[[], None],
    ) -> None:
        self.name = name
        self.policy = policy
        self._own = own
        self.sharing = None if policy.mode is BreakerMode.OBSERVE else sharing
        self._listeners = listeners
        self._world = world
        self._changed = changed
        self._reporter = world.new_id()
        self.window = window_for(policy.rules)
        self.in_a_row = 0
        self.rejected = self.opened = 0
        self.away: Exception | None = None
        self._own_view = self._shared_view = View()
        self._told = CLOSED
        self._reason = ""
        self._adopted = False
        self._lock = threading.Lock()
        self._trials = Trials(policy.probes, policy.probe_timeout)
        self._ask_again = float("-inf")
        self._shared_watch = Hearing(self.view, self._shared_seen, self.lost, self.begin_anew)
        self.known: concurrent.futures.Future[None] = concurrent.futures.Future()
        self.ready = self.sharing is None
        this_process.tell(self)

    def watch(self) -> None:
        """Begin to go by the own record; *changed* is called from now on."""
        self._unwatch = self._own.watch(self.name, Hearing(self.view, self._own_seen, self.lost, self.begin_anew))

    def end(self) -> None:
        """Watch no more."""
        self._unwatch()
        if self.sharing is not None:
            self.sharing.end()

    def begin(self) -> concurrent.futures.Future[None] | None:
        """Begin to watch the fleet's record, if there is a loop for it; return what is settled when it is known."""
        if self.ready or self.sharing is None:
            return None
        try:
            is_found = self.sharing.begin(self.name, self._shared_watch)
        except Unavailable as error:
            self._cut_off(error)
            return None
        return self.known if is_found else None

    def _cut_off(self, error: Unavailable) -> None:
        """Decide here by what the parent of this process knew; every call looks whether the repository is open now."""
        if self.away is None:
            logger.warning("The breaker %r decides by itself in this process. %s", self.name, error)
            self.lost(error)
            self.known, self.ready = concurrent.futures.Future(), False
            self._changed()

    def forked(self) -> None:
        """Have nothing in common with the parent any more, in a forked child; the next call looks for the fleet."""
        self._lock = threading.Lock()
        self._trials.forked()
        if isinstance(self.window, TimeWindow):
            self.window = window_for(self.policy.rules)  # the old one may be locked by a thread that is not here
        if self.sharing is not None:
            self.sharing.forked()
            self.known, self.ready = concurrent.futures.Future(), False
        self._changed()

    def begin_anew(self) -> None:
        """Stand alone again: the repository was closed. If it is opened again it is found by the next call."""
        if self.sharing is not None:
            self.sharing.forget()
            self.away, self._shared_view, self._adopted = None, View(), False
            self.known, self.ready = concurrent.futures.Future(), False
            self._update()

    def view(self, record: CircuitBreakerStateData | None, now: datetime) -> View:
        """Return *record* in the time of this process."""
        return view_of(record, now, self._world.monotonic(), self.policy.open_time.base)

    @property
    def current(self) -> View:
        """The view that counts."""
        if self.sharing is None or self.away is not None or self._own_view.state != CLOSED:
            return self._own_view
        return self._shared_view

    @property
    def is_closed(self) -> bool:
        """Whether calls pass."""
        return self.current.state == CLOSED

    def failed(self, error: BaseException | None, *, slow: bool = False) -> None:
        """Count a failure of a call that a closed breaker let through, and trip if it was one too many."""
        now = self._world.monotonic()
        self.window.add(now, failed=True, slow=slow)
        with self._lock:
            self.in_a_row += 1
            in_a_row = self.in_a_row
        self._tell("failed", self.current.state, self.current.state, error=error)
        self.judge(in_a_row, now, error)

    def judge(self, in_a_row: int, now: float, error: BaseException | None) -> None:
        """Trip if the rules say so, and nobody has pinned the breaker."""
        current = self.current
        if current.state != CLOSED or current.is_pinned(now):
            return
        reason = self.policy.rules.reason(in_a_row, self.window.tally(now))
        if reason is not None:
            self._trip(in_a_row, reason if error is None else f"{reason}, last {type(error).__name__}")

    def _trip(self, failures: int, reason: str) -> None:
        self._reason = reason
        attempt = run_sync(self._own.trip_to_open(self.name, failures, open_time=self.policy.open_time, error=reason))
        if attempt.did_open:
            self._forget()
            if self.sharing is not None and self.away is None:
                self.sharing.tell(self._report(failures, reason))

    def _forget(self) -> None:
        self.window.clear()
        self.in_a_row = 0

    async def _report(self, failures: int, reason: str) -> None:
        """Tell the fleet; its record counts from then on, unless more must report."""
        assert self.sharing is not None  # noqa: S101 -- only a shared breaker reports
        attempt = await self.sharing.store.trip_to_open(
            self.name,
            failures,
            open_time=self.policy.open_time,
            error=reason,
            reporter=self._reporter,
            quorum=self.policy.quorum,
            within=self.policy.quorum_within,
        )
        if attempt.state.state == CLOSED and not attempt.state.manually_controlled:
            logger.info("The breaker %r is open here alone: %s more must report.", self.name, self._missing(attempt))

    def _missing(self, attempt: CircuitBreakerOpenAttempt) -> int:
        return self.policy.quorum - len(attempt.state.reports)

    def ask(self) -> Trial | None:
        """Return the slot to ask for, or None if the breaker is closed; ``CircuitOpen`` if there is no use in asking.

        Whoever gets one must call ``answered`` or ``not_answered``.
        """
        now, view = self._world.monotonic(), self.current
        if view.state == CLOSED:
            return None
        if view.is_pinned(now):
            raise self.refusal(None if view.pinned_until == float("inf") else view.pinned_until - now)
        if view.state == OPEN and now < view.due:
            raise self.refusal(view.due - now)
        is_shared = view is self._shared_view and self.sharing is not None
        trial = Trial(self._world.new_id(), is_shared, view.epoch if view.state == OPEN else None)
        if now < self._ask_again or not self._trials.begin(trial, now):
            raise self.refusal(_ASK_AGAIN)
        return trial

    def question(self, trial: Trial) -> Coroutine[Any, Any, tuple[bool, str, str]]:
        """Return what asks for the slot."""
        return self._store(trial).try_acquire_half_open_slot(
            self.name, self.policy.probes, self.policy.probe_timeout, token=trial.token, epoch=trial.epoch
        )

    def permitted(self) -> Trial | None:
        """Return a slot that ``fetch`` was granted for a call that must not wait; None if there is none."""
        now, view = self._world.monotonic(), self.current
        if view is not self._shared_view or view.state != HALF_OPEN or view.is_pinned(now):
            return None
        return self._trials.kept(now)

    def fetch(self, trial: Trial) -> CircuitOpen:
        """Ask for a slot without waiting for it, and return the error of this call: a later one is permitted."""
        if self.sharing is not None:
            self.sharing.tell(self._fetch(trial))
        return self.refusal(_ASK_AGAIN)

    async def _fetch(self, trial: Trial) -> None:
        try:
            granted = (await self.question(trial))[0]
        except BaseException:
            self.not_answered(trial)
            raise
        if granted:
            self._trials.keep(trial)
        else:
            self.not_answered(trial)

    def answered(self, trial: Trial, answer: tuple[bool, str, str]) -> bool:
        """Take notice of the answer: whether this is a trial; ``CircuitOpen`` if it is neither that nor closed."""
        if answer[0]:
            return True
        self.not_answered(trial)
        if answer[2] == CLOSED:
            return False
        self._ask_again = self._world.monotonic() + _ASK_AGAIN
        raise self.refusal(_ASK_AGAIN)

    def not_answered(self, trial: Trial) -> None:
        """Give up asking."""
        self._trials.end(trial)

    def succeeded(self, trial: Trial) -> None:
        """Tell that a trial succeeded."""
        self._ended(
            trial,
            lambda store: store.record_success_with_close_check(self.name, self.policy.successes, token=trial.token),
        )

    def failed_trial(self, trial: Trial, error: BaseException | None) -> None:
        """Tell that a trial failed."""
        self._reason = reason = "a trial failed" if error is None else f"a trial failed: {type(error).__name__}"
        self._tell("failed", HALF_OPEN, HALF_OPEN, error=error)
        self._ended(
            trial,
            lambda store: store.record_failure_with_open_check(
                self.name, open_time=self.policy.open_time, error=reason, token=trial.token
            ),
        )

    def released(self, trial: Trial) -> None:
        """Tell that a trial came to nothing."""
        self._ended(trial, lambda store: store.release_half_open_slot(self.name, token=trial.token))

    def _store(self, trial: Trial) -> AsyncCircuitBreakerStateRepository:
        return self.sharing.store if trial.is_shared and self.sharing is not None else self._own

    def _ended(
        self, trial: Trial, message: Callable[[AsyncCircuitBreakerStateRepository], Coroutine[Any, Any, Any]]
    ) -> None:
        self.not_answered(trial)
        if trial.is_shared and self.sharing is not None:
            with suppress(Unavailable):  # the repository was closed meanwhile: nobody is left to be told
                self.sharing.tell(message(self.sharing.store))
        else:
            run_sync(message(self._own))

    def refusal(self, retry_after: float | None) -> CircuitOpen:
        """Return the error for a call that is not made."""
        self.rejected += 1
        view = self.current
        self._tell("rejected", view.state, view.state)
        left = max(0.0, retry_after or 0.0)
        when = "" if retry_after is None else f"; try again in {f'{left:.3g}' if left < 100 else round(left)} s"
        why = f" ({view.reason})" if view.is_pinned(self._world.monotonic()) and view.reason else ""
        state = view.state.replace("_", "-")
        return CircuitOpen(
            f"The circuit breaker {self.name!r} is {state}{why}, so the call was not made{when}.",
            service_name=self.name,
            state=view.state,
            retry_after=None if retry_after is None else max(0.0, retry_after),
        )

    def _own_seen(self, view: View) -> None:
        self._own_view = view
        self._update()

    def _shared_seen(self, view: View) -> None:
        before, self._shared_view = self._shared_view, view
        if self.away is not None or not self.ready:
            self._back(view)
        elif self._own_view.state != CLOSED and self._has_decided(before, view):
            run_sync(self._own.reset(self.name))
        if view.state != before.state or view.epoch != before.epoch:
            self._ask_again = float("-inf")
            self._trials.keep_none()
        self._know()
        self._update()

    def _has_decided(self, before: View, view: View) -> bool:
        """Whether the fleet has, or its operator: it is not closed, or pinned, or was closed anew since."""
        if view.state != CLOSED or view.is_pinned(self._world.monotonic()):
            return True
        return before.epoch is not None and view.epoch != before.epoch

    def _know(self) -> None:
        self.ready = True
        if not self.known.done():
            self.known.set_result(None)

    def lost(self, error: Exception) -> None:
        """Take notice that the repository does not answer: everything is decided here until it does."""
        if self.away is not None:
            return
        self.away = error
        view, now = self._shared_view, self._world.monotonic()
        if view.state != CLOSED or view.is_pinned(now):
            self._adopted = True
            run_sync(self._adopt(view, now))
        self._tell("storage_away", self._told, self._told, error=error)
        self._know()
        self._update()

    async def _adopt(self, view: View, now: float) -> None:
        """Go on from what was known of the fleet's record."""
        if view.is_pinned(now):
            forever = view.pinned_until == float("inf")
            force = self._own.atomic_force_close if view.state == CLOSED else self._own.atomic_force_open
            await force(self.name, view.reason, ttl_minutes=None if forever else (view.pinned_until - now) / 60)
        else:
            left = timedelta(seconds=max(0.0, view.due - now)) if view.state == OPEN else timedelta(0)
            await self._own.trip_to_open(self.name, open_time=OpenTime(base=left))

    def _back(self, view: View) -> None:
        """Go by the fleet's record again; what was seen here meanwhile is reported."""
        was_away, self.away = self.away, None
        unreported = self._own_view.state != CLOSED and view.state == CLOSED and not self._adopted
        self._adopted = False
        if unreported and self.sharing is not None:
            self.sharing.tell(self._report(0, "opened before the storage could be asked"))
        else:
            run_sync(self._own.reset(self.name))
        if was_away is not None:
            self._tell("storage_back", self._told, self._told)

    def _update(self) -> None:
        """Tell who must know that something has changed: first the breaker, which goes by it while listeners run."""
        state = self.current.state
        with self._lock:
            before, self._told = self._told, state
        self._changed()
        if state != before:
            self.opened += state == OPEN
            if state == CLOSED:
                self._forget()
            self._tell(_KINDS[state], before, state, reason=self._reason if state == OPEN else "")

    def _tell(
        self, kind: EventKind, before: str, after: str, *, reason: str = "", error: BaseException | None = None
    ) -> None:
        self._listeners.tell(BreakerEvent(self.name, kind, before, after, reason, error))


__all__ = ["Standing"]
