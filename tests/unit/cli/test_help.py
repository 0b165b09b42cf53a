"""What ``--help`` says: whole sentences, and examples that are true."""

from __future__ import annotations

import shlex

import click
import pytest
from click.testing import CliRunner

from holdfast.cli import main


def groups() -> dict[str, click.Group]:
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name: each for name, each in found.items() if isinstance(each, click.Group)}


def shown_examples() -> list[str]:
    context = click.Context(main)
    single = [main.get_command(context, name) for name in main.list_commands(context)]
    inner = [each for group in groups().values() for each in group.commands.values()]
    epilogs = [each.epilog for each in (*single, *inner) if each is not None and each.epilog]
    return [line.strip() for epilog in epilogs for line in epilog.splitlines() if line.startswith("  ")]


@pytest.mark.parametrize("name", list(groups()))
def test_no_sentence_of_a_group_is_cut(name: str) -> None:
    done = CliRunner().invoke(main, [name, "--help"], terminal_width=80)
    commands = done.stdout.partition("Commands:")[2]
    assert len(commands.splitlines()) > len(groups()[name].commands)
    assert "..." not in commands


@pytest.mark.parametrize("line", shown_examples())
def test_example_is_accepted(line: str) -> None:
    program, *words = shlex.split(line.partition(" > ")[0])
    assert program == "holdfast"
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    assert command.make_context(command.name, words).params


@pytest.mark.parametrize(
    "words", [["workflow", "list"], ["workflow", "start"], ["worker"], ["enqueue"], ["queue", "set"], ["prune"]]
)
def test_main_commands_show_examples(words: list[str]) -> None:
    told = CliRunner().invoke(main, [*words, "--help"]).stdout
    assert f"  Examples:\n    holdfast {' '.join(words)} " in told


def test_duration_and_attribute_are_explained_where_they_stand() -> None:
    for words in (["enqueue"], ["workflow", "start"], ["queue", "drain"], ["schedule", "create"], ["worker"]):
        told = " ".join(CliRunner().invoke(main, [*words, "--help"]).stdout.split())
        options = [part for part in told.split(" --") if part.partition(" ")[2].startswith(("DURATION", "ATTRIBUTE"))]
        assert options
        assert all(" as " in each for each in options), options
