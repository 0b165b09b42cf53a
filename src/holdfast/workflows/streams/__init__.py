"""Streams of runs: appended to by workflows and steps, read by anybody while they grow and after."""

from holdfast.workflows.queries import stream_queries
from holdfast.workflows.streams.reading import AsyncStreamReader, StreamReader, StreamReset
from holdfast.workflows.streams.store import StreamState, StreamStore

__all__ = ["AsyncStreamReader", "StreamReader", "StreamReset", "StreamState", "StreamStore", "stream_queries"]
