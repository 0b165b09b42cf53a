"""Every error Holdfast raises, as one tree.

::

    HoldfastError
    ├── ConfigurationError          what was asked for cannot be set up as written
    │   ├── InvalidURL              a database URL that names no database
    │   ├── DriverMissing           the extra with the driver is not installed
    │   ├── InvalidIdentifier       a table, schema or column name that is not allowed
    │   ├── InvalidSchedule         a cron expression or time zone that cannot be read
    │   └── InvalidDuration         a number of seconds that makes no sense where it was given
    ├── DatabaseError               the database refused, or could not be reached
    │   ├── Unavailable             no connection could be made: unreachable, refused login, pool exhausted
    │   ├── Conflict                the write collides with a row that is there
    │   ├── TooLong                 a value is longer than its column holds
    │   ├── Retryable               nothing was written; the same call may succeed
    │   │   ├── BrokenOff           the server broke the statement off: its time was over, or somebody cancelled it
    │   │   └── ConnectionLost      the connection broke before the commit was sent
    │   ├── UnknownCommit           the connection broke while the commit was under way
    │   ├── WentBack                the database has lost what it had acknowledged
    │   └── QueryFailed             the statement is wrong; trying again will not help
    │       └── NotPermitted        the user may not do this to this table
    ├── SchemaError                 the tables do not fit this code
    │   ├── SchemaTooNew            a newer release has migrated the database
    │   ├── SchemaTooOld            migrations are waiting to be applied
    │   └── NotOurDatabase          there are no tables of ours
    ├── MisuseError                 the library was called in a way that cannot work
    │   ├── NotInitialized          used before ``initialize`` or after ``close``
    │   ├── WrongLoop               used on another event loop than the one it was opened on
    │   └── NestedTransaction       a second way to the database inside an open transaction
    ├── PipelineError               the commit pipeline did not carry an operation out
    │   └── PipelineClosed          handed over after, or given up during, the close
    ├── WorkflowError               a durable run cannot be started, found or finished
    │   ├── WorkflowConflict        the id belongs to a run of another function or with other arguments
    │   │   └── Deduplicated        the queue has a run with this deduplication id that has not ended
    │   ├── WorkflowNotFound        there is no run of this id
    │   ├── TransitionRefused       what was asked of the run cannot happen in its status
    │   ├── WorkflowCancelled       the run was cancelled
    │   │   └── DeadlinePassed      its time was over before it had ended
    │   ├── RecoveryExhausted       the run's executor died too often without progress
    │   ├── DeterminismError        the workflow did something else than its record says
    │   ├── StepTimeout             a step took longer than it may
    │   ├── AttemptOver             code that an attempt of a step left behind wants to write
    │   ├── StreamClosed            the stream is closed: nothing is written to it any more
    │   ├── MessageConflict         the idempotency key belongs to a message to another run
    │   ├── TransactionBroken       a statement ended the transaction of a step before its record was in it
    │   ├── UndoFailed              a saga was undone, but not all of it
    │   ├── ScheduleNotFound        there is no schedule of this name
    │   ├── ScheduleConflict        the schedule is there already
    │   ├── QueueNotFound           there is no queue of this name
    │   └── QueueConflict           the queue is there already, or runs are in it
    ├── StoreError                  a store does not do what was asked
    │   ├── InvalidKey              a key or name that not every store could keep
    │   ├── SequenceConflict        the stream's last number is not the one expected
    │   ├── ExecutionNotFound       there is no execution of this run id
    │   ├── ExecutionConflict       the execution is there already, or has ended
    │   ├── StoreFull               a store in memory has no room, and nothing it may forget
    │   ├── TaskConflict            a task of this id is there already
    │   ├── LockNotAcquired         the lock was somebody else's for as long as was waited
    │   ├── LockLost                the lease of a lock ended before its holder was done
    │   ├── KeyInUse                another worker has claimed the idempotency key and has no result yet
    │   ├── KeyConflict             the idempotency key was used for another request
    │   ├── ClaimLost               the claim was over before its result came
    │   ├── ReplayRefused           a dead letter cannot be replayed with what it keeps, or as its run stands
    │   └── StorageError            a checkpoint could not be stored, read or deleted
    │       ├── NotFoundError       there is no flow checkpoint of this id
    │       ├── StaleCheckpoint     somebody else has stored the flow checkpoint since it was loaded
    │       └── DamagedCheckpoint   a checkpoint is not what was written
    ├── CircuitOpen                 a circuit breaker refused the call
    ├── CallTimeout                 a protected call took longer than it may
    ├── SerializationError          a value cannot be stored or read back
    │   ├── CannotSerialize         names the path of the value that does not fit
    │   ├── CannotDeserialize       names the path of the value that does not fit the annotation
    │   ├── FormatRefused           stored in a format this application has not opted in to
    │   └── CodecError              a compressed or encrypted payload that cannot be opened
    └── RecordedError               stands in for a recorded error whose class is not known here

The four kinds a caller can act on are *conflict*, *retry*, *unknown commit* and *fatal*; ``DatabaseError.kind``
says which. The driver's own error is always kept as ``__cause__``.
"""

from __future__ import annotations

from enum import StrEnum


class FailureKind(StrEnum):
    """What a database failure means to the one who made the call."""

    CONFLICT = "conflict"
    RETRY = "retry"
    UNKNOWN_COMMIT = "unknown commit"
    FATAL = "fatal"


class HoldfastError(Exception):
    """Base of every error of this library."""


class ConfigurationError(HoldfastError):
    """What was asked for cannot be set up as written."""


class InvalidURL(ConfigurationError, ValueError):
    """A database URL that names no database we know."""


class DriverMissing(ConfigurationError, ImportError):
    """The database driver is an extra that is not installed."""


class InvalidIdentifier(ConfigurationError, ValueError):
    """A table, schema or column name that is not allowed."""


class InvalidSchedule(ConfigurationError, ValueError):
    """A cron expression or a time zone that cannot be read; the message names the place."""


class InvalidDuration(ConfigurationError, ValueError):
    """A number of seconds that makes no sense where it was given; the message says which would."""


class DatabaseError(HoldfastError):
    """The database refused a call, or could not be reached."""

    kind = FailureKind.FATAL


class Unavailable(DatabaseError, ConnectionError):
    """No connection could be made; nothing was sent."""

    kind = FailureKind.RETRY


class Conflict(DatabaseError):
    """The write collides with a row that is there; nothing was written."""

    kind = FailureKind.CONFLICT


class TooLong(DatabaseError, ValueError):
    """A value is longer than its column holds; it was refused, not cut."""


class Retryable(DatabaseError):
    """Nothing was written; the same call may succeed when tried again."""

    kind = FailureKind.RETRY


class BrokenOff(Retryable):
    """The server broke the statement off: its time was over, or somebody cancelled it. Nothing was written."""


class ConnectionLost(Retryable, ConnectionError):
    """The connection broke before the commit was sent; nothing was written."""


class UnknownCommit(DatabaseError):
    """The connection broke while the commit was under way: it may or may not have happened."""

    kind = FailureKind.UNKNOWN_COMMIT


class WentBack(DatabaseError):
    """The database has lost what it had acknowledged, as after a failover to one that lagged; nothing was written."""

    kind = FailureKind.RETRY


class QueryFailed(DatabaseError):
    """The statement is wrong for this database; trying again will not help."""


class NotPermitted(QueryFailed):
    """The user may not do this to this table, until somebody who may grant it does."""


class SchemaError(HoldfastError):
    """The tables in the database do not fit this code."""


class SchemaTooNew(SchemaError):
    """A newer release has migrated the database; nothing was touched."""


class SchemaTooOld(SchemaError):
    """Migrations are waiting; run ``holdfast migrate``."""


class NotOurDatabase(SchemaError):
    """There are no tables of ours in this database; nothing was touched."""


class MisuseError(HoldfastError, RuntimeError):
    """The library was called in a way that cannot work."""


class NotInitialized(MisuseError):
    """Used before ``initialize`` or after ``close``."""


class WrongLoop(MisuseError):
    """Used on another event loop than the one it was opened on."""


class NestedTransaction(MisuseError):
    """A second way to the same database was taken inside an open transaction."""


class PipelineError(HoldfastError):
    """The commit pipeline did not carry an operation out."""


class PipelineClosed(PipelineError):
    """The operation came after the close, or was given up because the database stayed away."""


class WorkflowError(HoldfastError):
    """A durable run cannot be started, found or finished."""


class WorkflowConflict(WorkflowError):
    """The workflow id belongs to a run of another function or with other arguments."""


class Deduplicated(WorkflowConflict):
    """The queue has a run with this deduplication id that has not ended; nothing was put in it."""


class WorkflowNotFound(WorkflowError, LookupError):
    """There is no run of this id."""


class TransitionRefused(WorkflowError):
    """What was asked of a run cannot happen in its status; nothing was changed."""

    def __init__(self, message: str, *, workflow_id: str = "", status: str = "", event: str = "") -> None:
        super().__init__(message)
        self.workflow_id = workflow_id
        self.status = status
        self.event = event


class WorkflowCancelled(WorkflowError):
    """The run was cancelled."""


class DeadlinePassed(WorkflowCancelled, TimeoutError):
    """The run was cancelled because its deadline passed."""


class RecoveryExhausted(WorkflowError):
    """The run's executor died too often without progress; it will not be tried again by itself."""


class DeterminismError(WorkflowError):
    """The workflow did something else than its record says; the message shows both."""


class StepTimeout(WorkflowError, TimeoutError):
    """A step took longer than it may."""


class AttemptOver(WorkflowError):
    """The attempt of a step that this code belongs to is over: what it writes is refused, and nothing was written."""


class StreamClosed(WorkflowError):
    """The stream is closed: it takes no more entries, and nothing was written."""


class MessageConflict(WorkflowError):
    """The idempotency key belongs to a message to another run; nothing was sent."""


class TransactionBroken(WorkflowError):
    """A statement ended the transaction of a step before its record was in it: its writes may be there without it."""


class UndoFailed(WorkflowError):
    """A saga was undone, but not all of it: the message names what was not."""


class ScheduleNotFound(WorkflowError, LookupError):
    """There is no schedule of this name."""


class ScheduleConflict(WorkflowError):
    """The schedule is there already; nothing was changed."""


class QueueNotFound(WorkflowError, LookupError):
    """There is no queue of this name."""


class QueueConflict(WorkflowError):
    """The queue is there already, or runs that have not ended are in it; nothing was changed."""


class Superseded(BaseException):
    """Another execution owns the run: this one must stop. Not an ``Exception``, so that no workflow swallows it."""


class StoreError(HoldfastError):
    """A store does not do what was asked of it."""


class InvalidKey(StoreError, ValueError):
    """A key or name that not every store could keep: it is empty, or has half a character in it."""


class SequenceConflict(StoreError):
    """The stream's last sequence number is not the one the writer expected; nothing was appended."""

    def __init__(self, message: str, *, stream_key: str = "", expected: int = 0, present: int = 0) -> None:
        super().__init__(message)
        self.stream_key = stream_key
        self.expected = expected
        self.present = present


class ExecutionNotFound(StoreError, LookupError):
    """There is no execution of this run id; nothing was changed."""


class ExecutionConflict(StoreError):
    """The execution is there already, or has ended and does not change any more; nothing was changed."""


class StoreFull(StoreError):
    """A store in memory is full of what it may not forget; nothing was added."""


class TaskConflict(StoreError):
    """A task of this id is there already; nothing was put into the queue."""


class LockNotAcquired(StoreError, TimeoutError):
    """The lock was somebody else's for as long as was waited."""


class LockLost(StoreError):
    """The lease of a lock ended before its holder was done: somebody else may hold it."""


class KeyInUse(StoreError, RuntimeError):
    """The idempotency key is claimed by another worker, which has no result yet."""


class KeyConflict(StoreError, ValueError):
    """The idempotency key was used for another request; nothing was changed."""


class ClaimLost(StoreError):
    """The claim was over, or somebody else's, before its result came; nothing was changed."""


class ReplayRefused(StoreError):
    """A dead letter cannot be replayed with what it keeps, or as its run stands now; the message says what helps."""


class StorageError(StoreError):
    """A checkpoint could not be stored, read or deleted; the old one, if there was one, is whole."""


class NotFoundError(StorageError, LookupError):
    """There is no flow checkpoint of this id; nothing was stored."""


class StaleCheckpoint(StorageError):
    """Somebody else has stored the flow checkpoint, or goes on from it, since it was loaded; nothing was stored."""


class DamagedCheckpoint(StorageError):
    """What is stored under the id or key of a checkpoint is not what was written."""


class CircuitOpen(HoldfastError):
    """A circuit breaker refused the call, which was not made.

    *retry_after* is in how many seconds it may be worth trying again; None if nobody knows.
    """

    def __init__(
        self, message: str, *, service_name: str = "", state: str = "open", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.service_name = service_name
        self.state = state
        self.retry_after = retry_after


class CallTimeout(HoldfastError, TimeoutError):
    """A protected call took longer than it may; a thread that makes it may still be at it."""


class SerializationError(HoldfastError):
    """A value cannot be stored, or cannot be read back."""


class CannotSerialize(SerializationError, TypeError):
    """A value does not fit the format; the message names its path."""


class CannotDeserialize(SerializationError, ValueError):
    """A stored value does not fit what is expected of it; the message names its path."""


class FormatRefused(SerializationError):
    """A stored value is in a format this application has not opted in to."""


class CodecError(SerializationError):
    """A compressed or encrypted payload cannot be opened."""


class RecordedError(HoldfastError):
    """Stands in for a recorded error whose class is not known here; it carries the whole record.

    *name* is the class as it was recorded, *code* and *data* are what its writer added. Recording a stand-in
    writes the same record again, so an error keeps its identity on its way through several processes.
    """

    def __init__(self, name: str, message: str, code: object = None, data: object = None) -> None:
        super().__init__(name, message, code, data)
        self.name = name
        self.message = message
        self.code = code
        self.data = data

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name
