"""The codecs of an application, one on the other, between a format's text and the text that is stored."""

from __future__ import annotations

import base64
import binascii
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.errors import CodecError, ConfigurationError, HoldfastError
from holdfast.serialize.marker import Applied, check_codec, split

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.serialize.codecs import Codec


class Stack:
    """Closes and opens texts. What went through any codec is base64; what went through none is as it was."""

    def __init__(self, codecs: Iterable[Codec]) -> None:
        listed = list(codecs)
        self._codecs = {check_codec(one.name): one for one in listed}
        if len(self._codecs) != len(listed):
            raise ConfigurationError("Two codecs have the same name; the marker could not tell them apart.")

    @property
    def is_empty(self) -> bool:
        """Whether there is no codec, so that every text is stored as it is."""
        return not self._codecs

    def close(self, text: str, format_: str) -> tuple[str, str]:
        """Run *text* through the codecs that choose to take it; return it with its marker; raises ``CodecError``."""
        if not self._codecs:
            return text, format_
        data, marker = text.encode(), format_
        for name, codec in self._codecs.items():
            with _told(name):
                variant = codec.choose(data)
            if variant is not None:
                data, marker = self._apply(data, marker, Applied(name, variant))
        return (text, format_) if marker == format_ else (base64.b64encode(data).decode("ascii"), marker)

    def close_as(self, text: str, marker: str) -> str:
        """Run *text* through exactly the codecs that *marker* names."""
        made, applied = split(marker)
        if not applied:
            return text
        data = text.encode()
        for one in applied:
            data, made = self._apply(data, made, one)
        return base64.b64encode(data).decode("ascii")

    def open(self, text: str, marker: str | None) -> str:
        """Undo :meth:`close`; raises :class:`CodecError`."""
        made, applied = split(marker) if marker is not None else ("", ())
        if not applied:
            return text
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise CodecError(f"A value marked {marker!r} is not base64 text: it is damaged.") from error
        for count in range(len(applied), 0, -1):
            bound = "+".join([made, *map(str, applied[:count])]).encode()
            name, variant = applied[count - 1]
            codec = self._named(name)
            with _told(name):
                data = codec.decode(data, variant, bound)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise CodecError(f"A value marked {marker!r} opens to something that is not text.") from error

    def _apply(self, data: bytes, marker: str, applied: Applied) -> tuple[bytes, str]:
        marker = f"{marker}+{applied}"
        codec = self._named(applied.codec)
        with _told(applied.codec):
            return codec.encode(data, applied.variant, marker.encode()), marker

    def _named(self, name: str) -> Codec:
        if (codec := self._codecs.get(name)) is None:
            raise CodecError(
                f"A value went through the codec {name!r}, which is not configured here. Pass it in"
                " Serialization(codecs=[...]).",
            )
        return codec


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Have what a codec raises, which may be one of the application's own, say whose it is."""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        raise CodecError(f"The codec {name!r} raised {type(error).__name__}.") from error


__all__ = ["Stack"]
