"""Putting a run in a queue within a transaction of the user's own."""
