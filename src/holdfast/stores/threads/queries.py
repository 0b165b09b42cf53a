"""The named SQL of conversation threads."""

from functools import partial
from pathlib import Path

from holdfast.db.queries.queries import Queries

thread_queries = partial(Queries.load, folder=Path(__file__).with_name("sql"))
