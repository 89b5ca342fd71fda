"""The two parts of a range's name, computed so that a change of few records hashes little.

The range ID digests the record IDs. The second part, which pins addresses and times too, digests *chunks* of packed records: a
chunk ends after a record whose record ID begins with a byte below 8, so on average after 32 of them, and at the range's end::

    second part := first 16 bytes of SHA-256( SHA-256(packed records of chunk 1, one after another) ‖ SHA-256(chunk 2) ‖ … )

Where chunks end depends on each record alone, so the chunks behind a change are the old ones. A writer that keeps record IDs and
chunk digests at hand only hashes the chunks that a change touches, and these digests.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import islice, pairwise
from typing import Final

DIGEST_BYTES: Final = 32
"""Size in bytes of a record ID and of a chunk's digest."""
SUFFIX_BYTES: Final = 16

_HASHED_AT_ONCE: Final = 1000
_ENDS: Final = re.compile(b"[\x00-\x07]")


def chunk_ends(ids: bytes) -> list[int]:
    """Return the number of records after which each chunk ends. ``ids`` are the range's concatenated record IDs. 5 ns a
    record."""
    ends = [match.end() for match in _ENDS.finditer(ids[::DIGEST_BYTES])]
    records = len(ids) // DIGEST_BYTES
    if records and (not ends or ends[-1] != records):
        ends.append(records)
    return ends


def chunk_digest(packed: Iterable[bytes]) -> bytes:
    """Return the digest of one chunk's packed records."""
    return sha256(b"".join(packed)).digest()


def chunk_digests(ids: bytes, packed: Sequence[bytes]) -> bytes:
    """Return the concatenated digests of a range's chunks. 80 ns a record."""
    return b"".join([chunk_digest(packed[start:end]) for start, end in pairwise([0, *chunk_ends(ids)])])


def suffix(digests: bytes) -> bytes:
    """Return the second part of a range's name."""
    return sha256(digests).digest()[:SUFFIX_BYTES]


def plain_suffix(packed: Iterable[bytes]) -> bytes:
    """Return the second part of a metarange's name: no chunks. Ranges written before chunks existed have such names too."""
    hashed = sha256()
    descriptions = iter(packed)
    while some := b"".join(islice(descriptions, _HASHED_AT_ONCE)):
        hashed.update(some)
    return hashed.digest()[:SUFFIX_BYTES]
