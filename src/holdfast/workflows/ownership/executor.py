"""Who this executor is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Executor:
    """One process start that runs workflows.

    The incarnation, by which it owns runs, changes when the database has forgotten or taken back the old one.
    """

    executor_id: str
    application_version: str
    incarnation: str
    lease: float  # seconds
    queues: frozenset[str] = frozenset()  # those it listens to; none for all there are


__all__ = ["Executor"]
