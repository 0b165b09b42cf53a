"""The page about the command line has every command and every option, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from holdfast.cli import main

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def commands() -> dict[str, click.Command]:
    context = click.Context(main)
    found: dict[str, click.Command] = {}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}": each for inner, each in command.commands.items()}
        else:
            found[name] = command
    return found


def options(command: click.Command) -> set[str]:
    return {word for each in command.params if isinstance(each, click.Option) for word in each.opts}


@pytest.mark.parametrize("name", list(commands()))
def test_command_is_described_and_so_are_its_options(name: str) -> None:
    assert re.search(rf"`holdfast {name}[` ]", PAGE)
    if name != "migrate":  # it has a page of its own
        assert {each for each in options(commands()[name]) if f"`{each}`" not in PAGE} == set()


def test_page_has_no_option_that_no_command_has() -> None:
    known = set().union(*(options(each) for each in commands().values())) | {"--version", "--help"}
    assert set(re.findall(r"`(--[a-z-]+)`", PAGE)) <= known


@pytest.mark.parametrize("name", list(commands()))
def test_option_says_what_it_is(name: str) -> None:
    command = commands()[name]
    assert command.help
    assert all(each.help for each in command.params if isinstance(each, click.Option))


@pytest.mark.parametrize("name", [name for name, each in commands().items() if "--json" in options(each)])
def test_document_of_a_command_is_described(name: str) -> None:
    group, _, verb = name.partition(" ")
    rows = PAGE.partition("## What --json prints")[2].partition("\n## ")[0].splitlines()
    words = [row.split("|")[1] for row in rows if row.startswith(f"| `{group}") or f"`{name}`" in row]
    assert any(f"`{name}`" in each or f"`{verb}`" in each for each in words)
