"""The coverage pages are true: every row is whole, every test they name exists, and the counts are right.

``python tests/docs/test_coverage_page.py --update`` writes the counts in ``docs/coverage.md`` anew.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs" / "coverage.md"
PARTS = (
    "stores.md",
    "idempotency.md",
    "system-database.md",
    "flow-checkpoints.md",
    "repositories.md",
)

HEADER = ["documented", "ours", "shown by"]
BEGIN = "<!-- counted: begin -->"
END = "<!-- counted: end -->"
SHOWN, DIFFERS, NOT_YET = "shown", "differs", "not yet"
KINDS = (SHOWN, DIFFERS, NOT_YET)
FEWEST_WORDS_OF_A_REASON = 3

_CELL_BORDER = re.compile(r"(?<!\\)\|")
_CODE = re.compile(r"`([^`]+)`")
_IMPORTABLE = re.compile(r"holdfast(\.[A-Za-z_]\w*)+")
_TEST = re.compile(r"(?P<file>(?:tests|src/holdfast/testing)/[\w/]+\.py)::(?P<path>(?:\w+::)?test_\w+)")
_CALL = re.compile(r"(?P<call>\w+)\((?P<parameter>\w+)(?::[^=]*)?(?:= *(?P<default>.*))?\)")
_BENCHMARK = re.compile(r"(?P<file>benchmarks/[\w/]+\.py)(?:::(?P<path>\w+))?")


class PageError(AssertionError):
    """A coverage page cannot be read as tables."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table, with the place where it stands."""

    place: str
    section: str
    documented: str
    ours: str
    shown_by: str

    @property
    def name(self) -> str:
        """The documented name alone: the code a row begins with, or the whole phrase."""
        code = _CODE.match(self.documented)
        return code[1].removesuffix("()") if code else self.documented

    @property
    def kind(self) -> str:
        if self.shown_by == NOT_YET:
            return NOT_YET
        return DIFFERS if self.shown_by.startswith("differs") else SHOWN

    @property
    def tests(self) -> list[str]:
        return [test.strip().strip("`") for test in self.shown_by.split(",")]


@dataclass(frozen=True, slots=True)
class Part:
    """One page: its file name, its title and its rows."""

    file: str
    title: str
    rows: list[Row]

    @property
    def counts(self) -> Counter[str]:
        return Counter(row.kind for row in self.rows)


def read_part(file: str, text: str) -> Part:
    """Read a page; every line of a table must be a row of three cells under the one header there is."""
    title = section = ""
    rows: list[Row] = []
    in_table = False
    for number, line in enumerate(text.splitlines(), start=1):
        place = f"{file}:{number}"
        if line.startswith("# "):
            title = line[2:].strip()
        elif line.startswith("#"):
            section = line.lstrip("#").strip()
        if not line.startswith("|"):
            in_table = False
            continue
        cells = _cells(line, place)
        if not in_table:
            _require(cells == HEADER, f"{place}: a table begins with the header {HEADER}, not with {cells}.")
            in_table = True
        elif not all(set(cell) == {"-"} for cell in cells):
            rows.append(Row(place, section, *cells))
    return Part(file, title, rows)


def _cells(line: str, place: str) -> list[str]:
    cells = [cell.strip() for cell in _CELL_BORDER.split(line.strip())[1:-1]]
    _require(
        len(cells) == len(HEADER),
        f"{place}: {len(cells)} cells instead of {len(HEADER)}; escape a bar as \\|.",
    )
    return cells


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise PageError(message)


def faults_of(rows: Sequence[Row], root: Path) -> Iterator[str]:
    """Say of each row what is wrong with it; *root* is where the tests that rows name are looked for."""
    yield from _repeated(rows)
    yield from _other_parameters(rows)
    for row in rows:
        if not (row.documented and row.ours and row.shown_by):
            yield f"{row.place}: an empty cell; every row has a documented name, ours, and what shows it."
        elif row.kind == DIFFERS:
            yield from _unreasoned(row)
        elif row.kind == SHOWN:
            yield from _unshown(row, root)
            yield from _not_importable(row)


def _repeated(rows: Sequence[Row]) -> Iterator[str]:
    first: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        file = row.place.partition(":")[0]
        earlier = first.setdefault((file, row.section, row.name), row)
        if earlier is not row:
            yield f"{row.place}: {row.name!r} stands at {earlier.place} already, in the same section."


def _other_parameters(rows: Sequence[Row]) -> Iterator[str]:
    """Compare the parameters of a call, one a row, with the object that the call's own row of the section names."""
    calls: dict[tuple[str, str], Any] = {}
    for row in rows:
        if row.kind != SHOWN:
            continue
        with suppress(ImportError, AttributeError):
            if code := next(filter(_IMPORTABLE.fullmatch, _CODE.findall(row.ours)), None):
                calls.setdefault((row.section, row.name.partition("(")[0]), pkgutil.resolve_name(code))
        documented = _CALL.fullmatch(row.name.replace("\\|", "|"))
        call = documented and calls.get((row.section, documented["call"]))
        if documented and callable(call):
            yield from _other_parameter(row, documented, inspect.signature(call).parameters)


def _other_parameter(row: Row, documented: re.Match[str], parameters: Mapping[str, inspect.Parameter]) -> Iterator[str]:
    ours = next(filter(None, map(_CALL.fullmatch, _CODE.findall(row.ours))), documented)
    found = parameters.get(ours["parameter"])
    if found is None:
        if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            yield f"{row.place}: {ours['call']} has no parameter {ours['parameter']}, but {list(parameters)}."
    elif documented["default"] and found.default != ast.literal_eval(documented["default"]):
        yield f"{row.place}: {ours['parameter']} is {found.default!r} if nothing is said, not {documented['default']}."
    elif "` required" in row.documented and found.default is not found.empty:
        yield f"{row.place}: {ours['parameter']} is required there, and may be left out here."


def _unreasoned(row: Row) -> Iterator[str]:
    mark, _, reason = row.shown_by.partition(": ")
    if mark != DIFFERS or len(reason.split()) < FEWEST_WORDS_OF_A_REASON:
        yield f"{row.place}: write 'differs: ' and a reason of some words, not {row.shown_by!r}."


def _unshown(row: Row, root: Path) -> Iterator[str]:
    for test in row.tests:
        match = _TEST.fullmatch(test) or _BENCHMARK.fullmatch(test)
        if match is None:
            yield f"{row.place}: {test!r} is not 'not yet', nor 'differs: reason', nor the address of a test."
        elif not (root / match["file"]).is_file():
            yield f"{row.place}: there is no file {match['file']}."
        elif match["path"] and match["path"] not in _defined_in(root / match["file"]):
            yield f"{row.place}: {match['file']} defines no {match['path']}."


def _not_importable(row: Row) -> Iterator[str]:
    for code in _CODE.findall(row.ours):
        if _IMPORTABLE.fullmatch(code):
            try:
                pkgutil.resolve_name(code)
            except (ImportError, AttributeError) as error:
                yield f"{row.place}: {code} is marked as shown and cannot be imported: {error}"


@cache
def _defined_in(file: Path) -> frozenset[str]:
    """Name the functions of a file, and the methods of its classes as ``Class::method``."""
    return frozenset(_definitions(ast.parse(file.read_text(encoding="utf-8")).body))


def _definitions(body: Sequence[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield from (f"{node.name}::{name}" for name in _definitions(node.body))


def summary(parts: Sequence[Part]) -> str:
    """Count the rows of each part, as the table and the line that stand at the top of the index."""
    total = sum((part.counts for part in parts), Counter[str]())
    lines = ["| part | rows | shown | differs | not yet |", "|---|---:|---:|---:|---:|"]
    lines += [_summary_row(f"[{part.title}](coverage/{part.file})", part.counts) for part in parts]
    lines += [_summary_row("all", total), ""]
    lines.append(f"{total.total()} rows: {total[SHOWN]} shown, {total[DIFFERS]} differ, {total[NOT_YET]} not yet.")
    return "\n".join(lines)


def _summary_row(name: str, counts: Counter[str]) -> str:
    return f"| {name} | {counts.total()} | {' | '.join(str(counts[kind]) for kind in KINDS)} |"


def read_parts() -> list[Part]:
    folder = INDEX.with_suffix("")
    return [read_part(file, (folder / file).read_text(encoding="utf-8")) for file in PARTS]


def stated_summary() -> str:
    text = INDEX.read_text(encoding="utf-8")
    return text.partition(BEGIN)[2].partition(END)[0].strip()


def update() -> None:
    """Write the counted summary into the index."""
    head, _, rest = INDEX.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    INDEX.write_text(f"{head}{BEGIN}\n\n{summary(read_parts())}\n\n{END}{tail}", encoding="utf-8")


def test_coverage_pages_are_all_counted() -> None:
    assert sorted(PARTS) == sorted(page.name for page in INDEX.with_suffix("").glob("*.md"))


@pytest.mark.parametrize("file", PARTS)
def test_coverage_rows_are_whole_and_true(file: str) -> None:
    part = read_part(file, (INDEX.with_suffix("") / file).read_text(encoding="utf-8"))
    assert part.title
    assert part.rows
    assert list(faults_of(part.rows, ROOT)) == []


def test_coverage_summary_equals_the_count() -> None:
    assert stated_summary() == summary(read_parts()), f"run: python {Path(__file__).relative_to(ROOT)} --update"


def _page(*rows: str) -> str:
    return "\n".join(["# Title", "## Section", "| documented | ours | shown by |", "|---|---|---|", *rows])


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a small tree with one test function, one test method and one benchmark."""
    root = tmp_path_factory.mktemp("house")
    (root / "tests").mkdir()
    (root / "tests" / "test_a.py").write_text("def test_b(): ...\nclass TestC:\n    async def test_d(self): ...\n")
    (root / "benchmarks").mkdir()
    (root / "benchmarks" / "steps.py").write_text("def main(): ...\n")
    return root


@pytest.mark.parametrize(
    "row",
    [
        "| `x` TEXT | `t.x` | not yet |",
        "| `x: str \\| None` | `x` | not yet |",
        "| `x` | `y` | differs: one index serves both |",
        "| `x` | `y` | tests/test_a.py::test_b |",
        "| `x` | `y` | `tests/test_a.py::test_b`, `tests/test_a.py::TestC::test_d` |",
        "| `x` | `y` | benchmarks/steps.py |",
        "| `x` | `holdfast.errors.InvalidURL` | tests/test_a.py::test_b |",
        "| `x` | `holdfast.nowhere.Nothing` | not yet |",
    ],
)
def test_coverage_check_accepts_a_sound_row(house: Path, row: str) -> None:
    part = read_part("p.md", _page(row))
    assert len(part.rows) == 1
    assert list(faults_of(part.rows, house)) == []


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| | `y` | not yet |", "an empty cell"),
        ("| `x` | | not yet |", "an empty cell"),
        ("| `x` | `y` | |", "an empty cell"),
        ("| `x` | `y` | soon |", "nor the address of a test"),
        ("| `x` | `y` | differs |", "a reason of some words"),
        ("| `x` | `y` | differs: better |", "a reason of some words"),
        ("| `x` | `y` | tests/test_z.py::test_b |", "there is no file tests/test_z.py"),
        ("| `x` | `y` | tests/test_a.py::test_z |", "defines no test_z"),
        ("| `x` | `y` | tests/test_a.py::test_d |", "defines no test_d"),
        ("| `x` | `y` | tests/test_a.py::test_b, soon |", "nor the address of a test"),
        ("| `x` | `y` | benchmarks/steps.py::faster |", "defines no faster"),
        ("| `x` | `holdfast.nowhere.Nothing` | tests/test_a.py::test_b |", "cannot be imported"),
        ("| `x` | `holdfast.errors.Nothing` | tests/test_a.py::test_b |", "cannot be imported"),
    ],
)
def test_coverage_check_refuses_a_faulty_row(house: Path, row: str, fault: str) -> None:
    found = list(faults_of(read_part("p.md", _page(row)).rows, house))
    assert len(found) == 1
    assert found[0].startswith("p.md:5: ")
    assert fault in found[0]


def test_coverage_check_refuses_a_name_twice_in_one_section(house: Path) -> None:
    rows = read_part("p.md", _page("| `x()` coroutine | `y` | not yet |", "| `x` | `z` | not yet |")).rows
    assert list(faults_of(rows, house)) == ["p.md:6: 'x' stands at p.md:5 already, in the same section."]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| `reset(service_name: str)` required | `reset(name)` | tests/test_a.py::test_b |", "has no parameter name"),
        ("| `reset(service_name: str = 'x')` | `reset(service_name)` | tests/test_a.py::test_b |", "not 'x'"),
        ("| `reset(service_name: str)` required | `reset(service_name)` | tests/test_a.py::test_b |", None),
    ],
)
def test_coverage_check_compares_parameters_with_those_of_the_code(house: Path, row: str, fault: str | None) -> None:
    call = "| `reset()` | `holdfast.stores.CircuitBreakerStateRepository.reset` | tests/test_a.py::test_b |"
    found = list(faults_of(read_part("p.md", _page(call, row)).rows, house))
    assert (found == []) if fault is None else (len(found) == 1 and fault in found[0])


def test_coverage_check_allows_a_name_twice_in_two_sections(house: Path) -> None:
    page = _page("| `x` | `y` | not yet |") + "\n" + _page("| `x` | `y` | not yet |").replace("Section", "Other")
    assert list(faults_of(read_part("p.md", page).rows, house)) == []


@pytest.mark.parametrize("row", ["| `x` | `y` |", "| `x: str | None` | `y` | not yet |"])
def test_coverage_check_refuses_a_line_that_is_no_row(row: str) -> None:
    with pytest.raises(PageError, match=r"p\.md:5: \d cells instead of 3"):
        read_part("p.md", _page(row))


def test_coverage_check_refuses_a_table_with_another_header() -> None:
    with pytest.raises(PageError, match="a table begins with the header"):
        read_part("p.md", "# Title\n\n| name | ours | shown by |\n|---|---|---|\n| `x` | `y` | not yet |")


def test_coverage_summary_counts_each_kind() -> None:
    rows = (
        "| `a` | `a` | not yet |",
        "| `b` | `b` | differs: for a reason |",
        "| `c` | `c` | benchmarks/steps.py |",
    )
    text = summary([read_part("p.md", _page(*rows))])
    assert "| [Title](coverage/p.md) | 3 | 1 | 1 | 1 |" in text
    assert text.endswith("3 rows: 1 shown, 1 differ, 1 not yet.")


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit("usage: python tests/docs/test_coverage_page.py --update")
    update()
    print(stated_summary())
