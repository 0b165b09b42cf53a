"""The version of an application follows from the sources of its workflows."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import inspect
import re
from typing import TYPE_CHECKING, Any

from holdfast.core.version import version_of

if TYPE_CHECKING:
    from pathlib import Path


def one() -> int:
    return 1


def two() -> int:
    return 2


def _loaded(path: Path, text: str) -> Any:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_version_is_the_md5_of_names_and_sources() -> None:
    expected = hashlib.md5(b"one\0" + inspect.getsource(one).encode() + b"\0", usedforsecurity=False).hexdigest()
    assert version_of([("one", one)]) == expected
    assert re.fullmatch("[0-9a-f]{32}", expected)


def test_order_of_registration_does_not_count() -> None:
    assert version_of([("one", one), ("two", two)]) == version_of([("two", two), ("one", one)])


def test_names_and_sources_count(tmp_path: Path) -> None:
    before = _loaded(tmp_path / "before.py", "def f():\n    return 1\n").f
    same = _loaded(tmp_path / "same.py", "import os\n\ndef f():\n    return 1\n\nx = 2\n").f
    after = _loaded(tmp_path / "after.py", "def f():\n    return 2\n").f
    assert version_of([("f", before)]) == version_of([("f", same)])
    assert version_of([("f", before)]) != version_of([("f", after)])
    assert version_of([("f", before)]) != version_of([("g", before)])


def test_decorated_function_counts_by_its_own_source() -> None:
    @functools.wraps(one)
    def wrapped() -> int:
        return one()

    for function in (wrapped, functools.partial(one), functools.partial(wrapped)):
        assert version_of([("one", function)]) == version_of([("one", one)])


def test_object_that_can_be_called_counts_by_its_call() -> None:
    class Called:
        def __call__(self) -> int:
            return 1

    assert version_of([("one", Called())]) == version_of([("one", Called.__call__)])


def test_there_is_no_version_without_sources() -> None:
    made: dict[str, Any] = {}
    exec("def f(): return 1", made)  # noqa: S102 -- a function without a file
    assert version_of([("f", made["f"])]) is None
    assert version_of([("one", one), ("len", len)]) is None


def test_application_without_workflows_has_a_version() -> None:
    assert version_of([]) == hashlib.md5(b"", usedforsecurity=False).hexdigest()
