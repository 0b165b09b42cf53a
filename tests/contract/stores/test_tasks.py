"""Task queues, held to their contract on every backend and in both colours."""

from __future__ import annotations

from holdfast.testing.contract.store_task_leases import TaskLeasesContract
from holdfast.testing.contract.store_task_worker import TaskWorkerContract
from holdfast.testing.contract.store_task_worker_executors import WorkersAreExecutorsContract
from holdfast.testing.contract.store_tasks import TaskQueueContract

BACKENDS = ("sqlite", "postgres", "mariadb", "redis")


class TestTaskQueue(TaskQueueContract, TaskLeasesContract):
    """One suite, every column."""


class TestTaskWorker(TaskWorkerContract, WorkersAreExecutorsContract):
    """One suite, every column."""
