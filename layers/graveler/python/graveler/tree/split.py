"""Where a range ends: a rule over keys alone, the same one-pass rule for every writer.

Records are counted from the last cut; ``size`` is the sum over them of ``len(key) + 32``. After a record::

    cut  if  size >= max_size
         or  size >= min_size and xxh64(key, seed=42) % raggedness == 0

The hash of the *last* key decides, so a change of a value never moves a cut, and a change of a key moves few. Content-defined
chunking, applied to keys. No floating point, no clock and no library's size estimate takes part (law F2).
"""

from xxhash import xxh64_intdigest

from graveler.errors import InvalidError
from graveler.model import SplitParameters

SEED = 42
"""Spark's ``xxhash64`` uses the same one, and gives the same number for binary input."""


def validate_split(split: SplitParameters) -> None:
    """:class:`InvalidError` unless ``1 <= min_size <= max_size`` and ``raggedness >= 1``."""
    if not 1 <= split.min_size <= split.max_size:
        raise InvalidError(
            f"split parameters need 1 <= min_size <= max_size, got min_size={split.min_size}, max_size={split.max_size}"
        )
    if split.raggedness < 1:
        raise InvalidError(f"split parameter raggedness must be at least 1, got {split.raggedness}")


def cuts_after(split: SplitParameters, size: int, key: bytes) -> bool:
    """Does a range of this size (bytes, ``key`` included) end after ``key``?"""
    return size >= split.max_size or (size >= split.min_size and xxh64_intdigest(key, SEED) % split.raggedness == 0)
