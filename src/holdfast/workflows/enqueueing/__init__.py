"""Putting runs in queues."""
