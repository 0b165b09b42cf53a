"""The ledger of effects that tests keep outside of the engine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.testing.effects import Effect, Effects

if TYPE_CHECKING:
    from pathlib import Path


def test_line_that_is_being_written_is_not_read_yet(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    effects = Effects(ledger)
    assert effects.all() == []
    effects.append("run-1", "pay", "token")
    with ledger.open("a", encoding="utf-8") as half:
        half.write("run-2\tpay\ttok")
    assert effects.all() == [Effect("run-1", "pay", "token", os.getpid())]
