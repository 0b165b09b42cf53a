"""Dead letters: failed operations that are kept, and tried again or looked at by somebody.

One record and one lifecycle, in one table, with two doors: the small queue, and the full repository. What may become of
a record is decided in ``holdfast.core.dead_letters``; a storage only has to write what was decided, if nobody else was
faster.
"""

from holdfast.model.dead_letter import (
    CompressedStatus,
    DeadLetterItem,
    DeadLetterStats,
    DLQCompressedEntry,
    FailedOperationData,
    FailedOperationStatus,
    ReplayEnd,
    ResolutionTrigger,
)

__all__ = [
    "CompressedStatus",
    "DLQCompressedEntry",
    "DeadLetterItem",
    "DeadLetterStats",
    "FailedOperationData",
    "FailedOperationStatus",
    "ReplayEnd",
    "ResolutionTrigger",
]
