"""The contract of workflows and steps that are methods: static, class and configured-instance, and their recovery."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import ConfigurationError, WorkflowConflict
from holdfast.model.workflow import Retry
from holdfast.testing.contract.workflows_saga import saga_of
from holdfast.testing.contract.workflows_stage import Flow, Handle, Life, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.contract.venue import Venue
    from holdfast.testing.contract.workflows_stage import App

    Decorator = Callable[[Any], Any]


def greeters(app: App, life: Life | None = None) -> Any:
    """Return a class with a workflow of each kind, and a class below it."""
    workflow: Callable[..., Decorator] = app.raw.workflow
    step: Decorator = app.raw.step
    coloured: Decorator = app.coloured

    class Greeter:
        word = "hello"

        def __init__(self, config_name: str, mark: str = "!") -> None:
            self.config_name = config_name
            self.mark = mark

        @step
        @coloured
        async def marked(self, text: str) -> str:
            return text + self.mark

        @step
        @staticmethod
        @coloured
        async def upper(text: str) -> str:
            return text.upper()

        @step
        @classmethod
        @coloured
        async def said(cls, text: str) -> str:
            return f"{cls.word} {text}"

        @workflow(name="Greeter.static")
        @staticmethod
        @coloured
        async def static(name: str) -> str:
            found: str = await app.value(Greeter.upper(name))
            await _hold(life)
            return found

        @staticmethod
        @workflow(name="Greeter.outer_static")
        @coloured
        async def outer_static(name: str) -> str:
            await _hold(life)
            return name

        @workflow(name="Greeter.of_class")
        @classmethod
        @coloured
        async def of_class(cls, name: str) -> str:
            found: str = await app.value(cls.said(name))
            await _hold(life)
            return f"{found} by {cls.__name__}"

        @workflow(name="Greeter.of_instance")
        @coloured
        async def of_instance(self, name: str) -> str:
            found: str = await app.value(self.marked(name))
            await _hold(life)
            return f"{found} by {self.config_name}"

    class Loud(Greeter):
        word = "HELLO"

    return Greeter, Loud


async def _hold(life: Life | None) -> None:
    if life is not None:
        await life()


class MethodsContract:
    """Methods are workflows and steps like functions, by the names of their class and their object."""

    def test_methods_of_all_kinds_are_called_like_methods(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            greeter, loud = greeters(app)
            one = greeter("one", "?")
            app.raw.register_instance(one)
            async with app:
                assert await app.value(greeter.static("ann")) == "ANN"
                assert await app.value(one.static("ann")) == "ANN"
                assert await app.value(greeter.outer_static("ann")) == "ann"
                assert await app.value(one.outer_static("ann")) == "ann"
                assert await app.value(greeter.of_class("ann")) == "hello ann by Greeter"
                assert await app.value(one.of_class("ann")) == "hello ann by Greeter"
                assert await app.value(loud.of_class("ann")) == "HELLO ann by Loud"
                assert await app.value(one.of_instance("ann")) == "ann? by one"
                assert await app.value(one.upper("plain")) == "PLAIN"
                assert await app.value(loud.said("plain")) == "HELLO plain"
                assert await app.value(one.marked("plain")) == "plain?"

        Stage(venue).play(scene)

    @pytest.mark.parametrize("way", ["run_step", "undo"])
    def test_step_that_is_a_method_has_its_options_however_it_is_called(self, venue: Venue, way: str) -> None:
        async def scene(stage: Stage) -> None:
            app, said = stage.app(), list[str]()
            step: Decorator = app.raw.step(name="refund", retry=Retry(attempts=3, interval=0))
            coloured: Decorator = app.coloured

            class Till:
                @step
                @coloured
                async def refund(self, whom: str) -> None:
                    said.append(whom)
                    if len(said) < 3:
                        raise RuntimeError("try again")

            async def stepping() -> None:
                await app.do("run_step", Till().refund, "ann")
                raise ValueError("done")

            async def undoing() -> None:
                async with saga_of(app) as saga:
                    saga.undo(Till().refund, "ann")
                    raise ValueError("done")

            flow = app.workflow(stepping if way == "run_step" else undoing)
            async with app:
                handle = await flow.start()
                assert str(await handle.error()) == "done"
                assert said == ["ann"] * 3
                assert [row["function_name"] for row in stage.steps(handle.workflow_id)] == ["refund"]

        Stage(venue).play(scene)

    def test_rows_name_class_and_configuration(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            greeter, loud = greeters(app)
            one = loud("one")
            app.raw.register_instance(one)
            async with app:
                found = []
                for raw in (greeter.static, greeter.outer_static, loud.of_class, one.of_instance):
                    handle = await Flow(app, raw).start("ann")
                    await handle.result()
                    row = stage.run(handle.workflow_id)
                    found.append((row["name"], row["class_name"].rpartition(".")[2], row["config_name"]))
                assert found == [
                    ("Greeter.static", "Greeter", None),
                    ("Greeter.outer_static", "Greeter", None),
                    ("Greeter.of_class", "Loud", None),
                    ("Greeter.of_instance", "Loud", "one"),
                ]

        Stage(venue).play(scene)

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            ("static", "ANN"),
            ("outer_static", "ann"),
            ("of_class", "hello ann by Greeter"),
            ("of_subclass", "HELLO ann by Loud"),
            ("of_instance", "ann! by one"),
            ("of_inherited", "ann! by two"),
        ],
    )
    def test_methods_of_all_kinds_are_recovered(self, venue: Venue, kind: str, expected: str) -> None:
        def build(app: App, life: Life) -> Flow:
            greeter, loud = greeters(app, life)
            one, two = greeter("one"), loud("two")
            app.raw.register_instance(one)
            app.raw.register_instance(two)
            chosen = {
                "static": greeter.static,
                "outer_static": greeter.outer_static,
                "of_class": greeter.of_class,
                "of_subclass": loud.of_class,
                "of_instance": one.of_instance,
                "of_inherited": two.of_instance,
            }
            return Flow(app, chosen[kind])

        async def scene(stage: Stage) -> None:
            handle = await stage.relive(build, "ann")
            assert await handle.result() == expected

        Stage(venue).play(scene)

    def test_id_of_a_run_of_one_class_is_not_that_of_another(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, queue = stage.app(), f"queue-{stage.version}"
            greeter, loud = greeters(app)
            one, other = greeter("one"), loud("one")
            app.raw.register_instance(one)
            app.raw.register_instance(other)
            async with app:
                await app.do("register_queue", queue)
                for first, second in ((greeter.of_class, loud.of_class), (one.of_instance, other.of_instance)):
                    options = {"workflow_id": secrets.token_hex(8)}
                    found = await Flow(app, first).options(**options).start("ann")
                    assert (
                        await (await Flow(app, first).options(**options).start("ann")).result() == await found.result()
                    )
                    with pytest.raises(WorkflowConflict, match=f"of {first.definition.name!r} of the class .*Greeter"):
                        await Flow(app, second).options(**options).start("ann")
                    with pytest.raises(WorkflowConflict, match="of the class"):
                        await app.value(second.options(queue_name=queue, **options).enqueue("ann"))

        Stage(venue).play(scene)

    def test_debounced_calls_of_another_class_or_object_are_another_run(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app, queue = stage.app(), f"queue-{stage.version}"
            greeter, loud = greeters(app)
            one, other = greeter("one", "?"), loud("one")
            app.raw.register_instance(one)
            app.raw.register_instance(other)
            async with app:
                await app.do("register_queue", queue)
                methods = (greeter.of_class, loud.of_class, one.of_instance, other.of_instance)
                found = [await app.value(each.options(queue_name=queue).debounce("k", 0.2, "ann")) for each in methods]
                assert [await Handle(app, each).result() for each in found] == [
                    "hello ann by Greeter",
                    "HELLO ann by Loud",
                    "ann? by one",
                    "ann! by one",
                ]

        Stage(venue).play(scene)

    def test_object_that_a_recovery_could_not_find_is_refused(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            app = stage.app()
            greeter, _ = greeters(app)
            stranger = greeter("one")
            async with app:
                with pytest.raises(ConfigurationError, match="register_instance"):
                    await app.value(stranger.of_instance("ann"))
                app.raw.register_instance(stranger)
                assert await app.value(stranger.of_instance("ann")) == "ann! by one"
                with pytest.raises(ConfigurationError, match="config_name 'one'"):
                    app.raw.register_instance(greeter("one"))
                with pytest.raises(ConfigurationError, match="register_instance"):
                    await app.value(greeter("one").of_instance("ann"))

        Stage(venue).play(scene)

    def test_run_of_an_object_that_is_not_here_waits_for_a_process_that_has_it(self, venue: Venue) -> None:
        async def scene(stage: Stage) -> None:
            first, gate = stage.app(), stage.gate()
            greeter, _ = greeters(first, Life(1, gate))
            one = greeter("one's own")
            first.raw.register_instance(one)
            await first.launch()
            handle = await Flow(first, one.of_instance).start("ann")
            await gate.reached()
            await stage.crash(first)
            second = stage.app()
            greeter, _ = greeters(second, Life(2))
            two = greeter("another")
            second.raw.register_instance(two)
            await second.launch()
            await stage.until(lambda: stage.run(handle.workflow_id)["status"] == "ENQUEUED")
            assert await second.value(two.of_instance("bob")) == "bob! by another"
            assert (await second.retrieve(handle.workflow_id).status()).status == "ENQUEUED"
            second.raw.register_instance(greeter("one's own"))
            assert await second.retrieve(handle.workflow_id).result() == "ann! by one's own"

        Stage(venue).play(scene)
