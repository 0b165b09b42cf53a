"""Pickle, for applications that ask for it by name.

Reading a pickle runs whatever code its writer chose. An application that does not pass :class:`PickleFormat`
never unpickles anything, whatever stands in its tables.
"""

from __future__ import annotations

import base64
import pickle
from typing import Any

from holdfast.errors import CannotDeserialize, CannotSerialize


class PickleFormat:
    """The format ``py_pickle``: a pickle as base64 text. Only for tables whose every writer is trusted."""

    name = "py_pickle"

    def serialize(self, value: Any) -> str:
        """Return *value* pickled; raises :class:`CannotSerialize`."""
        try:
            return base64.b64encode(pickle.dumps(value)).decode("ascii")
        except Exception as error:
            raise CannotSerialize(f"Cannot pickle a {type(value).__qualname__}: {error}.") from error

    def deserialize(self, text: str) -> Any:
        """Return the unpickled value; raises :class:`CannotDeserialize`."""
        try:
            return pickle.loads(base64.b64decode(text, validate=True))  # noqa: S301 -- the application asked for it
        except Exception as error:
            raise CannotDeserialize(
                f"Cannot unpickle a stored value: {type(error).__name__}. Its classes must be importable"
                " under the names they had when it was stored.",
            ) from error


__all__ = ["PickleFormat"]
