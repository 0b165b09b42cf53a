"""The named queries of runs, in the dialect of a database: one loader for each folder ``sql`` in this room.

Each folder keeps its SQL beside the code that uses it. The queries of transactions, which may be in another database,
are loaded by ``transactions/queries.py``.
"""

from functools import partial
from pathlib import Path

from holdfast.db.queries.queries import Queries

_ROOM = Path(__file__).parent

workflow_queries = partial(Queries.load, folder=_ROOM / "sql")
control_queries = partial(Queries.load, folder=_ROOM / "control/sql")
dispatch_state_queries = partial(Queries.load, folder=_ROOM / "dispatch_state/sql")
looking_queries = partial(Queries.load, folder=_ROOM / "looking/sql")
messaging_queries = partial(Queries.load, folder=_ROOM / "messaging/sql")
parking_queries = partial(Queries.load, folder=_ROOM / "parking/sql")
queue_queries = partial(Queries.load, folder=_ROOM / "queues/sql")
retention_queries = partial(Queries.load, folder=_ROOM / "retention/sql")
schedule_queries = partial(Queries.load, folder=_ROOM / "schedules/sql")
stream_queries = partial(Queries.load, folder=_ROOM / "streams/sql")
