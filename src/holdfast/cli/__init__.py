"""The command ``holdfast``: one module a command group, each imported when it is called and not before."""

from holdfast.cli.main import main

__all__ = ["main"]
