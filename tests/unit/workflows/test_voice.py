"""I16: one attempt, one voice. What is said once it is over is refused, however close to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import AttemptOver
from holdfast.testing.colours import Colour
from holdfast.testing.contract import Venue
from holdfast.testing.contract.workflows_stage import Stage
from holdfast.workflows.operations.place import StepPlace, here
from holdfast.workflows.operations.voice import SideWrite, Voice, voice_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.workflows.engine.engine import Engine


class Owner:
    """A run of an engine, as far as a voice asks for it."""

    def __init__(self) -> None:
        self.id = "a run"
        self.engine: Any = object()


def a_place() -> StepPlace:
    run: Any = Owner()
    within: Any = None
    return StepPlace(within, run, "0", 1, 1)


WRITE = SideWrite(None, ())  # type: ignore[arg-type]

SAYINGS: dict[str, Callable[[Voice], object]] = {
    "kept": lambda voice: voice.add(WRITE),
    "live": lambda voice: voice.speak_live(WRITE, WRITE),
}


@pytest.mark.parametrize("how", SAYINGS)
def test_i16_voice_whose_attempt_has_ended_meanwhile_says_nothing(how: str) -> None:
    """Whoever asked for the voice in time, and comes to speak after the end."""
    place = a_place()
    voice = Voice(place)
    SAYINGS[how](voice)
    said = voice.said(), voice.said_if_failed()
    place.closed = True
    with pytest.raises(AttemptOver, match="Attempt 1 of operation 0 of run a run is over"):
        SAYINGS[how](voice)
    assert (voice.said(), voice.said_if_failed()) == said


def test_i16_code_that_an_attempt_has_left_behind_gets_no_voice() -> None:
    place = a_place()
    engine: Engine = place.run.engine
    mark = here.set(place)
    try:
        assert voice_of(engine) is not None
        place.closed = True
        with pytest.raises(AttemptOver):
            voice_of(engine)
    finally:
        here.reset(mark)


@pytest.mark.parametrize("colour", list(Colour))
@pytest.mark.parametrize("fails", [False, True])
def test_i16_attempt_is_over_before_it_is_asked_what_it_has_said(
    tmp_path: Path, colour: Colour, *, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what another thread says in between would be acknowledged, and never be written."""
    closed: list[bool] = []

    def noting(method: Callable[[Voice], Any]) -> Callable[[Voice], Any]:
        def noted(voice: Voice) -> Any:
            closed.append(voice.place.closed)
            return method(voice)

        return noted

    monkeypatch.setattr(Voice, "said", noting(Voice.said))
    monkeypatch.setattr(Voice, "said_if_failed", noting(Voice.said_if_failed))

    async def scene(stage: Stage) -> None:
        app = stage.app()

        async def speaks() -> None:
            await app.do("write_stream", "words", 1)
            if fails:
                raise ValueError("after it has spoken")

        step = app.step(speaks)

        async def main() -> None:
            await step()

        flow = app.workflow(main)
        async with app:
            handle = await flow.start()
            if fails:
                assert isinstance(await handle.error(), ValueError)
            else:
                await handle.result()

    Stage(Venue("sqlite", f"sqlite:///{tmp_path}/runs.db", colour)).play(scene)
    assert closed
    assert all(closed)
