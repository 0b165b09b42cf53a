"""The named queries of locks, in the dialect of a database."""

from functools import partial
from pathlib import Path

from holdfast.db.queries.queries import Queries

lock_queries = partial(Queries.load, folder=Path(__file__).with_name("sql"))
