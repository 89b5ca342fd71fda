"""Rebuilding the commit items of a repository from the records in its object store."""

from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from tempfile import TemporaryFile
from typing import IO, Final

from msgspec import Struct

from graveler.errors import CorruptError, LaterVersionError
from graveler.history.commits import LINE_LENGTH, READ_BATCH, CommitStore, decode_commit, is_commit_id, publication
from graveler.lake.committing.records import COMMITS_FOLDER
from graveler.lake.fsck.history import History
from graveler.model import Commit, CommitID, RepositoryUID
from graveler.storage.durable_files import temporary_files
from graveler.storage.objects.port import ObjectMissingError, Objects, StoredObject
from graveler.storage.tables.port import Item, Put, Tables
from graveler.system.progress import Progress, no_progress

_AT_ONCE: Final = 16
"""The number of concurrent requests."""


class MissingParent(Struct, frozen=True):
    """A parent without a good record, which ``commit`` names. ``commit`` is None if the caller named it."""

    commit: CommitID | None
    parent: CommitID


class RebuiltHistory(Struct, frozen=True):
    """The result of a rebuild. ``commits`` is how many were restored, ``damaged`` the keys of invalid records,
    ``heads`` the commits that no other one names as a parent, the newest first: candidates for branches when nothing
    else is left. (They include commits that were never published, and those of deleted branches.)"""

    commits: int
    damaged: tuple[str, ...]
    missing: tuple[MissingParent, ...]
    heads: tuple[Commit, ...]


def rebuild_commits(
    tables: Tables,
    uid: RepositoryUID,
    objects: Objects,
    *,
    reachable_from: Sequence[CommitID] | None = None,
    progress: Progress = no_progress,
) -> RebuiltHistory:
    """Put the items of all commits that the object store has, or of those that ``reachable_from`` reach, into the table.

    Each record's ID is recomputed. An existing identical item stays; with ``reachable_from`` it is alive afterwards.
    The time of publication comes from its item, or else from the time of its record in the object store, which was written just
    before: retention rules go by that, not by the time in the commit. (Copied files are younger, and so are kept for
    longer.)
    Records of later versions are left alone; :class:`LaterVersionError`, before anything is written, if the rebuilt history
    would need one. May be repeated. Cost: a listing request for each thousand records, one object read for each, a table read
    for each hundred, a table write for each 25; a temporary file as large as the records. Memory: 300 bytes a commit.
    """
    with temporary_files("gathering commits"), TemporaryFile(prefix="graveler-") as file:
        records = _Records(objects, file, progress)
        history = records.history
        if reachable_from is None:
            chosen = [number for number in history.parents_first() if history.generation[number]]
            requested: list[int] = []
        else:
            requested = [history.number(commit_id) for commit_id in reachable_from]
            chosen = records.reachable(requested)
        missing = [
            MissingParent(history.id(number), history.id(parent))
            for number in chosen
            for parent in history.parents[number]
            if not history.generation[parent]
        ]
        missing += [MissingParent(None, history.id(number)) for number in requested if not history.generation[number]]
        records.expect_known([gap.parent for gap in missing], all_of_them=reachable_from is None)
        commits = CommitStore(tables, uid, capacity=1)
        for begin in range(0, len(chosen), READ_BATCH):
            _put(tables, commits, records, chosen[begin : begin + READ_BATCH], revive=reachable_from is not None)
            progress("commits", min(begin + READ_BATCH, len(chosen)), len(chosen))
        named = {parent for number in chosen for parent in history.parents[number]}
        heads = [decode_commit(history.id(n), records.read(n)) for n in chosen if n not in named]
    heads.sort(key=lambda commit: (-commit.created, -commit.generation, commit.id))
    return RebuiltHistory(len(chosen), tuple(records.damaged), tuple(missing), tuple(heads))


class _Records:
    """All records of the object store, checked, in a temporary file; and their graph."""

    def __init__(self, objects: Objects, file: IO[bytes], progress: Progress) -> None:
        self._file = file
        self._positions: dict[int, int] = {}
        self._offsets, self._sizes, self._modified = array("Q"), array("L"), array("d")
        self.history = History()
        self.damaged: list[str] = []
        self._later: dict[CommitID, LaterVersionError] = {}
        done = 0
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="graveler-rebuild") as pool:
            listed = objects.list(f"{COMMITS_FOLDER}/")
            while batch := list(islice(listed, READ_BATCH)):
                for stored, data in zip(batch, pool.map(lambda record: _get(objects, record.key), batch), strict=True):
                    if data is not None:
                        self._add(stored, data)
                done += len(batch)
                progress("records", done, done)

    def read(self, number: int) -> bytes:
        """Return the record of a commit."""
        position = self._positions[number]
        self._file.seek(self._offsets[position])
        return self._file.read(self._sizes[position])

    def expect_known(self, needed: Sequence[CommitID], *, all_of_them: bool) -> None:
        """Raise :class:`LaterVersionError` if one of the commits is of a later version; or, for ``all_of_them``, any is."""
        for commit_id in [*needed, *(self._later if all_of_them else ())]:
            if commit_id in self._later:
                raise self._later[commit_id]

    def publication(self, number: int) -> Item:
        """Return when a commit was published, according to the time of its record."""
        commit = decode_commit(self.history.id(number), self.read(number))
        return publication(commit.created, self._modified[self._positions[number]])

    def reachable(self, heads: Sequence[int]) -> list[int]:
        """Return the commits that ``heads`` reach, and that have a record."""
        reached = dict.fromkeys(heads)
        waiting = [*reached]
        while waiting:
            for parent in self.history.parents[waiting.pop()]:
                if parent not in reached:
                    reached[parent] = None
                    waiting.append(parent)
        return [number for number in reached if self.history.generation[number]]

    def line(self, number: int) -> bytes:
        """Return the next ancestors along first parents."""
        digits: list[str] = []
        while len(digits) < LINE_LENGTH and self.history.parents[number]:
            number = self.history.parents[number][0]
            digits.append(self.history.id(number))
        return bytes.fromhex("".join(digits))

    def _add(self, stored: StoredObject, data: bytes) -> None:
        key = stored.key
        name = key.rpartition("/")[2]
        try:
            if not is_commit_id(name):
                raise CorruptError(f"{key} is not the record of a commit")
            commit = decode_commit(CommitID(name), data)
        except LaterVersionError as error:
            self._later[CommitID(name)] = error
            return
        except CorruptError:
            self.damaged.append(key)
            return
        number = self.history.number(commit.id)
        self.history.describe(number, commit.parents, commit.generation, None)
        self._positions[number] = len(self._offsets)
        self._offsets.append(self._file.seek(0, 2))
        self._sizes.append(len(data))
        self._modified.append(stored.modified)
        self._file.write(data)


def _get(objects: Objects, key: str) -> bytes | None:
    try:
        return objects.get(key)
    except ObjectMissingError:
        return None  # collected since the listing


def _put(tables: Tables, commits: CommitStore, records: _Records, numbers: Sequence[int], *, revive: bool) -> None:
    keys = [commits.key(records.history.id(number)) for number in numbers]
    try:
        items: list[Item | None] = tables.get_many(keys)
    except CorruptError:  # they are written again
        items = [None] * len(keys)
    writes: list[Put] = []
    for number, key, item in zip(numbers, keys, items, strict=True):
        record = records.read(number)
        if item is None or item.get("record") != record or (revive and "expired" in item):
            published_at = (item or {}).get("published")
            published: Item = (
                {"published": published_at} if isinstance(published_at, int) else records.publication(number)
            )
            writes.append(Put(key, {"record": record, "line": records.line(number), **published}))
    tables.write_many(writes)
