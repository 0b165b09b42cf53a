"""What can go wrong with flow checkpoints, under the names their document gives it."""

from __future__ import annotations

from holdfast.errors import HoldfastError


class StorageError(HoldfastError):
    """A checkpoint could not be stored, read or deleted; the old one, if there was one, is whole."""


class NotFoundError(StorageError, LookupError):
    """There is no checkpoint of this id."""


class StaleCheckpoint(StorageError):
    """The checkpoint was stored by somebody else since it was loaded; load it again."""


class DamagedCheckpoint(StorageError):
    """What is stored under this id cannot be read."""
