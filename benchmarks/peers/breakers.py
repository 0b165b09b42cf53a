"""A call through a closed breaker of pybreaker, purgatory and Baldur, in microseconds; all in memory."""

import asyncio
import json
import logging
import statistics
import time
from collections.abc import Callable

logging.disable(logging.CRITICAL)

ROUNDS, CALLS = 5, 20_000


def work() -> int:
    return 1


async def work_async() -> int:
    return 1


def say(name: str, microseconds: float) -> None:
    print(json.dumps({"name": name, "us": microseconds}), flush=True)


def median(call: Callable[[], object], calls: int = CALLS) -> float:
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        taken.append((time.perf_counter() - began) / calls * 1e6)
    return statistics.median(taken)


def pybreaker_calls() -> None:
    import pybreaker

    breaker = pybreaker.CircuitBreaker(fail_max=5)
    say("pybreaker: call", median(lambda: breaker.call(work)))


def purgatory_calls() -> None:
    import purgatory

    breaker = purgatory.SyncCircuitBreakerFactory().get_breaker("x")

    def block() -> None:
        with breaker:
            work()

    say("purgatory: with", median(block))

    async def blocks() -> float:
        factory = purgatory.AsyncCircuitBreakerFactory()
        taken = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            for _ in range(CALLS):
                async with await factory.get_breaker("x"):
                    await work_async()
            taken.append((time.perf_counter() - began) / CALLS * 1e6)
        return statistics.median(taken)

    say("purgatory: async with", asyncio.run(blocks()))


def baldur_calls() -> None:
    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    from baldur.adapters.memory.circuit_breaker import InMemoryCircuitBreakerStateRepository
    from baldur.services.circuit_breaker import CircuitBreakerService

    service = CircuitBreakerService(repository=InMemoryCircuitBreakerStateRepository())
    service.should_allow("svc")

    def call() -> None:
        decision = service.should_allow_with_state("svc")
        work()
        service.record_success("svc", hint_state=decision.state, hint_epoch=decision.window_epoch)

    say("Baldur: allow, call, record", median(call, 2_000))


say("bare call", median(work, CALLS * 10))
for peer in (pybreaker_calls, purgatory_calls, baldur_calls):
    try:
        peer()
    except Exception as error:  # noqa: BLE001 -- one peer that cannot be measured does not hide the others
        print(f"{peer.__name__}: {error!r}")
