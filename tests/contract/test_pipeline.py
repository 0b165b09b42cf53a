"""The commit pipeline, held to its contract on every backend and in both colours."""

from holdfast.testing.contract import PipelineContract


class TestPipeline(PipelineContract):
    """One suite, every column of the table in ``conftest``."""
