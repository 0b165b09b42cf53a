"""The tokens a task or thread holds: what it claimed, it may end without naming the token.

The documents' calls carry no token. A claim leaves its token here, in a context variable; the call that ends the claim
takes it from here unless one is given. A task that a holder begins inherits what was held at that moment.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from holdfast.stores.keys import checked_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Item: TypeAlias = "tuple[str, ...]"  # which store, and which item of it

_MOST = 10_000  # claims nobody ends (their worker raised) are forgotten, oldest first; never those of one call
_held: ContextVar[Mapping[Item, str]] = ContextVar("holdfast_held_tokens", default=MappingProxyType({}))


def hold(item: Item, token: str) -> None:
    """Remember that this task or thread holds *item* under *token*."""
    known = {**_held.get()}
    known.pop(item, None)  # so that it is the newest
    known[item] = token
    if len(known) > _MOST:
        del known[next(iter(known))]
    _held.set(known)


def hold_all(claimed: Mapping[Item, str]) -> None:
    """Remember that this task or thread holds several items, each under its token."""
    held = _held.get()
    if not claimed.keys().isdisjoint(held):
        held = {key: value for key, value in held.items() if key not in claimed}
    known = {**held, **claimed}
    too_many = len(known) - max(_MOST, len(claimed))
    if too_many > 0:
        for old in list(known)[:too_many]:
            del known[old]
    _held.set(known)


def held(item: Item, token: str | None = None) -> str | None:
    """Return *token* if it is given, else the one this task or thread holds *item* under, else None.

    One that cannot be a token is refused: to MariaDB the number 0 is every text, and to Redis the empty text is none.
    """
    return _held.get().get(item) if token is None else checked_key(token, "token")


def let_go(item: Item) -> None:
    """Forget the token of *item*; nothing happens if there is none."""
    if item in (known := _held.get()):
        left = {**known}
        del left[item]
        _held.set(left)


def let_go_all(ended: Iterable[tuple[Item, str | None]]) -> None:
    """Forget the tokens of several items, those under which they were ended: who has named one holds it no longer."""
    known = _held.get()
    gone = {item for item, token in ended if token is not None and known.get(item) == token}
    if gone:
        _held.set({item: token for item, token in known.items() if item not in gone})


def all_held() -> Mapping[Item, str]:
    """Return everything this task or thread holds."""
    return _held.get()


def take_over(tokens: Mapping[Item, str]) -> None:
    """Hold *tokens*, and nothing else: what a call that ran elsewhere on behalf of this thread has left."""
    _held.set(tokens)
