"""The process that the programs of a nursery are born from: it has imported what they import, and forks for each.

A child goes on where ``main`` returns from ``Mother.bear``, and ends as every Python program does: threads are joined,
what was registered with ``atexit`` is called, and an exception has its traceback and its exit code.

An order is one message with four descriptors: standard input, output and error, and the channel to the child's owner.
The owner reads the child's process id from the channel and, when the child has ended, its exit code. Until the owner
closes the channel the child stays as a zombie, as a child of the owner's own would: its id belongs to nobody else.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import json
import os
import select
import socket
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_ORDER = 1 << 20
_DESCRIPTORS = 4


class Mother:
    """Forks at every order, and tells the owners what became of their children."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._codes: dict[tuple[str, bytes], types.CodeType] = {}
        self._living: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor that tells of the end
        self._ended: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor of the channel
        self._poll = select.poll()
        self._poll.register(line, select.POLLIN)

    def bear(self) -> tuple[dict[str, Any], types.CodeType | None] | None:
        """Serve until nobody can give orders any more, and return None; a child returns its order and its program."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._living:
                    self._tell_of_the_end(descriptor)
                elif descriptor in self._ended:
                    self._bury(descriptor)
                elif (order := self._hear()) is None:
                    self._let_go()
                    return None
                else:
                    told, descriptors = order
                    code = self._prepared(told["program"])
                    if self._is_child(descriptors):
                        return told, code

    def _hear(self) -> tuple[dict[str, Any], list[int]] | None:
        message, descriptors, _, _ = socket.recv_fds(self._line, _LONGEST_ORDER, _DESCRIPTORS)
        return (json.loads(message), descriptors) if message else None

    def _prepared(self, program: str) -> types.CodeType | None:
        """Import what *program* imports, and compile it; None if it cannot be: the child shall fail of it."""
        try:
            source = Path(program).read_bytes()
            if (program, source) not in self._codes:
                load(list(imported(source)))
                self._codes[program, source] = compile(source, program, "exec", dont_inherit=True)
        except (OSError, SyntaxError, ValueError):
            return None
        return self._codes[program, source]

    def _is_child(self, descriptors: list[int]) -> bool:
        """Fork; say which of the two this is."""
        gc.freeze()  # else the child's first collection would copy every page there is
        child = os.fork()
        if child:
            channel = socket.socket(fileno=descriptors.pop())
            for each in descriptors:
                os.close(each)
            end = os.pidfd_open(child)
            self._living[end] = child, channel
            self._poll.register(end, select.POLLIN)
            _say(channel, child)
            return False
        self._let_go()
        self._line.close()
        for standard, each in enumerate(descriptors):
            if standard < _DESCRIPTORS - 1:
                os.dup2(each, standard)
            os.close(each)
        return True

    def _let_go(self) -> None:
        """Close what leads to the owners."""
        for _, channel in (*self._living.values(), *self._ended.values()):
            channel.close()
        for each in self._living:
            os.close(each)

    def _tell_of_the_end(self, end: int) -> None:
        child, channel = self._living.pop(end)
        self._poll.unregister(end)
        os.close(end)
        found = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        assert found is not None
        _say(channel, found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)
        self._ended[channel.fileno()] = child, channel
        self._poll.register(channel, 0)  # of a hang-up one is told without asking

    def _bury(self, descriptor: int) -> None:
        child, channel = self._ended.pop(descriptor)
        self._poll.unregister(descriptor)
        channel.close()
        os.waitpid(child, 0)


def _say(channel: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the owner is gone
        channel.send(str(number).encode())


def imported(source: bytes) -> Iterator[str]:
    """Yield the modules that a program imports at its top."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            yield statement.module


def load(modules: list[str]) -> None:
    """Import *modules*; one that cannot be imported is left to the program that wants it."""
    for module in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    tasks = len(os.listdir("/proc/self/task"))  # noqa: PTH208 -- a count
    if tasks > 1:
        raise SystemExit(f"A nursery must have one thread, or its children are born with locks nobody opens: {modules}")


def become(order: dict[str, Any], code: types.CodeType | None) -> None:
    """Run the program of *order* as this process's main module."""
    program = order["program"]
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv[:] = [program, *order["words"]]
    sys.path[0] = str(Path(program).parent)
    main = types.ModuleType("__main__")
    main.__file__ = program
    sys.modules["__main__"] = main
    exec(code or compile(Path(program).read_bytes(), program, "exec", dont_inherit=True), main.__dict__)  # noqa: S102 -- a program is to be run


if __name__ == "__main__":
    load(sys.argv[2:])
    with socket.socket(fileno=int(sys.argv[1])) as _line:
        _born = Mother(_line).bear()
    if _born is not None:
        become(*_born)
