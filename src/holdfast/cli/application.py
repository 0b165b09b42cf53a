"""The application that is named on the command line as ``module:name``."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path

import click

from holdfast.cli.failure import Failure
from holdfast.errors import HoldfastError
from holdfast.workflows.application.application import Application


def application_place(word: str) -> tuple[str, str]:
    """Read ``module:name``, as the type of an argument."""
    module, colon, name = word.partition(":")
    if not module or not colon or not name:
        raise click.BadParameter(
            f"{word!r} names no application: write its module and its name there, as in shop.main:app."
        )
    if "/" in module or module.endswith(".py"):
        dotted = module.removeprefix("./").removesuffix(".py").strip("/").replace("/", ".")
        raise click.BadParameter(
            f"{module!r} is a file, and a module is wanted, as Python imports it: {dotted}:{name}."
        )
    return module, name


def find_application(module: str, name: str) -> Application:
    """Import *module*, from the current directory too, and return the application that is called *name* in it.

    ``Failure`` if there is none, or the module raises; in that case its author has been shown where.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found: object = _imported(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise Failure(f"The module {module} has no {name}: name the Holdfast or AsyncHoldfast object in it.")
        found = getattr(found, part)
    if not isinstance(found, Application):
        raise Failure(
            f"{module}:{name} is no application but of type {type(found).__name__}: name the Holdfast or "
            "AsyncHoldfast object."
        )
    return found


def _imported(module: str) -> object:
    try:
        return import_module(module)
    except HoldfastError:
        raise
    except Exception as error:
        # A module may raise anything, and only where it did helps its author.
        if isinstance(error, ModuleNotFoundError) and _is_within(error.name, module):
            raise Failure(
                f"There is no module {module} in {Path.cwd()} or where Python looks for modules: go to the "
                "folder it is in, or install it."
            ) from error
        traceback.print_exception(error)
        raise Failure(f"The module {module} cannot be imported: {type(error).__name__}: {error}") from error


def _is_within(missing: str | None, module: str) -> bool:
    """Whether it is *module* itself that is missing, or a package it is in; one that it imports is its own affair."""
    return missing is not None and f"{module}.".startswith(f"{missing}.")


__all__ = ["application_place", "find_application"]
