"""``CircuitBreakerStateRepository``: the documented face of a storage of breakers, for code without an event loop.

Whoever writes one of one's own has the documented calls to write that are abstract. What stands on them here reads
first and writes then: of several who race more than one may win, so that a storage which can decide in one step does.
Ours all do.
"""

# ruff: noqa: ARG002 -- what a storage of one's own does not keep is told to it all the same

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.core.numbers import count
from holdfast.errors import MisuseError
from holdfast.model.breaker import (
    CLOSED,
    HALF_OPEN,
    OPEN,
    CircuitBreakerCloseAttempt,
    CircuitBreakerOpenAttempt,
)

if TYPE_CHECKING:
    from datetime import timedelta

    from holdfast.model.breaker import CircuitBreakerChange, CircuitBreakerStateData, OpenTime


class CircuitBreakerStateRepository(ABC):
    """The state of circuit breakers by the name of the service they guard.

    Every change is atomic: it is made whole or not at all, and of several who race one wins. Times are the storage's.
    ``token`` names a half-open slot; without it the slot that the same task or thread has acquired is meant.
    """

    @abstractmethod
    def get_or_create(self, service_name: str) -> CircuitBreakerStateData:
        """Return the state; a breaker that is not there is made, closed."""

    @abstractmethod
    def get_by_service_name(self, service_name: str) -> CircuitBreakerStateData | None:
        """Return the state, or None if there is no such breaker."""

    @abstractmethod
    def get_all_states(self) -> list[CircuitBreakerStateData]:
        """Return all breakers by name; meant for up to about a thousand of them."""

    def get_open_states(self, limit: int | None = None) -> list[CircuitBreakerStateData]:
        """Return the breakers that are open, the one that has been open longest first; at most *limit*."""
        most = None if limit is None else count(limit, "limit")
        return sorted((each for each in self.get_all_states() if each.is_open), key=by_age)[:most]

    def get_history(self, service_name: str, limit: int = 100) -> list[CircuitBreakerChange]:
        """Return the last changes of state and of manual control, newest first; at least 500 are kept."""
        return []

    @abstractmethod
    def update_state(
        self,
        service_name: str,
        state: str,
        failure_count: int | None = None,
        success_count: int | None = None,
        opened_at: datetime | None = None,
        last_failure_at: datetime | None = None,
        half_open_request_count: int | None = None,
        reset_half_open_count: bool = False,
    ) -> bool:
        """Write what is given and leave the rest, manual control too; False if there is no such breaker.

        *reset_half_open_count* forgets all trials, and wins over *half_open_request_count*.
        """

    @abstractmethod
    def record_failure(self, service_name: str, *, token: str | None = None) -> CircuitBreakerStateData:
        """Count a failure and return the new state, which is as open or closed as before."""

    @abstractmethod
    def record_success(self, service_name: str, *, token: str | None = None) -> CircuitBreakerStateData:
        """Count a success and return the new state, which is as open or closed as before."""

    def record_success_with_close_check(
        self, service_name: str, success_threshold: int, *, token: str | None = None
    ) -> CircuitBreakerCloseAttempt:
        """Count a success, and close a half-open breaker that has *success_threshold* of them.

        ``did_close`` is True for the one caller that closed it. A pinned breaker is not closed.
        """
        enough = count(success_threshold, "success_threshold")
        state = self.record_success(service_name)
        if not state.is_half_open or state.success_count < enough or state.is_pin_active(datetime.now(UTC)):
            return CircuitBreakerCloseAttempt(state, did_close=False)
        closed = self.update_state(service_name, CLOSED, failure_count=0, success_count=0, reset_half_open_count=True)
        return CircuitBreakerCloseAttempt(self.get_or_create(service_name), did_close=closed)

    def record_failure_with_open_check(
        self, service_name: str, *, open_time: OpenTime | None = None, error: str = "", token: str | None = None
    ) -> CircuitBreakerOpenAttempt | None:
        """Open a half-open breaker, since a trial failed; any other is left as it is. None if there is none.

        ``did_open`` is True for the one caller that opened it.
        """
        state = self.get_by_service_name(service_name)
        return None if state is None else self._opened(state, HALF_OPEN, 0)

    def trip_to_open(
        self,
        service_name: str,
        failure_count: int = 0,
        *,
        open_time: OpenTime | None = None,
        error: str = "",
        reporter: str = "",
        quorum: int = 1,
        within: timedelta | None = None,
    ) -> CircuitBreakerOpenAttempt:
        """Open a closed breaker, once *quorum* different reporters have asked for it *within* that time.

        A breaker that is pinned, open or half-open is left as it is. ``did_open`` is True for the one caller that
        opened it.
        """
        if count(quorum, "quorum") > 1:
            raise MisuseError(
                f"{type(self).__name__} gathers no quorum: it is a repository of one's own whose trip_to_open() is the "
                "one that all have. Give it one, or use a repository that holdfast.stores has."
            )
        return self._opened(self.get_or_create(service_name), CLOSED, count(failure_count, "failure_count"))

    @abstractmethod
    def set_manual_control(
        self,
        service_name: str,
        state: str,
        controlled_by_id: int | None = None,
        reason: str = "",
        expires_at: datetime | None = None,
        *,
        controlled_by: str = "",
    ) -> bool:
        """Pin the breaker in *state* until *expires_at*, or until somebody says otherwise; made if it is not there."""

    @abstractmethod
    def clear_manual_control(self, service_name: str, preserve_reason: bool = False) -> bool:
        """Take a pin off, without a change of state; False if there is no such breaker."""

    @abstractmethod
    def reset(self, service_name: str) -> bool:
        """Close the breaker, forget what was counted and any pin; False if there is no such breaker."""

    @abstractmethod
    def delete_state(self, service_name: str) -> bool:
        """Remove the breaker and its history; False if there is none."""

    @abstractmethod
    def atomic_force_open(
        self,
        service_name: str,
        reason: str = "",
        controlled_by_id: int | None = None,
        ttl_minutes: float | None = 90,
        *,
        controlled_by: str = "",
    ) -> tuple[bool, str, str]:
        """Open the breaker and pin it for *ttl_minutes*; None, or 0 and less, is for ever. Made if it is not there.

        Return whether it was done, the state before, and the state after.
        """

    @abstractmethod
    def atomic_force_close(
        self,
        service_name: str,
        reason: str = "",
        controlled_by_id: int | None = None,
        *,
        ttl_minutes: float | None = None,
        controlled_by: str = "",
    ) -> tuple[bool, str, str]:
        """Close the breaker and pin it, for ever unless *ttl_minutes* says for how long. Made if it is not there.

        Return whether it was done, the state before, and the state after.
        """

    @abstractmethod
    def atomic_reset(
        self, service_name: str, reason: str = "", controlled_by_id: int | None = None, *, controlled_by: str = ""
    ) -> tuple[bool, str, str]:
        """Close the breaker, forget what was counted and any pin, and keep the reason.

        Return whether it was done, the state before, and the state after: ``(False, "", "")`` if there is none.
        """

    @abstractmethod
    def try_acquire_half_open_slot(
        self,
        service_name: str,
        limit: int,
        stuck_timeout_seconds: float,
        *,
        token: str | None = None,
        epoch: int | None = None,
    ) -> tuple[bool, str, str]:
        """Begin a trial, if fewer than *limit* are under way; an open breaker becomes half-open.

        Whoever calls has made sure that an open breaker's time is over; with *epoch* it is refused if it has opened
        anew since that one. Trials whose holders have been silent for longer than *stuck_timeout_seconds* give up
        their slots when no other is left. Return whether a slot was acquired, the state before, and the state after.
        """

    def release_half_open_slot(self, service_name: str, *, token: str | None = None) -> bool:
        """End a trial that came to nothing; False if its slot is not held any more."""
        state = self.get_by_service_name(service_name)
        if state is None or not state.is_half_open or not state.half_open_request_count:
            return False
        left = state.half_open_request_count - 1
        return self.update_state(service_name, HALF_OPEN, half_open_request_count=left)

    @abstractmethod
    def reset_half_open_count(self, service_name: str) -> None:
        """Forget all trials, without a change of state; nothing happens if there is no such breaker."""

    def _opened(self, state: CircuitBreakerStateData, before: str, failures: int) -> CircuitBreakerOpenAttempt:
        """Open a breaker that is as *before*, and that no operator has pinned."""
        now = datetime.now(UTC)
        if state.state != before or state.is_pin_active(now):
            return CircuitBreakerOpenAttempt(state, did_open=False)
        name = state.service_name
        did_open = self.update_state(name, OPEN, failures, 0, now, now, reset_half_open_count=True)
        return CircuitBreakerOpenAttempt(self.get_or_create(name), did_open=did_open)


def by_age(state: CircuitBreakerStateData) -> tuple[bool, datetime, str]:
    """Return by what open breakers are put in order: unknown ages first, then the longest open."""
    return state.opened_at is not None, state.opened_at or datetime.max.replace(tzinfo=UTC), state.service_name


__all__ = ["CircuitBreakerStateRepository", "by_age"]
