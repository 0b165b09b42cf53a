"""The contract of dead letters of runs, and of their replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError, ReplayRefused
from holdfast.model.workflow import Retry
from holdfast.resilience.replay_report import ReplayResult
from holdfast.serialize import Encryption, Serialization
from holdfast.testing.contract.workflows_stage import App, Stage

if TYPE_CHECKING:
    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.resilience.replay_report import ReplayReport
    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import Flow, Life


class Shop:
    """Two steps of which the second fails as long as *broken*, and what was done."""

    def __init__(self, app: App, **options: Any) -> None:
        self.broken = True
        self.done: list[str] = []

        async def pack(order: str) -> str:
            self.done.append(f"pack {order}")
            return order

        async def pay(order: str, card: str) -> str:
            self.done.append(f"pay {order}")
            if self.broken:
                raise ConnectionError(f"no line for {order}")
            return f"paid {order} by {len(card)} digits"

        packed = app.step(pack, name="pack")
        paid = app.step(pay, name="pay", **options.pop("step", {}))

        async def checkout(order: str) -> str:
            return str(await paid(await packed(order), card="4711-0815"))

        async def forgiving(order: str) -> str:
            try:
                return str(await paid(order, card="4711-0815"))
            except ConnectionError:
                return "unpaid"

        self.pay = app.coloured(pay)
        self.checkout = app.workflow(checkout, **options)
        self.forgiving = app.workflow(forgiving)


async def letters_of(app: App, workflow_id: str) -> list[FailedOperationData]:
    """Return the letters of a run and of its steps, by their ids."""
    found = await app.value(app.raw.dead_letters.find(limit=1000))
    return sorted((each for each in found if each.workflow_id == workflow_id), key=lambda each: each.id)


async def replay(app: App, *args: Any, **options: Any) -> ReplayReport:
    report: ReplayReport = await app.value(app.raw.dead_letters.replay(*args, **options))
    return report


class DeadLettersContract:
    """Which runs and steps become letters, what is in them, and what a replay does."""

    def test_run_over_its_cap_becomes_one_letter_and_its_replay_resumes_it(self, venue: Venue) -> None:
        def build(app: App, life: Life) -> Flow:
            async def fragile(order: str) -> str:
                await life()
                return f"done {order}"

            return app.workflow(fragile, name="fragile", max_recovery_attempts=0)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build, "o-1")
            error = await handle.error()
            app = handle.app
            [letter] = await letters_of(app, handle.workflow_id)
            assert (letter.domain, letter.failure_type, letter.status) == ("workflow", "RecoveryExhausted", "pending")
            assert letter.request_data == {"positionalArgs": ["o-1"], "namedArgs": {}}
            assert str(error).split(" took")[0] in letter.error_message
            assert letter.metadata["status"] == "MAX_RECOVERY_ATTEMPTS_EXCEEDED"
            assert (letter.metadata["recovery_attempts"], letter.metadata["workflow"]) == (1, "fragile")
            report = await replay(app, letter.id)
            assert (report.matched, report.replayed) == (1, 1)
            assert await app.retrieve(handle.workflow_id).result() == "done o-1"
            [letter] = await letters_of(app, handle.workflow_id)
            assert (letter.status, letter.resolution_type) == ("resolved", "manual_replay")

        Stage(venue).play(scene)

    def test_run_that_fails_becomes_a_letter_by_option_and_is_replayed_from_what_failed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            shop = Shop(app, dead_letter="orders")
            async with app:
                handle = await shop.checkout.start("o-2")
                assert isinstance(await handle.error(), ConnectionError)
                [letter] = await letters_of(app, handle.workflow_id)
                assert (letter.domain, letter.failure_type) == ("orders", "ConnectionError")
                assert letter.request_data["positionalArgs"] == ["o-2"]
                assert "no line for o-2" in letter.error
                assert "Traceback" in letter.error
                shop.broken = False
                report = await replay(app, letter.id)
                assert report.replayed == 1, report
                assert shop.done == ["pack o-2", "pay o-2", "pay o-2"]
                assert await app.retrieve(handle.workflow_id).result() == "paid o-2 by 9 digits"

        Stage(venue).play(scene)

    def test_run_that_fails_is_no_letter_unless_it_is_asked_for(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            plain, asked = stage.app(), stage.app(dead_letters="errors")
            for app, number in ((plain, 0), (asked, 1)):
                shop = Shop(app)
                async with app:
                    handle = await shop.checkout.start("o-3")
                    await handle.error()
                    assert len(await letters_of(app, handle.workflow_id)) == number

        Stage(venue).play(scene)

    def test_run_that_fails_at_every_replay_comes_to_rest_as_one_letter(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            shop = Shop(app, dead_letter=True)
            async with app:
                handle = await shop.checkout.start("o-4")
                await handle.error()
                [letter] = await letters_of(app, handle.workflow_id)
                for status in ("pending", "requires_review"):
                    report = await replay(app, letter.id)
                    assert report.failed == 1
                    assert "no line for o-4" in report.errors[letter.id]
                    [letter] = await letters_of(app, handle.workflow_id)
                    assert letter.status == status
                assert len(letter.metadata["history"]) == 3
                assert (await replay(app, letter.id)).skipped == 1
                shop.broken = False
                assert (await replay(app, letter.id, force=True)).replayed == 1
                [letter] = await letters_of(app, handle.workflow_id)
                assert (letter.metadata["force_redrive_count"], letter.status) == (1, "resolved")

        Stage(venue).play(scene)

    def test_run_that_fails_after_its_letter_was_resolved_opens_it_again(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            shop = Shop(app, dead_letter=True)
            async with app:
                handle = await shop.checkout.start("o-5")
                await handle.error()
                [letter] = await letters_of(app, handle.workflow_id)
                assert await app.value(app.raw.dead_letters.mark_as_resolved(letter.id, "manual"))
                await app.do("rewind_workflow", handle.workflow_id)
                await app.retrieve(handle.workflow_id).error()
                [letter] = await letters_of(app, handle.workflow_id)
                assert (letter.status, letter.retry_count, len(letter.metadata["history"])) == ("pending", 0, 2)

        Stage(venue).play(scene)

    def test_step_out_of_retries_becomes_one_letter_with_its_record(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app(mask_fields=("CARD",))
            shop = Shop(app, step={"dead_letter": "payments", "retry": Retry(attempts=3, interval=0)})
            async with app:
                handle = await shop.checkout.start("o-6")
                await handle.error()
                assert len(shop.done) == 4
                [letter] = await letters_of(app, handle.workflow_id)
                assert (letter.domain, letter.entity_type, letter.metadata["step"]) == ("payments", "step", "pay")
                assert letter.request_data["namedArgs"] == {"card": "***"}
                assert "4711-0815" not in repr(letter)
                [execution] = letter.metadata["history"]
                tried = [(each["attempt"], each["error"]) for each in execution["attempts"]]
                assert tried == [(number, "ConnectionError: no line for o-6") for number in (1, 2, 3)]
                assert sorted(each["at"] for each in execution["attempts"]) == [
                    each["at"] for each in execution["attempts"]
                ]
                shop.broken = False
                assert (await replay(app, letter.id)).replayed == 1
                assert await app.retrieve(handle.workflow_id).result() == "paid o-6 by 9 digits"

        Stage(venue).play(scene)

    def test_step_that_its_workflow_went_on_without_needs_a_handler(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            shop = Shop(app, step={"dead_letter": "payments"})
            async with app:
                handle = await shop.forgiving.start("o-7")
                assert await handle.result() == "unpaid"
                [letter] = await letters_of(app, handle.workflow_id)
                report = await replay(app, letter.id)
                assert report.failed == 1
                assert report.errors[letter.id].startswith(ReplayRefused.__name__)

            again = stage.app()
            shop = Shop(again)
            shop.broken = False
            again.raw.replay_handler("payments", shop.pay, with_arguments=True)
            async with again:
                assert (await replay(again, letter.id)).replayed == 1
                assert shop.done == ["pay o-7"]

        Stage(venue).play(scene)

    def test_fallback_of_a_step_hides_no_letter(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            shop = Shop(app, step={"dead_letter": "payments", "fallback": "later"})
            async with app:
                handle = await shop.checkout.start("o-8")
                assert await handle.result() == "later"
                assert [each.domain for each in await letters_of(app, handle.workflow_id)] == ["payments"]

        Stage(venue).play(scene)

    def test_large_arguments_are_left_to_the_run_and_encoded_ones_are_not_shown(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            for settings, mark in (
                ({"dead_letter_bytes": 100}, "_truncated"),
                ({"serializer": Serialization(codecs=[Encryption(keys={"k1": b"1" * 32}, current="k1")])}, "_not_kept"),
            ):
                app = stage.app(**settings)
                shop = Shop(app, dead_letter=True)
                async with app:
                    handle = await shop.checkout.start("o" * 1000)
                    await handle.error()
                    [letter] = await letters_of(app, handle.workflow_id)
                    assert mark in letter.request_data
                    assert letter.request_data["whole"]["workflow_id"] == handle.workflow_id
                    assert "ooo" not in repr(letter.request_data)
                    shop.broken = False
                    assert (await replay(app, letter.id)).replayed == 1

        Stage(venue).play(scene)


class ReplayContract:
    """Handlers of domains, and replays of many."""

    def test_function_workflow_and_step_replay_letters_of_their_domains(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, done = stage.app(), []

            async def by_letter(entry: Any) -> None:
                done.append(("function", entry.request_data))

            async def by_name(order: str, cents: int = 0) -> None:
                done.append((app.raw.workflow_id, (order, cents)))

            async def as_step(order: str) -> None:
                done.append(("step", order))

            mark = stage.version
            app.raw.replay_handler(f"f{mark}")(app.coloured(by_letter))
            app.raw.replay_handler(f"w{mark}", app.workflow(by_name).raw)
            app.raw.replay_handler(f"s{mark}", app.step(as_step).raw)
            with pytest.raises(ConfigurationError, match="already"):
                app.raw.replay_handler(f"f{mark}", print)
            async with app:
                create = app.raw.dead_letters.create
                await app.value(create(f"f{mark}", "t", request_data={"order": 1}))
                call = {"positionalArgs": ["o"], "namedArgs": {"cents": 5}}
                letter = await app.value(create(f"w{mark}", "t", request_data=call))
                await app.value(create(f"s{mark}", "t", request_data={"order": "p"}))
                for kind in "fws":
                    assert (await replay(app, domain=f"{kind}{mark}")).replayed == 1
                run_id = f"replay-{letter.id}"
                assert done == [("function", {"order": 1}), (run_id, ("o", 5)), ("step", "p")]

        Stage(venue).play(scene)

    def test_workflow_as_handler_does_again_only_what_failed(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            shop = Shop(app)
            app.raw.replay_handler(f"d{stage.version}", shop.checkout.raw)
            async with app:
                create = app.raw.dead_letters.create
                letter = await app.value(create(f"d{stage.version}", "t", request_data={"order": "o-9"}))
                assert (await replay(app, letter.id)).failed == 1
                shop.broken = False
                assert (await replay(app, letter.id)).replayed == 1
                assert shop.done == ["pack o-9", "pay o-9", "pay o-9"]

        Stage(venue).play(scene)

    def test_many_are_replayed_by_a_filter_and_reported(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, domain, seen, told = stage.app(), f"d{stage.version}", [], []

            async def handle(entry: Any) -> None:
                seen.append(entry.request_data["n"])
                if entry.request_data["n"] % 10 == 3:
                    raise OSError("down")

            app.raw.replay_handler(domain, app.coloured(handle))
            async with app:
                for n in range(30):
                    kind = "odd" if n % 2 else "even"
                    await app.value(app.raw.dead_letters.create(domain, kind, request_data={"n": n}))
                dry = await replay(app, domain=domain, dry_run=True)
                assert (dry.matched, dry.counts[ReplayResult.WOULD_REPLAY], seen) == (30, 30, [])
                report = await replay(
                    app, domain=domain, failure_type="odd", progress=lambda done, _: told.append(done)
                )
                assert (report.matched, report.replayed, report.failed) == (15, 12, 3)
                assert sorted(seen) == list(range(1, 30, 2))
                assert told == list(range(1, 16))
                assert (await replay(app, domain=domain, limit=4)).matched == 4
                counts = (await app.value(app.raw.dead_letters.get_facet_counts(domain=domain)))["by_status"]
                assert counts == {"resolved": 15, "pending": 14, "requires_review": 1}  # number 3 has failed twice
                forced = await replay(app, domain=domain, force=True)
                assert (forced.matched, forced.failed, len(seen)) == (15, 3, 15 + 4 + 15)

        Stage(venue).play(scene)

    def test_protected_function_that_fails_in_a_replay_makes_no_second_letter(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, domain, broken = stage.app(), f"d{stage.version}", [True]

            async def send(to: str) -> str:
                if broken[0]:
                    raise OSError(f"no way to {to}")
                return to

            protect = app.raw.protect(domain, dead_letter=True, fallback="later", breaker=False)
            protected = protect(app.coloured(send))
            app.raw.replay_handler(domain, protected, with_arguments=True)
            async with app:
                assert await app.value(protected("ada")) == "later"
                assert (await replay(app, domain=domain)).failed == 1
                assert await app.value(app.raw.dead_letters.count(domain=domain)) == 1
                broken[0] = False
                assert (await replay(app, domain=domain)).replayed == 1

        Stage(venue).play(scene)

    def test_letters_and_results_of_protected_functions_go_through_the_codecs(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            secret = Serialization(codecs=[Encryption(keys={"k1": b"1" * 32}, current="k1")])
            app, domain, done = stage.app(serializer=secret), f"d{stage.version}", []
            name = "lovelace" * 10_000

            async def send(to: str) -> None:
                raise OSError(f"no way to {to}")

            async def note(to: str) -> str:
                done.append(to)
                return to

            sent = app.raw.protect(domain, dead_letter=True, fallback=None, breaker=False)(app.coloured(send))
            noted = app.raw.protect(domain, idempotency_key="only", breaker=False)(app.coloured(note))
            app.raw.replay_handler(domain, noted, with_arguments=True)
            async with app:
                await app.value(sent(name))
                [letter] = await app.value(app.raw.dead_letters.find(domain=domain))
                assert (letter.error_message, letter.error) == ("OSError", "OSError")
                assert letter.request_data["hidden"]
                assert "lovelace" not in repr(letter)
                assert (await replay(app, domain=domain)).replayed == 1
                assert await app.value(noted(name)) == name
                assert done == [name]
                kept = await app.value(app.raw.idempotency.get(f"protect:{domain}:only"))
                assert kept["headers"] == {"serialization": "portable_json+aesgcm:k1"}
                assert "lovelace" not in repr(kept)

        Stage(venue).play(scene)

    def test_letters_that_are_due_are_replayed_by_themselves_once(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            domain, seen = f"d{stage.version}", []

            async def handle(entry: Any) -> None:
                seen.append(entry.id)
                if len(seen) == 1:
                    raise OSError("not yet")

            apps = [stage.app(), stage.app()]
            for app in apps:
                app.raw.replay_handler(domain, app.coloured(handle), automatic=True, delay=0)
                await app.launch()
            create = apps[0].raw.dead_letters.create
            letter = await apps[0].value(create(domain, "t", retry_delay=0))

            async def resolved() -> bool:
                found = await apps[0].value(apps[0].raw.dead_letters.get_by_id(letter.id))
                return bool(found.status == "resolved")

            await stage.until(resolved)
            assert seen == [letter.id] * 2
            found = await apps[0].value(apps[0].raw.dead_letters.get_by_id(letter.id))
            assert found.resolution_type == "scheduled_batch"
            with pytest.raises(ConfigurationError, match="launch"):
                apps[0].raw.replay_handler("late", print, automatic=True)

        Stage(venue).play(scene)


__all__ = ["DeadLettersContract", "ReplayContract"]
