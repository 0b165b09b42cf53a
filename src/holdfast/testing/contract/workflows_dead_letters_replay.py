"""Replaying the dead letters of runs, steps and protected functions, on every database and in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError
from holdfast.resilience.replay_report import ReplayResult
from holdfast.serialize import Encryption, Serialization
from holdfast.testing.contract.workflows_dead_letters import Shop, replay
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.testing.contract.venue import Venue


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

    def test_workflow_that_replays_its_own_letters_comes_to_rest(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, domain = stage.app(), f"d{stage.version}"
            shop = Shop(app, dead_letter=domain, step={"dead_letter": domain})
            app.raw.replay_handler(domain, shop.checkout.raw)
            async with app:
                letters, own = app.raw.dead_letters, f"run-{stage.version}"
                await (await shop.checkout.options(workflow_id=own).start("o-1")).error()
                made = await app.value(letters.create(domain, "t", request_data={"order": "o-2"}))
                for _ in range(4):
                    await replay(app, domain=domain)
                found = await app.value(letters.find(domain=domain))
                assert {each.status for each in found} == {"requires_review"}
                # Of each run a letter and one of its step, and the one that a run was begun for.
                assert {each.workflow_id for each in found} == {own, f"replay-{made.id}", None}
                assert len(found) == 5
                shop.broken = False
                await replay(app, domain=domain, force=True)
                assert [each for each in shop.done if each.startswith("pack")] == ["pack o-1", "pack o-2"]

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
