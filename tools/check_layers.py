"""Hold every import in ``src/holdfast`` to the table of who may import whom.

A *room* is a module or folder directly under ``src/holdfast``; the package's own ``__init__`` is a room too.
Imports that only the type checker sees count like any other: what a room's signatures speak of, its reader
must know.

Exit code 1 and one line an offence: ``file:line room -> room``. If there is an ARCHITECTURE.md, its table
headed ``| room | may import |`` must say the same as the table here; ``--table`` prints it.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = "holdfast"
ROOT = "__init__"

_GROUND = ("model", "errors", "faults")
_STAIRS = ("core", "serialize", "db", "stores", "resilience", "workflows", "client", "app")
_LEAVES = ("web", "cli", "integrations")


def _table() -> dict[str, frozenset[str]]:
    """Return for each room the rooms it may import besides itself."""
    table: dict[str, frozenset[str]] = dict.fromkeys(_GROUND, frozenset())
    below = set(_GROUND)
    for room in _STAIRS:
        table[room] = frozenset(below)
        below.add(room)
    table[ROOT] = frozenset(below)
    for leaf in _LEAVES:
        table[leaf] = frozenset(below | {ROOT})
    table["testing"] = frozenset(table)
    table["__main__"] = frozenset({"cli"})
    return table


MAY_IMPORT = _table()


@dataclass(frozen=True)
class Import:
    """One import of a room of ours, and where it stands."""

    file: Path
    line: int
    importer: str
    imported: str

    @property
    def allowed(self) -> bool:
        """Whether the table has it; a room outside the table imports nothing and is imported by none."""
        return self.imported in MAY_IMPORT and (
            self.imported == self.importer or self.imported in MAY_IMPORT.get(self.importer, ())
        )


def imports(package: Path) -> Iterator[Import]:
    """Yield every import in *package* that stays in *package*."""
    for file in sorted(package.rglob("*.py")):
        inside = file.relative_to(package)
        here = (PACKAGE, *inside.with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
            for name in _targets(node, here):
                if name[0] == PACKAGE:
                    imported = _room(package, name)
                    yield Import(file, getattr(node, "lineno", 0), here[1], imported)


def _targets(node: ast.AST, here: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the full dotted names that *node* imports into the module *here*."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield tuple(alias.name.split("."))
    elif isinstance(node, ast.ImportFrom):
        above = here[: len(here) - node.level] if node.level else ()
        base = (*above, *(node.module.split(".") if node.module else ()))
        for alias in node.names:
            yield (*base, alias.name)


def _room(package: Path, name: tuple[str, ...]) -> str:
    """Return the room of the dotted *name*; a name that is no file of ours is one that the root exports."""
    if len(name) == 1:
        return ROOT
    exists = (package / name[1]).is_dir() or (package / f"{name[1]}.py").is_file()
    return name[1] if exists or len(name) > 2 else ROOT


def strangers(package: Path) -> Iterator[Path]:
    """Yield the files and folders directly in *package* that are no room of the table."""
    for entry in sorted(package.iterdir()):
        is_code = entry.suffix == ".py" or (entry.is_dir() and any(entry.rglob("*.py")))
        if is_code and entry.stem not in MAY_IMPORT:
            yield entry


def table_rows() -> list[str]:
    """Return the table as markdown."""
    head = ["| room | may import |", "|---|---|"]
    return head + [f"| `{room}` | {_in_words(names)} |" for room, names in MAY_IMPORT.items()]


def _in_words(rooms: frozenset[str]) -> str:
    return ", ".join(f"`{room}`" for room in MAY_IMPORT if room in rooms) or "nothing"


def page_offences(page: Path) -> Iterator[str]:
    """Yield where the table in *page* differs from the one here."""
    said: dict[str, frozenset[str]] = {}
    for number, row in _page_rows(page):
        rooms, may_import = (re.findall(r"\w+", cell) for cell in row)
        for room in rooms:
            said[room] = frozenset(may_import) - {"nothing"}
            if said[room] != MAY_IMPORT.get(room):
                rule = _in_words(MAY_IMPORT[room]) if room in MAY_IMPORT else "no such room"
                yield f"{page.name}:{number} {room}: the rule is: {rule}"
    missing = [room for room in MAY_IMPORT if room not in said]
    if missing:
        yield f"{page.name}:1 the table headed '| room | may import |' does not have: {', '.join(missing)}"


def _page_rows(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and both cells of each row below the heading."""
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if [cell.lower() for cell in cells] == ["room", "may import"]:
            inside = True
        elif not line.lstrip().startswith("|"):
            inside = False
        elif inside and len(cells) == 2 and not set(cells[0]) <= set("-: "):
            yield number, cells


def offences(root: Path) -> Iterator[str]:
    """Yield one line for each offence in the checkout at *root*."""
    package = root / "src" / PACKAGE
    for entry in strangers(package):
        yield f"{entry.relative_to(root)}:1 {entry.stem} is no room of the table in tools/check_layers.py"
    for found in imports(package):
        if not found.allowed:
            yield f"{found.file.relative_to(root)}:{found.line} {found.importer} -> {found.imported}"
    page = root / "ARCHITECTURE.md"
    if page.exists():
        yield from page_offences(page)


def main() -> int:
    """Check the checkout."""
    parser = argparse.ArgumentParser(description="Check who imports whom in src/holdfast.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the checkout")
    parser.add_argument("--table", action="store_true", help="print the table as markdown and check nothing")
    options = parser.parse_args()
    lines = table_rows() if options.table else sorted(set(offences(options.root)))
    for line in lines:
        print(line)
    return 1 if lines and not options.table else 0


if __name__ == "__main__":
    sys.exit(main())
