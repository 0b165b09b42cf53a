"""What an application says once about its engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from holdfast.model.world import RealWorld, World
from holdfast.resilience.letters import DEFAULT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.serialize import Serialization

DeadLetterPolicy = Literal["exhausted", "errors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What an application says once about its engine."""

    url: str
    name: str
    executor_id: str
    application_version: str | None
    compatible_versions: Sequence[str]
    lease: float
    schema: str
    serialization: Serialization
    max_workflow_threads: int
    max_runs: int
    max_run_bytes: int
    put_away_after: float
    notify: bool
    dead_letters: DeadLetterPolicy = "exhausted"
    mask_fields: tuple[str, ...] = ()
    dead_letter_bytes: int = DEFAULT_BYTES
    connection: dict[str, Any] = field(default_factory=dict)
    world: World = field(default_factory=RealWorld)
    clock_offset_ms: str | None = None
