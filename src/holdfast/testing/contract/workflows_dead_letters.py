"""The contract of dead letters of runs, and of their replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import ReplayRefused
from holdfast.model.workflow import Retry
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

    def test_run_of_a_version_that_nobody_has_keeps_no_replay_waiting(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            older, version = stage.app(), f"{stage.version}-new"
            shop = Shop(older, dead_letter=f"d{version}")
            async with older:
                one, two = [await shop.checkout.start(f"o-{number}") for number in (1, 2)]
                for handle in (one, two):
                    await handle.error()
            newer = stage.app(application_version=version)
            Shop(newer).broken = False
            async with newer:
                report = await replay(newer, domain=f"d{version}")
                assert report.failed == 2
                assert all(f"version {stage.version}, which no living" in why for why in report.errors.values())
                assert (await newer.retrieve(one.workflow_id).status()).status == "ERROR"
                await newer.do("rewind_workflow", one.workflow_id, application_version=version)
                assert (await replay(newer, f"run-{one.workflow_id}")).replayed == 1
            taking = stage.app(application_version=version, compatible_versions=[stage.version])
            Shop(taking).broken = False
            async with taking:
                assert (await replay(taking, f"run-{two.workflow_id}")).replayed == 1

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

    def test_letter_of_a_step_that_has_succeeded_since_does_nothing_again(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, broken, done = stage.app(), {"pay", "ship"}, []

            def step(name: str, **options: Any) -> Any:
                async def work() -> None:
                    done.append(name)
                    if name in broken:
                        raise ConnectionError(name)

                return app.step(work, name=name, **options)

            pay, pack, ship = step("pay", dead_letter=True), step("pack"), step("ship")

            async def checkout() -> None:
                await pay()
                await pack()
                await ship()

            workflow = app.workflow(checkout, dead_letter=True)
            async with app:
                handle = await workflow.start()
                await handle.error()
                of_run, of_step = await letters_of(app, handle.workflow_id)
                broken.remove("pay")
                assert (await replay(app, of_run.id)).failed == 1
                broken.remove("ship")
                assert (await replay(app, of_step.id)).replayed == 1
                assert done == ["pay", "pay", "pack", "ship", "ship"]

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
            for settings, mark, order in (
                ({"dead_letter_bytes": 100}, "_truncated", "o" * 1000),
                ({"dead_letter_bytes": 2500}, "_truncated", "ooo€" * 500),  # fewer characters, and more bytes
                (
                    {"serializer": Serialization(codecs=[Encryption(keys={"k1": b"1" * 32}, current="k1")])},
                    "_not_kept",
                    "o" * 1000,
                ),
            ):
                app = stage.app(**settings)
                shop = Shop(app, dead_letter=True)
                async with app:
                    handle = await shop.checkout.start(order)
                    await handle.error()
                    [letter] = await letters_of(app, handle.workflow_id)
                    assert mark in letter.request_data
                    assert letter.request_data["whole"]["workflow_id"] == handle.workflow_id
                    assert "ooo" not in repr(letter.request_data)
                    shop.broken = False
                    assert (await replay(app, letter.id)).replayed == 1

        Stage(venue).play(scene)


__all__ = ["DeadLettersContract"]
