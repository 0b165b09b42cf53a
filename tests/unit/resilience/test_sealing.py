"""What is left in the database by an application that encrypts: nothing that can be read, and all that is needed."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.errors import CodecError, ReplayRefused
from holdfast.resilience.letters import arguments_of
from holdfast.serialize import Compression, Encryption, Serialization
from holdfast.testing.workers import until

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.model.dead_letter import FailedOperationData

SECRET = "S3CRET"


class Broken(Exception):
    """What a dependency raises that does not work."""


def encrypting(key: bytes = b"1" * 32) -> Serialization:
    return Serialization(codecs=[Compression(), Encryption(keys={"k1": key}, current="k1")])


def encrypted(path: Path, **options: Any) -> Holdfast:
    return Holdfast(f"sqlite:///{path}/app.sqlite", name="sealed", serializer=encrypting(), **options)


def written(path: Path) -> str:
    """Return all that the database has, as statements."""
    with closing(sqlite3.connect(path / "app.sqlite")) as database:
        return "\n".join(database.iterdump())


def only(app: Holdfast) -> FailedOperationData:
    [letter] = app.dead_letters.find()
    return letter


def test_letter_of_a_protected_function_is_as_opaque_as_that_of_a_run(tmp_path: Path) -> None:
    app = encrypted(tmp_path)

    @app.protect("pay", dead_letter=True, fallback=None)
    def pay(card: str, *, amount: Decimal) -> None:
        raise Broken(f"{card} {SECRET} refused")

    with app:
        pay(SECRET, amount=Decimal("4711.5"))
        letter = only(app)
        assert (letter.failure_type, letter.error_message, letter.error) == ("Broken", "Broken", "Broken")
        assert letter.request_data["hidden"]
        assert letter.metadata == {"protect": "pay"}
        with pytest.raises(ReplayRefused, match="codecs"):
            arguments_of(letter)
    assert SECRET not in written(tmp_path)
    assert "4711.5" not in written(tmp_path)


def test_handlers_get_what_was_sealed(tmp_path: Path) -> None:
    app, paid = encrypted(tmp_path), []
    seen: list[Any] = []

    @app.protect("pay", dead_letter=True, fallback=None)
    def pay(card: str, *, amount: Decimal, at: datetime) -> None:
        if not seen:
            raise Broken(f"{SECRET} refused\udcff")
        paid.append((card, amount, at))

    @app.protect("mail", dead_letter=True, fallback=None)
    def mail(to: str) -> None:
        raise Broken(f"no {to}")

    app.replay_handler("pay", pay, with_arguments=True)
    app.replay_handler("mail", seen.append)
    now = datetime.now(UTC)
    with app:
        pay(SECRET, amount=Decimal("1.5"), at=now)
        mail(SECRET)
        assert app.dead_letters.replay(domain="mail").replayed == 1
        assert seen[0].request_data == {"positionalArgs": [SECRET], "namedArgs": {}}
        assert seen[0].error_message == f"no {SECRET}"
        assert "Traceback" in seen[0].error
        assert app.dead_letters.replay(domain="pay").replayed == 1
    assert paid == [(SECRET, Decimal("1.5"), now)]
    assert SECRET not in written(tmp_path)


def test_what_was_sealed_is_called_again_when_the_breaker_closes(tmp_path: Path) -> None:
    app = encrypted(tmp_path)
    works, paid = [False], []
    app.breaker("pay", failures=1, open_for=0, open_jitter=0, successes=1)

    @app.protect("pay", dead_letter=True, replay_on_close=True, fallback=None)
    def pay(card: str) -> None:
        if not works[0]:
            raise Broken
        paid.append(card)

    with app:
        pay(SECRET)
        works[0] = True
        until(lambda: pay("another") is None and SECRET in paid)
    assert SECRET not in written(tmp_path)


def test_replay_that_fails_tells_the_caller_why_and_the_database_only_the_type(tmp_path: Path) -> None:
    app = encrypted(tmp_path)

    @app.protect("pay", dead_letter=True, fallback=None)
    def pay(card: str) -> None:
        raise Broken(f"{card} refused")

    @app.workflow(dead_letter=True)
    def order(card: str) -> None:
        raise Broken(f"{card} refused")

    app.replay_handler("pay", pay, with_arguments=True)
    with app:
        pay(SECRET)
        with pytest.raises(Broken):
            order(SECRET)
        assert set(app.dead_letters.replay().errors.values()) == {f"Broken: {SECRET} refused"}
    assert SECRET not in written(tmp_path)


def test_letter_whose_key_is_not_here_is_not_replayed(tmp_path: Path) -> None:
    app, other = encrypted(tmp_path), Holdfast(f"sqlite:///{tmp_path}/app.sqlite", name="sealed")

    @app.protect("pay", dead_letter=True, fallback=None)
    def pay(card: str) -> None:
        raise Broken(card)

    other.replay_handler("pay", pay, with_arguments=True)
    with app:
        pay(SECRET)
    with other:
        [why] = other.dead_letters.replay().errors.values()
        assert why.startswith(f"{CodecError.__name__}: A value went through the codec")
        assert "which is not configured here" in repr(only(other))


def test_mask_is_put_on_before_the_seal(tmp_path: Path) -> None:
    app = encrypted(tmp_path, mask_fields=["card"])
    seen: list[Any] = []

    @app.protect("pay", dead_letter=True, fallback=None)
    def pay(*, card: str) -> None:
        raise Broken

    app.replay_handler("pay", seen.append)
    with app:
        pay(card=SECRET)
        app.dead_letters.replay(domain="pay")
    assert seen[0].request_data == {"positionalArgs": [], "namedArgs": {"card": "***"}, "_masked": ["card"]}


def test_compression_hides_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.sqlite"
    app = Holdfast(url, name="small", serializer=Serialization(codecs=[Compression(min_bytes=0)]))

    @app.protect("pay", dead_letter=True, fallback=None)
    def pay(order: str) -> None:
        raise Broken(f"no {order}")

    with app:
        pay("o-1")
        letter = only(app)
        assert (letter.error_message, letter.request_data["positionalArgs"]) == ("no o-1", ["o-1"])


def test_argument_without_a_form_shows_nothing_of_the_others(tmp_path: Path) -> None:
    app = encrypted(tmp_path)

    @app.protect("pay", dead_letter=True, fallback=None)
    def pay(card: str, session: object) -> None:
        raise Broken(card)

    @app.step(name="book", dead_letter=True)
    def book(card: str, session: object) -> None:
        raise Broken(card)

    @app.workflow(dead_letter=True)
    def order(cards: list[object]) -> None:
        cards.append(object())
        try:
            book(SECRET, object())
        except Broken:
            raise Broken(SECRET) from None

    with app:
        pay(SECRET, object())
        with pytest.raises(Broken):
            order([SECRET])
        assert sorted(letter.domain for letter in app.dead_letters.find()) == ["book", "pay", "workflow"]
    assert SECRET not in written(tmp_path)


class Failing:
    """A codec that does not work."""

    name = "failing"

    def choose(self, data: bytes) -> str | None:
        return "" if SECRET.encode() in data else None

    def encode(self, data: bytes, variant: str, bound: bytes) -> bytes:
        raise OSError("the key service is away")

    decode = encode


def test_codec_that_fails_lets_nothing_through(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.sqlite"
    app = Holdfast(url, name="failing", serializer=Serialization(codecs=[Failing()]))

    @app.protect("pay", dead_letter=True)
    def pay(card: str) -> None:
        raise Broken(card)

    @app.step(dead_letter=True)
    def book(card: str) -> None:
        raise Broken(card)

    @app.workflow(dead_letter=True)
    def order(cards: list[str]) -> None:
        cards.append(SECRET)
        book(SECRET)

    with app:
        with pytest.raises(Broken) as raised:
            pay(SECRET)
        assert "could not be kept" in raised.value.__notes__[0]
        with pytest.raises(CodecError):
            order([])
    assert SECRET not in written(tmp_path)


def test_results_under_keys_go_through_the_codecs(tmp_path: Path) -> None:
    calls: list[str] = []

    def pays(app: Holdfast) -> Any:
        @app.protect("pay", idempotency_key=lambda order: order)
        def pay(order: str) -> Decimal:
            calls.append(order)
            return Decimal("4711.5")

        return pay

    def paid(order: str, **options: Any) -> Any:
        with Holdfast(f"sqlite:///{tmp_path}/app.sqlite", name="sealed", **options) as app:
            return pays(app)(order)

    assert paid("before") == Decimal("4711.5")
    assert "4711.5" in written(tmp_path)
    assert paid("before", serializer=encrypting()) == Decimal("4711.5")  # kept before anything was encrypted
    with closing(sqlite3.connect(tmp_path / "app.sqlite")) as database, database:
        database.execute("DELETE FROM holdfast_idempotency")
    for _ in range(2):
        assert paid("after", serializer=encrypting()) == Decimal("4711.5")
    assert "4711.5" not in written(tmp_path)
    assert calls == ["before", "after"]
    with pytest.raises(CodecError):
        paid("after", serializer=encrypting(b"2" * 32))


def test_async_functions_are_sealed_alike(tmp_path: Path) -> None:
    app = AsyncHoldfast(f"sqlite:///{tmp_path}/app.sqlite", name="sealed", serializer=encrypting())
    seen: list[Any] = []

    @app.protect("pay", dead_letter=True, fallback=None)
    async def pay(card: str) -> None:
        raise Broken(card)

    @app.protect("ask", idempotency_key="once")
    async def ask() -> str:
        seen.append("asked")
        return SECRET

    async def again(card: str) -> None:
        seen.append(card)

    app.replay_handler("pay", again, with_arguments=True)

    async def main() -> None:
        async with app:
            await pay(SECRET)
            assert [await ask(), await ask()] == [SECRET, SECRET]
            assert (await app.dead_letters.replay(domain="pay")).replayed == 1

    asyncio.run(main())
    assert seen == ["asked", SECRET]
    assert SECRET not in written(tmp_path)
