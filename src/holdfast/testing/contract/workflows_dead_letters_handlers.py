"""The contract of what replays dead letters: functions on threads, what they raise, and the arguments they get."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError, MisuseError, NotInitialized
from holdfast.testing.colours import Colour
from holdfast.testing.contract.workflows_dead_letters import replay
from holdfast.testing.contract.workflows_stage import App, Stage
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.testing.contract.venue import Venue


@dataclass
class Order:
    """An argument of the tests' own type."""

    number: int


class _End(BaseException):
    """What is no error, and raised all the same."""


class Wordless(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("there are no words for it")


class Slow:
    """A handler on a thread, which ends when its application has begun to close."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.begun = threading.Event()
        self._may_end = threading.Event()

    def __call__(self, letter: FailedOperationData) -> None:
        self.begun.set()
        assert self._may_end.wait(60)
        self.done.append(letter.id)

    async def close(self, app: App) -> None:
        """Close *app* while the handler works."""
        engine = app.raw._engine  # noqa: SLF001 -- that it closes is not part of anybody's interface
        by_hand = engine.dead_letters.replayer.under_way

        def end_it() -> None:
            until(lambda: engine.closing and all(bulk.is_stopped for bulk in list(by_hand)))
            self._may_end.set()

        opener = threading.Thread(target=end_it)
        opener.start()
        await app.close()
        opener.join()


async def letter_of(stage: Stage, letter_id: str) -> FailedOperationData:
    """Return a letter as another application finds it."""
    async with stage.app() as app:
        found: FailedOperationData = await app.value(app.raw.dead_letters.get_by_id(letter_id))
        return found


class ReplayHandlersContract:
    """What handlers may do, and what becomes of it."""

    def test_replay_that_succeeds_while_the_application_closes_is_noted(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, slow, domain = stage.app(), Slow(), f"d{stage.version}"
            app.raw.replay_handler(domain, slow, automatic=True, delay=0)
            await app.launch()
            letter = await app.value(app.raw.dead_letters.create(domain, "t", retry_delay=0))
            await stage.until(slow.begun.is_set)
            await slow.close(app)
            assert (await letter_of(stage, letter.id)).status == "resolved"
            assert slow.done == [letter.id]

        Stage(venue).play(scene)

    def test_replay_by_hand_ends_before_the_database_is_closed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, slow, domain = stage.app(), Slow(), f"d{stage.version}"
            app.raw.replay_handler(domain, slow)
            await app.launch()
            create, again = app.raw.dead_letters.create, app.raw.dead_letters.replay
            letters = [await app.value(create(domain, "t")) for _ in range(3)]
            with ThreadPoolExecutor(1) as pool:
                reply: Any = (
                    asyncio.ensure_future(again(domain=domain, concurrency=1))
                    if app.colour is Colour.ASYNC
                    else pool.submit(again, domain=domain, concurrency=1)
                )
                await stage.until(slow.begun.is_set)
                await slow.close(app)
                with pytest.raises(NotInitialized, match="closed during the replay"):
                    await app.value(reply if app.colour is Colour.ASYNC else reply.result(60))
            found = {each.id: (await letter_of(stage, each.id)) for each in letters}
            assert {each.id for each in found.values() if each.status == "resolved"} == set(slow.done)
            left = [each for each in found.values() if each.id not in slow.done]
            assert [(each.status, each.retry_count) for each in left] == [("pending", 0)] * (3 - len(slow.done))

        Stage(venue).play(scene)

    def test_handler_that_closes_its_application_has_failed_and_keeps_nobody_waiting(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, domain, errors = stage.app(), f"d{stage.version}", []

            async def handle(_: Any) -> None:
                try:
                    await app.value(app.raw.close())
                except MisuseError as error:
                    errors.append(str(error))
                    raise

            app.raw.replay_handler(domain, app.coloured(handle))
            async with app:
                made = await app.value(app.raw.dead_letters.create(domain, "t"))
                assert (await replay(app, made.id)).failed == 1
            assert "close the application elsewhere" in errors[0]
            assert (await letter_of(stage, made.id)).status == "pending"

        Stage(venue).play(scene)

    def test_whatever_a_handler_raises_is_a_failed_replay(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, domain = stage.app(), f"d{stage.version}"
            ends = {
                "exit": lambda: sys.exit(3),
                "stop": lambda: next(iter(())),
                "wordless": _wordless,
                "end": _raiser(_End),
                "close": _raiser(GeneratorExit),
                "half": _raiser(ValueError("half \ud800")),
            }

            def handle(letter: FailedOperationData) -> None:
                if letter.failure_type in ends:
                    ends[letter.failure_type]()

            app.raw.replay_handler(domain, handle)
            app.raw.replay_handler(f"a{domain}", handle, automatic=True, delay=0)
            async with app:
                letters = app.raw.dead_letters
                for kind in (*ends, "none"):
                    await app.value(letters.create(domain, kind))
                    await app.value(letters.create(f"a{domain}", kind, max_retries=1))
                report = await replay(app, domain=domain)
                assert (report.failed, report.replayed) == (6, 1)
                said = " ".join(report.errors.values())
                assert "SystemExit" in said
                assert "StopIteration" in said
                assert "Wordless" in said
                assert "half ?" in said

                async def ended() -> bool:
                    counts = (await app.value(letters.get_facet_counts(domain=f"a{domain}")))["by_status"]
                    return bool(counts == {"resolved": 1, "requires_review": 6})

                await stage.until(ended)

        Stage(venue).play(scene)

    @pytest.mark.parametrize("error", [_End, GeneratorExit, SystemExit, KeyboardInterrupt])
    def test_letter_whose_coroutine_ends_with_anything_is_ended(self, venue: Venue, error: type[BaseException]) -> None:
        async def scene(stage: Stage) -> None:
            app, domain = stage.app(), f"d{stage.version}"
            if app.colour is Colour.SYNC and error is KeyboardInterrupt:
                return  # it would end the application's own loop

            async def handle(letter: FailedOperationData) -> None:
                if letter.failure_type == "wrong":
                    raise error

            app.raw.replay_handler(domain, handle)
            async with app:
                letters = app.raw.dead_letters
                for kind in ("right", "wrong"):
                    await app.value(letters.create(domain, kind))
                try:
                    report = await replay(app, domain=domain)
                    assert (report.failed, report.replayed) == (1, 1)
                except KeyboardInterrupt:
                    assert error is KeyboardInterrupt
                counts = (await app.value(letters.get_facet_counts(domain=domain)))["by_status"]
                assert counts == {"resolved": 1, "pending": 1}

        Stage(venue).play(scene)

    @pytest.mark.parametrize(
        "wrong",
        [
            *({"resolved_by_id": each} for each in ("x", 1.5, 2**70, True)),
            *({"limit": each} for each in (-1, 1.5)),
            *({"concurrency": 1.5}, {"rate": "5"}, {"progress": 5}),
            *({"id": each, "domain": None} for each in (5, ["x"])),
            *({"id": "x", **each} for each in ({}, {"domain": ""}, {"domain": None, "limit": 0})),
        ],
    )
    def test_replay_that_makes_no_sense_is_refused_before_a_handler_is_called(
        self, venue: Venue, wrong: dict[str, Any]
    ) -> None:
        async def scene(stage: Stage) -> None:
            app, domain = stage.app(), f"d{stage.version}"
            handled: list[str] = []
            app.raw.replay_handler(domain, lambda letter: handled.append(letter.id))
            async with app:
                letter = await app.value(app.raw.dead_letters.create(domain, "t"))
                with pytest.raises((ValueError, ConfigurationError), match=next(iter(wrong)) + "|at once"):
                    await replay(app, **{"domain": domain, **wrong})
                assert (await letter_of(stage, letter.id)).status == "pending"
            assert handled == []

        Stage(venue).play(scene)

    def test_error_that_cannot_say_what_it_is_becomes_a_letter(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, domain = stage.app(), f"d{stage.version}"

            async def fail() -> None:
                _wordless()

            protected = app.raw.protect(domain, dead_letter=True, breaker=False)(app.coloured(fail))
            step = app.step(fail, name=f"s{domain}", dead_letter=True)

            async def flow() -> None:
                await step()

            work = app.workflow(flow, dead_letter=f"w{domain}")
            async with app:
                with pytest.raises(Wordless):
                    await app.value(protected())
                await (await work.start()).error()
                for each in (domain, f"s{domain}", f"w{domain}"):
                    [letter] = await app.value(app.raw.dead_letters.find(domain=each))
                    assert letter.failure_type == "Wordless"
                    assert "cannot be shown" in letter.error_message

        Stage(venue).play(scene)

    def test_call_is_made_again_with_the_types_it_had(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, domain, seen = stage.app(), f"d{stage.version}", []
            call = (Decimal("10.50"), datetime(2030, 1, 1, tzinfo=UTC), b"abc", Order(1), [Decimal(2)])

            async def pay(cents: Decimal, at: datetime, body: bytes, order: Order, *, parts: list[Decimal]) -> None:
                seen.append((cents, at, body, order, parts))
                if len(seen) == 1:
                    raise OSError("away")

            async def untyped(cents: Any) -> None:
                seen.append(cents)
                raise OSError("away")

            protect = app.raw.protect
            protected = protect(domain, dead_letter=True, breaker=False)(app.coloured(pay))
            loose = protect(f"u{domain}", dead_letter=True, breaker=False)(app.coloured(untyped))
            app.raw.replay_handler(domain, protected, with_arguments=True)
            app.raw.replay_handler(f"u{domain}", loose, with_arguments=True)
            async with app:
                with pytest.raises(OSError, match="away"):
                    await app.value(protected(*call[:4], parts=call[4]))
                with pytest.raises(OSError, match="away"):
                    await app.value(loose(Decimal(1)))
                assert (await replay(app, domain=domain)).replayed == 1
                assert seen == [call, Decimal(1), call]
                refused = await replay(app, domain=f"u{domain}")
                assert refused.failed == 1
                assert "was Decimal, and would be str" in next(iter(refused.errors.values()))
                assert len(seen) == 3

        Stage(venue).play(scene)

    def test_letter_that_is_pending_again_is_replayed_by_its_workflow_again(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, domain, sent = stage.app(), f"d{stage.version}", []

            async def send(to: str) -> None:
                sent.append(to)

            app.raw.replay_handler(domain, app.workflow(send).raw)
            async with app:
                letters = app.raw.dead_letters
                made = await app.value(letters.create(domain, "timeout", request_data={"to": "ada"}))
                assert (await replay(app, made.id)).replayed == 1
                assert await app.value(letters.update_status(made.id, "pending"))
                assert (await replay(app, made.id)).replayed == 1
                assert sent == ["ada", "ada"]

        Stage(venue).play(scene)

    def test_sync_function_that_fails_on_the_loop_is_kept_too(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, domain = stage.app(), f"d{stage.version}"

            @app.raw.protect(domain, dead_letter=True, breaker=False, fallback="later")  # type: ignore[untyped-decorator]
            def charge(order: list[str]) -> str:
                raise OSError(f"no line for {order}")

            async def handle(entry: Any) -> None:
                charge(entry.request_data["positionalArgs"][0])

            app.raw.replay_handler(domain, app.coloured(handle))
            async with app:
                order = ["o-1"]
                assert charge(order) == "later"
                order.append("o-2")  # after the call
            async with stage.app() as other:
                [letter] = await other.value(other.raw.dead_letters.find(domain=domain))
                assert letter.request_data["positionalArgs"] == [["o-1"]]
            async with app:
                assert (await replay(app, domain=domain)).failed == 1  # the fallback stands in, and does not hide it
                assert await app.value(app.raw.dead_letters.count(domain=domain)) == 1

        Stage(venue).play(scene)

    def test_letter_keeps_every_argument_that_has_a_json_form(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, domain = stage.app(), f"d{stage.version}"

            class Desk:
                @app.raw.protect(domain, dead_letter=True, breaker=False)  # type: ignore[untyped-decorator]
                def charge(self, order: str, *, cents: int, hint: object) -> None:
                    raise OSError(f"{cents} cents for {order} and {hint} are away")

            async with app:
                with pytest.raises(OSError, match="away"):
                    Desk().charge("o-1", cents=5, hint=object())
            async with stage.app() as other:
                [letter] = await other.value(other.raw.dead_letters.find(domain=domain))
                desk, order = letter.request_data["positionalArgs"]
                assert (list(desk), order) == (["_not_kept"], "o-1")
                named = letter.request_data["namedArgs"]
                assert (named["cents"], list(named["hint"])) == (5, ["_not_kept"])

        Stage(venue).play(scene)


def _wordless() -> None:
    raise Wordless


def _raiser(error: BaseException | type[BaseException]) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


__all__ = ["ReplayHandlersContract"]
