"""Every ``python`` block of the documentation runs as written, and every ``holdfast`` and ``python`` command that can.

The blocks of a page run in order in one process and share their names, in a folder of their own; ``await`` may stand
outside of functions. A comment just before a block says what else is done with it:

- ``<!-- not run: reason -->``: it is only compiled. The reason must be one of ``NotRun``.
- ``<!-- file: name.py -->``: it is written to that file. A ``console`` block may then run it: ``$ python name.py``.

What a ``console`` block shows below a command must be what the command prints, and ``# exits with N`` after it is the
exit code. Run a page by hand with ``python tests/docs/test_snippets.py README.md``, in an empty folder.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.testing.nursery import Nursery

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PATIENCE = 170  # a page may have a few dozen commands, and the machine other work

_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (?P<what>not run|file): (?P<value>.*?) -->\s*\Z")
_COMMAND = re.compile(r"\$ (?P<text>(?:holdfast|python \w+\.py)\b.*?)(?:\s+# exits with (?P<code>\d+))?")
_ELSEWHERE = re.compile(r"\w+://[^/\s]+@")


class NotRun(StrEnum):
    """Why a block is not run."""

    SERVER = "needs a server"
    SKETCH = "a sketch, not a program"


@dataclass(frozen=True)
class Block:
    """A fenced block, the line on which its text begins, and what the comment before it says."""

    language: str
    text: str
    line: int
    not_run: str | None = None
    file: str | None = None

    @property
    def runs(self) -> bool:
        return self.language == "python" and self.not_run is None and self.file is None


@dataclass(frozen=True)
class Command:
    """A command line, the exit code it must have, and what it must print; nothing is said about that if it is empty."""

    text: str
    code: int
    output: str


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of *page* in order."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        mark = _MARK.search(text[: match.start()])
        said = {mark["what"].replace(" ", "_"): mark["value"]} if mark else {}
        yield Block(match["language"], match["text"], text.count("\n", 0, match.start("text")) + 1, **said)


def commands(block: Block) -> list[Command]:
    """Return the commands of a block that need no server and no more than this environment."""
    if block.language != "console" or block.not_run:
        return []
    found = []
    for part in re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE):
        line, _, output = part.partition("\n")
        match = _COMMAND.fullmatch(line.rstrip())
        if match and not _ELSEWHERE.search(line):
            found.append(Command(match["text"], int(match["code"] or 0), output))
    return found


def has_something_to_run(page: Path) -> bool:
    return any(commands(block) or block.runs for block in blocks(page))


def compiled(block: Block, file: str) -> Any:
    """Compile a block so that it stands in *file* on the lines it has in its page."""
    text = "\n" * (block.line - 1) + block.text
    return compile(text, file, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def run_page(page: Path) -> None:
    """Run the blocks of *page* in this process, in the current folder."""
    file = Path(f"page_{page.stem}.py".replace("-", "_")).resolve()
    file.write_text(_only_python(page), encoding="utf-8")  # so that functions have sources, as in a user's program
    sys.path.insert(0, str(Path.cwd()))  # a page may import the files it has had written
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(file)}
    with asyncio.Runner() as runner:
        for block in blocks(page):
            if block.file:
                Path(block.file).write_text(block.text, encoding="utf-8")
            for command in commands(block):
                run_command(command)
            if block.runs:
                run_block(compiled(block, str(file)), names, runner)


def run_command(command: Command) -> None:
    """Run one command; its exit code and its output must be what the page says."""
    done = subprocess.run(command.text, shell=True, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S602 -- the page's own text, redirections and all
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    assert code == command.code, f"$ {command.text} exits with {code}"
    if command.output:
        assert done.stdout == command.output, f"$ {command.text} prints:\n{done.stdout}"


def run_block(code: Any, names: dict[str, Any], runner: asyncio.Runner) -> None:
    """Run one block; one that awaits runs on the page's loop."""
    if code.co_flags & inspect.CO_COROUTINE:
        runner.run(eval(code, names))  # noqa: S307 -- the project's own pages
    else:
        exec(code, names)  # noqa: S102 -- the project's own pages


def _only_python(page: Path) -> str:
    lines = [""] * (page.read_text(encoding="utf-8").count("\n") + 1)
    for block in blocks(page):
        if block.runs:
            for offset, line in enumerate(block.text.splitlines()):
                lines[block.line - 1 + offset] = line
    return "\n".join(lines) + "\n"


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if has_something_to_run(page)], ids=_name)
def test_page_runs_as_written(page: Path, tmp_path: Path, strict_nursery: Nursery) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("DATABASE_URL")}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    done = strict_nursery.run(Path(__file__), str(page), folder=tmp_path, environment=environment, timeout=PATIENCE)
    assert done.returncode == 0, f"{_name(page)} does not run as written:\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_page_says_why_a_block_is_not_run(page: Path) -> None:
    reasons = {block.not_run for block in blocks(page) if block.not_run}
    assert reasons <= set(NotRun), f"{_name(page)}: the reasons are {', '.join(NotRun)}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_page_has_only_python_that_compiles(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            assert compiled(block, _name(page)).co_filename == _name(page)


def test_pages_with_python_are_found() -> None:
    runs = {_name(page) for page in PAGES if has_something_to_run(page)}
    assert {"README.md", "docs/tutorial/first-workflow.md", "docs/reference/workflows.md"} <= runs


def test_commands_are_read_with_their_output_and_without_those_for_a_server() -> None:
    text = "$ python a.py  # exits with 137\nx\ny\n$ holdfast migrate mysql://me:secret@db.example/app\n$ make demo\n"
    assert commands(Block("console", text, 1)) == [Command("python a.py", 137, "x\ny\n")]
    assert commands(Block("console", text, 1, not_run=NotRun.SERVER)) == []


def test_command_that_prints_something_else_than_the_page_is_noticed() -> None:
    with pytest.raises(AssertionError, match="prints"):
        run_command(Command("echo yes", 0, "no\n"))
    with pytest.raises(AssertionError, match="exits with 3"):
        run_command(Command("exit 3", 0, ""))


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
