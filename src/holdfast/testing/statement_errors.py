"""Errors of a real server at the n-th statement: triggers on the engine's tables that count, and raise when told to.

The server itself raises them, inside the engine's own statements, with the code it would use for a deadlock, a
serialization failure, a lock that was waited for too long, or a full disk. What was counted stays counted when the
statement is rolled back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.testing.stage import Stage

TABLES = ("runs", "steps", "executors")
FOR_EVER = 1 << 62

# In the schema "public" by name: the test server's user has the name of the engine's schema, and would make them there.
_POSTGRES = [
    "CREATE TABLE public.statement_errors (first_call bigint NOT NULL, last_call bigint NOT NULL, code text NOT NULL)",
    "INSERT INTO public.statement_errors VALUES (0, 0, '00000')",
    "CREATE SEQUENCE public.statement_calls MINVALUE 0 START 0",
    """
    CREATE FUNCTION public.statement_error() RETURNS trigger LANGUAGE plpgsql AS $body$
    DECLARE
        call bigint := nextval('public.statement_calls');
        armed record;
    BEGIN
        SELECT * INTO armed FROM public.statement_errors;
        IF call BETWEEN armed.first_call AND armed.last_call THEN
            RAISE EXCEPTION 'raised by a test' USING ERRCODE = armed.code;
        END IF;
        RETURN NULL;
    END $body$
    """,
    "SELECT nextval('public.statement_calls')",
]
_POSTGRES_TRIGGER = (
    "CREATE TRIGGER statement_error BEFORE INSERT OR UPDATE OR DELETE ON {table}"
    " FOR EACH STATEMENT EXECUTE FUNCTION public.statement_error()"
)

_MARIADB = [
    "CREATE TABLE statement_errors (first_call bigint NOT NULL, last_call bigint NOT NULL, code int NOT NULL)",
    "INSERT INTO statement_errors VALUES (0, 0, 0)",
    "CREATE SEQUENCE statement_calls START WITH 1 NOCACHE",
]
_MARIADB_TRIGGER = """
    CREATE TRIGGER statement_error_{name}_{event} BEFORE {event} ON {table} FOR EACH ROW BEGIN
        DECLARE seen, first_one, last_one bigint;
        DECLARE wanted int;
        SET seen = NEXTVAL(statement_calls);
        SELECT first_call, last_call, code INTO first_one, last_one, wanted FROM statement_errors;
        IF seen BETWEEN first_one AND last_one THEN
            SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = wanted, MESSAGE_TEXT = 'raised by a test';
        END IF;
    END
"""


class StatementErrors:
    """Makes the database of *scene* raise; its tables must be there. PostgreSQL counts statements, MariaDB rows."""

    def __init__(self, scene: Stage, *tables: str) -> None:
        self._scene = scene
        self._postgres = scene.url.startswith("postgresql")
        self._schema = "public." if self._postgres else ""
        self._armed = (0, 0)
        for statement in _POSTGRES if self._postgres else _MARIADB:
            scene.execute(statement)
        for table in tables or TABLES:
            for trigger in self._triggers(table):
                scene.execute(trigger)

    @property
    def calls(self) -> int:
        """How many writes have been counted."""
        column = "last_value" if self._postgres else "next_not_cached_value - 1"
        [row] = self._scene.fetch(f"SELECT {column} AS calls FROM {self._schema}statement_calls")
        return int(row["calls"])

    @property
    def raised(self) -> int:
        """How often the armed error has been raised."""
        first, last = self._armed
        return max(0, min(self.calls, last) - first + 1)

    def arm(self, code: str | int, *, at: int = 1, times: int = 1) -> None:
        """Raise *code* at the *at*-th write from now, and so often: an SQLSTATE, or MariaDB's number."""
        first = self.calls + at
        self._armed = (first, first + times - 1)
        arm = f"UPDATE {self._schema}statement_errors SET first_call = ?, last_call = ?, code = ?"
        self._scene.execute(arm, *self._armed, code)

    def disarm(self) -> None:
        """Raise nothing more; ``raised`` stays."""
        self._armed = (self._armed[0], min(self._armed[1], self.calls))
        self._scene.execute(f"UPDATE {self._schema}statement_errors SET first_call = 0, last_call = 0")

    def _triggers(self, table: str) -> list[str]:
        if self._postgres:
            return [_POSTGRES_TRIGGER.replace("{table}", f"{{{table}}}")]
        return [
            _MARIADB_TRIGGER.replace("{table}", f"{{{table}}}").replace("{name}", table).replace("{event}", event)
            for event in ("INSERT", "UPDATE", "DELETE")
        ]
