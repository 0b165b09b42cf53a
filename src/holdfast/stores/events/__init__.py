"""The event log: streams of events, each numbered from 1 without gaps.

A stream has a row of its own with its last number, which an append holds until it is committed. So every append
succeeds, a number is never seen before those below it, and streams count on when old events are deleted.
"""
