"""The database: connections, named SQL, migrations and the commit pipeline.

``ConnectionManager`` (or ``SyncConnectionManager`` for code without an event loop) is the door users have; the rest
of the package stands on ``Pipeline``.
"""

from holdfast.db.blocking.sync import SyncConnectionManager, SyncTransaction
from holdfast.db.manager import ConnectionManager
from holdfast.db.pipeline.operation import Kind
from holdfast.db.pipeline.pipeline import Pipeline
from holdfast.db.session import Transaction
from holdfast.db.url import DatabaseURL, DialectName

__all__ = [
    "ConnectionManager",
    "DatabaseURL",
    "DialectName",
    "Kind",
    "Pipeline",
    "SyncConnectionManager",
    "SyncTransaction",
    "Transaction",
]
