"""One execution of a run in this process: what it owns, what it replays, who waits for it."""

from __future__ import annotations

import threading
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from holdfast.errors import MisuseError
from holdfast.workflows.parking.waits import Waits
from holdfast.workflows.running.commits import Commits

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from holdfast.errors import HoldfastError
    from holdfast.model.workflow import History
    from holdfast.workflows.declaring.codec import FunctionCodec
    from holdfast.workflows.declaring.registry import Definition

LONGEST_ID = 255


class Behalf(NamedTuple):
    """On whose behalf a run is executed: the user, the role they have assumed, and the roles they have, as stored."""

    user: str | None = None
    role: str | None = None
    roles: str | None = None


NOBODY = Behalf()


class Outcome(Struct, frozen=True):
    """How a run ended: its value, or the error it ended with. *elsewhere* if another execution has taken it over.

    *unread* if it has an outcome that cannot be read here, and the error only says so.
    """

    value: Any = None
    error: BaseException | None = None
    elsewhere: bool = False
    unread: bool = False
    traceback: TracebackType | None = None

    def get(self) -> Any:
        """Return the value, or raise the error with the traceback it had at the end of the run.

        Raised once more, it would keep the frames of everybody who has asked before.
        """
        if self.error is not None:
            raise self.error.with_traceback(self.traceback)
        return self.value


class Undoing(Struct):
    """A saga that is undone: the positions of its first operation and of its last undo, and whether all was undone.

    The position of the last undo is not known until all is undone.
    """

    first: int
    last: float = inf
    wholly: bool = True

    def ended(self, last: int, *, wholly: bool) -> None:
        """Say that nothing more will be undone."""
        self.last, self.wholly = last, wholly


class CutAt:
    """Where the record of a run must be cut for an operation that failed to be done anew.

    That is the operation's own position; for the result of a child, the position where the child was started. A saga
    whose undoing would be cut off is cut whole: what it did is not there any more.
    """

    def __init__(self) -> None:
        self._failed: dict[int, tuple[BaseException, int]] = {}
        self._children: dict[str, int] = {}
        self._undone: list[Undoing] = []

    def child(self, child_id: str, position: int) -> None:
        """Note where a child was started."""
        self._children.setdefault(child_id, position)

    def failed(self, error: BaseException, position: int, child_id: str | None = None) -> None:
        """Note which operation raised *error*, which is kept so that its identity stays its own."""
        self._failed[id(error)] = (error, min(position, self._children.get(child_id or "", position)))

    def together(self, errors: Sequence[BaseException]) -> None:
        """Note that of several errors the first one stands for all: what failed with the others is done anew too."""
        positions = [each for each in map(self._failed_at, errors) if each is not None]
        if self._failed_at(errors[0]) is not None:
            self._failed[id(errors[0])] = errors[0], min(positions)

    def undoing(self, first: int) -> Undoing:
        """Note that a saga is being undone whose first operation has the position *first*."""
        noted = Undoing(first)
        self._undone.append(noted)
        return noted

    def position(self, error: BaseException) -> int | None:
        """Return where to cut for *error*, or for what it was raised from.

        None if no operation failed with it, or if a saga would be done anew of which something is left.
        """
        cut = self._failed_at(error)
        if cut is None:
            return None
        for saga in sorted(self._undone, key=lambda each: each.last, reverse=True):
            if cut <= saga.last:
                if not saga.wholly:
                    return None
                cut = min(cut, saga.first)
        return cut

    def _failed_at(self, error: BaseException, seen: set[int] | None = None) -> int | None:
        """Return where *error* came from, or what it was raised from; of the members of a group, the first of all."""
        seen = set() if seen is None else seen
        cause: BaseException | None = error
        while cause is not None and id(cause) not in seen:
            if id(cause) in self._failed:
                return self._failed[id(cause)][1]
            seen.add(id(cause))
            if isinstance(cause, BaseExceptionGroup):  # of a TaskGroup: all that failed in it is done anew
                found = [self._failed_at(each, seen) for each in cause.exceptions]
                if members := [each for each in found if each is not None]:
                    return min(members)
            cause = cause.__cause__ or cause.__context__
        return None


class Run:
    """An execution that holds the run's owner token.

    ``stopped`` is the reason why it must go no further: the token was lost, or the process is closing.
    """

    __slots__ = (
        "_closing",
        "_commits",
        "_halts",
        "_lock",
        "_outcome",
        "_waits",
        "_watchers",
        "arguments",
        "attempts",
        "behalf",
        "creation_key",
        "cut_at",
        "deadline_ms",
        "definition",
        "engine",
        "flaw",
        "generation",
        "history",
        "id",
        "in_background",
        "instance",
        "keywords",
        "next_position",
        "parent_id",
        "queue_name",
        "retries",
        "stopped",
        "suspect",
        "task",
        "token",
        "version",
    )

    def __init__(
        self,
        definition: Definition,
        run_id: str,
        token: str,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        *,
        history: History | None = None,
        attempts: int = 0,
        generation: int = 0,
        retries: int = 0,
        parent_id: str | None = None,
        deadline_ms: int | None = None,
        queue_name: str | None = None,
        creation_key: str | None = None,
        behalf: Behalf = NOBODY,
        version: str | None = None,
    ) -> None:
        self.definition = definition
        self.id = run_id
        self.token = token
        self.creation_key = token if creation_key is None else creation_key  # a run that is started has its first token
        self.arguments = arguments
        self.keywords = keywords
        self.history = history.records if history is not None else None
        self.next_position = history.next_position if history is not None else 1
        self.attempts = attempts
        self.suspect = attempts > 0
        self.generation = generation
        self.retries = retries
        self.cut_at = CutAt() if definition.retry is not None or definition.dead_letter is not None else None
        self.parent_id = parent_id
        self.deadline_ms = deadline_ms
        self.queue_name = queue_name
        self.behalf = behalf
        self.version = version
        self.instance: Any = None
        self.engine: Any = None
        self.stopped: BaseException | None = None
        self.flaw: HoldfastError | None = None  # with which the run ends whatever its code does; see agreement.py
        self.task: asyncio.Task[None] | None = None
        self.in_background = False  # started, so that nobody who called it gets its error
        self._outcome: Outcome | None = None
        self._watchers: list[Callable[[Outcome], None]] = []
        self._lock = threading.Lock()
        self._halts: list[Callable[[], object]] = []
        self._waits: Waits | None = None
        self._commits: Commits | None = None
        self._closing = False

    def call(self) -> Any:
        """Call the workflow's function; for an async one this gives the coroutine."""
        function = self.definition.function
        if self.instance is not None:
            return function(self.instance, *self.arguments, **self.keywords)
        return function(*self.arguments, **self.keywords)

    @property
    def codec(self) -> FunctionCodec:
        """The reader of this workflow's results."""
        return self.definition.codec

    def take_position(self) -> int:
        """Return the ordinal of a new operation; branches may ask from several threads."""
        with self._lock:
            position = self.next_position
            self.next_position = position + 1
        return position

    def child_id(self, identity: str) -> str:
        """Return the id of a child started at *identity*: the same on every replay of this generation."""
        mark = f"-g{self.generation}" if self.generation else ""
        whole = f"{self.id}{mark}-{identity}"
        if len(whole) <= LONGEST_ID:
            return whole
        digest = blake2b(whole.encode(), digest_size=16).hexdigest()
        return f"{whole[: LONGEST_ID - len(digest) - 1]}-{digest}"

    def settle(self, outcome: Outcome) -> None:
        """Tell everybody who waits here what became of the run."""
        with self._lock:
            self._outcome = outcome
            watchers, self._watchers = self._watchers, []
        for tell in watchers:
            tell(outcome)

    def watch(self, tell: Callable[[Outcome], None]) -> None:
        """Have *tell* called with the outcome, now if it is known; from any thread."""
        with self._lock:
            if self._outcome is None:
                self._watchers.append(tell)
                return
        tell(self._outcome)

    @property
    def ended(self) -> bool:
        """Whether this execution is over, here or because another has taken the run."""
        return self._outcome is not None

    def unwatch(self, tell: Callable[[Outcome], None]) -> None:
        """Do not have *tell* called any more."""
        with self._lock:
            if tell in self._watchers:
                self._watchers.remove(tell)

    def waits(self) -> Waits:
        """Return which of its branches wait; made when the first branch waits or is opened."""
        with self._lock:
            if self._waits is None:
                self._waits = Waits()
            return self._waits

    def commits(self) -> Commits:
        """Return which of its transactions commit in other databases; made when the first one does."""
        with self._lock:
            if self._commits is None:
                self._commits = Commits(closed=self._closing)
            return self._commits

    def closing(self) -> Commits | None:
        """Say that the end of this execution is about to be written; return what it has to wait for, if anything."""
        with self._lock:
            self._closing = True
            return self._commits

    def stop(self, reason: BaseException) -> None:
        """Have this execution go no further than its next operation; the first *reason* counts."""
        with self._lock:
            if self.stopped is None:
                self.stopped = reason
            halts, self._halts = self._halts, []
        for tell in halts:
            tell()

    def disown(self) -> None:
        """Have this execution go no further in a forked child; without the lock, which a thread may have held then."""
        self.stopped = MisuseError(
            f"Run {self.id} goes on in the process that this one was forked from, and nothing is recorded for it here: "
            "fork in a step of it, or before it."
        )

    def on_halt(self, tell: Callable[[], object]) -> None:
        """Have *tell* called when this execution is to go no further, now if it is so; from any thread."""
        with self._lock:
            if self.stopped is None:
                self._halts.append(tell)
                return
        tell()

    def off_halt(self, tell: Callable[[], object]) -> None:
        """Do not have *tell* called any more."""
        with self._lock:
            if tell in self._halts:
                self._halts.remove(tell)

    def check(self) -> None:
        """Raise if this execution must go no further."""
        if self.stopped is not None:
            raise self.stopped
