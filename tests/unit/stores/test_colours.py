"""Every store has a sync class with the same methods, signatures and docstrings, so that neither colour can lag."""

from __future__ import annotations

import inspect
from typing import Any, get_args, get_origin

import pytest

import holdfast.stores
from holdfast.stores.blocking import Blocking, BlockingStore

SYNC: dict[str, type[Blocking]] = {
    name: each
    for name in holdfast.stores.__all__
    if name.startswith("Sync") and issubclass(each := getattr(holdfast.stores, name), Blocking)
}


def _pair(sync: type[Blocking]) -> type:
    """Return the async class that the sync class is made from, as its base or its first parameter says."""
    bases: tuple[Any, ...] = vars(sync).get("__orig_bases__", ())
    names = [get_args(base)[0].__name__ for base in bases if get_origin(base) is BlockingStore]
    names = names or [next(iter(inspect.signature(sync).parameters.values())).annotation]
    found = getattr(holdfast.stores, names[0], None)
    assert found is not None, f"{inspect.getmodule(sync)}: {names[0]} is not among the names of holdfast.stores"
    return found  # type: ignore[no-any-return]


def _methods(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(each)
        for name, each in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def test_sync_classes_are_found() -> None:
    assert {"SyncIdempotencyStore", "SyncCheckpointStore"} <= SYNC.keys()


@pytest.mark.parametrize("name", sorted(SYNC))
def test_both_colours_have_the_same_methods(name: str) -> None:
    sync, asynchronous = _methods(SYNC[name]), _methods(_pair(SYNC[name]))
    assert sync.keys() == asynchronous.keys()
    for method, signature in sync.items():
        assert str(signature) == str(asynchronous[method]).replace("AsyncIterator", "Iterator"), method


@pytest.mark.parametrize("name", sorted(SYNC))
def test_both_colours_say_the_same(name: str) -> None:
    kind = _pair(SYNC[name])
    for method in _methods(SYNC[name]).keys() - vars(BlockingStore).keys():  # how all of them are opened is said once
        assert inspect.getdoc(getattr(SYNC[name], method)) == inspect.getdoc(getattr(kind, method)), method
