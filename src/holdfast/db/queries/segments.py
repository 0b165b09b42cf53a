"""The optional parts of a named query: ``[[ AND name = :name ]]`` stands only when ``:name`` is given.

A part stands when all parameters directly in it are given, that is, are not None. One that begins with a word and a
question mark, ``[[ newest? ... ]]``, stands when that switch is given and is not False; a switch is not handed to the
database. Parts may hold other parts, which are then judged for themselves. The brackets have white space inside of
them, which tells them from PostgreSQL's arrays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.db.queries.placeholders import Part, pieces
from holdfast.errors import QueryFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.db.url import DialectName

# What stands for the brackets while text is cut: to SQLite a bracket would begin a name.
_OPEN, _CLOSE = "\x01", "\x02"
_BRACKET = re.compile(r"\[\[(?=\s)|(?<=\s)\]\]")
_MARK = re.compile(f"([{_OPEN}{_CLOSE}])")
_SWITCH = re.compile(r"\s*([a-z_]\w*)\?(?=\s)")
_PARAMETER = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")


@dataclass(slots=True)
class Segment:
    """A part of a query: its texts and the parts in it, in order, and what must be given for it to stand."""

    parts: list[str | Segment] = field(default_factory=list)
    switch: str | None = None
    parameters: set[str] = field(default_factory=set)

    def text(self, given: frozenset[str]) -> str:
        """Return the text that is left when *given* are the parameters and switches there are."""
        return "".join(part if isinstance(part, str) else part.standing(given) for part in self.parts)

    def inner(self) -> Iterator[Segment]:
        """Yield every part in this one, and those in them."""
        for part in self.parts:
            if isinstance(part, Segment):
                yield part
                yield from part.inner()

    def standing(self, given: frozenset[str]) -> str:
        """Return the text of this part, or a space if it does not stand."""
        wanted = self.parameters if self.switch is None else self.parameters | {self.switch}
        return self.text(given) if wanted <= given else " "

    def add(self, code: str) -> None:
        """Add code at the end, and note what it asks for."""
        if not self.parts and (switch := _SWITCH.match(code)) is not None:
            self.switch = switch[1]
            code = code[switch.end() :]
        self.parameters.update(_PARAMETER.findall(code))
        self.parts.append(code)


def mark(text: str) -> str:
    """Return *text* with marks for brackets, so that it can be cut by the rules of every dialect."""
    return _BRACKET.sub(lambda found: _OPEN if found[0] == "[[" else _CLOSE, text)


def cut(text: str, dialect: DialectName) -> Segment:
    """Return the whole of a marked *text*. Raises QueryFailed for brackets that do not match."""
    opened = [Segment()]
    for part, piece in pieces(text, dialect):
        if part is not Part.CODE:
            opened[-1].parts.append(piece.replace(_OPEN, "[[").replace(_CLOSE, "]]"))
            continue
        for code in _MARK.split(piece):
            if code == _OPEN:
                inner = Segment()
                opened[-1].parts.append(inner)
                opened.append(inner)
            elif code == _CLOSE:
                _check_closed(opened.pop(), opened)
            elif code:
                opened[-1].add(code)
    if len(opened) > 1:
        raise QueryFailed("an optional part has no end: close it with ]] after white space.")
    return opened[0]


def _check_closed(closed: Segment, opened: list[Segment]) -> None:
    if not opened:
        raise QueryFailed("there is an end ]] of an optional part that has no beginning [[.")
    if closed.switch is None and not closed.parameters:
        raise QueryFailed("an optional part asks for nothing: put a parameter into it, or begin it with a switch?.")


__all__ = ["Segment", "cut", "mark"]
