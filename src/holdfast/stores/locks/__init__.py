"""Locks that many processes share, with leases and fencing tokens, in a database or in Redis."""

from holdfast.stores.locks.queries import lock_queries

__all__ = ["lock_queries"]
