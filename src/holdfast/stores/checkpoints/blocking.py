"""The checkpoint stores for code without an event loop."""

from __future__ import annotations

from holdfast.stores.blocking import BlockingStore
from holdfast.stores.checkpoints.store import CheckpointStore


class SyncCheckpointStore(BlockingStore[CheckpointStore]):
    """Any checkpoint store, called from threads; its loop is *portal*'s."""

    def save(self, key: str, data: bytes) -> None:
        """Keep *data* under *key*, in place of what was there: whole and durable when this returns, or not at all.

        ``TypeError`` if it is not bytes, ``TooLong`` if it alone is larger than the store's ``max_bytes``.
        """
        self._write(lambda store: store.save(key, data))

    def load(self, key: str) -> bytes | None:
        """Return what was saved under *key*, and note that it was used; None if there is nothing."""
        return self._write(lambda store: store.load(key))

    def delete(self, key: str) -> bool:
        """Remove the checkpoint; return whether there was one."""
        return self._call(self._store.delete(key))

    def list_keys(self, prefix: str = "") -> list[str]:
        """Return the keys that begin with *prefix*, sorted; no character in it has a second meaning."""
        return self._call(self._store.list_keys(prefix))

    def prune(self) -> int:
        """Remove what the limits do not allow, and return how many checkpoints that were."""
        return self._call(self._store.prune())


__all__ = ["SyncCheckpointStore"]
