"""The tokens a task or thread holds: what it claimed, it may end without naming the token.

The documents' calls carry no token. A claim leaves its token here, in a context variable; the call that ends the claim
takes it from here unless one is given. A task that a holder begins inherits what was held at that moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from holdfast.stores.keys import checked_key

if TYPE_CHECKING:
    from collections.abc import Iterable

Item: TypeAlias = "tuple[str, ...]"  # which store, and which item of it

_MOST = 10_000  # claims nobody ends (their worker raised) are forgotten, oldest first; never those of one call
_FEW = 128  # changes that are copied for each further one; about the square root of the most, which costs the least


class Tokens(Mapping[Item, str]):
    """Tokens by their items, the oldest first. It is never changed: a task that inherits it shares it.

    Most of them are in *old*, which several share. *new* is what was held since then, or let go, which is None there.
    """

    __slots__ = ("_new", "_old")

    def __init__(self, old: Mapping[Item, str], new: Mapping[Item, str | None]) -> None:
        self._old = old
        self._new = new

    def find(self, item: Item) -> str | None:
        """Return the token of *item*; None if there is none."""
        return self._new[item] if item in self._new else self._old.get(item)

    def changed(self, item: Item, token: str | None) -> Tokens:
        """Return these tokens with that of *item*, which is the newest now, or is let go if it is None."""
        new = {**self._new}
        new.pop(item, None)
        if token is not None or item in self._old:
            new[item] = token
        return Tokens(self._old, new) if len(new) <= _FEW else self._joined(new, len(self._old))

    def changed_all(self, changes: Mapping[Item, str | None]) -> Tokens:
        """Do as ``changed`` for several."""
        new = {item: token for item, token in self._new.items() if item not in changes}
        new.update((item, token) for item, token in changes.items() if token is not None or item in self._old)
        return Tokens(self._old, new) if len(new) <= _FEW else self._joined(new, len(changes))

    def _joined(self, new: Mapping[Item, str | None], least: int) -> Tokens:
        """Return all in one, without the oldest of those that are too many; so many at *least* are kept."""
        whole = {item: token for item, token in self._old.items() if item not in new}
        whole.update((item, token) for item, token in new.items() if token is not None)
        for oldest in list(islice(whole, max(0, len(whole) - max(least, _MOST)))):
            del whole[oldest]
        return Tokens(whole, {})

    def __getitem__(self, item: Item) -> str:
        token = self.find(item)
        if token is None:
            raise KeyError(item)
        return token

    def __iter__(self) -> Iterator[Item]:
        yield from (item for item in self._old if item not in self._new)
        yield from (item for item, token in self._new.items() if token is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


_held: ContextVar[Tokens] = ContextVar("holdfast_held_tokens", default=Tokens({}, {}))  # noqa: B039 -- never changed


def hold(item: Item, token: str) -> None:
    """Remember that this task or thread holds *item* under *token*."""
    _held.set(_held.get().changed(item, token))


def hold_all(claimed: Mapping[Item, str]) -> None:
    """Remember that this task or thread holds several items, each under its token."""
    if claimed:
        _held.set(_held.get().changed_all(claimed))


def held(item: Item, token: str | None = None) -> str | None:
    """Return *token* if it is given, else the one this task or thread holds *item* under, else None.

    One that cannot be a token is refused: to MariaDB the number 0 is every text, and to Redis the empty text is none.
    """
    return _held.get().find(item) if token is None else checked_key(token, "token")


def let_go(item: Item, token: str | None = None) -> None:
    """Forget the token of *item*; nothing happens if there is none, or if *token* is given and it is another."""
    known = _held.get()
    mine = known.find(item)
    if mine is not None and token in {None, mine}:
        _held.set(known.changed(item, None))


def let_go_all(ended: Iterable[tuple[Item, str | None]]) -> None:
    """Forget the tokens under which several items were ended: a caller that named one holds it no longer."""
    known = _held.get()
    gone = dict.fromkeys(item for item, token in ended if token is not None and known.find(item) == token)
    if gone:
        _held.set(known.changed_all(gone))


def all_held() -> Tokens:
    """Return everything this task or thread holds."""
    return _held.get()


def take_over(tokens: Tokens) -> None:
    """Hold *tokens*, and nothing else: what a call that ran elsewhere on behalf of this thread has left."""
    _held.set(tokens)
