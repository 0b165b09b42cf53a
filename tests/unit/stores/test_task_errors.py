"""What is stored of the error of a task."""

from __future__ import annotations

import pytest

from holdfast.stores.tasks.task import error_text


class Wordless(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("there are no words for it")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("away", "away"),
        (OSError("away"), "OSError: away"),
        (OSError("\x00 \udcff"), "OSError: \ufffd ?"),
        (Wordless(), "Wordless: <Wordless whose text cannot be shown>"),
    ],
)
def test_error_of_a_task_is_text_whatever_it_is(error: str | Exception, text: str) -> None:
    assert error_text(error) == text
