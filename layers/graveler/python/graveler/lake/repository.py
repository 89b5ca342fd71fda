"""One repository, open: a method for each verb that a user knows."""

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from graveler.errors import (
    BytesGoneError,
    GravelerError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from graveler.history.expressions import resolve
from graveler.lake.addresses import DataNames
from graveler.lake.clean_heads import CleanHeads
from graveler.lake.clock import GRACE, Clock
from graveler.lake.commit import Committer
from graveler.lake.create import Creator
from graveler.lake.deadline import SKEW, Deadline, Deadlines
from graveler.lake.importing.progress import Progress, no_progress
from graveler.lake.joint import JointStager
from graveler.lake.landing import Lander
from graveler.lake.publish import Publisher
from graveler.lake.reading import RepositoryReader
from graveler.lake.repositories import KnownRepository
from graveler.lake.reset import Resetter
from graveler.lake.rules import Intent, etag
from graveler.lake.sealing import Sealer
from graveler.lake.settings import SettingsKeeper
from graveler.lake.sides import Sides
from graveler.lake.stage import Stager
from graveler.lake.text import utf8
from graveler.lake.uploads import PartedUpload, Uploads, checksum_of_parts
from graveler.model import (
    DEFAULT_CONTENT_TYPE,
    Branch,
    Commit,
    CommitID,
    MergePreview,
    MergeStrategies,
    MergeStrategy,
    MetarangeName,
    ObjectEntry,
    RetentionRules,
    SplitParameters,
    Tag,
)
from graveler.staging.changes import StagedRecord
from graveler.storage.objects import ObjectMissingError, Objects
from graveler.storage.tables import Tables, Write
from graveler.tree.files import TreeFiles, TreeStore
from graveler.tree.listing import prefix_end
from graveler.tree.record import encode_key

if TYPE_CHECKING:
    from graveler.lake.copying import Copier
    from graveler.lake.dump.chunks import Manifest
    from graveler.lake.exporting.export import ExportReport
    from graveler.lake.fsck.findings import Progress as Phases
    from graveler.lake.fsck.findings import Report as FsckReport
    from graveler.lake.importing.importer import Importer, ImportSource
    from graveler.lake.importing.object_listing import ListingOptions
    from graveler.lake.importing.prefix_listing import ImportAddress
    from graveler.lake.in_parts.asks import Ask
    from graveler.lake.in_parts.parted import PartedOperation
    from graveler.lake.in_parts.work import Sizes
    from graveler.lake.merge import Merger
    from graveler.lake.move import Mover
    from graveler.lake.ready import ReadyCommitter
    from graveler.lake.replay import Replayer
    from graveler.lake.rewrite import Rewriter
    from graveler.lake.three_way import ThreeWayLander

_PIECE: Final = 1 << 20
_SHARED_PART: Final = 4_000_000
"""Records to read for one part of a verb, where several processes share the work on each part."""

_PAGE: Final = 1000
_DUPLICATED_BYTES: Final = 256 << 20
"""A store copies that much within some seconds."""


class OpenRepository(RepositoryReader):
    """All verbs of a repository: what :class:`RepositoryReader` can be asked, and what changes it. Cheap to make; safe to share
    between threads.

    What changes a read-only repository is refused with :class:`ReadOnlyRepositoryError`, unless it is called with ``force``;
    what changes a protected branch directly, with :class:`ProtectedBranchError`, always. Both are :class:`ForbiddenError`, and
    judged by the settings as they are when the verb reads the branch, which costs no request.
    """

    def __init__(
        self,
        known: KnownRepository,
        tables: Tables,
        objects: Objects,
        store: TreeStore,
        clock: Clock,
        outside: Callable[[str], tuple[Objects, str]],
        grace: float = GRACE,
        skew: float = SKEW,
        *,
        copies: TreeFiles | None = None,
    ) -> None:
        super().__init__(known, tables, objects, store, clock, outside, grace)
        self.skew = skew
        self._copies = copies
        self._deadlines = Deadlines(clock, grace, skew)
        self._tables = tables
        self._clock = clock
        self._known = known
        uid, split = known.repository.uid, known.repository.split
        self._names = DataNames(uid, known.secret, grace / 2)
        self._uploads = Uploads(objects, known.repository.namespace, self._names, clock.now)
        self._stager = Stager(self._branches, self._staged, clock)
        self._creator = Creator(tables, self._refs, self._branches, self._staged, self._trees, clock)
        self._joint = JointStager(tables, self._refs, self._branches, self._staged, clock)
        sealer = Sealer(tables, self._refs, self._branches, self._staged, self._outcomes, clock)
        self._resetter = Resetter(tables, self._refs, self._branches, self._staged, sealer, clock)
        publisher = Publisher(uid, tables, objects, self._refs, self._commits, self._branches)
        heads = CleanHeads(self._branches, self._staged, sealer, publisher, self._trees, clock)
        self._committer = Committer(
            split,
            self._commits,
            self._branches,
            self._staged,
            self._outcomes,
            sealer,
            publisher,
            self._trees,
            clock,
            self._deadlines,
        )
        lander = Lander(heads, publisher, self._trees, clock, self._deadlines)
        sides = Sides(self._refs, self._commits, self._branches, self._codec, self._trees)
        self._heads, self._sealer, self._publisher = heads, sealer, publisher
        self._sides, self._lander = sides, lander
        self._settings = SettingsKeeper(
            known.repository, tables, self._refs, self._branches, self._staged, self._outcomes, publisher, clock
        )

    # Who does what most readers never ask for: its modules are loaded when it is first needed.

    @cached_property
    def _mover(self) -> "Mover":
        from graveler.lake.move import Mover

        return Mover(self._refs, self._reflog, self._commits, self._branches, self._heads, self._clock)

    @cached_property
    def _merger(self) -> "Merger":
        from graveler.lake.merge import Merger

        return Merger(self._commits, self._sides)

    @cached_property
    def _replayer(self) -> "Replayer":
        from graveler.lake.replay import Replayer

        return Replayer(self._sides)

    @cached_property
    def _three_way(self) -> "ThreeWayLander":
        from graveler.lake.three_way import ThreeWayLander

        return ThreeWayLander(self._known.repository.split, self._sides, self._lander)

    @cached_property
    def _importer(self) -> "Importer":
        from graveler.lake.importing.importer import Importer

        return Importer(self._known.repository.split, self._lander, self._trees)

    @cached_property
    def _rewriter(self) -> "Rewriter":
        from graveler.lake.rewrite import Rewriter

        return Rewriter(self._known.repository.split, self._lander)

    @cached_property
    def _ready(self) -> "ReadyCommitter":
        from graveler.lake.ready import ReadyCommitter

        split = self._known.repository.split
        return ReadyCommitter(split, self._objects, self._lander, self._trees, self._clock, self.grace)

    @cached_property
    def _copier(self) -> "Copier":
        from graveler.lake.copying import Copier

        return Copier(
            self._tables,
            self._refs,
            self._branches,
            self._staged,
            self._trees,
            self._codec,
            self._packed,
            self._stager,
            self,
            self._traces,
            self._clock,
            self._deadlines,
        )

    def is_of(self, known: KnownRepository) -> bool:
        """Is this the repository ``known``, apart from its settings?"""
        mine = msgspec.structs.replace(self._known.repository, settings=known.repository.settings)
        return (mine, self._known.secret) == (known.repository, known.secret)

    # Settings

    def metadata(self) -> Mapping[str, str]:
        """What the repository's owners noted of it. Cost: one table read."""
        return self._settings.read().metadata

    def set_metadata(self, metadata: Mapping[str, str], *, force: bool = False) -> Mapping[str, str]:
        """Add to the repository's metadata; a key that is there gets the new value. All of it, as it is afterwards.

        Of several who change settings at once, nobody's change is lost. Cost: one table read, one write, both again after
        losing a race. :class:`InvalidError`, :class:`ReadOnlyRepositoryError` unless ``force``, :class:`BusyError`.
        """
        return self._settings.change_metadata(metadata, (), force=force).metadata

    def delete_metadata(self, keys: Iterable[str], *, force: bool = False) -> Mapping[str, str]:
        """Remove keys from the repository's metadata; one that is not there is no error. Cost and errors as
        :meth:`set_metadata`."""
        return self._settings.change_metadata({}, frozenset(keys), force=force).metadata

    def protection(self) -> tuple[tuple[str, ...], str]:
        """The patterns of protected branches, and the etag for :meth:`set_protection`. Cost: one table read."""
        patterns = self._settings.read().protected
        return patterns, etag(patterns)

    def set_protection(self, patterns: Iterable[str], *, if_match: str | None = None, force: bool = False) -> str:
        """Protect the branches whose name one of the patterns matches (``*`` and ``?`` are wildcards), and no others. The etag.

        On a protected branch nothing is staged, reset, committed or imported; merge, revert and cherry-pick change it. With
        ``if_match``, only if the rules are still those of that etag (empty: there are none), else :class:`PreconditionError`.
        Cost: one table read, one write; with patterns, listing the branches, and for each that is protected three table reads
        and two transactions. Errors as :meth:`set_metadata`.
        """
        changed = self._settings.set_protection(tuple(dict.fromkeys(patterns)), if_match, force=force)
        self._stager.forget()
        return etag(changed.protected)

    def protect(self, patterns: Iterable[str], *, force: bool = False) -> tuple[str, ...]:
        """Add patterns to those of :meth:`set_protection`; all of them, as they are afterwards. Cost and errors as there."""
        changed = self._settings.change_protection(tuple(patterns), (), force=force)
        self._stager.forget()
        return changed.protected

    def unprotect(self, patterns: Iterable[str], *, force: bool = False) -> tuple[str, ...]:
        """Take patterns away from those of :meth:`set_protection`; the ones that stay. :class:`NotFoundError` for a pattern that
        is not among them. Cost and errors as there."""
        return self._settings.change_protection((), tuple(patterns), force=force).protected

    def retention(self) -> RetentionRules | None:
        """For how long commits are to be kept, if that was decided. Cost: one table read."""
        return self._settings.read().retention

    def set_retention(self, rules: RetentionRules, *, force: bool = False) -> None:
        """Decide for how long commits are to be kept. Cost and errors as :meth:`set_metadata`."""
        self._settings.set_retention(rules, force=force)

    def delete_retention(self, *, force: bool = False) -> None:
        """Decide nothing about how long commits are kept. Cost and errors as :meth:`set_metadata`."""
        self._settings.set_retention(None, force=force)

    def set_import_sources(self, prefixes: Iterable[str] | None, *, force: bool = False) -> None:
        """Narrow from where, of the addresses that the deployment allows, objects may be linked, staged and imported over the
        API: only from those that begin with one of ``prefixes``, each of which names a folder (none: from nowhere outside of the
        repository). None ends that. Cost and errors as :meth:`set_metadata`."""
        self._settings.set_import_sources(None if prefixes is None else tuple(dict.fromkeys(prefixes)), force=force)

    def set_read_only(self, read_only: bool) -> None:
        """Refuse every change that is not forced, or allow changes again. What was acknowledged stays, also what is uncommitted.

        Cost: one table read, one write; if ``read_only``, what :meth:`set_protection` costs for all branches.
        """
        self._settings.set_read_only(read_only)
        self._stager.forget()

    # Upkeep

    def fsck(
        self,
        *,
        repair: bool = False,
        reflog: bool = True,
        committed_objects: bool = False,
        outside_objects: bool = False,
        progress: "Phases | None" = None,
    ) -> "FsckReport":
        """Look at everything that the repository can reach, and say what is wrong and which paths of which refs it affects.

        See :func:`graveler.lake.fsck.check.fsck`. Cost: each reachable metarange and range once, the commits about 32 to a
        table read.
        """
        from graveler.lake.fsck.check import fsck  # not on the path of a cold start
        from graveler.lake.fsck.findings import no_progress

        return fsck(
            self._known,
            self._tables,
            self._objects,
            copies=self._copies,
            repair=repair,
            reflog=reflog,
            committed_objects=committed_objects,
            outside_objects=outside_objects,
            outside=self._outside,
            progress=progress or no_progress,
        )

    def dump(self, *, progress: "Phases | None" = None) -> "Manifest":
        """Write refs, settings and uncommitted changes into the object store, from where :meth:`Lake.restore` brings them back.
        See :func:`graveler.lake.dump.take.dump`."""
        from graveler.lake.dump.take import dump  # not on the path of a cold start
        from graveler.lake.fsck.findings import no_progress

        return dump(
            self.repository,
            self._tables,
            self._objects,
            self._clock,
            grace=self.grace,
            skew=self.skew,
            progress=progress or no_progress,
        )

    # Refs

    def create_branch(
        self, name: str, source: str, *, by: str = "", hidden: bool = False, force: bool = False
    ) -> Branch:
        """Point a new branch at the commit of ``source``. Cost: resolving and one transaction, whatever the lake's size.

        :class:`AlreadyExistsError`, :class:`InvalidError` for the name, :class:`RefNotFoundError`.
        """
        commit_id = resolve(source, self._refs, self._commits).commit_id
        return self._branches.create(name, commit_id, by, hidden=hidden, force=force)

    def delete_branch(self, name: str, *, by: str = "", force: bool = False) -> None:
        """Remove a branch and its uncommitted changes. Cost: one table read, one transaction. :class:`ForbiddenError` for the
        default branch."""
        self._branches.delete(name, by, force=force)

    def rename_branch(self, old: str, new: str, *, by: str = "", force: bool = False) -> Branch:
        """Give a branch another name; its uncommitted changes go with it. The reference log of before stays under the old name.
        Cost: one table read, one transaction, whatever is staged. A commit or merge at work on it fails, and loses nothing.

        :class:`ForbiddenError` for the default branch, :class:`AlreadyExistsError`, :class:`InvalidError` for the new name.
        """
        return self._branches.rename(old, new, by, force=force)

    def hard_reset(self, branch: str, ref: str, *, by: str = "", force: bool = False) -> Branch:
        """Move a branch to the commit of any ref. What was committed since stays in the table, and :meth:`undo` goes back to it.

        Cost: resolving, the branch; one table read for each token and shard to see that nothing is staged; the head's commit and
        metarange if something is; one transaction; nothing at all if the branch is there already. Waits for a commit that is at
        work. :class:`DirtyBranchError` while there are uncommitted changes, :class:`RefNotFoundError` also for a commit that has
        expired, :class:`BusyError`.
        """
        return self._mover.hard_reset(branch, resolve(ref, self._refs, self._commits).commit_id, by, force=force)

    def undo(self, branch: str, *, by: str = "", force: bool = False) -> Branch:
        """Move a branch back to where it was before what moved it last, as its reference log has it: a commit, merge, import,
        hard reset, or an undo itself.

        Cost: two table reads, and :meth:`hard_reset`. :class:`NotFoundError` if nothing has moved it since it was created, as far
        back as the log goes; :class:`PreconditionError` if it is being moved right now; those of :meth:`hard_reset`.
        """
        return self._mover.undo(branch, by, force=force)

    def create_tag(self, name: str, ref: str, *, by: str = "", force: bool = False) -> Tag:
        """Name the commit of ``ref``. Cost and errors as :meth:`create_branch`."""
        return self._branches.create_tag(name, resolve(ref, self._refs, self._commits).commit_id, by, force=force)

    def delete_tag(self, name: str, *, by: str = "", force: bool = False) -> None:
        """Remove a tag. Cost: one table read, one transaction. :class:`RefNotFoundError`."""
        self._branches.delete_tag(name, by, force=force)

    # Uncommitted changes

    def upload(
        self,
        branch: str,
        path: str,
        data: bytes | Path,
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
        if_absent: bool = False,
        force: bool = False,
    ) -> ObjectEntry:
        """Write an object's bytes and stage it; readers of the branch see it at once (promise C3).

        ``data`` is the bytes, or a file. With ``if_absent``, only if the branch has no object of this path, now or at the end:
        of several who do so at once, one wins. Cost: one object write, and :meth:`link`. :class:`AlreadyExistsError`, before a
        byte is written if it is so already.
        """
        key = encode_key(path)
        until = self._deadlines.begin()
        seen = self._creator.look(branch, path, key, force=force) if if_absent else None
        if seen is None:
            self._stager.expect(branch, force=force)  # before any byte is written
        name = self._names.new(branch, path, self._clock.now())
        size, checksum = _digest(data)
        entry = ObjectEntry(
            path,
            f"{self.repository.namespace}/{name}",
            size,
            checksum,
            int(self._clock.now()),
            content_type,
            metadata or {},
        )
        packed = self._packed(entry)
        stored = self._objects.put(name, data)
        if stored.size != size:
            raise UnavailableError(f"{str(data)!r} changed while it was being uploaded; nothing was staged, try again")
        if seen is None:
            self._stager.stage(branch, [(key, packed)], until, force=force)
        else:
            self._creator.create(branch, path, key, packed, until, seen, force=force)
        return entry

    def store_at(self, address: str) -> tuple[Objects, str]:
        """The object store in which an address lies, and its key there. No request. Errors as :meth:`expect_readable`."""
        return self._locate(address)

    def expect_changes(self, branch: str, *, force: bool = False) -> None:
        """See that the branch is there and may be changed directly, before somebody goes to work for it. Cost: one table read.
        :class:`RefNotFoundError`, :class:`ForbiddenError`."""
        self._branches.state(branch, Intent(direct=True, force=force))

    def new_address(self, branch: str, path: str, *, force: bool = False) -> str:
        """A physical address to write an object's bytes to, for :meth:`link` afterwards. Cost: one table read."""
        encode_key(path)
        self._branches.state(branch, Intent(direct=True, force=force))
        return f"{self.repository.namespace}/{self._names.new(branch, path, self._clock.now())}"

    def expect_handed_out(self, branch: str, path: str, address: str) -> None:
        """:class:`InvalidError` unless an address is one of :meth:`new_address` for this path and branch, and not too old. No
        request."""
        self._names.check(address.removeprefix(f"{self.repository.namespace}/"), branch, path, self._clock.now())

    def upload_url(self, branch: str, path: str, address: str, expires_in: int) -> str:
        """A URL with which anybody may write the bytes at an address of :meth:`new_address` for ``expires_in`` seconds. No
        request. :class:`InvalidError` for another address."""
        return self._uploads.put_url(branch, path, address, expires_in)

    def begin_upload(self, branch: str, path: str) -> PartedUpload:
        """Begin an upload in parts, for :meth:`finish_upload`. Cost: one table read, one object request."""
        return self._uploads.begin(branch, path, self.new_address(branch, path))

    def part_url(self, branch: str, path: str, upload: PartedUpload, number: int, expires_in: int) -> str:
        """A URL with which anybody may upload one part, 1 to 10,000, for ``expires_in`` seconds. No request."""
        return self._uploads.part_url(branch, path, upload, number, expires_in)

    def upload_part(self, branch: str, path: str, upload: PartedUpload, number: int, data: bytes) -> str:
        """Upload one part; returns its ETag. Cost: one object request."""
        return self._uploads.put_part(branch, path, upload, number, data)

    def abort_upload(self, branch: str, path: str, upload: PartedUpload) -> None:
        """Forget an upload in parts; an unknown one is success. Cost: one object request."""
        self._uploads.abort(branch, path, upload)

    def finish_upload(
        self,
        branch: str,
        path: str,
        upload: PartedUpload,
        parts: Sequence[tuple[int, str]],
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        metadata: Mapping[str, str] | None = None,
        if_absent: bool = False,
    ) -> ObjectEntry:
        """Make an object of its parts, ``(number, ETag)`` in order, and stage it. Cost: one object request, and :meth:`link`, whose
        ``if_absent`` it has. Repeated, it stages the same object again. :class:`UploadMissingError`, :class:`InvalidError`."""
        self._stager.expect(branch)  # before anything is completed
        stored = self._uploads.complete(branch, path, upload, parts)
        checksum = checksum_of_parts(parts) or stored.etag
        entry = ObjectEntry(
            path, upload.address, stored.size, checksum, int(self._clock.now()), content_type, metadata or {}
        )
        self.link(branch, entry, if_absent=if_absent)
        return entry

    def link(self, branch: str, entry: ObjectEntry, *, if_absent: bool = False, force: bool = False) -> None:
        """Stage an object whose bytes are at ``entry.address`` already.

        An address inside the namespace must be one that :meth:`new_address` gave for this path and branch, and not be older
        than half a day; outside, any address goes. Cost: one table write, one table read (once more on the first use of a
        branch). :class:`InvalidError`.

        With ``if_absent``, only if the branch has no object of this path: of several who do so at once, one wins. Cost: two
        table reads (the branch, what is staged for the path); unless a delete is staged there, the commit, its metarange,
        one range at most; one transaction. Those who do so on one branch, and commits there, exclude each other: whoever
        loses looks again. :class:`AlreadyExistsError`, :class:`BusyError`.
        """
        if not if_absent:
            self.link_many(branch, [entry], force=force)
            return
        until = self._deadlines.begin()
        key, packed = self._record(branch, entry, self._clock.now())
        self._creator.create(branch, entry.path, key, packed, until, force=force)

    def link_many(self, branch: str, entries: Iterable[ObjectEntry], *, force: bool = False) -> None:
        """As :meth:`link`, of many objects with distinct paths. Each is staged, and acknowledged, by itself: after an error some
        may be, and repeating all of them is safe. Cost: one table write for each 25, one table read for each thousand."""
        now, until = self._clock.now(), self._deadlines.begin()
        self._stage(branch, [self._record(branch, entry, now) for entry in entries], until, force=force)

    def delete(self, branch: str, paths: Iterable[str], *, force: bool = False) -> None:
        """Remove objects from the branch; a path that is not there is no error. Their bytes stay, for older commits.

        Cost: one table write for one path, one for each 25 of several, one table read for each thousand.
        """
        deleted = [(encode_key(path), None) for path in dict.fromkeys(paths)]
        self._stage(branch, deleted, self._deadlines.begin(), force=force)

    def stage_with(
        self,
        branch: str,
        entries: Sequence[ObjectEntry],
        deleted: Sequence[str],
        writes: Sequence[Write],
        *,
        force: bool = False,
    ) -> None:
        """Stage objects as :meth:`link_many` does and deletes as :meth:`delete` does, of distinct paths, in one transaction with
        ``writes`` of a room above: all of it or nothing. At most 99 of all of them together.

        Cost: one table read and one transaction; both again if the branch changed meanwhile. Those who do so on one branch, and
        commits there, exclude each other. :class:`graveler.storage.tables.ConditionFailedError` for conditions of ``writes``, by
        their positions; :class:`BusyError`; after :class:`UnavailableError` it may have happened.
        """
        now, until = self._clock.now(), self._deadlines.begin()
        records: list[StagedRecord] = [self._record(branch, entry, now) for entry in entries]
        records += [(encode_key(path), None) for path in deleted]
        self._joint.stage(branch, records, writes, until, force=force)

    def copy(
        self, branch: str, source_path: str, destination_path: str, *, source_ref: str = "", force: bool = False
    ) -> ObjectEntry:
        """Stage on a branch another object with the same bytes: ``source_path`` in ``source_ref`` (this branch, if empty).

        No byte is copied: both have one address, which is safe, since objects are never changed and stay as long as anything
        refers to them. Checksum, content type and metadata are the source's, the time is now. Cost: :meth:`stat` and
        :meth:`link`. :class:`ObjectNotFoundError`, :class:`RefNotFoundError`.
        """
        return self._copier.copy(branch, source_path, destination_path, source_ref, force=force)

    def duplicate(
        self, branch: str, source_path: str, destination_path: str, *, source_ref: str = "", force: bool = False
    ) -> ObjectEntry:
        """As :meth:`copy`, but the store copies the bytes, so that the copy has an address of its own. Objects outside of the
        namespace, and those larger than 256 MiB, are only copied as there: it would take too long for one call.

        Cost: :meth:`stat`, a copy within the store, and :meth:`link`. Errors as :meth:`copy`, and of :meth:`bytes_in`.
        """
        entry = self.stat(source_ref or branch, source_path)
        inside = f"{self.repository.namespace}/"
        if entry.size > _DUPLICATED_BYTES or not entry.address.startswith(inside):
            return self.copy(branch, source_path, destination_path, source_ref=source_ref, force=force)
        key = encode_key(destination_path)
        until = self._deadlines.begin()
        self._stager.expect(branch, force=force)  # before any byte is written
        name = self._names.new(branch, destination_path, self._clock.now())
        try:
            self._objects.copy(entry.address.removeprefix(inside), name)
        except ObjectMissingError:
            self.expect_kept(source_ref or branch)
            raise BytesGoneError(source_path, source_ref or branch, entry.address) from None
        copied = msgspec.structs.replace(
            entry, path=destination_path, address=f"{inside}{name}", mtime=int(self._clock.now())
        )
        self._stager.stage(branch, [(key, self._packed(copied))], until, force=force)
        return copied

    def copy_prefix(
        self, branch: str, source_prefix: str, destination_prefix: str, *, source_ref: str = "", force: bool = False
    ) -> Iterator[ObjectEntry]:
        """As :meth:`copy`, of all objects whose path begins with ``source_prefix``, which ``destination_prefix`` replaces.

        Yields what is staged, a page at a time, while it is consumed; after an error some is staged, and repeating it is safe.
        Cost: :meth:`list_objects` for each thousand, and :meth:`link_many`. :class:`InvalidError` for a prefix that begins with
        the other, on one branch.
        """
        return self._copier.copy_prefix(branch, source_prefix, destination_prefix, source_ref, force=force)

    def move(self, branch: str, source_path: str, destination_path: str, *, force: bool = False) -> ObjectEntry:
        """Give an object of a branch another path: a :meth:`copy`, and then a :meth:`delete`.

        A failure between the two leaves both, never none; repeating it is safe. Cost: both of them.
        :class:`ObjectNotFoundError`; :class:`InvalidError` for one path twice.
        """
        return self._copier.move(branch, source_path, destination_path, force=force)

    def move_prefix(
        self, branch: str, source_prefix: str, destination_prefix: str, *, force: bool = False
    ) -> Iterator[tuple[str, ObjectEntry]]:
        """As :meth:`move`, of all objects whose path begins with ``source_prefix``: old path and new object, a page at a time.

        As :meth:`copy_prefix`. A failure leaves every object at its old path, its new one, or both.
        """
        return self._copier.move_prefix(branch, source_prefix, destination_prefix, force=force)

    def update_metadata(
        self, branch: str, path: str, metadata: Mapping[str, str], *, force: bool = False
    ) -> ObjectEntry:
        """Replace an object's own metadata; address, time and all else stay. The object as it is then.

        Who replaces the object at the same time is not overwritten. Cost: two table reads; unless it is staged, the commit, its
        metarange, one range at most; one transaction; all again after losing a race. :class:`ObjectNotFoundError`,
        :class:`BusyError`.
        """
        return self._copier.update_metadata(branch, path, metadata, force=force)

    def reset(
        self, branch: str, *, path: str | None = None, prefix: str | None = None, by: str = "", force: bool = False
    ) -> None:
        """Drop uncommitted changes: all, or those of one path, or of the paths that begin with a prefix. Resetting nothing is no
        error. What is staged while this runs may go or stay.

        All of them go at once. Those of a prefix go one by one: after an error some may be gone, and repeating it is safe.
        Cost of all: one table read of the branch, one for each staging token and shard to see that something is staged, and one
        transaction, whatever is staged. Of a path: two table reads, one transaction if it is staged. Of a prefix: the branch, one
        table read for each token and shard and thousand staged there, one transaction for each 99. Waits for a commit that
        is at work. If one died that had taken such changes, the other changes that it had taken are first staged again: one table
        read for each token and shard and thousand of them, one transaction for each 99 and one at the end.
        :class:`InvalidError` for both path and prefix, :class:`BusyError`.
        """
        if path is not None and prefix is not None:
            raise InvalidError(f"reset either path {path!r} or prefix {prefix!r}, not both")
        if path is not None:
            key = encode_key(path)
            self._resetter.reset(branch, key, key + b"\0", by, force=force)
        elif prefix:
            first = utf8("prefix", prefix)
            self._resetter.reset(branch, first, prefix_end(first), by, force=force)
        else:
            self._resetter.reset_all(branch, by, force=force)

    # Commits

    def commit(
        self,
        branch: str,
        message: str,
        *,
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        allow_empty: bool = False,
        created: int | None = None,
        force: bool = False,
        limit: int | None = None,
    ) -> Commit:
        """Make the branch's uncommitted changes a commit: all at once, or not at all (promise C2).

        With a ``request_id``, a repeated request returns the first one's commit (promise C4). ``created`` (Unix seconds)
        overrides the time. With a ``limit``, only if no more records than that have to be read, else
        :class:`TooMuchWorkError`: see :meth:`in_parts`.

        Cost: the head's commit, its metarange and t ranges read; the ranges that differ, the metarange and the commit record
        written; two transactions. Table reads: the branch; one for each shard to see that something is staged; one for each
        shard and thousand staged; one to see whether clean-up after older commits is due, which then takes its own; one with
        a ``request_id``. Others who change the branch meanwhile cost a few more, but no range that did not change.
        :class:`NoChangesError`, :class:`BusyError`.
        """
        commit = self._committer.commit(
            branch,
            message,
            committer,
            metadata or {},
            request_id=request_id,
            allow_empty=allow_empty,
            created=created,
            force=force,
            limit=limit,
        )
        self._sweep()
        return commit

    def commit_metarange(
        self,
        branch: str,
        metarange: MetarangeName,
        message: str,
        *,
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        allow_empty: bool = False,
        created: int | None = None,
        force: bool = False,
        parent: CommitID | None = None,
    ) -> Commit:
        """Make a tree that lies ready as a metarange file the next commit of a branch: its contents replace all of the head's.

        The file must be younger than half a day, so that it is part of a commit before a collector could find it unused.
        With a ``parent``, only if that is the branch's head, so that who built the tree of a head's loses nobody's commit.
        Cost: two object reads, of the file, and as :meth:`merge` without reading ranges; with a ``parent`` the branch is read
        twice. :class:`InvalidError` for what is no name, :class:`NotFoundError`, :class:`PreconditionError` for an old file,
        :class:`NoChangesError`, :class:`DirtyBranchError`, :class:`BusyError`, :class:`MovedError`.
        """
        return self._ready.commit(
            branch,
            metarange,
            message,
            committer,
            metadata or {},
            request_id=request_id,
            allow_empty=allow_empty,
            created=created,
            force=force,
            parent=parent,
        )

    def merge(
        self,
        source: str,
        destination: str,
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        strategy: MergeStrategy | MergeStrategies = MergeStrategy.NONE,
        squash: bool = False,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
        limit: int | None = None,
        untouched: Sequence[str] = (),
    ) -> Commit:
        """Bring what ``source`` changed since the common base into the branch ``destination``, as a commit with two parents.

        Uncommitted changes of the source stay out. A ``strategy`` decides conflicts, one for all paths or by prefix. With
        ``squash``, the commit has one parent, as if the changes had been made here. With ``allow_empty``, there may be nothing
        to bring. ``limit`` as for :meth:`commit`. If the destination has changed below a prefix of ``untouched`` since the base,
        :class:`TouchedError`: for who replaces all that was there.

        Cost: resolving the source and finding the base; three metaranges and the ranges that both sides changed read; the ranges
        that are new, the metarange and the commit record written; one transaction. Two table reads to see that nothing is staged
        at the destination (one for each token and shard); two transactions more if something is that changes nothing.
        :class:`MergeConflictError` lists all conflicts, in key order, and nothing was changed; :class:`NoChangesError`,
        :class:`DirtyBranchError`, :class:`BusyError`.
        """
        return self._three_way.land(
            self._merger.undertake(
                source,
                destination,
                message,
                committer,
                metadata or {},
                _strategies(strategy),
                squash=squash,
                allow_empty=allow_empty,
                request_id=request_id,
                created=created,
                force=force,
                untouched=untouched,
            ),
            limit,
        )

    def preview_merge(
        self, source: str, destination: str, strategy: MergeStrategy | MergeStrategies = MergeStrategy.NONE
    ) -> MergePreview:
        """What :meth:`merge` would do now: the base, how much would change in the destination, and every conflict. Changes and
        writes nothing.

        Cost: resolving both and finding the base, three metaranges, the ranges in which the source differs from the base, and
        those of the destination there.
        """
        return self._merger.preview(source, destination, _strategies(strategy))

    def revert(
        self,
        branch: str,
        ref: str,
        *,
        parent_number: int = 0,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
        limit: int | None = None,
    ) -> Commit:
        """Take back on a branch what one commit changed, as a commit.

        ``parent_number`` (from 1) says against which parent a merge is taken back; 0 is the only one. ``limit`` as for
        :meth:`commit`. Cost: as :meth:`merge`.
        :class:`MergeConflictError` where the branch changed the same objects since; :class:`NoChangesError`,
        :class:`DirtyBranchError`, :class:`InvalidError` for the parent, :class:`BusyError`.
        """
        return self._three_way.land(
            self._replayer.revert(
                branch,
                ref,
                parent_number,
                message,
                committer,
                metadata or {},
                allow_empty=allow_empty,
                request_id=request_id,
                created=created,
                force=force,
            ),
            limit,
        )

    def cherry_pick(
        self,
        branch: str,
        ref: str,
        *,
        parent_number: int = 0,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
        limit: int | None = None,
    ) -> Commit:
        """Make on a branch what one commit changed elsewhere, as a commit with its message and metadata.

        Arguments, cost and errors as :meth:`revert`.
        """
        done = self._lander.done_before(request_id)  # the ref may be gone by now
        if done is not None:
            return done
        return self._three_way.land(
            self._replayer.cherry_pick(
                branch,
                ref,
                parent_number,
                message,
                committer,
                metadata or {},
                allow_empty=allow_empty,
                request_id=request_id,
                created=created,
                force=force,
            ),
            limit,
        )

    def rewrite(
        self,
        branch: str,
        split: SplitParameters,
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
        limit: int | None = None,
    ) -> Commit:
        """Cut the branch's tree anew by other split parameters, as a commit that changes no object. The branch stays cut so:
        whoever commits to it or merges into it goes on with these parameters, and those of other branches stay as they are.
        ``limit`` as for :meth:`commit`.

        Cost: the tree is read and written once, 3 µs a record and processor; one transaction. A merge or an import that brings a
        tree that is cut otherwise cuts that anew each time, so rewrite both branches of a pair.
        :class:`InvalidError` for parameters that cannot be, :class:`NoChangesError` if the branch is cut so already,
        :class:`DirtyBranchError`, :class:`BusyError`.
        """
        from graveler.lake.rewrite import rewrite_landing

        landing = rewrite_landing(
            branch, split, message, committer, metadata or {}, request_id=request_id, created=created, force=force
        )
        return self._rewriter.run(landing, split, limit)

    def in_parts(
        self, operation_id: str, ask: "Ask", *, request_id: str = "", began: float, sizes: "Sizes | None" = None
    ) -> "PartedOperation":
        """A verb that is worked on in parts: see :class:`graveler.lake.in_parts.parted.PartedOperation`. Its files lie under
        ``operation_id``; its commit is known by ``request_id``, or else by that. ``began`` (Unix seconds) is when the operation
        was first worked on: it has to be published within half the grace. A cherry-pick reads its commit; otherwise no
        request."""
        from graveler.lake.importing.prefix_listing import source_at
        from graveler.lake.in_parts.files import PartFiles  # not on the path of a cold start
        from graveler.lake.in_parts.opening import Tools, open_work
        from graveler.lake.in_parts.parted import PartedOperation
        from graveler.lake.in_parts.work import Sizes

        def source(address: "ImportAddress", progress: Progress) -> "ImportSource":
            return source_at(address, self._codec, self._outside, progress)

        tools = Tools(
            self.repository.split,
            self._branches,
            self._staged,
            self._sealer,
            self._publisher,
            self._committer,
            self._lander,
            self._sides,
            self._three_way,
            self._merger,
            self._replayer,
            self._importer,
            self._rewriter,
            self._trees,
            self._clock,
            source,
        )
        known_by = request_id or operation_id
        work = open_work(tools, ask, known_by, self._deadlines.since(began))
        files = PartFiles(self._objects, operation_id)
        sharing = self._trees.empty().store.workers > 1
        chosen = sizes or (Sizes(records=_SHARED_PART) if sharing else Sizes())
        return PartedOperation(work, files, known_by, chosen, self._branches.commit)

    def import_folder(
        self,
        branch: str,
        folder: Path,
        destination: str = "",
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        progress: Progress = no_progress,
        created: int | None = None,
        force: bool = False,
    ) -> Commit:
        """Take over the files of a folder, where they lie, as one commit. They replace all that is under ``destination``.

        ``destination`` is a prefix, empty or ending with ``/``. Each file is read once, for its MD5. Cost: n/r ranges, a
        metarange and a commit record written; the head's commit, its metarange and seams read; one transaction. Two table
        reads, before the listing, to see that nothing is staged; again for each time that the head moves.
        :class:`DirtyBranchError`, :class:`InvalidError`, :class:`UnavailableError`.
        """
        from graveler.lake.importing.folder_listing import FolderListing
        from graveler.lake.importing.importer import ImportSource

        prefix = utf8("destination", destination)
        if prefix and not prefix.endswith(b"/"):
            raise InvalidError(f"destination {destination!r} of a folder must be empty or end with '/'")
        listing = FolderListing(folder, destination, self._codec, progress)
        return self.import_sources(
            branch,
            [ImportSource(prefix, True, listing)],
            message or f"Import {os.fsencode(folder).decode('utf-8', 'backslashreplace')}",
            committer=committer,
            metadata=metadata,
            request_id=request_id,
            created=created,
            force=force,
        )

    def import_listing(
        self,
        branch: str,
        listing: Path | Sequence[Path],
        options: "ListingOptions | None" = None,
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        progress: Progress = no_progress,
        created: int | None = None,
        force: bool = False,
    ) -> Commit:
        """Take over the objects that a listing names, where they lie, as one commit. They replace all that is under the
        options' destination. Nothing looks at the objects themselves.

        ``listing`` is a CSV or Parquet file, several, a folder of them, or an S3 Inventory's ``manifest.json``. Several files (or
        row groups of Parquet) in order are shared among worker processes, where the lake has some. Cost: as
        :meth:`import_folder`, and two passes over the listing. :class:`InvalidError` names file, row and column.
        """
        from graveler.lake.importing.importer import ImportSource
        from graveler.lake.importing.object_listing import ListingOptions, ObjectListing

        options = options or ListingOptions()
        source = ObjectListing(listing, self.repository.namespace, options, progress)
        return self.import_sources(
            branch,
            [ImportSource(options.destination.encode(), True, source, source.parts, progress)],
            message or "Import a listing",
            committer=committer,
            metadata=metadata,
            request_id=request_id,
            created=created,
            force=force,
        )

    def export(
        self,
        ref: str,
        folder: Path,
        *,
        prefix: str = "",
        verify: bool = False,
        dry_run: bool = False,
        progress: Progress = no_progress,
        threads: int = 4,
    ) -> "ExportReport":
        """Write the objects of a ref's commit to a folder, only those that differ from an earlier export there.

        See :func:`graveler.lake.exporting.export.export`. Cost: :meth:`diff` with the commit exported before, one object read
        for each file that is written.
        """
        from graveler.lake.exporting.export import export  # not on the path of a cold start

        return export(
            self, ref, folder, prefix=prefix, verify=verify, dry_run=dry_run, progress=progress, threads=threads
        )

    def import_addresses(
        self,
        branch: str,
        addresses: "Sequence[ImportAddress]",
        *,
        message: str = "",
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        progress: Progress = no_progress,
        created: int | None = None,
        force: bool = False,
    ) -> Commit:
        """As :meth:`import_folder`, of objects and prefixes that are named by address, to destinations that do not overlap.
        Without any, the commit has the head's tree. :class:`NotFoundError` for an object that is not there."""
        from graveler.lake.importing.prefix_listing import source_at

        return self.import_sources(
            branch,
            [source_at(address, self._codec, self._outside, progress) for address in addresses],
            message,
            committer=committer,
            metadata=metadata,
            request_id=request_id,
            created=created,
            force=force,
        )

    def import_sources(
        self,
        branch: str,
        sources: "Sequence[ImportSource]",
        message: str,
        *,
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
        created: int | None = None,
        force: bool = False,
    ) -> Commit:
        """As :meth:`import_folder`, of several sorted listings to destinations that do not overlap."""
        return self._importer.run(
            branch,
            sources,
            message,
            committer,
            metadata or {},
            request_id=request_id,
            created=created,
            force=force,
        )

    def _record(self, branch: str, entry: ObjectEntry, now: float) -> tuple[bytes, bytes]:
        """Key and record of an object that is to be linked, if its address may be. :class:`InvalidError`."""
        key = encode_key(entry.path)
        inside = self.repository.namespace + "/"
        if entry.address.startswith(inside):
            self._names.check(entry.address.removeprefix(inside), branch, entry.path, now)
        return key, self._packed(entry)

    def _stage(self, branch: str, records: Sequence[StagedRecord], until: Deadline, *, force: bool) -> None:
        for at in range(0, len(records), _PAGE):
            self._stager.stage(branch, records[at : at + _PAGE], until, force=force)

    def _packed(self, entry: ObjectEntry) -> bytes:
        """The entry as a record. :class:`InvalidError` if it cannot be one."""
        try:
            return self._codec.encode(entry)
        except (UnicodeEncodeError, OverflowError, struct.error) as error:
            raise InvalidError(f"object {entry.path!r} cannot be described like this: {error}") from None

    def _sweep(self) -> None:
        """Take the occasion to clean up after commits of long ago. What fails here fails again at the next one, and harms nobody
        but the table's size, so it must not fail a commit that was made."""
        with suppress(GravelerError):
            self._cleanup.sweep(self._staged, self._clock.now())


def _strategies(strategy: MergeStrategy | MergeStrategies) -> MergeStrategies:
    return MergeStrategies(strategy) if isinstance(strategy, MergeStrategy) else strategy


def _digest(data: bytes | Path) -> tuple[int, str]:
    """Size and MD5. :class:`NotFoundError`, :class:`UnavailableError` for a file that cannot be read."""
    if isinstance(data, bytes):
        return len(data), md5(data, usedforsecurity=False).hexdigest()
    digest = md5(usedforsecurity=False)
    size = 0
    try:
        with data.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
    except FileNotFoundError:
        raise NotFoundError(f"file {str(data)!r} does not exist; name one that does") from None
    except OSError as error:
        raise UnavailableError(f"cannot read {str(data)!r}: {error.strerror}; nothing was uploaded") from None
    return size, digest.hexdigest()
