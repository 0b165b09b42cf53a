"""Which arguments are masked in dead letters: those with the name of a field, however they were given."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.errors import ReplayRefused
from holdfast.resilience.letters import MASK, Contents, arguments_of, parameters_of
from holdfast.stores import DLQCompressedEntry, ReplayEnd

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = "S3CRET"


def login(user: str, password: str | None = None, /, *, token: str = "") -> None: ...
def several(user: str, *passwords: str, **others: str) -> None: ...
@functools.wraps(login)
def wrapped(*args: Any, **kwargs: Any) -> None: ...


class Gate:
    def login(self, user: str, Password: str) -> None: ...  # noqa: N803 -- names are the same in any case


@pytest.mark.parametrize(
    ("function", "args", "kwargs", "kept", "masked"),
    [
        (login, ("u", SECRET), {}, (["u", MASK], {}), ["password"]),
        (login, ("u", SECRET), {"token": SECRET}, (["u", MASK], {"token": MASK}), ["password", "token"]),
        (login, ("u",), {}, (["u"], {}), None),
        (login, ("u", None), {}, (["u", None], {}), None),
        (login, ("u", SECRET, "one too many"), {}, (["u", MASK, "one too many"], {}), ["password"]),
        (login, ({"password": SECRET},), {}, ([{"password": MASK}], {}), ["password"]),
        (wrapped, ("u", SECRET), {}, (["u", MASK], {}), ["password"]),
        (functools.partial(login, "u"), (SECRET,), {}, ([MASK], {}), ["password"]),
        (Gate().login, ("u", SECRET), {}, (["u", MASK], {}), ["Password"]),
        (several, ("u", "a", "b"), {}, (["u", MASK, MASK], {}), ["passwords"]),
        (several, ("u",), {"password": SECRET}, (["u"], {"password": MASK}), ["password"]),
        (print, ("u", SECRET), {}, (["u", SECRET], {}), None),
    ],
)
def test_argument_in_its_place_is_masked_by_the_name_of_its_parameter(
    function: Callable[..., Any], args: Any, kwargs: Any, kept: tuple[Any, Any], masked: list[str] | None
) -> None:
    contents = Contents.of(["password", "PASSWORDS", "token"])
    letter = contents.masked(contents.call(args, kwargs, parameters_of(function)))  # the tables do it once more
    assert (letter["positionalArgs"], letter["namedArgs"]) == kept
    assert letter.get("_masked") == masked


def test_argument_in_its_place_is_masked_beside_one_that_has_no_form() -> None:
    kept = Contents.of(["password"]).call((object(), SECRET), {}, parameters_of(login))
    assert kept["positionalArgs"][1] == MASK
    assert SECRET not in repr(kept)


def _written(path: Path) -> str:
    with closing(sqlite3.connect(path / "app.sqlite")) as database:
        rows = database.execute("SELECT * FROM holdfast_dlq").fetchall()
    assert rows
    return repr(rows)


def test_letters_of_functions_steps_and_workflows_are_masked_by_parameter(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/app.sqlite", name="masked", mask_fields=["password"])

    @app.protect("login", dead_letter=True, breaker=False)
    def protected(user: str, password: str) -> None:
        raise OSError("no line")

    class Gate:
        @app.protect("gate", dead_letter=True, breaker=False)
        def protected(self, user: str, password: str) -> None:
            raise OSError("no line")

        @app.step(name="gate-step", dead_letter=True)
        def step(self, user: str, password: str) -> None:
            raise OSError("no line")

    @app.step(name="step", dead_letter=True)
    def step(user: str, password: str) -> None:
        raise OSError("no line")

    @app.workflow(name="enter", dead_letter=True)
    def enter(user: str, password: str) -> None:
        for each in (step, Gate().step):
            with pytest.raises(OSError, match="no line"):
                each(user, password)
        raise OSError("no line")

    with app:
        for call in (protected, Gate().protected, enter):
            with pytest.raises(OSError, match="no line"):
                call("ada", SECRET)
        letters = app.dead_letters.find()
        assert {each.domain for each in letters} == {"login", "gate", "step", "gate-step", "workflow"}
        for letter in letters:
            assert letter.request_data["positionalArgs"][-2:] == ["ada", MASK]
            assert letter.request_data["_masked"] == ["password"]
        with pytest.raises(ReplayRefused, match="masked"):
            arguments_of(letters[0])
    assert SECRET not in _written(tmp_path)


def test_sync_step_of_an_async_workflow_is_masked_by_parameter(tmp_path: Path) -> None:
    app = AsyncHoldfast(f"sqlite:///{tmp_path}/app.sqlite", name="masked", mask_fields=["password"])

    @app.step(dead_letter=True)
    def step(user: str, password: str) -> None:
        raise OSError("no line")

    @app.workflow
    async def enter(user: str, password: str) -> None:
        await app.run_step(step, user, password)

    async def main() -> None:
        async with app:
            with pytest.raises(OSError, match="no line"):
                await enter("ada", SECRET)
            [letter] = await app.dead_letters.find()
            assert letter.request_data["positionalArgs"] == ["ada", MASK]

    asyncio.run(main())
    assert SECRET not in _written(tmp_path)


def test_what_is_said_of_a_replay_and_of_a_summary_is_masked(tmp_path: Path) -> None:
    with Holdfast(f"sqlite:///{tmp_path}/app.sqlite", name="masked", mask_fields=["password"]) as app:
        letters, told = app.dead_letters, {"deep": [{"Password": SECRET}], "user": "ada"}
        one, other = (letters.create("login", "t").id for _ in range(2))
        assert letters.complete_replay(one, False, error_details=told)
        assert letters.complete_many([ReplayEnd(id=other, token=None, success=False, error_details=told)]) == [True]
        for each in letters.find():
            assert each.metadata == {"deep": [{"Password": MASK}], "user": "ada", "_masked": ["Password"]}
        now = datetime(2030, 1, 1, tzinfo=UTC)
        entry = DLQCompressedEntry(
            id="mine", domain="d", failure_type="t", error_code="", count=1, first_seen=now, last_seen=now,
            sample_context=told,
        )  # fmt: skip
        assert letters.store_compressed_entry(entry)
        [kept] = letters.get_compressed_entries()
        assert kept.sample_context["deep"] == [{"Password": MASK}]
    assert SECRET not in _written(tmp_path)
