"""Codecs leave their mark, open what they closed, and refuse what was tampered with."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import CodecError, ConfigurationError
from holdfast.serialize import Codec, Compression, Encryption, PickleFormat, Serialization, Stored

K1, K2 = b"1" * 32, b"2" * 32
LONG = ["hunter2"] * 1000


class Opaque:
    """A codec of the user's: it turns the bytes around, if there are more than four."""

    name = "turned"

    def choose(self, data: bytes) -> str | None:
        return "v1" if len(data) > 4 else None

    def encode(self, data: bytes, variant: str, bound: bytes) -> bytes:
        assert variant == "v1"
        assert bound.endswith(b"+turned:v1")
        return data[::-1]

    decode = encode


def _encrypted(current: str = "k2", **keys: bytes) -> Serialization:
    return Serialization(codecs=[Encryption(keys=keys or {"k1": K1, "k2": K2}, current=current)])


def _flip(text: str, index: int) -> str:
    data = bytearray(base64.b64decode(text))
    data[index] ^= 1
    return base64.b64encode(data).decode()


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 64))
def test_value_comes_back_through_all_codecs(value: str, threshold: int) -> None:
    codecs: list[Codec] = [
        Compression(min_bytes=threshold),
        Encryption(keys={"k1": K1}, current="k1"),
        Opaque(),
    ]
    serialization = Serialization(codecs=codecs)
    stored = serialization.dump(value)
    assert stored.text.isascii()
    assert serialization.load(*stored) == value


def test_marker_names_codecs_in_the_order_of_their_use() -> None:
    both = Serialization(codecs=[Compression(), Encryption(keys={"k2": K2}, current="k2")])
    assert both.dump(LONG).format == "portable_json+zlib+aesgcm:k2"
    assert both.dump(1).format == "portable_json+aesgcm:k2"
    assert Serialization(codecs=[Opaque()]).dump("abcd") == Stored("ImRjYmEi", "portable_json+turned:v1")


def test_small_value_stays_plain_and_is_marked_so() -> None:
    serialization = Serialization(codecs=[Compression(min_bytes=1024)])
    assert serialization.dump([1]) == Stored("[1]", "portable_json")
    edge = "x" * 1022
    assert serialization.dump(edge).format == "portable_json+zlib"
    assert serialization.dump(edge[1:]).format == "portable_json"
    assert len(serialization.dump(LONG).text) < 200


def test_values_from_before_the_codecs_are_still_read() -> None:
    assert _encrypted().load("[1]", "portable_json") == [1]
    assert _encrypted().load("[1]", None) == [1]


def test_error_goes_through_the_codecs_too() -> None:
    serialization = _encrypted()
    stored = serialization.dump_error(ValueError("hunter2"))
    assert stored.format == "portable_json+aesgcm:k2"
    assert serialization.load_error(*stored).args == ("hunter2",)
    within = serialization.dump_error(ValueError("x"), within="portable_json+aesgcm:k1")
    assert serialization.load_error(*within).args == ("x",)


def test_old_key_still_reads_after_rotation_and_new_one_writes() -> None:
    old = _encrypted("k1", k1=K1).dump("secret")
    rotated = _encrypted("k2", k1=K1, k2=K2)
    assert rotated.load(*old) == "secret"
    assert rotated.dump("secret").format == "portable_json+aesgcm:k2"
    assert rotated.load(*rotated.dump("x", within=old.format)) == "x"


def test_unknown_key_is_named() -> None:
    with pytest.raises(CodecError, match="No key 'k1' is configured"):
        _encrypted("k2", k2=K2).load(*_encrypted("k1", k1=K1).dump(1))
    with pytest.raises(CodecError, match="No key '' is configured"):
        _encrypted().load("AAAA", "portable_json+aesgcm")


def test_wrong_key_of_the_right_name_is_refused() -> None:
    with pytest.raises(CodecError, match="cannot be opened"):
        _encrypted("k1", k1=K2).load(*_encrypted("k1", k1=K1).dump(1))


@given(st.integers(0, 10_000))
def test_changed_bit_is_noticed(index: int) -> None:
    text, marker = _encrypted().dump("a value")
    size = len(base64.b64decode(text))
    with pytest.raises(CodecError, match="cannot be opened"):
        _encrypted().load(_flip(text, index % size), marker)


@pytest.mark.parametrize("marker", ["py_pickle+aesgcm:k2", "portable_json+aesgcm:k1", "portable_json+zlib+aesgcm:k2"])
def test_changed_marker_is_noticed(marker: str) -> None:
    codecs: list[Codec] = [Compression(), Encryption(keys={"k1": K1, "k2": K2}, current="k2")]
    reader = Serialization(also=[PickleFormat()], codecs=codecs)
    with pytest.raises(CodecError, match="cannot be opened"):
        reader.load(_encrypted().dump("x").text, marker)


@pytest.mark.parametrize("text", ["", "AAAA", "not base64!", "é"])
def test_damaged_text_is_a_codec_error(text: str) -> None:
    for marker in ("portable_json+aesgcm:k2", "portable_json+zlib"):
        with pytest.raises(CodecError):
            Serialization(codecs=[Compression(), Encryption(keys={"k2": K2}, current="k2")]).load(text, marker)


def test_unconfigured_codec_is_named() -> None:
    with pytest.raises(CodecError, match="codec 'zlib', which is not configured"):
        Serialization().load("AAAA", "portable_json+zlib")
    with pytest.raises(CodecError, match="codec 'zlib', which is not configured"):
        Serialization().dump(1, within="portable_json+zlib")


def test_every_value_has_its_own_nonce() -> None:
    serialization = _encrypted()
    assert len({serialization.dump("same").text[:16] for _ in range(100)}) == 100


def test_cipher_text_shows_nothing_and_neither_do_messages() -> None:
    key = os.urandom(32)
    encryption = Encryption(keys={"k1": key}, current="k1")
    serialization = Serialization(codecs=[encryption])
    stored = serialization.dump(LONG)
    assert b"hunter2" not in base64.b64decode(stored.text)
    with pytest.raises(CodecError) as raised:
        serialization.load(_flip(stored.text, 20), stored.format)
    shown = f"{raised.value!r} {encryption!r} {vars(encryption)!r}"
    assert repr(key)[2:-1] not in shown
    assert key.hex() not in shown
    assert repr(encryption) == "Encryption(keys=<k1>, current='k1')"


def test_inflated_size_is_bounded() -> None:
    bomb = base64.b64encode(zlib.compress(b'"' + b"x" * 10_000_000 + b'"')).decode()
    serialization = Serialization(codecs=[Compression(max_bytes=1_000_000)])
    with pytest.raises(CodecError, match="inflates to more than 1000000 bytes"):
        serialization.load(bomb, "portable_json+zlib")


def test_value_over_the_limit_is_not_written_in_a_way_that_cannot_be_read() -> None:
    serialization = Serialization(codecs=[Compression(min_bytes=0, max_bytes=10)])
    assert serialization.dump("x" * 9).format == "portable_json"
    assert serialization.load(*serialization.dump("x" * 8)) == "x" * 8
    with pytest.raises(CodecError, match="over the limit"):
        serialization.dump("x" * 9, within="portable_json+zlib")


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"x" + data])
def test_damaged_compression_is_noticed(change: Any) -> None:
    data = base64.b64encode(change(zlib.compress(b"[1]"))).decode()
    with pytest.raises(CodecError, match="damaged"):
        Serialization(codecs=[Compression()]).load(data, "portable_json+zlib")


def test_codec_that_opens_to_no_text_is_noticed() -> None:
    data = base64.b64encode(zlib.compress(b"\xff")).decode()
    with pytest.raises(CodecError, match="not text"):
        Serialization(codecs=[Compression()]).load(data, "portable_json+zlib")


class Bad:
    """A codec of the user's that fails where it is told to."""

    name = "bad"

    def __init__(self, at: str) -> None:
        self._at = at

    def choose(self, data: bytes) -> str | None:
        self._fail("choose", data)
        return "v1"

    def encode(self, data: bytes, variant: str, bound: bytes) -> bytes:
        self._fail("encode", data, variant, bound)
        return data

    def decode(self, data: bytes, variant: str, bound: bytes) -> bytes:
        self._fail("decode", data, variant, bound)
        return data

    def _fail(self, at: str, *given: object) -> None:
        if at == self._at:
            raise OSError(f"the key service is away, for {given}")


@pytest.mark.parametrize("at", ["choose", "encode", "decode"])
def test_what_a_codec_raises_is_a_codec_error_that_names_it_and_shows_nothing(at: str) -> None:
    serialization = Serialization(codecs=[Bad(at)])
    with pytest.raises(CodecError, match=r"^The codec 'bad' raised OSError\.$"):
        serialization.load(*serialization.dump("hunter2"))


@pytest.mark.parametrize("at", ["choose", "encode"])
def test_error_that_a_codec_does_not_take_is_recorded_as_the_codec_s_own(at: str) -> None:
    serialization = Serialization(codecs=[Bad(at)])
    text, marker = serialization.dump_error(ValueError("hunter2"))
    assert "hunter2" not in text
    assert isinstance(serialization.load_error(text, marker), CodecError)


@pytest.mark.parametrize(
    ("keys", "current", "message"),
    [
        ({"k1": b"short"}, "k1", "The key 'k1' must be 32 random bytes"),
        ({"k1": "hunter2" * 5}, "k1", "The key 'k1' must be 32 random bytes"),
        ({"k1": K1}, "k2", "'k2' is not among the keys: k1"),
        ({"k:1": K1}, "k:1", "name of a variant"),
    ],
)
def test_bad_keys_are_refused_without_showing_them(keys: Any, current: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as raised:
        Encryption(keys=keys, current=current)
    assert "hunter2" not in str(raised.value)
    assert "short" not in str(raised.value)


def test_bad_compression_settings_are_refused() -> None:
    for settings in ({"level": 10}, {"min_bytes": -1}, {"max_bytes": 0}):
        with pytest.raises(ConfigurationError):
            Compression(**settings)


def test_two_codecs_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="same name"):
        Serialization(codecs=[Compression(), Compression()])


def test_cryptography_is_loaded_only_when_used_and_named_when_missing() -> None:
    script = """
import sys
sys.modules["asyncmy"] = None  # a database driver that loads cryptography for its own ends
import holdfast.serialize as serialize
assert not any(name.startswith(("cryptography", "pydantic")) for name in sys.modules), "loaded without need"
sys.modules["cryptography"] = None
try:
    serialize.Encryption(keys={"k": bytes(32)}, current="k")
except ImportError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (
        done.stdout == "DriverMissing Encryption needs the cryptography package: pip install 'holdfast[encryption]'.\n"
    )
