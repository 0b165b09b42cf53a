"""Decisions, with no I/O and no clock: pure functions and state tables."""
