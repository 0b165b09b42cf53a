"""Encryption of stored values, with keys that can be rotated."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holdfast.errors import CodecError, ConfigurationError, DriverMissing
from holdfast.serialize.marker import check_variant

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16


class Encryption:
    """AES-256-GCM. *current* names the key that writes; every key in *keys* reads.

    To rotate, add a key and make it current; drop an old key only when nothing stored under it is needed any
    more. Each value has a random 96-bit nonce, so one key must not write more than 2**32 values. The marker
    is authenticated: a value cannot be passed off as another format's or key's. The row it stands in is not.
    Key material appears in no message and no repr.
    """

    name = "aesgcm"

    def __init__(self, *, keys: Mapping[str, bytes], current: str) -> None:
        if current not in keys:
            raise ConfigurationError(f"The current key {current!r} is not among the keys: {', '.join(sorted(keys))}.")
        self._ciphers = {check_variant(key_id): _cipher(key_id, key) for key_id, key in keys.items()}
        self._current = current

    def choose(self, data: bytes) -> str:
        del data
        return self._current

    def encode(self, data: bytes, variant: str, bound: bytes) -> bytes:
        nonce = os.urandom(_NONCE_BYTES)
        sealed: bytes = self._of(variant).encrypt(nonce, data, bound)
        return nonce + sealed

    def decode(self, data: bytes, variant: str, bound: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 -- an extra, loaded only by those who encrypt

        cipher = self._of(variant)
        if len(data) < _NONCE_BYTES + _TAG_BYTES:
            raise CodecError(f"A value encrypted with key {variant!r} is cut off.")
        try:
            plain: bytes = cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound)
        except InvalidTag as error:
            raise CodecError(
                f"A value encrypted with key {variant!r} cannot be opened: it or its marker was changed,"
                " or the key of that name is another one.",
            ) from error
        return plain

    def _of(self, key_id: str) -> Any:
        if (cipher := self._ciphers.get(key_id)) is None:
            raise CodecError(f"No key {key_id!r} is configured. Add it to the keys of Encryption to read old values.")
        return cipher

    def __repr__(self) -> str:
        return f"Encryption(keys=<{', '.join(sorted(self._ciphers))}>, current={self._current!r})"


def _cipher(key_id: str, key: object) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 -- an extra
    except ImportError as error:
        raise DriverMissing("Encryption needs the cryptography package: pip install 'holdfast[encryption]'.") from error
    if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
        raise ConfigurationError(
            f"The key {key_id!r} must be {_KEY_BYTES} random bytes, as from os.urandom({_KEY_BYTES})."
        )
    return AESGCM(key)


__all__ = ["Encryption"]
