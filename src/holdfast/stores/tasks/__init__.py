"""The task queue: tasks that wait in named queues for a worker, in a database or in Redis."""

from holdfast.stores.tasks.queries import tasks_queries

__all__ = ["tasks_queries"]
