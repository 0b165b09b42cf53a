"""What the codecs of an application make of the dead letters and the results of protected functions.

Where a codec hides what is stored, a letter shows the type of its error, as those of runs do. The rest is one sealed
text, the marker and what the codecs have made, which is opened for whoever replays the letter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from holdfast.resilience.letters import HIDDEN, SEALED
from holdfast.serialize import PortableJSON
from holdfast.serialize.codecs import is_hidden
from holdfast.stores.dead_letters import door

if TYPE_CHECKING:
    from holdfast.model.dead_letter import FailedOperationData
    from holdfast.serialize import Serialization
    from holdfast.stores.idempotency.entry import Kept

_MARKER = "serialization"
_NO_HEADERS = "{}"

_json = PortableJSON()


class Sealing:
    """Seals by the codecs of *serialization*, and opens what was sealed; both may raise ``CodecError``."""

    def __init__(self, serialization: Serialization) -> None:
        self._serialization = serialization

    def letter(self, failure: Exception, **told: Any) -> dict[str, Any]:
        """Return what a letter of a *failure* tells; sealed, but for the type of that, if a codec hides it.

        *told* are the ``request_data``, and the texts ``error_message`` and ``error``.
        """
        plain = {name: door.text(each) if isinstance(each, str) else each for name, each in told.items()}
        text, marker = self._serialization.close(msgspec.json.encode(plain).decode())
        if not is_hidden(marker):
            return told
        brief = door.text(type(failure).__name__)
        return {"request_data": {HIDDEN: True, SEALED: f"{marker} {text}"}, "error_message": brief, "error": brief}

    def opened(self, letter: FailedOperationData) -> FailedOperationData:
        """Return *letter* with all that it keeps, to be replayed."""
        sealed = letter.request_data.get(SEALED)
        if not isinstance(sealed, str):
            return letter
        marker, _, text = sealed.partition(" ")
        return replace(letter, **msgspec.json.decode(self._serialization.open(text, marker)))

    def result(self, data: str) -> tuple[str, str]:
        """Return a result, JSON text, as it is kept under a key, and the headers that say by which codecs."""
        text, marker = self._serialization.close(data)
        return (data, _NO_HEADERS) if text is data else (_json.serialize(text), _json.serialize({_MARKER: marker}))

    def opened_result(self, kept: Kept) -> str:
        """Return the result under a key as JSON text. One without a marker was kept as it is."""
        if kept.headers == _NO_HEADERS:
            return kept.response_data
        return self._serialization.open(_json.deserialize(kept.response_data), _json.deserialize(kept.headers)[_MARKER])


__all__ = ["Sealing"]
