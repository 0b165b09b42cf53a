"""How a command ends when it cannot do what it was asked to."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterator


class Failure(click.ClickException):
    """One line on standard error, and exit code 2."""

    exit_code = 2


@contextmanager
def failures() -> Iterator[None]:
    """Turn our errors into a ``Failure``; any other exception is a defect and shows where it came from."""
    try:
        yield
    except HoldfastError as error:
        raise Failure(" ".join(str(error).split())) from error


__all__ = ["Failure", "failures"]
