"""What an application reads and writes: its formats, its codecs, and the marker of each stored text."""

# ruff: noqa: A002 -- `format` is the column's word and `type` is msgspec's; users know both

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from holdfast.errors import (
    CannotDeserialize,
    CannotSerialize,
    CodecError,
    ConfigurationError,
    FormatRefused,
    SerializationError,
)
from holdfast.serialize.failure import decode_error, encode_error
from holdfast.serialize.marker import check_format, split
from holdfast.serialize.pickled import PickleFormat
from holdfast.serialize.portable import PortableJSON
from holdfast.serialize.stack import Stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.serialize.calls import CallCodec
    from holdfast.serialize.codecs import Codec


class Serializer(Protocol):
    """A format: values to text and back. Must be safe to call from several threads at once."""

    @property
    def name(self) -> str:
        """The name in the ``serialization`` column. Stored for good; never change it."""

    def serialize(self, value: Any) -> str:
        """Return *value* as text that every database can hold: no NUL, no lone surrogate."""

    def deserialize(self, text: str) -> Any:
        """Return the value; it is delivered as it is, whatever the annotations say."""


class Stored(NamedTuple):
    """A value as it is stored: the text, and the marker for the ``serialization`` column beside it."""

    text: str
    format: str


class Serialization:
    """The formats and codecs of one application. Safe to share between threads.

    *default* writes, and reads what has no marker. *also* are further formats that may be read. *codecs* are
    applied to everything written, in order. A value in any other format is refused with
    :class:`FormatRefused`.
    """

    def __init__(
        self,
        default: Serializer | None = None,
        *,
        also: Iterable[Serializer] = (),
        codecs: Iterable[Codec] = (),
    ) -> None:
        self._default = default if default is not None else PortableJSON()
        formats = [self._default, *also]
        self._formats = {check_format(one.name): one for one in formats}
        if len(self._formats) != len(formats):
            raise ConfigurationError("Two formats have the same name; the marker could not tell them apart.")
        # Portable JSON runs no code of its writer's, so it needs no permission.
        self._formats.setdefault(PortableJSON.name, PortableJSON())
        self._stack = Stack(codecs)
        self._bare = self._stack.is_empty

    def dump(self, value: Any, *, within: str | None = None) -> Stored:
        """Return *value* as it is to be stored.

        *within* is the marker of a row that has one marker for several values: the value is then written by
        exactly that format and those codecs, whatever is configured now. Raises :class:`CannotSerialize` and
        :class:`CodecError`.
        """
        format_ = self._default if within is None else self._format(within)
        try:
            text = format_.serialize(value)
        except SerializationError:
            raise
        except Exception as error:
            raise CannotSerialize(f"Cannot store the value: writing it raised {type(error).__name__}.") from error
        return Stored(text, format_.name) if within is None and self._bare else self._store(text, format_.name, within)

    def dump_call(self, args: Sequence[Any], kwargs: Mapping[str, Any], *, within: str | None = None) -> Stored:
        """Return the arguments of a call as they are to be stored: one shape in every format."""
        return self.dump({"positionalArgs": list(args), "namedArgs": dict(kwargs)}, within=within)

    def dump_error(self, error: BaseException, *, within: str | None = None, traceback: bool = False) -> Stored:
        """Return the record of *error*: portable JSON in every format, so that any reader can show it.

        Without *within* this never fails: in place of an error that a codec does not take, the codec's own is stored,
        as it is.
        """
        try:
            return self._store(encode_error(error, traceback=traceback), PortableJSON.name, within)
        except CodecError as refused:
            if within is not None:
                raise
            return Stored(encode_error(CodecError(str(refused))), PortableJSON.name)  # its cause may show the value

    def load(self, text: str, format: str | None, type: Any = Any) -> Any:
        """Return the value stored as *text* under the marker *format*, as *type* if it is portable JSON.

        Raises :class:`CannotDeserialize`, :class:`FormatRefused` and :class:`CodecError`.
        """
        serializer, plain = self._open(text, format)
        return serializer.decode(plain, type) if isinstance(serializer, PortableJSON) else _read(serializer, plain)

    def check_readable(self, text: str, format: str | None) -> None:
        """Raise :class:`FormatRefused` or :class:`CodecError` if this application has no way to open *text*."""
        self._open(text, format)

    def load_call(self, text: str, format: str | None, codec: CallCodec) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return ``(args, kwargs)`` of a stored call, typed by the signature if it is portable JSON."""
        serializer, plain = self._open(text, format)
        if isinstance(serializer, PortableJSON):
            return codec.decode_call(plain)
        call = _read(serializer, plain)
        if not isinstance(call, dict):
            raise CannotDeserialize(f"A call stored as {serializer.name} is a {type(call).__qualname__}, not a dict.")
        args, kwargs = tuple(call.get("positionalArgs") or ()), dict(call.get("namedArgs") or {})
        codec.check(len(args), kwargs)
        return args, kwargs

    def load_result(self, text: str, format: str | None, codec: CallCodec) -> Any:
        """Return a stored result, typed by the return annotation in *codec* if it is portable JSON."""
        serializer, plain = self._open(text, format)
        return codec.decode_result(plain) if isinstance(serializer, PortableJSON) else _read(serializer, plain)

    def load_error(
        self,
        text: str,
        format: str | None,
        known: Mapping[str, type[BaseException]] | None = None,
    ) -> BaseException:
        """Return the recorded error; see :func:`decode_error` for *known*. A row's format does not matter."""
        return decode_error(self._stack.open(text, format), known)

    def close(self, text: str) -> Stored:
        """Return portable JSON as it is to be stored: *text* after the codecs. Raises :class:`CodecError`."""
        return self._store(text, PortableJSON.name, None)

    def open(self, text: str, format: str) -> str:
        """Undo :meth:`close`."""
        return self._stack.open(text, format)

    def _format(self, marker: str | None) -> Serializer:
        return self._default if marker is None else self._named(split(marker)[0])

    def _named(self, name: str) -> Serializer:
        if (format_ := self._formats.get(name)) is not None:
            return format_
        if name == PickleFormat.name:
            raise FormatRefused(
                "A value is stored as py_pickle, and reading a pickle can run any code. If every writer of"
                " this database is trusted, opt in with Serialization(also=[PickleFormat()]).",
            )
        raise FormatRefused(
            f"A value is stored in the format {name!r}, which this application does not read; it reads"
            f" {', '.join(sorted(self._formats))}. Pass its serializer in Serialization(also=[...]).",
        )

    def _store(self, text: str, format_: str, within: str | None) -> Stored:
        if within is None:
            return Stored(*self._stack.close(text, format_))
        return Stored(self._stack.close_as(text, within), within)

    def _open(self, text: str, marker: str | None) -> tuple[Serializer, str]:
        return self._format(marker), self._stack.open(text, marker)


def _read(serializer: Serializer, text: str) -> Any:
    """Have a format read *text*, one of the application's own perhaps."""
    try:
        return serializer.deserialize(text)
    except SerializationError:
        raise
    except Exception as error:
        raise CannotDeserialize(f"Reading a value of {serializer.name} raised {type(error).__name__}.") from error


__all__ = ["Serialization", "Serializer", "Stored"]
