"""The named queries of the event log, in the dialect of a database."""

from functools import partial
from pathlib import Path

from holdfast.db.queries.queries import Queries

event_queries = partial(Queries.load, folder=Path(__file__).with_name("sql"))
