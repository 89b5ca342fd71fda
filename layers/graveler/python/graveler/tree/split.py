"""The rule for where a range ends: it looks at keys alone, in one pass, and is the same for every writer.

Records are counted from the last cut; ``size`` is the sum over them of ``len(key) + 32``. After a record::

    cut  if  size >= max_size
         or  size >= min_size and xxh64(key, seed=42) % raggedness == 0

The hash of the *last* key decides, so a change of a value never moves a cut, and a change of a key moves few. This is
content-defined chunking, applied to keys. It involves no floating point, no clock and no library's size estimate (law F2).
"""

from collections.abc import Sequence
from itertools import islice

from xxhash import xxh64_intdigest

from graveler.errors import InvalidError
from graveler.model import SplitParameters
from graveler.tree.record import IDENTITY_OVERHEAD

SEED = 42
"""Spark's ``xxhash64`` uses the same seed, and returns the same number for binary input."""


def validate_split(split: SplitParameters) -> None:
    """Check that ``1 <= min_size <= max_size`` and ``raggedness >= 1``. :class:`InvalidError` otherwise."""
    if not 1 <= split.min_size <= split.max_size:
        raise InvalidError(
            f"split parameters need 1 <= min_size <= max_size, got min_size={split.min_size}, max_size={split.max_size}"
        )
    if split.raggedness < 1:
        raise InvalidError(f"split parameter raggedness must be at least 1, got {split.raggedness}")


def is_candidate(split: SplitParameters, key: bytes) -> bool:
    """Return whether a range that is large enough would end after ``key``."""
    return xxh64_intdigest(key, SEED) % split.raggedness == 0


def cuts_after(split: SplitParameters, size: int, key: bytes) -> bool:
    """Return whether a range of this size (bytes, ``key`` included) ends after ``key``."""
    return size >= split.max_size or (size >= split.min_size and is_candidate(split, key))


def slack_window(split: SplitParameters) -> int:
    """Return how far below ``min_size`` :func:`slack` looks, in bytes."""
    return split.min_size // 8


def slack(split: SplitParameters, keys: Sequence[bytes], begin: int = 0, size: int = 0) -> int:
    """Return a number of bytes such that no key of this range but the last becomes a cut if less than that is added to the range.
    At most ``min_size / 8``. ``begin`` keys of ``size`` bytes, all below the window in question, are skipped.

    A key whose hash allows a cut did not become one because it came too early: the one closest to ``min_size`` decides.
    """
    window = slack_window(split)
    spare = window
    for key in islice(keys, begin, None):
        size += len(key) + IDENTITY_OVERHEAD
        if size >= split.min_size:
            break
        if size >= split.min_size - window and is_candidate(split, key):
            spare = split.min_size - size
    return spare


def first_cut(split: SplitParameters, keys: Sequence[bytes]) -> int:
    """Return after how many of these keys, which follow a cut, the next cut comes; ``len(keys)`` if none comes before the last
    key. 0.2 µs a key."""
    size = 0
    for number, key in enumerate(keys, 1):
        size += len(key) + IDENTITY_OVERHEAD
        if size >= split.min_size and cuts_after(split, size, key):
            return number
    return len(keys)
