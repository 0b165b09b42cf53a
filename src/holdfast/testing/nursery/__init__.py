"""Programs as processes that need not import anything first: forks of one process that has."""

from holdfast.testing.nursery.nursery import Child, Nursery

__all__ = ["Child", "Nursery"]
