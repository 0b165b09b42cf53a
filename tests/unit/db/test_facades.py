"""The sync classes have what the async ones have, said in the same words."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from holdfast.db import ConnectionManager, SyncConnectionManager, SyncTransaction, Transaction

# What the rooms of the package that build on the async manager need, and a user of the sync one does not.
_INNER = {
    *("backend", "close_first", "let_go", "refuse_inside_transaction", "is_open", "lender"),
    *("serves_threads", "transaction_on_thread"),
}
_PAIRS = [(ConnectionManager, SyncConnectionManager), (Transaction, SyncTransaction)]


def public(cls: type) -> dict[str, Any]:
    return {
        name: member
        for name, member in vars(cls).items()
        if not name.startswith("_") and name not in _INNER and not inspect.ismemberdescriptor(member)
    }


def in_one_colour(text: str) -> str:
    return text.replace("an ``async with`` block", "a ``with`` block")


@pytest.mark.parametrize(("one", "other"), _PAIRS)
def test_facade_has_the_same_names(one: type, other: type) -> None:
    assert sorted(public(one)) == sorted(public(other))


@pytest.mark.parametrize(
    ("one", "other", "name"), [(one, other, name) for one, other in _PAIRS for name in sorted(public(one))]
)
def test_facade_has_the_same_parameters_and_words(one: type, other: type, name: str) -> None:
    ours, theirs = public(one)[name], public(other)[name]
    assert in_one_colour(inspect.getdoc(ours) or "") == inspect.getdoc(theirs)
    if isinstance(ours, property):
        assert isinstance(theirs, property)
        return
    assert inspect.isfunction(theirs)
    assert not inspect.iscoroutinefunction(theirs)
    first, second = inspect.signature(ours), inspect.signature(theirs)
    assert list(first.parameters.values()) == list(second.parameters.values())
    if name != "transaction":  # a block of the one colour or of the other
        assert first.return_annotation == second.return_annotation


def test_facade_takes_every_option_of_the_async_manager_and_no_other() -> None:
    manager = SyncConnectionManager("sqlite://", pool_size=3, busy_timeout=7.0, application_name="mine")
    assert manager.url.in_memory
    with pytest.raises(TypeError, match="no_such_option"):
        SyncConnectionManager("sqlite://", no_such_option=1)
    [rest] = [
        each for each in inspect.signature(SyncConnectionManager).parameters.values() if each.kind is each.VAR_KEYWORD
    ]
    assert rest.annotation == "Any"


def test_facade_methods_are_annotated() -> None:
    for cls in (SyncConnectionManager, SyncTransaction):
        for name, member in public(cls).items():
            function = member.fget if isinstance(member, property) else inspect.unwrap(member)
            assert "return" in function.__annotations__, f"{cls.__name__}.{name}"
    assert get_type_hints(SyncConnectionManager.__exit__, {"BaseException": BaseException}, {"TracebackType": object})
