"""What a task or thread holds, as the stores remember it."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING

from holdfast.stores import tokens

if TYPE_CHECKING:
    from collections.abc import Callable


def _apart(scene: Callable[[], None]) -> None:
    contextvars.Context().run(scene)


def test_all_that_one_call_has_claimed_is_held() -> None:
    def scene() -> None:
        claimed: dict[tuple[str, ...], str] = {("queue", str(number)): f"token {number}" for number in range(25_000)}
        tokens.hold_all(claimed)
        assert tokens.all_held() == claimed

    _apart(scene)


def test_claims_that_nobody_ends_are_forgotten_in_the_end() -> None:
    def scene() -> None:
        for batch in range(30):
            tokens.hold_all({("queue", f"{batch}-{number}"): "token" for number in range(1000)})
        assert len(tokens.all_held()) == 10_000
        assert tokens.held(("queue", "29-0")) == "token"
        assert tokens.held(("queue", "0-0")) is None

    _apart(scene)
