"""Repositories of circuit breakers, held to their contract on every backend and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_breakers import BreakerStates, BreakerTransitions
from holdfast.testing.contract.store_breakers_agreement import BreakerAgreement
from holdfast.testing.contract.store_breakers_door import BreakerDoor
from holdfast.testing.contract.store_breakers_pins import BreakerPins
from holdfast.testing.contract.store_breakers_slots import BreakerSlots

BACKENDS = ("memory", "sqlite", "postgres", "mariadb", "redis")


class TestStates(BreakerStates):
    """One suite, every column."""


class TestTransitions(BreakerTransitions):
    """One suite, every column."""


class TestPins(BreakerPins):
    """One suite, every column."""


class TestSlots(BreakerSlots):
    """One suite, every column."""


class TestAgreement(BreakerAgreement):
    """One suite, every column."""


class TestDoor(BreakerDoor):
    """One suite, every column."""
