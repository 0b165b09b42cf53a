"""Checkpoints of conversation threads: what an agent framework's own saver keeps, on our databases."""

from holdfast.stores.threads.queries import thread_queries
from holdfast.stores.threads.reading import incomplete
from holdfast.stores.threads.records import Found, LargeValue, Place, Saved, Span, Write
from holdfast.stores.threads.sql_threads import SQLThreads
from holdfast.stores.threads.threads import Threads
from holdfast.stores.threads.walking import Walk

__all__ = [
    "Found",
    "LargeValue",
    "Place",
    "SQLThreads",
    "Saved",
    "Span",
    "Threads",
    "Walk",
    "Write",
    "incomplete",
    "thread_queries",
]
