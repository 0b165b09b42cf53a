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
import contextvars
import hashlib
import inspect
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from holdfast.core.backoff import backoff
from holdfast.errors import KeyConflict, KeyInUse, MisuseError
from holdfast.model.workflow import Duration, seconds
from holdfast.model.world import RealWorld
from holdfast.serialize import PortableJSON
from holdfast.stores.blocking import Blocking
from holdfast.stores.idempotency.entry import ClaimState
from holdfast.stores.idempotency.extending import Extending
from holdfast.stores.idempotency.store import DEFAULT_TTL, milliseconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.db.portal import Portal
    from holdfast.model.world import World
    from holdfast.stores.idempotency.entry import Claim, IdempotencyEntry
    from holdfast.stores.idempotency.store import IdempotencyStore

OnConflict: TypeAlias = Literal["reject", "return_stored"]
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
        milliseconds(ttl_seconds, "ttl_seconds")
        self._store = idempotency_store
        self._ttl = ttl_seconds
        self._lease = milliseconds(lease_seconds, "lease_seconds") / 1000
        self._on_conflict = on_conflict
        self._waits = seconds(wait_seconds) if in_progress == "wait" else 0.0
        self._fingerprint = fingerprint or call_fingerprint
        self._world: World = world or RealWorld()
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
        mark = self._fingerprint(workflow, parameters)
        is_durable = isinstance(workflow, Durable)
        claim = await self._claimed(idempotency_key, mark, names_run=is_durable)
        if claim.result is not None:
            return _stored(claim.result)
        if is_durable:
            workflow = workflow.options(workflow_id=claim.note or "", on_conflict="return_existing")
        work = self._owned(claim, runtime, workflow, parameters)
        return await (work if _is_async(runtime) else self._to_its_end(work))

    async def close(self) -> None:
        """Wait for the threads whose callers were cancelled, and end all threads."""
        if self._left:
            await asyncio.wait(self._left)
        if self._pool is not None:
            pool, self._pool = self._pool, None
            await asyncio.to_thread(pool.shutdown)

    async def _claimed(self, key: str, mark: str, *, names_run: bool) -> Claim:
        """Return a claim that was won or has a result.

        The run that a claim names outlives the machine, and so must the claim; of other work nothing is left to go on.
        """
        deadline = self._world.monotonic() + self._waits
        tries = 0
        while True:
            note = f"{hashed(key)}-{self._world.new_id()}" if names_run else None
            claim = await self._store.claim(key, mark, lease_seconds=self._lease, note=note, fleeting=not names_run)
            if claim.state is ClaimState.CONFLICT and self._on_conflict == "reject":
                raise KeyConflict(
                    f"The idempotency key {key!r} was used for another workflow or with other parameters. "
                    "Use a key of its own for each call."
                )
            if claim.won or claim.result is not None:
                return claim
            left = deadline - self._world.monotonic()
            if left <= 0:
                raise KeyInUse(
                    f"The idempotency key {key!r} is claimed by another worker, which has no result yet. "
                    "Try again after a while."
                )
            tries += 1
            await self._world.sleep(min(left, backoff(tries, base=0.01, cap=0.5, draw=self._world.random.random())))

    async def _owned(
        self, claim: Claim, runtime: Runtime, workflow: Any, parameters: Mapping[str, Any] | None
    ) -> tuple[Any, Any]:
        """Execute and store under a claim; release it if anything goes wrong."""
        try:
            with Extending(self._store, claim, self._lease):
                found = await self._run(runtime, workflow, parameters)
            if not isinstance(found, tuple) or len(found) != 2:
                raise MisuseError(
                    f"{type(runtime).__name__}.execute() returned {type(found).__name__}, not a pair of results and "
                    "run id; the key was released."
                )
            record = _json.deserialize(_json.serialize({"results": found[0], "run_id": found[1]}))
            await self._store.store_result(claim.key, record, ttl_seconds=self._ttl, token=claim.token)
        except BaseException:
            await self._store.release_claim(claim.key, token=claim.token)
            raise
        return record["results"], record["run_id"]

    async def _run(self, runtime: Runtime, workflow: Any, parameters: Mapping[str, Any] | None) -> Any:
        call = partial(runtime.execute, workflow, parameters=parameters)
        if _is_async(runtime):
            return await call()
        found = await self._on_thread(call)
        return await found if inspect.isawaitable(found) else found

    def _on_thread(self, call: Callable[[], Any]) -> Awaitable[Any]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix="holdfast-idempotent")
        return asyncio.get_running_loop().run_in_executor(self._pool, contextvars.copy_context().run, call)

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
    text = _encode([_name(workflow), dict(parameters or {})])
    return hashlib.sha256(text).hexdigest()


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


def _shown(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) and not isinstance(value, type) else type(value).__qualname__


_encode = msgspec.json.Encoder(enc_hook=_shown, order="sorted").encode


def _is_async(runtime: Runtime) -> bool:
    return inspect.iscoroutinefunction(runtime.execute)


def _stored(entry: IdempotencyEntry) -> tuple[Any, Any]:
    record = entry["response_data"]
    if not isinstance(record, dict) or record.keys() != {"results", "run_id"}:
        raise KeyConflict(f"The idempotency key {entry['idempotency_key']!r} has a result that no executor has stored.")
    return record["results"], record["run_id"]


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {' or '.join(map(repr, allowed))}, not {value!r}.")


__all__ = ["IdempotentExecutor", "Runtime", "SyncIdempotentExecutor", "call_fingerprint"]
