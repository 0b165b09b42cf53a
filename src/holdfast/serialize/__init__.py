"""Values to stored text and back: portable JSON by default, pickle on request, codecs on top.

Knows nothing of databases: it makes a text and a marker, and what is done with them is decided elsewhere.
"""

from holdfast.errors import RecordedError
from holdfast.serialize.calls import CallCodec
from holdfast.serialize.codecs import Codec, Compression
from holdfast.serialize.encryption import Encryption
from holdfast.serialize.failure import decode_error, encode_error, error_name
from holdfast.serialize.pickled import PickleFormat
from holdfast.serialize.portable import PortableJSON
from holdfast.serialize.registry import Serialization, Serializer, Stored

__all__ = [
    "CallCodec",
    "Codec",
    "Compression",
    "Encryption",
    "PickleFormat",
    "PortableJSON",
    "RecordedError",
    "Serialization",
    "Serializer",
    "Stored",
    "decode_error",
    "encode_error",
    "error_name",
]
