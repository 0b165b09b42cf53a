"""Streams and dispatch state, held to their contract on every database and in both colours."""

from holdfast.testing.contract.workflows_streams import StreamsContract
from holdfast.testing.contract.workflows_streams_changes import DispatchStateContract, StreamsOfChangedRunsContract
from holdfast.testing.contract.workflows_streams_readers import StreamReadersContract
from holdfast.testing.contract.workflows_streams_steps import StreamsOfStepsContract


class TestStreams(StreamsContract, StreamsOfStepsContract):
    """One suite, every shared column of the table in ``conftest``."""


class TestStreamReaders(StreamReadersContract):
    """Those who read, likewise."""


class TestStreamsOfChangedRuns(StreamsOfChangedRunsContract, DispatchStateContract):
    """What is done to runs from outside, likewise."""
