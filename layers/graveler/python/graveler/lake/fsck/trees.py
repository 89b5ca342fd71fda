"""All trees of a history, each file of them read once.

Two metaranges share most of their ranges. A range that was checked is remembered by its name, with a digest of its true
description; if another metarange describes it in the same way, nothing is read again.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct

from graveler.history.split_parameters import split_of
from graveler.lake.fsck.files import (
    Problem,
    decode_all,
    descriptions,
    misdescribed,
    missing_cut,
    open_file,
    seams,
)
from graveler.lake.fsck.findings import Counts, FindingKind
from graveler.lake.fsck.history import Damage, History
from graveler.lake.fsck.objects import ObjectCheck, Store, Trouble
from graveler.lake.fsck.rebuild import Rebuilder, Recovered
from graveler.model import MetarangeName, ObjectEntry, SplitParameters
from graveler.storage.objects.tree_files import FOLDER
from graveler.system.progress import Progress
from graveler.tree.range_info import RangeInfo
from graveler.tree.record import RecordCodec
from graveler.tree.sstable import MalformedTableError, Records
from graveler.tree.store import METARANGES, RANGES, wrong_with

_FROM_COPY: Final = "restore this file from a copy of the storage namespace"
_ANEW: Final = f"Restore the branch to an earlier commit and repeat its changes, or {_FROM_COPY}"
_UNCANONICAL: Final = (
    "Nothing is lost, and reading works; diffs and merges read more than they need to. `graveler branch rewrite` with the "
    "branch's own split parameters fixes its tree"
)
_RESTORE_OBJECTS: Final = "Restore the objects from a copy, or remove or replace the paths and commit"
_RESTORE_FILES: Final = (
    "Restore the files from a copy, or connect the disk that they are on; or import them again, or remove the paths, "
    "and commit"
)
_SHOWN: Final = 5
_NAMED_ALONE: Final = 100
"""The number of damaged objects of a range that have a finding each; more of them share one."""
_NOT_SEEN: Final = b"?"
"""Stands for a digest: the range is undamaged, and no true description of it was met."""


class _Lost(Struct, frozen=True, eq=False):
    """A file that was not available at once; the whole history may help. ``info`` is a range's, ``metarange`` a tree's."""

    damage: Damage
    name: str
    metarange: int
    info: RangeInfo | None = None


class TreeCheck:
    """A check of the trees of ``history``, and of their ``objects``: all, or with ``only_files`` the files on this machine
    outside the namespace. Memory: some 250 bytes for each range, and the records of one."""

    def __init__(
        self,
        history: History,
        store: Store,
        split: SplitParameters,
        codec: RecordCodec,
        rebuilder: Rebuilder,
        objects: ObjectCheck,
        counts: Counts,
        progress: Progress,
        *,
        only_files: bool,
        repair: bool,
    ) -> None:
        self._history = history
        self._store = store
        self._split = split
        self._codec = codec
        self._rebuilder = rebuilder
        self._objects = objects
        self._only_files = only_files
        self._counts = counts
        self._progress = progress
        self._repair = repair
        self.damages: list[Damage] = []
        self._true: dict[bytes, bytes] = {}  # range → digest of its true description; empty: it cannot be judged
        self._damaged: dict[bytes, list[Damage]] = {}  # range → what is wrong with it
        self._false: dict[bytes, Damage] = {}  # digest of a false description → its finding
        self._seams: dict[str, Damage] = {}
        self._lacking: dict[tuple[str, ...], Damage] = {}
        self._lost: list[_Lost] = []
        self._known_ranges = 0

    def run(self) -> None:
        """Check every tree. One object read for each distinct file."""
        total = len(self._history.metaranges)
        for metarange, name in enumerate(self._history.metaranges):
            self._counts.metaranges += 1
            records = self._read(METARANGES, name, None, metarange)
            if records is not None:
                self._check_tree(metarange, records)
            self._progress("metaranges", metarange + 1, total)
        self._find_lost()

    def knows_range(self, name: str) -> bool:
        """Return whether this range file is part of a tree that was checked."""
        try:
            return bytes.fromhex(name.replace("-", "", 1)) in self._true
        except ValueError:
            return False

    def _check_tree(self, metarange: int, records: Records) -> None:
        name = self._history.metaranges[metarange]
        infos, problems = descriptions(*records)
        fresh = sum(info.id + info.suffix not in self._true for info in infos)
        self._known_ranges += fresh
        believed = [info for info in infos if self._check_described(metarange, info)]
        for problem in problems:
            self._add(f"metarange {name}", problem, _ANEW, metarange)
        for problem in seams(believed, self._split_of(metarange)):
            again = self._seams.get(problem.reason)
            if again is not None:  # consecutive metaranges share most of their seams
                again.metaranges.add(metarange)
                continue
            remedy = _UNCANONICAL if problem.kind is FindingKind.CUT else _ANEW
            self._seams[problem.reason] = self._add(f"metarange {name}", problem, remedy, metarange)

    def _split_of(self, metarange: int) -> SplitParameters:
        commit = self._history.cuts.get(metarange)
        return self._split if commit is None else split_of(commit, self._split)

    def _check_described(self, metarange: int, info: RangeInfo) -> bool:
        """Check a range unless that was done; return False if the description is known to be false."""
        raw = info.id + info.suffix
        digest = sha256(info.last + info.pack()).digest()[:16]
        noted = self._true.get(raw)
        if noted is None:
            records = self._read(RANGES, info.name, info, metarange)
            self._counts.ranges += 1
            self._true[raw] = b""
            if records is not None:
                self._check_range(metarange, info, records)
                self._describe(metarange, info, records, digest)
            self._progress("ranges", self._counts.ranges, self._known_ranges)
            return digest not in self._false
        for damage in self._damaged.get(raw, ()):
            damage.metaranges.add(metarange)
        if digest in self._false:
            self._false[digest].metaranges.add(metarange)
            return False
        if noted not in (digest, b""):
            data = self._store.get(f"{FOLDER}/{RANGES}/{info.name}")
            if isinstance(data, bytes):
                self._describe(metarange, info, open_file(RANGES, info.name, data), digest)
        return digest not in self._false

    def _describe(self, metarange: int, info: RangeInfo, records: Records, digest: bytes) -> None:
        problem = misdescribed(info, *records)
        if problem is None:
            self._true[info.id + info.suffix] = digest
            return
        self._true[info.id + info.suffix] = _NOT_SEEN
        name = self._history.metaranges[metarange]
        remedy = f"Listings of these paths may be incomplete; write the paths again and commit, or {_FROM_COPY}"
        self._false[digest] = self._add(f"metarange {name}", problem, remedy, metarange)

    def _check_range(self, metarange: int, info: RangeInfo, records: Records) -> None:
        """Check an undamaged range, regardless of the metarange that names it."""
        keys, packed = records
        self._counts.records += len(keys)
        entries, problem = decode_all(self._codec, keys, packed)
        damages = []
        if problem is not None:
            remedy = "Write these paths again and commit, or restore the branch to an earlier commit"
            damages.append(self._add(f"range {info.name}", problem, remedy, metarange))
        problem = missing_cut(self._split_of(metarange), keys)
        if problem is not None:
            damages.append(self._add(f"range {info.name}", problem, _UNCANONICAL, metarange))
        damages += self._check_objects(metarange, entries)
        if damages:
            self._damaged[info.id + info.suffix] = damages

    def _check_objects(self, metarange: int, entries: Sequence[ObjectEntry]) -> list[Damage]:
        if self._only_files:
            entries = [entry for entry in entries if self._objects.is_file_outside(entry)]
        together: dict[tuple[FindingKind, int], list[tuple[ObjectEntry, str]]] = {}
        for number, lack in enumerate(self._objects.look(entries)):
            # An object of the right size has no other finding, so each has one of its own.
            alone = number if lack.kind is FindingKind.OBJECT_BYTES and number < _NAMED_ALONE else -1
            together.setdefault((lack.kind, alone), []).append((lack.entry, lack.reason))
        damages = []
        for (kind, _), lacks in together.items():
            addresses = tuple(entry.address for entry, _ in lacks)
            again = self._lacking.get(addresses)
            if again is not None and again.kind is kind:  # ranges of other commits with the same objects
                again.metaranges.add(metarange)
                damages.append(again)
                continue
            (first_entry, reason), (last_entry, _) = lacks[0], lacks[-1]
            subject = f"object {first_entry.address}"
            if len(lacks) > 1:
                subject = f"{len(lacks)} objects, {', '.join(addresses[:_SHOWN])}"
                subject += ", …" if len(lacks) > _SHOWN else ""
                reason = f"each {reason}" if kind is FindingKind.OBJECT_MISSING else f"of which the first {reason}"
            problem = Problem(kind, reason, first_entry.path.encode(), last_entry.path.encode())
            remedy = _RESTORE_FILES if self._objects.is_file_outside(first_entry) else _RESTORE_OBJECTS
            self._lacking[addresses] = self._add(subject, problem, remedy, metarange)
            damages.append(self._lacking[addresses])
        return damages

    def _read(self, kind: str, name: str, info: RangeInfo | None, metarange: int) -> Records | None:
        """Return the file's records, from any source that is available at once; None if they are lost, for now."""
        data = self._store.get(f"{FOLDER}/{kind}/{name}")
        if isinstance(data, bytes):
            try:
                return open_file(kind, name, data)
            except MalformedTableError as error:
                trouble = Trouble(False, wrong_with(error))
                found_kind = FindingKind.RANGE_DAMAGED if kind == RANGES else FindingKind.METARANGE_DAMAGED
        elif data.missing:
            trouble = data
            found_kind = FindingKind.RANGE_MISSING if kind == RANGES else FindingKind.METARANGE_MISSING
        else:
            trouble, found_kind = data, FindingKind.UNREADABLE
        first_key, last_key = (None, None) if info is None else (info.first, info.last)
        remedy = "Run again when the object store responds"
        damage = self._add(
            f"{kind[:-1]} {name}", Problem(found_kind, trouble.reason, first_key, last_key), remedy, metarange
        )
        if info is not None:
            self._damaged[info.id + info.suffix] = [damage]
        if found_kind is FindingKind.UNREADABLE:
            return None
        copy = self._rebuilder.copy(kind, name)
        if copy is not None:
            self._mend(kind, name, damage, copy)
            return open_file(kind, name, copy.data)
        self._lost.append(_Lost(damage, name, metarange, info))
        return None

    def _find_lost(self) -> None:
        """Look for files that no cache has, now that the whole history is known; check those that are recovered."""
        index = 0
        while index < len(self._lost):  # a metarange that is recovered may name ranges that are lost
            lost = self._lost[index]
            index += 1
            self._progress("rebuilding", index, len(self._lost))
            if lost.info is None:
                self._find_tree(lost, self._history.metaranges[lost.metarange])
            else:
                self._find_range(lost, lost.info)

    def _find_tree(self, lost: _Lost, name: MetarangeName) -> None:
        recovered = self._rebuilder.metarange(name, lost.metarange)
        if recovered is None:
            self._give_up(lost)
            return
        self._mend(METARANGES, name, lost.damage, recovered)
        self._check_tree(lost.metarange, open_file(METARANGES, name, recovered.data))

    def _find_range(self, lost: _Lost, info: RangeInfo) -> None:
        raw = info.id + info.suffix
        recovered = self._rebuilder.range(info, lost.damage.metaranges)
        if recovered is None:
            self._give_up(lost)
            return
        self._mend(RANGES, lost.name, lost.damage, recovered)
        records = open_file(RANGES, lost.name, recovered.data)
        self._check_range(lost.metarange, info, records)
        self._describe(lost.metarange, info, records, sha256(info.last + info.pack()).digest()[:16])
        for damage in self._damaged[raw]:
            damage.metaranges |= lost.damage.metaranges

    def _mend(self, kind: str, name: str, damage: Damage, recovered: Recovered) -> None:
        if not self._repair:
            damage.remedy = f"It can be rebuilt from {recovered.source}; run again with repair"
            return
        self._rebuilder.put(kind, name, recovered.data)
        damage.mark_repaired(f"Rebuilt from {recovered.source}")

    def _give_up(self, lost: _Lost) -> None:
        subject = "The contents of these commits are" if lost.info is None else "These paths are, in these commits,"
        lost.damage.remedy = (
            f"It cannot be rebuilt: neither the cache nor a neighbouring commit nor a merge has its contents. {subject} lost, "
            f"unless you {_FROM_COPY}"
        )

    def _add(self, subject: str, problem: Problem, remedy: str, metarange: int) -> Damage:
        damage = Damage(
            problem.kind, subject, problem.reason, remedy, problem.first_key, problem.last_key, metaranges={metarange}
        )
        self.damages.append(damage)
        return damage
