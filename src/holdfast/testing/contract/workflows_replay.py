"""The contract of the record: what was delivered live is delivered again, values and errors alike."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CannotSerialize, CodecError, RecordedError
from holdfast.serialize import Compression, Encryption, Serialization
from holdfast.testing.contract import workflows_values as values
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life


async def double(number: int) -> int:
    return number * 2


async def triple(number: int) -> int:
    return number * 3


async def same(thing: Any) -> Any:
    return thing


def described(error: BaseException) -> list[Any]:
    """Return what a workflow can see of an error, without asking it for its text."""
    kind = type(error)
    shown = "" if isinstance(error, values.Silent) else str(error)
    attributes = {name: value if isinstance(value, str | int) else "?" for name, value in sorted(vars(error).items())}
    return [f"{kind.__module__}.{kind.__qualname__}", shown, attributes, type(error.__cause__).__name__]


class ReplayContract:
    """Live delivery equals replay delivery."""

    def test_recorded_values_come_back_as_they_were_delivered(self, venue: Venue) -> None:
        """One run in which every step is live, and its second life in which every step is replayed."""
        delivered: dict[int, list[Any]] = {1: [], 2: []}

        def build(app: App, life: Life) -> Flow:
            steps = [app.step(body) for body, _ in values.VALUES]

            async def all_of_them() -> int:
                for step in steps:
                    delivered[life.number].append(await step())
                await life()
                return len(steps)

            return app.workflow(all_of_them)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == len(values.VALUES)
            expected = [value for _, value in values.VALUES]
            assert delivered[1] == expected
            assert delivered[2] == expected
            assert [type(each) for each in delivered[1]] == [type(each) for each in expected]
            assert [type(each) for each in delivered[2]] == [type(each) for each in expected]
            assert len(stage.steps(handle.workflow_id)) == len(expected)

        Stage(venue).play(scene)

    def test_results_of_runs_are_the_same_for_callers_and_for_those_who_come_later(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, other = stage.app(), stage.app()
            flows = [(app.workflow(body), other.workflow(body), value) for body, value in values.VALUES]
            async with app, other:
                for flow, same, expected in flows:
                    handle = await flow.start()
                    live = await handle.result()
                    later = await (await same.options(workflow_id=handle.workflow_id).start()).result()
                    assert (live, type(live)) == (later, type(later)) == (expected, type(expected))

        Stage(venue).play(scene)

    def test_recorded_errors_come_back_as_the_same_type_and_data(self, venue: Venue) -> None:
        seen: dict[int, list[Any]] = {1: [], 2: []}
        ran: list[int] = []

        class Local(Exception):
            pass

        raisers: list[Callable[[], BaseException]] = [
            lambda: KeyError("k", 1),
            lambda: OSError(2, "No such file", "data.txt"),
            lambda: values.OutOfStock("tea", 0),
            lambda: values.TimeoutError("mine"),
            lambda: Local("here only"),
            values.Silent,
            lambda: ExceptionGroup("both", [ValueError("a"), values.OutOfStock("b", 2)]),
        ]

        async def raise_number(number: int) -> None:
            ran.append(number)
            error = raisers[number]()
            raise error from LookupError("cause")

        def build(app: App, life: Life) -> Flow:
            step = app.step(raise_number)

            async def catching() -> None:
                for number in range(len(raisers)):
                    try:
                        await step(number)
                    except Exception as error:  # noqa: BLE001 -- looked at below
                        seen[life.number].append(described(error))
                await life()
                await step(2)

            return app.workflow(catching)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            final = await handle.error()
            assert isinstance(final, values.OutOfStock)
            assert (final.sku, final.left, str(final)) == ("tea", 0, "tea is out of stock")
            kinds = [each[0].rpartition(".")[2] for each in seen[1]]
            assert kinds == [
                "KeyError",
                "FileNotFoundError",
                "OutOfStock",
                "TimeoutError",
                "RecordedError",
                "Silent",
                "ExceptionGroup",
            ]
            assert seen[1][3][0] == f"{values.__name__}.TimeoutError"
            assert seen[1][4][2]["message"] == "here only"
            assert {each[3] for each in seen[1]} == {"LookupError"}
            assert seen[1] == seen[2]
            assert ran == [*range(len(raisers)), 2]

        Stage(venue).play(scene)

    def test_cause_and_context_of_an_error_are_the_same_on_replay_and_reach_who_asks_for_the_result(
        self, venue: Venue
    ) -> None:
        seen: dict[int, list[Any]] = {1: [], 2: []}

        async def fails(explicit: bool) -> None:
            try:
                raise LookupError("first")
            except LookupError as error:
                if explicit:
                    raise ValueError("second") from error
                raise ValueError("second")  # noqa: B904 -- that is what is asked here

        def build(app: App, life: Life) -> Flow:
            step = app.step(fails)

            async def catching() -> None:
                for explicit in (True, False):
                    try:
                        await step(explicit)
                    except ValueError as error:
                        shown = error.__context__ if not error.__suppress_context__ else None
                        seen[life.number].append([repr(error.__cause__), repr(shown)])
                await life()
                await step(True)

            return app.workflow(catching)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            final = await handle.error()
            assert repr(final.__cause__) == "LookupError('first')"
            assert seen[1] == [["LookupError('first')", "None"], ["None", "LookupError('first')"]]
            assert seen[2] == seen[1]

        Stage(venue).play(scene)

    def test_error_without_a_class_here_comes_back_as_a_stand_in_for_callers_too(self, venue: Venue) -> None:
        class Local(Exception):
            pass

        async def fails() -> None:
            raise Local("gone", 3)

        async def scene(stage: Stage) -> None:
            app, other = stage.app(), stage.app()
            flow, same = app.workflow(fails), other.workflow(fails)
            async with app, other:
                handle = await flow.start()
                live = await handle.error()
                later = await (await same.options(workflow_id=handle.workflow_id).start()).error()
                for error in (live, later):
                    assert isinstance(error, RecordedError)
                    assert error.name.endswith("<locals>.Local")
                    assert error.message == "('gone', 3)"

        Stage(venue).play(scene)

    @pytest.mark.parametrize("where", ["step", "workflow"])
    def test_value_that_cannot_be_stored_fails_the_run_with_its_path_and_leaves_no_record(
        self, venue: Venue, where: str
    ) -> None:
        async def unfit() -> Any:
            return {"orders": [1, {"lock": threading.Lock()}]}

        async def scene(stage: Stage) -> None:
            app = stage.app()
            first, step = app.step(double), app.step(unfit)

            async def flow_of_step() -> Any:
                await first(1)
                return await (step() if where == "step" else unfit())

            flow = app.workflow(flow_of_step)
            async with app:
                handle = await flow.start()
                with pytest.raises(CannotSerialize, match=r"\$\.orders\[1\]\.lock"):
                    await handle.result()
                assert stage.run(handle.workflow_id)["status"] == "ERROR"
                assert [row["function_name"] for row in stage.steps(handle.workflow_id)] == ["double"]

        Stage(venue).play(scene)

    def test_argument_that_cannot_be_stored_is_refused_before_anything_is_written(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()

            flow = app.workflow(same)
            async with app:
                with pytest.raises(CannotSerialize, match=r"positionalArgs\[0\]"):
                    await flow.options(workflow_id=stage.version)(threading.Lock())
                assert (
                    stage.rows(
                        f"SELECT 1 AS x FROM {stage.table('workflow_status')} WHERE workflow_uuid = ?", stage.version
                    )
                    == []
                )

        Stage(venue).play(scene)

    def test_steps_that_are_recorded_are_not_done_again(self, venue: Venue) -> None:
        ran: list[str] = []

        def build(app: App, life: Life) -> Flow:
            async def note(text: str) -> str:
                ran.append(text)
                return text

            step = app.step(note)

            async def noting() -> list[str]:
                found = [await step("a"), await step("b")]
                await life()
                return [*found, await step("c")]

            return app.workflow(noting)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert await handle.result() == ["a", "b", "c"]
            assert ran == ["a", "b", "c"]
            state = await handle.status()
            assert state.recovery_attempts in {0, 1}
            assert stage.run(handle.workflow_id)["executions"] == 2

        Stage(venue).play(scene)

    def test_whatever_is_recorded_is_replayed_though_it_is_encrypted(self, venue: Venue) -> None:
        """No two ciphertexts are the same, of whatever key: none is what an operation is known by."""

        def build(app: App, life: Life) -> Flow:
            step, child = app.step(same), app.workflow(double)

            async def sealed() -> list[Any]:
                here = app.raw.workflow_id
                found = [await step("a"), await child(1), await app.gather(lambda: step("b"), lambda: step("c"))]
                await app.do("write_stream", "stream", {"n": 1})
                await app.do("set_event", "event", [2])
                await app.do("send", here, "message")
                found += [await app.do("get_event", here, "event"), await app.do("recv"), await child.start(3)]
                found[-1] = await found[-1].result()
                await app.do("register_queue", "sealed")
                waiting = child.raw.options(queue_name="sealed")
                found += [await app.value(each) for each in (waiting.enqueue(4), waiting.debounce("key", 0.001, 5))]
                found[-2:] = [await app.value(each.result()) for each in found[-2:]]
                await app.do("close_stream", "stream")
                await life()
                return found

            return app.workflow(sealed)

        async def scene(stage: Stage) -> None:
            keys = {"old": b"1" * 32}
            rotated = Serialization(codecs=[Encryption(keys={**keys, "new": b"2" * 32}, current="new")])
            stage.settings["serializer"] = Serialization(codecs=[Encryption(keys=keys, current="old")])
            handle = await stage.relive(build, between=lambda: stage.settings.update(serializer=rotated))
            assert await handle.result() == ["a", 2, ["b", "c"], [2], "message", 6, 8, 10]

        Stage(venue).play(scene)

    def test_run_whose_record_cannot_be_opened_ends_before_its_code_hears_of_it(self, venue: Venue) -> None:
        """A step that has succeeded must not look like one that has failed: what then is undone would be wrong."""
        undone: list[str] = []

        def build(app: App, life: Life) -> Flow:
            step = app.step(same)

            async def undo() -> None:
                undone.append("undone")

            undo_step = app.step(undo)

            async def paying() -> str:
                try:
                    await step("receipt " * 20)
                except Exception:  # noqa: BLE001 -- as careless as users are
                    await undo_step()
                    return "undone"
                await life()
                return "paid"

            return app.workflow(paying)

        async def scene(stage: Stage) -> None:
            stage.settings["serializer"] = Serialization(codecs=[Compression(min_bytes=100)])  # the call is not
            handle = await stage.relive(build, between=lambda: stage.settings.update(serializer=Serialization()))
            with pytest.raises(CodecError):
                await handle.result()
            assert undone == []

        Stage(venue).play(scene)
