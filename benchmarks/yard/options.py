"""What every benchmark is told in the same way: names of databases, to leave the peers out, and numbers by name.

With ``--help`` a benchmark says what it measures and what it can be told, and measures nothing.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FROM_ONE = range(1, 1_000_000_001)


class Options(argparse.ArgumentParser):
    """The options of one benchmark, whose docstring is *about*.

    With *databases* it takes names of them: ``databases`` has those that were named, or, if none was, those that are
    *usual*, by default all. With *peers* it takes ``--no-peers``.
    """

    def __init__(
        self,
        about: str | None,
        *,
        databases: Sequence[str] = (),
        usual: Sequence[str] = (),
        peers: bool = False,
    ) -> None:
        super().__init__(description=about, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
        if databases:
            unnamed = list(usual or databases)
            self.add_argument(
                "databases",
                nargs="*",
                type=_one_of(databases),  # choices would be held against the default as well, as if it were one name
                default=unnamed,
                metavar="DATABASE",
                help=f"{', '.join(databases)} (default: {', '.join(unnamed) if usual else 'all of them'})",
            )
        if peers:
            self.add_argument("--no-peers", action="store_true", help="leave the peers out")

    def number(self, name: str, default: int | None, about: str, *, allowed: range = _FROM_ONE) -> None:
        """Take ``--name N``, one of *allowed*; without a *default*, *about* says what its absence means."""
        usually = "" if default is None else f" (default: {default:,})"
        self.add_argument(f"--{name}", type=_number(allowed), default=default, metavar="N", help=f"{about}{usually}")

    def seconds(self, default: float, about: str) -> None:
        """Take ``--seconds S``."""
        self.add_argument(
            "--seconds", type=_seconds, default=default, metavar="S", help=f"{about} (default: {default:g})"
        )


def _one_of(names: Sequence[str]) -> Callable[[str], str]:
    def taken(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(names)}")
        return text

    return taken


def _number(allowed: range) -> Callable[[str], int]:
    def taken(text: str) -> int:
        if not text.isdecimal() or int(text) not in allowed:
            steps = f" in steps of {allowed.step:,}" if allowed.step > 1 else ""
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {allowed[0]:,} to {allowed[-1]:,}{steps}")
        return int(text)

    return taken


def _seconds(text: str) -> float:
    try:
        taken = float(text)
    except ValueError:
        taken = 0.0
    if not 0 < taken < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return taken
