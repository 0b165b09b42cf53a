"""A queue as it is stored: its limits, and who is to be served next."""

from __future__ import annotations

from dataclasses import dataclass

RESERVED_PREFIX = "_holdfast_"
DEFAULT_POLLING_INTERVAL = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The settings of a queue, with the documented names; a limit that is None is none. Times are milliseconds.

    *concurrency* is how many of its runs may be PENDING at once, anywhere; *worker_concurrency* in one process. At most
    *rate_limit_max* runs leave it within any *rate_limit_period_sec*. With *partition_queue* the partitions take turns,
    and the ``partition_`` limits hold for each. *turn* is the partition that was served last.
    """

    queue_id: str
    name: str
    concurrency: int | None = None
    worker_concurrency: int | None = None
    rate_limit_max: int | None = None
    rate_limit_period_sec: float | None = None
    priority_enabled: bool = False
    partition_queue: bool = False
    partition_concurrency: int | None = None
    partition_rate_limit_max: int | None = None
    partition_rate_limit_period_sec: float | None = None
    polling_interval_sec: float = DEFAULT_POLLING_INTERVAL
    paused: bool = False
    turn: str | None = None
    created_at: int = 0
    updated_at: int = 0

    @property
    def is_shared(self) -> bool:
        """Whether its claims must be counted together: it has a limit for all processes, or partitions take turns."""
        return self.partition_queue or self.concurrency is not None or self.rate_limit_max is not None
