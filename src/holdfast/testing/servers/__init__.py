"""Real PostgreSQL, MariaDB and Redis servers for tests: private ones, or running ones that are named.

::

    with PostgresServer() as server:
        url = server.create_database()
        ...
        server.kill()
        server.start()
"""

from holdfast.testing.servers.databases import databases_of
from holdfast.testing.servers.fleet import KINDS, Fleet
from holdfast.testing.servers.given import VARIABLES, GivenServer
from holdfast.testing.servers.mariadb import MariaDBServer
from holdfast.testing.servers.postgres import PostgresServer, newest_postgres, packaged_postgres
from holdfast.testing.servers.redis import RedisServer
from holdfast.testing.servers.server import Server

__all__ = [
    "KINDS",
    "VARIABLES",
    "Fleet",
    "GivenServer",
    "MariaDBServer",
    "PostgresServer",
    "RedisServer",
    "Server",
    "databases_of",
    "newest_postgres",
    "packaged_postgres",
]
