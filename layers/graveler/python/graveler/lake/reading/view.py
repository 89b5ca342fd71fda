"""One state of a ref for several reads, none of which sees commits that are made meanwhile."""

import time
from collections.abc import Iterator
from copy import copy
from typing import Final

from graveler.errors import PreconditionError
from graveler.lake.reading.snapshot import Snapshot
from graveler.lake.text import utf8
from graveler.model import CommitID, CommonPrefix, ObjectEntry, Page
from graveler.tree.diff import Difference
from graveler.tree.key_range import KeyRange
from graveler.tree.record import RecordCodec, encode_key
from graveler.tree.sstable import Records

LONGEST: Final = 600
"""Seconds for which the state of a branch may be read: staged changes that a commit took are deleted 15 minutes later."""

_PAGE: Final = 1000


class View:
    """A ref as it was when the view was made: of a branch its commit ``commit_id``, and the tokens under which changes were
    staged. Changes that are staged meanwhile may show; commits, merges and resets do not. For one thread at a time. Of a branch's
    name alone it can be used for :data:`LONGEST` seconds: :class:`PreconditionError` later."""

    def __init__(self, ref: str, commit_id: CommitID, snapshot: Snapshot, codec: RecordCodec) -> None:
        self.ref = ref
        self.commit_id = commit_id
        self._snapshot = snapshot
        self.codec = codec
        """Decodes the repository's records."""
        self._until = time.monotonic() + LONGEST if snapshot.is_staged else None

    def again(self) -> "View":
        """Return the same view for another thread. No request."""
        view = copy(self)
        view._snapshot = self._snapshot.again()
        return view

    def get(self, path: str) -> ObjectEntry | None:
        """Return the metadata of an object; None if there is none. Cost as :meth:`RepositoryReader.stat`, without resolving."""
        self._expect_valid()
        key = encode_key(path)
        packed = self._snapshot.get(key)
        return None if packed is None else self.codec.decode(key, packed, path)

    def list_objects(
        self, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = _PAGE
    ) -> Page[ObjectEntry | CommonPrefix]:
        """List as :meth:`RepositoryReader.list_objects`. Costs the same, without resolving."""
        self._expect_valid()
        page = self._snapshot.page(
            prefix=utf8("prefix", prefix),
            after=utf8("after", after),
            delimiter=utf8("delimiter", delimiter),
            amount=amount,
        )
        records = [(key, packed) for key, packed in zip(page.keys, page.packed, strict=True) if packed is not None]
        entries = iter(self.codec.decode_many(ObjectEntry, records))
        results = tuple(
            CommonPrefix(key.decode()) if packed is None else next(entries)
            for key, packed in zip(page.keys, page.packed, strict=True)
        )
        return Page(results, page.keys[-1].decode() if page.more and page.keys else None, (self.commit_id,))

    def objects(self, prefix: str = "") -> Iterator[ObjectEntry]:
        """Yield all objects whose path begins with ``prefix``, in the order of their UTF-8 bytes."""
        after: str | None = ""
        while after is not None:
            page = self.list_objects(prefix=prefix, after=after)
            yield from (item for item in page.results if isinstance(item, ObjectEntry))
            after = page.next_after

    def stretches(self, keys: KeyRange) -> Iterator[Records | tuple[bytes, bytes | None, Iterator[bytes]]]:
        """Yield the records in a key range as :meth:`Snapshot.stretches` does, for callers that decode them by themselves. Opens
        only the ranges that hold some of them."""
        if keys.empty:
            return
        self._expect_valid()
        for stretch in self._snapshot.stretches(keys.start, keys.end):
            yield stretch
            self._expect_valid()

    def changes(self, keys: KeyRange) -> Iterator[Difference]:
        """Yield the changes in a key range that are not committed, for callers that decode them by themselves. Cost as
        :meth:`RepositoryReader.uncommitted`, without resolving."""
        if keys.empty:
            return
        self._expect_valid()
        for difference in self._snapshot.changes(keys.start, keys.end):
            yield difference
            self._expect_valid()

    def _expect_valid(self) -> None:
        if self._until is not None and time.monotonic() > self._until:
            raise took_too_long(self.ref)


def took_too_long(ref: str) -> PreconditionError:
    """Return the error of reading a state of a branch for longer than :data:`LONGEST`."""
    return PreconditionError(
        f"reading {ref!r} took longer than {LONGEST // 60} minutes, for which its staged changes are kept as they "
        "were; read a commit or a tag instead, or commit first"
    )
