"""Executions that happen once for each idempotency key, whatever the runtime is.

::

    key? ── no ──► execute
     │
    claim the key ──► stored ──► return it
     │           ├──► in progress ──► wait, or KeyInUse
     │           └──► used for another call ──► KeyConflict, or return what is stored
     won
     │
    execute, extending the claim ──► failed, cancelled ──► release the key, raise
     │
    store results and run id for the time to live

Of a durable workflow of ours the key decides the id of its run: whoever takes over from a worker that died goes on with
that run and does not start another.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from holdfast.errors import KeyConflict, MisuseError
from holdfast.model.world import RealWorld
from holdfast.serialize import PortableJSON
from holdfast.stores.blocking import Blocking
from holdfast.stores.idempotency.claims import giving_back
from holdfast.stores.idempotency.fingerprint import digest
from holdfast.stores.idempotency.store import DEFAULT_TTL, claims_of
from holdfast.stores.keys import checked_key
from holdfast.stores.on_thread import on_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.db.portal import Portal
    from holdfast.model.workflow import Duration
    from holdfast.model.world import World
    from holdfast.stores.idempotency.claims import Held, OnConflict
    from holdfast.stores.idempotency.entry import Kept
    from holdfast.stores.idempotency.store import IdempotencyStore

InProgress: TypeAlias = Literal["raise", "wait"]
Fingerprint: TypeAlias = "Callable[[Any, Mapping[str, Any] | None], str]"

_LEASE = 30.0
_LONGEST_WAIT = 60.0
_MOST_THREADS = 64
_json = PortableJSON()


class Runtime(Protocol):
    """Whatever executes: its ``execute`` returns a pair of results and run id, or is a coroutine that does."""

    def execute(self, workflow: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        """Execute *workflow* with *parameters*."""


@runtime_checkable
class Durable(Protocol):
    """A workflow of ours: its runs have an id that can be chosen."""

    def options(self, *, workflow_id: str, on_conflict: str) -> Any:
        """Return a copy whose run has this id."""

    def start(self, *args: Any, **kwargs: Any) -> Any:
        """Start a run."""


class IdempotentExecutor:
    """Wraps the ``execute`` of any runtime: one execution for each idempotency key, and its results for whoever asks.

    Results are stored for *ttl_seconds* as JSON, and the first caller gets them as every later one will. A claim lasts
    for *lease_seconds* after its worker died; while it lives it is extended. *fingerprint* tells whether two calls are
    the same, by default by the workflow's name and the parameters. A key that comes with another call is a conflict:
    ``"reject"`` raises, ``"return_stored"`` returns what is stored. A key that another worker is at: ``"raise"``, or
    ``"wait"`` for at most *wait_seconds*.

    Runtimes that are not async run on threads, so that the loop is never blocked.
    """

    def __init__(
        self,
        idempotency_store: IdempotencyStore,
        ttl_seconds: Duration = DEFAULT_TTL,
        *,
        lease_seconds: Duration = _LEASE,
        on_conflict: OnConflict = "reject",
        in_progress: InProgress = "raise",
        wait_seconds: Duration = _LONGEST_WAIT,
        fingerprint: Fingerprint | None = None,
        world: World | None = None,
    ) -> None:
        _check("on_conflict", on_conflict, ("reject", "return_stored"))
        _check("in_progress", in_progress, ("raise", "wait"))
        self._world: World = world or RealWorld()
        self._claims = claims_of(
            idempotency_store,
            self._world,
            lease_seconds=lease_seconds,
            ttl_seconds=ttl_seconds,
            wait_seconds=wait_seconds if in_progress == "wait" else 0,
            on_conflict=on_conflict,
        )
        self._fingerprint = fingerprint or call_fingerprint
        self._pool: ThreadPoolExecutor | None = None
        self._left: set[asyncio.Task[Any]] = set()

    async def execute(
        self,
        runtime: Runtime,
        workflow: Any,
        parameters: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[Any, Any]:
        """Execute *workflow* unless its key has a result; return results and run id, the same for every caller.

        Without a key the runtime is called directly, and nothing is stored. ``KeyInUse`` if another worker is at it,
        ``KeyConflict`` if the key was used for another call. If the runtime raises, or this call is cancelled, the key
        is released and may be tried again; so is it if the results do not fit JSON (``CannotSerialize``). A runtime
        on a thread cannot be stopped: if its caller is cancelled, its results are stored all the same.
        """
        if idempotency_key is None:
            pair: tuple[Any, Any] = await self._run(runtime, workflow, parameters)
            return pair
        idempotency_key = checked_key(idempotency_key, "idempotency key")
        mark = self._fingerprint(workflow, parameters)
        is_durable = isinstance(workflow, Durable)
        note = f"{hashed(idempotency_key)}-{self._world.new_id()}" if is_durable else None
        held = self._claims.hold(idempotency_key, mark, _json.serialize(note))
        kept = await self._taken(held, names_run=is_durable)
        if not held.is_ours:
            return _stored(kept)
        if is_durable:
            run_id = _json.deserialize(kept.response_data) or ""
            workflow = workflow.options(workflow_id=run_id, on_conflict="return_existing")
        work = self._owned(held, runtime, workflow, parameters)
        return await (work if _is_async(runtime) else self._to_its_end(work))

    async def close(self) -> None:
        """Wait for the threads whose callers were cancelled, and end all threads."""
        if self._left:
            await asyncio.wait(self._left)
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await asyncio.to_thread(pool.shutdown)

    async def _taken(self, held: Held, *, names_run: bool) -> Kept:
        """Return a claim that was won, or a result.

        The run that a claim names outlives the machine, and so must the claim; of other work nothing is left to go on.
        """
        while (kept := await self._claims.take(held, fleeting=not names_run)) is None:
            await self._world.sleep(self._claims.patience(held))
        return kept

    async def _owned(
        self, held: Held, runtime: Runtime, workflow: Any, parameters: Mapping[str, Any] | None
    ) -> tuple[Any, Any]:
        """Execute and store under a claim; release it if anything goes wrong."""
        try:
            found = await self._run(runtime, workflow, parameters)
            if not isinstance(found, tuple) or len(found) != 2:
                raise MisuseError(
                    f"{type(runtime).__name__}.execute() returned {type(found).__name__}, not a pair of results and "
                    "run id; the key was released."
                )
            data = _json.serialize({"results": found[0], "run_id": found[1]})
            await self._claims.keep(held, data)
        except BaseException:
            with giving_back(held):
                await self._claims.drop(held)
            raise
        record = _json.deserialize(data)
        return record["results"], record["run_id"]

    async def _run(self, runtime: Runtime, workflow: Any, parameters: Mapping[str, Any] | None) -> Any:
        if _is_async(runtime):
            return await runtime.execute(workflow, parameters=parameters)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="holdfast-idempotent")
        found = await on_thread(self._pool, runtime.execute, workflow, parameters=parameters)
        return await found if inspect.isawaitable(found) else found

    async def _to_its_end(self, work: Any) -> tuple[Any, Any]:
        """Do *work* in a task of its own: its thread goes on whatever happens to the caller, and so must its claim."""
        task: asyncio.Task[tuple[Any, Any]] = asyncio.get_running_loop().create_task(work)
        self._left.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        with suppress(asyncio.CancelledError):
            task.exception()  # if its caller has gone nobody else will ask


class SyncIdempotentExecutor(Blocking):
    """An ``IdempotentExecutor`` for code without an event loop; its loop is *portal*'s, and runtimes run on threads."""

    def __init__(self, executor: IdempotentExecutor, portal: Portal) -> None:
        super().__init__(portal)
        self._executor = executor

    def execute(
        self,
        runtime: Runtime,
        workflow: Any,
        parameters: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[Any, Any]:
        """Execute *workflow* unless its key has a result; return results and run id, the same for every caller.

        Without a key the runtime is called directly, and nothing is stored. ``KeyInUse`` if another worker is at it,
        ``KeyConflict`` if the key was used for another call. If the runtime raises, or this call is cancelled, the key
        is released and may be tried again; so is it if the results do not fit JSON (``CannotSerialize``). A runtime
        on a thread cannot be stopped: if its caller is cancelled, its results are stored all the same.
        """
        return self._call(self._executor.execute(runtime, workflow, parameters, idempotency_key))

    def close(self) -> None:
        """Wait for the threads whose callers were cancelled, and end all threads."""
        self._call(self._executor.close())


def call_fingerprint(workflow: Any, parameters: Mapping[str, Any] | None) -> str:
    """Return SHA-256 digits of the workflow's name and the parameters; the same in every process.

    A parameter that has no JSON form counts by the name of its class.
    """
    return digest(_name(workflow), dict(parameters or {}))


def hashed(key: str) -> str:
    """Return a short text that stands for a key in the id of a run."""
    return f"key-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _name(workflow: Any) -> str:
    if isinstance(workflow, str):
        return workflow
    for owner in (getattr(workflow, "definition", None), workflow):
        name = getattr(owner, "name", None)
        if isinstance(name, str):
            return name
    return getattr(workflow, "__qualname__", None) or type(workflow).__qualname__


def _is_async(runtime: Runtime) -> bool:
    return inspect.iscoroutinefunction(runtime.execute)


def _stored(kept: Kept) -> tuple[Any, Any]:
    record = _json.deserialize(kept.response_data)
    if not isinstance(record, dict) or record.keys() != {"results", "run_id"}:
        raise KeyConflict(f"The idempotency key {kept.key!r} has a result that no executor has stored.")
    return record["results"], record["run_id"]


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {' or '.join(map(repr, allowed))}, not {value!r}.")


__all__ = ["IdempotentExecutor", "Runtime", "SyncIdempotentExecutor", "call_fingerprint"]
