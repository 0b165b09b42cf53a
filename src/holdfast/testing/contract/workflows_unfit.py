"""The contract of outcomes that cannot be stored, or not be read: the run ends with that, and nothing is done after it.

What an operation did has happened, perhaps with success. Code that took the error for that of a step would undo what
is done, or do it again after a crash, beside what came after it.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CannotDeserialize, CannotSerialize, SerializationError
from holdfast.testing.contract.workflows_saga import saga_of
from holdfast.testing.contract.workflows_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App, Flow, Life, Step


async def same(thing: Any) -> Any:
    return thing


async def number() -> int:
    return "no number"  # type: ignore[return-value]


async def text() -> str:
    return "no number"


async def lock() -> Any:
    return threading.Lock()


def careless(app: App, pay: Callable[[], Awaitable[Any]], undone: list[str], *, life: Life | None = None) -> Flow:
    """Return a workflow that takes any error of *pay* for one after which there is something to be undone."""

    async def undo() -> None:
        undone.append("undone")

    undo_step = app.step(undo)

    async def paying() -> str:
        for _ in range(2):
            try:
                await pay()
            except Exception:  # noqa: BLE001 -- as careless as users are
                with contextlib.suppress(SerializationError):
                    await undo_step()
        if life is not None:
            await life()
        return "paid"

    return app.workflow(paying)


async def in_saga(app: App, step: Step, undone: list[str]) -> None:
    """Call *step* in a saga that has something to undo."""

    async def undo() -> None:
        undone.append("undone by the saga")

    async with saga_of(app) as saga:
        saga.undo(app.coloured(undo))
        await step()


class UnfitContract:
    """Outcomes that cannot be kept."""

    @pytest.mark.parametrize("body", [lock, number])
    def test_outcome_of_a_step_that_cannot_be_kept_ends_the_run_whatever_its_code_makes_of_it(
        self, venue: Venue, body: Any
    ) -> None:
        async def scene(stage: Stage) -> None:
            app, undone = stage.app(), list[str]()
            flow = careless(app, app.step(body), undone)
            async with app:
                handle = await flow.start()
                error = await handle.error()
                assert isinstance(error, CannotSerialize if body is lock else CannotDeserialize)
                assert body.__name__ in str(error)
                assert undone == []
                names = [row["function_name"] for row in stage.steps(handle.workflow_id)]
                assert names == ([] if body is lock else ["number"])

        Stage(venue).play(scene)

    def test_result_of_a_child_that_cannot_be_read_ends_the_run_and_is_recorded_as_no_failure(
        self, venue: Venue
    ) -> None:
        async def scene(stage: Stage) -> None:
            name, undone = f"child-{stage.version}", list[str]()
            async with stage.app() as before:
                child = await before.workflow(same, name=name).start("no number")
                await child.result()
            app = stage.app()

            async def child_now(thing: Any) -> int:
                raise NotImplementedError

            now = app.workflow(child_now, name=name).options(workflow_id=child.workflow_id)

            async def pay() -> None:
                await (await now.start("no number")).result()

            flow = careless(app, pay, undone)
            async with app:
                handle = await flow.start()
                assert isinstance(await handle.error(), CannotDeserialize)
                assert undone == []
                assert [row["function_name"] for row in stage.steps(handle.workflow_id)] == [name]

        Stage(venue).play(scene)

    @pytest.mark.parametrize("where", ["step", "saga", "part"])
    def test_record_that_does_not_fit_its_annotation_any_more_ends_the_run(self, venue: Venue, where: str) -> None:
        undone: list[str] = []

        def build(app: App, life: Life) -> Flow:
            step = app.step(text if life.number == 1 else number, name="charge")

            async def pay() -> None:
                if where == "part":
                    await app.gather(step)
                elif where == "saga":
                    await in_saga(app, step, undone)
                else:
                    await step()

            return careless(app, pay, undone, life=life)

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build)
            assert isinstance(await handle.error(), CannotDeserialize)
            assert undone == []

        Stage(venue).play(scene)

    def test_message_that_does_not_fit_is_an_error_that_a_workflow_may_catch(self, venue: Venue) -> None:
        """Another process has written it, and code hears of it at once: live as on replay."""

        def build(app: App, life: Life) -> Flow:
            step = app.step(same)

            async def receiving() -> list[str]:
                await app.do("send", app.raw.workflow_id, "no number", "topic")
                await app.do("set_event", "topic", "no number")
                found = []
                for verb, given in (("recv", ("topic",)), ("get_event", (app.raw.workflow_id, "topic"))):
                    try:
                        await app.do(verb, *given, type=int)
                    except CannotDeserialize:
                        found.append(await step(f"no {verb}"))
                await life()
                return found

            return app.workflow(receiving)

        async def scene(stage: Stage) -> None:
            assert await (await stage.relive(build)).result() == ["no recv", "no get_event"]

        Stage(venue).play(scene)
