"""What every backend must do, as suites that any backend can be held to.

A suite is a class of plain test methods that take one fixture, ``venue``: a database, and the colour in which the
library is called there. Whoever brings a backend subclasses the suite and provides the fixture::

    class TestConnectionOnCockroach(ConnectionContract):
        @pytest.fixture(params=list(Colour))
        def venue(self, request):
            return Venue("cockroach", url, Colour(request.param))

A backend that cannot do a thing says so in its ``Venue``; the test then asserts the refusal that the documentation
promises, and is not skipped. The database may hold other tables, but nobody else may use it during a test.
"""

from holdfast.testing.colours import Colour
from holdfast.testing.contract.connection import ConnectionContract
from holdfast.testing.contract.pipeline import PipelineContract
from holdfast.testing.contract.venue import Venue

__all__ = ["Colour", "ConnectionContract", "PipelineContract", "Venue"]
