"""Every change of a breaker as an event of the core: what all storages of ours share, so that none can disagree."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, cast

from holdfast.core.breaker import Delete, Event, GetOrCreate, Reset, Trip, UpdateState
from holdfast.core.breaker_pins import AtomicReset, ClearManualControl, ForceClose, ForceOpen, SetManualControl
from holdfast.core.breaker_slots import (
    AcquireSlot,
    CloseCheck,
    OpenCheck,
    RecordFailure,
    RecordSuccess,
    ReleaseSlot,
    ResetHalfOpenCount,
)
from holdfast.core.numbers import count
from holdfast.model.breaker import OPEN
from holdfast.stores.breakers import door
from holdfast.stores.breakers.held import HeldSlots
from holdfast.stores.breakers.interface import AsyncCircuitBreakerStateRepository
from holdfast.stores.opened import Opened

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from holdfast.model.breaker import (
        CircuitBreakerCloseAttempt,
        CircuitBreakerOpenAttempt,
        CircuitBreakerStateData,
        OpenTime,
    )
    from holdfast.model.world import World
    from holdfast.stores.breakers.documents import Applied


class Deciding(Opened, AsyncCircuitBreakerStateRepository):
    """A repository whose storage can do one thing: apply an event to a breaker, atomically."""

    def __init__(self, world: World, scope: str) -> None:
        self._world = world
        self._held = HeldSlots(scope)

    @abstractmethod
    async def apply(self, service_name: str, event: Event) -> Applied:
        """Do what the core decides about *event*, atomically, once, and in the order of all others."""

    async def _answer(self, service_name: str, event: Event) -> Any:
        return (await self.apply(door.name(service_name), event)).answer

    async def get_or_create(self, service_name: str) -> CircuitBreakerStateData:
        known = await self.get_by_service_name(service_name)
        if known is not None:
            return known
        return cast("CircuitBreakerStateData", await self._answer(service_name, GetOrCreate()))

    async def update_state(
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
        event = UpdateState(
            door.state(state),
            door.count(failure_count, "failure_count"),
            door.count(success_count, "success_count"),
            door.moment(opened_at, "opened_at"),
            door.moment(last_failure_at, "last_failure_at"),
            door.count(half_open_request_count, "half_open_request_count"),
            reset_half_open_count,
        )
        answer: bool = await self._answer(service_name, event)
        if reset_half_open_count:
            self._held.forget(service_name)
        return answer

    async def record_failure(self, service_name: str, *, token: str | None = None) -> CircuitBreakerStateData:
        event = RecordFailure(self._token(service_name, token), token is not None)
        return cast("CircuitBreakerStateData", await self._answer(service_name, event))

    async def record_success(self, service_name: str, *, token: str | None = None) -> CircuitBreakerStateData:
        event = RecordSuccess(self._token(service_name, token), token is not None)
        return cast("CircuitBreakerStateData", await self._answer(service_name, event))

    async def record_success_with_close_check(
        self, service_name: str, success_threshold: int, *, token: str | None = None
    ) -> CircuitBreakerCloseAttempt:
        threshold = count(success_threshold, "success_threshold")
        event = CloseCheck(threshold, self._token(service_name, token), token is not None)
        return cast("CircuitBreakerCloseAttempt", await self._answer(service_name, event))

    async def record_failure_with_open_check(
        self, service_name: str, *, open_time: OpenTime | None = None, error: str = "", token: str | None = None
    ) -> CircuitBreakerOpenAttempt | None:
        times, said = door.open_time(open_time), door.text(error, "error")
        event = OpenCheck(times, self._world.random.random(), said, self._token(service_name, token))
        return cast("CircuitBreakerOpenAttempt | None", await self._answer(service_name, event))

    async def trip_to_open(
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
        event = Trip(
            count(failure_count, "failure_count"),
            door.open_time(open_time),
            self._world.random.random(),
            door.text(reporter, "reporter"),
            count(quorum, "quorum"),
            door.within(within),
            door.text(error, "error"),
        )
        return cast("CircuitBreakerOpenAttempt", await self._answer(service_name, event))

    async def set_manual_control(
        self,
        service_name: str,
        state: str,
        controlled_by_id: int | None = None,
        reason: str = "",
        expires_at: datetime | None = None,
        *,
        controlled_by: str = "",
    ) -> bool:
        event = SetManualControl(
            door.state(state),
            door.operator(controlled_by_id),
            door.text(reason, "reason"),
            door.moment(expires_at, "expires_at"),
            door.text(controlled_by, "controlled_by"),
        )
        return cast("bool", await self._answer(service_name, event))

    async def clear_manual_control(self, service_name: str, preserve_reason: bool = False) -> bool:
        return cast("bool", await self._answer(service_name, ClearManualControl(preserve_reason)))

    async def reset(self, service_name: str) -> bool:
        return cast("bool", await self._answer(service_name, Reset()))

    async def delete_state(self, service_name: str) -> bool:
        return cast("bool", await self._answer(service_name, Delete()))

    async def atomic_force_open(
        self,
        service_name: str,
        reason: str = "",
        controlled_by_id: int | None = None,
        ttl_minutes: float | None = 90,
        *,
        controlled_by: str = "",
    ) -> tuple[bool, str, str]:
        event = ForceOpen(
            door.text(reason, "reason"),
            door.operator(controlled_by_id),
            door.minutes(ttl_minutes),
            door.text(controlled_by, "controlled_by"),
        )
        return cast("tuple[bool, str, str]", await self._answer(service_name, event))

    async def atomic_force_close(
        self,
        service_name: str,
        reason: str = "",
        controlled_by_id: int | None = None,
        *,
        ttl_minutes: float | None = None,
        controlled_by: str = "",
    ) -> tuple[bool, str, str]:
        event = ForceClose(
            door.text(reason, "reason"),
            door.operator(controlled_by_id),
            door.minutes(ttl_minutes),
            door.text(controlled_by, "controlled_by"),
        )
        return cast("tuple[bool, str, str]", await self._answer(service_name, event))

    async def atomic_reset(
        self, service_name: str, reason: str = "", controlled_by_id: int | None = None, *, controlled_by: str = ""
    ) -> tuple[bool, str, str]:
        who = door.operator(controlled_by_id)
        event = AtomicReset(door.text(reason, "reason"), who, door.text(controlled_by, "controlled_by"))
        return cast("tuple[bool, str, str]", await self._answer(service_name, event))

    async def try_acquire_half_open_slot(
        self,
        service_name: str,
        limit: int,
        stuck_timeout_seconds: float,
        *,
        token: str | None = None,
        epoch: int | None = None,
    ) -> tuple[bool, str, str]:
        mine = door.token(token) or self._world.new_id()
        event = AcquireSlot(count(limit, "limit"), door.stuck(stuck_timeout_seconds), mine, epoch)
        answer: tuple[bool, str, str] = await self._answer(service_name, event)
        if answer[0] and token is None:
            self._held.hold(service_name, mine, 1 if answer[1] == OPEN else limit)
        return answer

    async def release_half_open_slot(self, service_name: str, *, token: str | None = None) -> bool:
        mine = self._token(service_name, token)
        return mine is not None and cast("bool", await self._answer(service_name, ReleaseSlot(mine)))

    async def reset_half_open_count(self, service_name: str) -> None:
        await self._answer(service_name, ResetHalfOpenCount())
        self._held.forget(service_name)

    def _token(self, service_name: str, token: str | None) -> str | None:
        """Return the slot whose outcome this is, if it is a trial's."""
        return self._held.take(service_name) if token is None else door.token(token)


__all__ = ["Deciding"]
