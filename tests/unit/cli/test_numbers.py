"""Numbers on the command line: one that no database keeps is refused by the name of its option."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click
import pytest

from holdfast.cli import main

HUGE = "9" * 30


def numbers() -> dict[str, tuple[click.Command, click.Option]]:
    """Return the options of all commands that are a whole number."""
    context = click.Context(main)
    found: dict[str, tuple[click.Command, click.Option]] = {}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        inner = command.commands if isinstance(command, click.Group) else {"": command}
        for verb, each in inner.items():
            assert each is not None
            for option in each.params:
                if isinstance(option, click.Option) and is_number(each, option):
                    found[f"{name} {verb} {option.opts[0]}"] = each, option
    return found


def is_number(command: click.Command, option: click.Option) -> bool:
    return type(read(command, option, "7")) is int and read(command, option, "{}") is None


def read(command: click.Command, option: click.Option, word: str) -> Any:
    with suppress(click.BadParameter, TypeError):
        return option.type_cast_value(click.Context(command), word)
    return None


@pytest.mark.parametrize("name", list(numbers()))
def test_number_that_is_too_large_is_refused_by_its_option(name: str) -> None:
    command, option = numbers()[name]
    with pytest.raises(click.BadParameter):
        option.type_cast_value(click.Context(command), HUGE)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("breakers", "open", "mail", "--by", HUGE), "--by"),
        (("breakers", "open", "mail", "--by", "ada"), "--by"),
        (("dead-letters", "resolve", "1", "--by", HUGE), "--by"),
        (("dead-letters", "purge", "--days", "36501", "--yes"), "--days"),
        (("dead-letters", "archive", "--days", "36501", "--yes"), "--days"),
        (("prune", "--keep-last", HUGE, "--yes"), "--keep-last"),
        (("workflow", "fork", "1", "--from-step", HUGE), "--from-step"),
        (("enqueue", "checkout", "--queue", "mail", "--priority", "-1"), "--priority"),
    ],
    ids=lambda words: " ".join(words)[:40] if isinstance(words, tuple) else "",
)
def test_refusal_names_the_option_and_nothing_is_done(shop: Any, words: tuple[str, ...], option: str) -> None:
    done = shop.run(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"Invalid value for '{option}'" in done.stderr
    assert "is made now" not in done.stderr


def test_any_id_that_a_database_keeps_may_be_a_persons(shop: Any) -> None:
    assert shop.json("breakers", "open", "mail", "--by", str(-(2**63)))["controlled_by_id"] == -(2**63)
