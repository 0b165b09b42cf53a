"""The contract of deduplication ids and of debouncing: of several calls at most one run waits."""

from __future__ import annotations

import itertools
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from holdfast.errors import ConfigurationError, Deduplicated, MisuseError
from holdfast.testing.contract.workflows_enqueue_stage import Queued, Sums, fresh, refusal
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from holdfast.db.session import Row
    from holdfast.testing.contract.venue import Venue


class DeduplicationContract:
    """What a deduplication id promises."""

    def test_deduplication_id_belongs_to_one_run_that_has_not_ended(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                once = sums.queued.options(deduplication_id="once")
                first = await once.enqueue(1)
                error = await refusal(once.enqueue(2))
                assert isinstance(error, Deduplicated)
                assert all(word in str(error) for word in (first.workflow_id, sums.queue, "'once'"))
                same = await once.options(on_duplicate="return_existing").enqueue(3)
                assert same.workflow_id == first.workflow_id
                elsewhere = await once.options(queue_name=fresh()).enqueue(4)
                assert elsewhere.workflow_id != first.workflow_id
                await sums.listen()
                assert await same.result() == 1
                assert await (await once.enqueue(5)).result() == 5

        Stage(venue).play(scene)

    def test_cancelled_run_frees_its_deduplication_id(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                once = sums.queued.options(deduplication_id="once")
                first = await once.enqueue(1)
                await sums.app.do("cancel_workflow", first.workflow_id)
                assert (await once.enqueue(2)).workflow_id != first.workflow_id

        Stage(venue).play(scene)

    def test_of_many_at_once_one_has_the_deduplication_id(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                once = sums.queued.options(deduplication_id="once", on_duplicate="return_existing")
                others = [sums.queued.options(deduplication_id=f"other-{number}") for number in range(20)]
                wanted = [*(once for _ in range(20)), *others]
                made = await sums.app.at_once(*(partial(each.enqueue, 1) for each in wanted))
                assert len({handle.workflow_id for handle in made[:20]}) == 1
                assert len({handle.workflow_id for handle in made[20:]}) == 20
                assert len(sums.waiting()) == 21

        Stage(venue).play(scene)

    def test_duplicate_fails_alone(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                once = sums.queued.options(deduplication_id="once")
                await once.enqueue(0)
                refused = []

                async def enqueue(number: int) -> str | None:
                    try:
                        chosen = once if number % 5 == 0 else sums.queued
                        return (await chosen.enqueue(number)).workflow_id
                    except Deduplicated as error:
                        refused.append(error)
                        return None

                made = await sums.app.at_once(*(partial(enqueue, number) for number in range(25)))
                assert len(refused) == 5
                assert len(set(made) - {None}) == 20
                assert len(sums.waiting()) == 21

        Stage(venue).play(scene)

    def test_applications_that_race_for_a_deduplication_id_have_one_run(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            racers = [Sums(stage) for _ in range(3)]
            queue = racers[0].queue
            for each in racers:
                await each.app.launch()

            async def race(racer: Sums, number: int) -> list[str]:
                once = Queued(racer.flow, racer.app, queue_name=queue, on_duplicate="return_existing")
                names = [f"once-{place}" for place in range(8)]
                calls = [once.options(deduplication_id=each).call(number) for each in names[:: (-1) ** number]]
                alone = [await once.options(deduplication_id=f"alone-{each}").enqueue(number) for each in names]
                many = await once.enqueue_many(calls)
                return [each.workflow_id for each in (*alone, *many[:: (-1) ** number])]

            found = await racers[0].app.at_once(*(partial(race, racer, n) for n, racer in enumerate(racers)))
            assert found[0] == found[1] == found[2]
            assert len(racers[0].waiting()) == len(set(found[0])) == 16

        Stage(venue).play(scene)

    def test_deduplication_id_that_is_freed_while_it_is_wanted_is_never_had_by_two(self, venue: Venue) -> None:
        """Runs end between the statements of those who want their deduplication id."""

        async def scene(stage: Stage) -> None:
            racers = [Sums(stage) for _ in range(2)]
            queue = racers[0].queue
            for each in racers:
                await each.app.launch()
            await racers[0].listen()

            async def take(racer: Sums, number: int) -> list[int]:
                chosen = {"queue_name": queue, "deduplication_id": "once", "on_duplicate": "return_existing"}
                once = Queued(racer.flow, racer.app, **chosen)
                values = []
                for place in range(10):
                    handle = await once.enqueue(number, place)
                    holders.append(_not_ended(racers[0].waiting()))
                    values.append(await handle.result())
                return values

            holders: list[int] = []
            found = await racers[0].app.at_once(*(partial(take, racer, n) for n, racer in enumerate(racers)))
            assert all(value in range(11) for value in itertools.chain.from_iterable(found))
            rows = racers[0].waiting()
            assert 10 <= len(rows) <= 20
            assert {row["status"] for row in rows} == {"SUCCESS"}
            assert max(holders) <= 1

        Stage(venue).play(scene)


class DebounceContract:
    """What ``debounce`` promises."""

    def test_debounced_calls_are_one_run_with_the_last_arguments(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            async with Sums(stage) as sums:
                await sums.listen()
                first = await sums.queued.debounce("k", 100, 1)
                due = stage.run(first.workflow_id)["delay_until_epoch_ms"]
                stage.set_clock(60)
                second = await sums.queued.debounce("k", timedelta(seconds=100), 2, second=5)
                assert second.workflow_id == first.workflow_id
                assert stage.run(first.workflow_id)["delay_until_epoch_ms"] >= due + 60_000
                other = await sums.queued.debounce("other", 1_000, 3)
                assert other.workflow_id != first.workflow_id
                stage.set_clock(120)
                assert (await first.status()).status == "DELAYED"
                stage.set_clock(170)
                assert await first.result() == 7
                third = await sums.queued.debounce("k", 0, 9)
                assert third.workflow_id != first.workflow_id
                assert await third.result() == 9

        Stage(venue).play(scene)

    def test_debounced_calls_of_another_function_are_another_run_whatever_it_is_called(self, venue: Venue) -> None:
        async def double(number: int) -> int:
            return 2 * number

        async def scene(stage: Stage) -> None:
            sums = Sums(stage)
            longer = sums.app.workflow(double, name=f"add-{stage.version}/more")
            async with sums:
                await sums.listen()
                first = await sums.queued.debounce("more/k", 0.2, 1)
                second = await Queued(longer, sums.app, queue_name=sums.queue).debounce("k", 0.2, 4)
                assert [await first.result(), await second.result()] == [1, 8]

        Stage(venue).play(scene)

    def test_debounced_run_that_is_due_takes_no_more_calls_while_it_waits_in_its_queue(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                first = await sums.queued.debounce("k", 0, 1)
                await stage.until(lambda: stage.run(first.workflow_id)["status"] == "ENQUEUED")
                assert stage.run(first.workflow_id)["deduplication_id"] is None
                second = await sums.queued.debounce("k", 60, 2)
                assert second.workflow_id != first.workflow_id

        Stage(venue).play(scene)

    def test_debounce_ends_at_its_timeout(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            stage.set_clock(0)
            async with Sums(stage) as sums:
                patient = sums.queued.options(debounce_timeout=2500)
                first = await patient.debounce("k", 1000, 1)
                made = (await first.status()).created_at
                for clock in (800, 1600):
                    stage.set_clock(clock)
                    again = await patient.debounce("k", 1000, clock)
                    assert again.workflow_id == first.workflow_id
                state = await first.status()
                assert state.delay_until_epoch_ms == made + 2_500_000
                document = await sums.app.do("export_workflow", first.workflow_id)
                marks = ("is_debounced", "debounce_deadline_epoch_ms")
                assert [document["workflow"][each] for each in marks] == [True, made + 2_500_000]
                copied = await sums.app.do("import_workflow", document, workflow_id=fresh("copy"))
                assert [stage.run(copied.workflow_id)[each] for each in marks] == [True, made + 2_500_000]
                shorter = await sums.queued.options(debounce_timeout=500).debounce("short", 1000, 1)
                short = await shorter.status()
                assert short.delay_until_epoch_ms == short.created_at + 500_000

        Stage(venue).play(scene)

    def test_debounce_refuses_what_it_decides_itself(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                for wrong in ({"delay": 1}, {"deduplication_id": "x"}, {"workflow_id": "x"}):
                    assert isinstance(await refusal(sums.queued.options(**wrong).debounce("k", 1, 1)), MisuseError)
                for key, period in (("", 1), ("k", -1), ("k" * 250, 1)):
                    assert isinstance(await refusal(sums.queued.debounce(key, period, 1)), ConfigurationError)
                assert sums.waiting() == []

        Stage(venue).play(scene)

    def test_debounced_calls_at_once_are_one_run(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            async with Sums(stage) as sums:
                made = await sums.app.at_once(
                    *(partial(sums.queued.debounce, f"k{number % 2}", 60, number) for number in range(16))
                )
                assert len({handle.workflow_id for handle in made}) == 2
                assert len(sums.waiting()) == 2

        Stage(venue).play(scene)

    def test_applications_that_race_to_debounce_lose_no_last_call(self, venue: Venue) -> None:
        """Runs become due while they are put off: the last call of each is in a run, whichever that is."""

        async def scene(stage: Stage) -> None:
            racers = [Sums(stage) for _ in range(2)]
            queue = racers[0].queue
            for each in racers:
                await each.app.launch()
            await racers[0].listen()

            async def press(racer: Sums, number: int) -> int:
                button = Queued(racer.flow, racer.app, queue_name=queue)
                for place in range(15):
                    handle = await button.debounce("k", 0.01, number, place * 2)
                found: int = await handle.result()
                return found

            found = await racers[0].app.at_once(*(partial(press, racer, n) for n, racer in enumerate(racers)))
            assert max(found) in {28, 29}
            assert {row["status"] for row in racers[0].waiting()} == {"SUCCESS"}

        Stage(venue).play(scene)


def _not_ended(rows: list[Row]) -> int:
    """Return how many of the runs, read by one statement, had not ended."""
    return sum(row["status"] != "SUCCESS" for row in rows)
