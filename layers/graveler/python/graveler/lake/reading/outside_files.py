"""A quick look at the files on this machine that a commit has by address: whether others have changed or removed some.

It compares size and time, and reads no file. It is bounded, however large the commit is: fsck looks at everything.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from graveler.errors import ForbiddenError, InvalidError, UnavailableError
from graveler.lake.objects.noted_times import noted_time
from graveler.lake.objects.verification import has_noted_time
from graveler.lake.parts import Locate
from graveler.model import ObjectEntry
from graveler.storage.objects.port import ObjectMissingError
from graveler.tree.listing import prefix_end
from graveler.tree.record import RecordCodec
from graveler.tree.tree import Tree

_RECORDS: Final = 40_000
"""The number of records to search, more or less: whole ranges."""
_FILES: Final = 1_000
"""The number of files to look at."""
_SHOWN: Final = 20
_FILE: Final = "file://"
_MARK: Final = b"\x02file://"
"""The beginning of such an address in a packed record."""

Deviation = Literal["gone", "other size", "other time"]


class ChangedFile(Struct, frozen=True):
    """A file that is not as it was recorded. A file of another time may have the recorded bytes."""

    path: str
    address: str
    deviation: Deviation


class OutsideFiles(Struct, frozen=True):
    """The result of a look. ``objects`` are those that were searched for files, of about ``all_objects`` in the commit; ``files``
    the files in them, of which ``looked_at`` were compared, and ``changed`` of these differ. ``examples`` are the first of them,
    at most 20."""

    objects: int
    all_objects: int
    files: int
    looked_at: int
    changed: int
    examples: tuple[ChangedFile, ...]

    @property
    def complete(self) -> bool:
        """True if every file of the commit was looked at."""
        return self.objects == self.all_objects and self.files == self.looked_at


def look_at_outside_files(
    tree: Tree, codec: RecordCodec, namespace: str, locate: Locate, prefix: bytes = b""
) -> OutsideFiles:
    """Compare size and time of files outside the namespace with what the records of a tree say, in the order of their paths.

    Of a tree of more than about 40,000 records, as many are searched, in ranges that are spread over all keys; of more than 1,000
    files in these, 1,000 that are spread over them. Files that may not be read from here are not looked at. Cost: up to five
    ranges, a status of each file; some 80 ms.
    """
    own_prefix, end = namespace.rstrip("/") + "/", prefix_end(prefix)
    numbers = [n for n in range(len(tree)) if tree.lasts[n] >= prefix and (end is None or tree.info(n).first < end)]
    total = sum(tree.info(number).count for number in numbers)
    every = -(-total // _RECORDS) or 1
    objects, files = 0, list[ObjectEntry]()
    for key, packed in _records(tree, numbers[::every], prefix, end):
        objects += 1
        if _MARK in packed:
            entry = codec.decode(key, packed)
            if entry.address.startswith(_FILE) and not entry.address.startswith(own_prefix):
                files.append(entry)
    looked_at, changed = 0, list[ChangedFile]()
    for entry in files[:: -(-len(files) // _FILES) or 1]:
        try:
            deviation = _deviation(entry, locate)
        except (ForbiddenError, InvalidError, UnavailableError):
            continue  # it cannot be looked at from here
        looked_at += 1
        if deviation is not None:
            changed.append(ChangedFile(entry.path, entry.address, deviation))
    return OutsideFiles(
        objects,
        objects if every == 1 else total,
        len(files),
        looked_at,
        len(changed),
        tuple(changed[:_SHOWN]),
    )


def _records(tree: Tree, numbers: Sequence[int], start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of some ranges with ``start <= key < end``."""
    for number in numbers:
        for keys, packed in tree.range_blocks(number, start):
            yield from zip(keys if end is None else keys[: bisect_left(keys, end)], packed, strict=False)


def _deviation(entry: ObjectEntry, locate: Locate) -> Deviation | None:
    """Return how a file's size or time differs from its record; None if it does not. One status."""
    objects, key = locate(entry.address)
    try:
        stored = objects.head(key)
    except ObjectMissingError:
        return "gone"
    if stored.size != entry.size:
        return "other size"
    if noted_time(entry.checksum) is not None:
        return None if has_noted_time(objects, stored, entry.checksum) else "other time"
    return None if int(stored.modified) == entry.mtime else "other time"
