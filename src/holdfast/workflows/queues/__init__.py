"""Queues: their settings, what waits in them, and how it is claimed within their limits."""

from holdfast.workflows.queries import queue_queries
from holdfast.workflows.queues.claimed import Claimed
from holdfast.workflows.queues.claims import Claims
from holdfast.workflows.queues.settings import QueueSettings
from holdfast.workflows.queues.store import QueueStore
from holdfast.workflows.queues.survey import Survey, Surveys

__all__ = ["Claimed", "Claims", "QueueSettings", "QueueStore", "Survey", "Surveys", "queue_queries"]
