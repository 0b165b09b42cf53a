"""Executions: which runs there are, and what became of them.

A run is pending, then completed or failed, and then rests: what has ended does not change any more.
"""
