"""The breakers of an application, and where its protected functions keep dead letters and idempotency keys."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from holdfast.errors import ConfigurationError
from holdfast.resilience.breaker import CircuitBreaker
from holdfast.resilience.keyed import KeyedBreakers
from holdfast.resilience.letters import make_letter, parameters_of
from holdfast.resilience.protect import Protection
from holdfast.resilience.replay_on_close import ReplaysOnClose
from holdfast.resilience.sharing import Later, Place
from holdfast.workflows.dead_letters.handlers import domain_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from holdfast.resilience.events import Listener
    from holdfast.resilience.interrupting import Watch
    from holdfast.resilience.layers import Ask, Call, Park
    from holdfast.resilience.once import KeyClaims, Keys
    from holdfast.resilience.policy import BreakerOptions
    from holdfast.stores.breakers.sql_store import AsyncSQLCircuitBreakerStateRepository
    from holdfast.stores.idempotency.claims import Claims
    from holdfast.stores.idempotency.database import DBIdempotencyStore
    from holdfast.stores.idempotency.memory import InMemoryIdempotencyStore
    from holdfast.workflows.dead_letters.face import AsyncDeadLetters
    from holdfast.workflows.engine.engine import Engine

logger = logging.getLogger("holdfast.protect")

_LEASE = 30.0  # seconds until the idempotency key of a worker that died is free
_LONGEST_WAIT = 60.0  # seconds for a key that another is at


class Guards:
    """What guards the calls of one application. Breakers share its database from launch to close."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._breakers: dict[str, tuple[CircuitBreaker | KeyedBreakers, Mapping[str, Any]]] = {}
        self._lock = threading.Lock()
        self._heard: AsyncSQLCircuitBreakerStateRepository | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: set[asyncio.Task[None]] = set()
        self._claims: tuple[DBIdempotencyStore, Claims] | None = None

    @cached_property
    def _watch(self) -> Watch:
        from holdfast.resilience.interrupting import Watch  # noqa: PLC0415 -- few want it

        return Watch()

    def forget(self) -> None:
        """Forget, in a forked child, what the parent has open; its breakers do so by themselves."""
        self._lock, self._tasks, self._asked, self._claims = threading.Lock(), set(), set(), None

    async def close(self) -> None:
        """End what was opened; breakers stand alone until the next launch."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._asked, return_exceptions=True)
        claims, self._claims = self._claims, None
        if claims is not None:
            await claims[1].close()

    def breaker(
        self, name: str, listeners: Iterable[Listener] = (), **options: Unpack[BreakerOptions]
    ) -> CircuitBreaker:
        """Return the breaker of this name, made with *options* if it is not there."""

        def make() -> CircuitBreaker:
            world = self._engine.settings.world
            return CircuitBreaker(name, repository=Later(self._place), world=world, **options)

        found = self._one(name, make, options)
        if not isinstance(found, CircuitBreaker):
            raise ConfigurationError(f"{name!r} names breakers with keys: take one of them, as in breakers['key'].")
        for listener in listeners:
            found.listen(listener)
        return found

    def keyed(
        self, name: str, most: int, listeners: Iterable[Listener], **options: Unpack[BreakerOptions]
    ) -> KeyedBreakers:
        """Return the breakers with keys of this name."""

        def make() -> KeyedBreakers:
            world = self._engine.settings.world
            return KeyedBreakers(
                name, most=most, repository=Later(self._place), listeners=listeners, world=world, **options
            )

        found = self._one(name, make, options)
        if not isinstance(found, KeyedBreakers):
            raise ConfigurationError(f"{name!r} is the name of a breaker without keys already; choose another.")
        return found

    def _one(self, name: str, make: Callable[[], Any], options: Mapping[str, Any]) -> Any:
        with self._lock:
            if name not in self._breakers:
                self._breakers[name] = make(), options
            found, known = self._breakers[name]
        if options and options != known:
            raise ConfigurationError(f"The breaker {name!r} was made with other options: say them in one place.")
        return found

    def _place(self) -> Place | None:
        """Return where the repository is, while the application is launched."""
        engine = self._engine
        if not engine.launched:
            return None
        store = engine.stores.breakers
        if self._heard is not store:
            self._heard = store
            store.use_hints(engine.wakeups)
            engine.hearers.append(store.wake)
        return Place(store, engine.loop(), engine.loop_thread())

    def protection(
        self,
        name: str,
        *,
        breaker: bool | str | CircuitBreaker | None,
        dead_letter: bool | str,
        idempotency_key: str | Callable[..., str] | None,
        idempotency_store: InMemoryIdempotencyStore | None,
        interrupt: bool,
        replay_on_close: bool,
        **layers: Any,
    ) -> Protection:
        """Return the layers that the options of ``protect`` describe."""
        domain = domain_of(repr(name), dead_letter, name)
        if idempotency_store is not None and idempotency_key is None:
            raise ConfigurationError(f"idempotency_store of {name!r} needs an idempotency_key, to keep results under.")
        guard = self._named(name, breaker)
        return Protection(
            name=name,
            world=self._engine.settings.world,
            breaker=guard,
            watch=self._watch if interrupt else None,
            replays=self._replays(name, domain, guard) if replay_on_close else None,
            park=None if domain is None else self._park(name, domain),
            keys=self._keys(name, idempotency_key, idempotency_store) if idempotency_key is not None else None,
            asking=self.asking,
            **layers,
        )

    def _named(self, name: str, breaker: bool | str | CircuitBreaker | None) -> CircuitBreaker | None:
        if breaker is None or breaker is False:
            return None
        if breaker is True:
            return self.breaker(name)
        if not isinstance(breaker, str | CircuitBreaker):
            raise ConfigurationError(
                f"breaker of {name!r} is a breaker, the name of one, or True or False, not {breaker!r:.100}."
            )
        return self.breaker(breaker) if isinstance(breaker, str) else breaker

    def _replays(self, name: str, domain: str | None, breaker: CircuitBreaker | None) -> Callable[..., None]:
        if breaker is None or domain is None:
            raise ConfigurationError(f"replay_on_close of {name!r} needs a breaker that closes, and dead_letter.")

        def listen(call: Call, *, is_async: bool) -> None:
            replays = ReplaysOnClose(
                name,
                domain,
                breaker,
                call,
                self._dead_letters,
                self._start,
                self._engine.settings.world,
                opened=self._engine.sealing.opened,
                on_thread=self._engine.handlers.on_thread,
                is_async=is_async,
            )
            breaker.listen(replays.heard)

        return listen

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do *work* on the loop of the application, while it is launched."""

        def start() -> None:
            task = asyncio.ensure_future(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        if not self._engine.launched or not self._engine.on_loop(start):
            work.close()

    def asking(self, *, is_async: bool) -> Ask:
        """Return how a protected function reaches the loop of the application."""
        return self._engine.reach if is_async else self._ask_blocking

    def _ask_blocking(self, question: Coroutine[Any, Any, Any]) -> Any:
        """Wait for the answer; on the loop itself, which must not wait, only ask: ``close`` waits for the answer."""
        if not self._engine.is_loop_thread():
            return self._engine.ask_blocking(question)
        task = self._engine.loop().create_task(_logged(question))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        return None

    def _park(self, name: str, domain: str) -> Park:
        def park(
            call: Call, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Coroutine[Any, Any, Any]:
            self._engine.check_launched()
            delay = self._engine.handlers.delay_of(domain)
            letters, told = self._dead_letters(), {"protect": name}
            return make_letter(
                letters,
                domain,
                error,
                args,
                kwargs,
                contents=self._engine.contents(),
                sealing=self._engine.sealing,
                parameters=parameters_of(call),
                metadata=told,
                retry_delay=delay,
            )

        return park

    def _dead_letters(self) -> AsyncDeadLetters:
        return self._engine.dead_letters

    def _keys(self, name: str, key: str | Callable[..., str], store: InMemoryIdempotencyStore | None) -> Keys:
        from holdfast.resilience.once import AwaitedClaims, Keys  # noqa: PLC0415 -- what is not used is not loaded
        from holdfast.stores.idempotency.memory import InMemoryIdempotencyStore  # noqa: PLC0415 -- as above

        if store is None:
            return Keys(name, key, self._claims_in_the_database, self._engine.sealing)
        if not isinstance(store, InMemoryIdempotencyStore):
            raise ConfigurationError(
                f"idempotency_store of {name!r} is an InMemoryIdempotencyStore, or left out, not {store!r:.100}: keys "
                "that outlive the process, or that several share, are in the application's database."
            )
        here = store.memory_claims(wait_seconds=_LONGEST_WAIT)
        awaited = AwaitedClaims(here)
        return Keys(name, key, lambda is_async: awaited if is_async else here)

    def _claims_in_the_database(self, is_async: bool) -> KeyClaims:
        from holdfast.resilience.once import AskedClaims  # noqa: PLC0415 -- as above
        from holdfast.stores.idempotency.store import claims_of  # noqa: PLC0415 -- as above

        self._engine.check_launched()
        store = self._engine.stores.idempotency
        with self._lock:
            if self._claims is None or self._claims[0] is not store:
                world = self._engine.settings.world
                self._claims = store, claims_of(store, world, lease_seconds=_LEASE, wait_seconds=_LONGEST_WAIT)
            claims = self._claims[1]
        # Not by way of ``asking``: what was begun is also ended while the application closes.
        ask = self._engine.reach if is_async else self._engine.ask_blocking
        return AskedClaims(claims, ask, by_thread=not is_async)


async def _logged(question: Coroutine[Any, Any, Any]) -> None:
    try:
        await question
    except Exception as error:  # noqa: BLE001 -- whoever asked has gone on
        logger.error("A failed call could not be kept as a dead letter: %s", error)  # noqa: TRY400 -- known by its text


__all__ = ["Guards"]
