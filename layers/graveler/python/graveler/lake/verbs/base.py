"""What the verbs of one repository work with."""

import struct
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from graveler.errors import InvalidError
from graveler.lake.addresses import DataNames
from graveler.lake.clock import GRACE, Clock
from graveler.lake.deadline import SKEW, Deadlines
from graveler.lake.leases import LeaseWatch
from graveler.lake.reading import RepositoryReader
from graveler.lake.repositories import KnownRepository
from graveler.lake.stage import Stager
from graveler.lake.turns import Turns
from graveler.model import CommitID, ObjectEntry
from graveler.storage.lines import Lines
from graveler.storage.objects import Objects
from graveler.storage.tables import Tables
from graveler.tree.files import TreeFiles, TreeStore
from graveler.tree.ids import Notes

if TYPE_CHECKING:
    from graveler.lake.applications import Applications
    from graveler.lake.clean_heads import CleanHeads
    from graveler.lake.commit import Committer
    from graveler.lake.copying import Copier
    from graveler.lake.create import Creator
    from graveler.lake.folder_permissions import FolderPermissions
    from graveler.lake.importing.importer import Importer
    from graveler.lake.joint import JointStager
    from graveler.lake.landing import Lander
    from graveler.lake.merge import Merger
    from graveler.lake.move import Mover
    from graveler.lake.publish import Publisher
    from graveler.lake.ready import ReadyCommitter
    from graveler.lake.rename import Renamer
    from graveler.lake.replay import Replayer
    from graveler.lake.requests import RequestResults
    from graveler.lake.reset import Resetter
    from graveler.lake.restage import Restager
    from graveler.lake.rewrite import Rewriter
    from graveler.lake.sealing import Sealer
    from graveler.lake.settings import SettingsKeeper
    from graveler.lake.sides import Sides
    from graveler.lake.three_way import ThreeWayLander
    from graveler.lake.uploads import Uploads
    from graveler.lake.withdraw import Withdrawer


class VerbsBase(RepositoryReader):
    """A repository that can be read, and all who change it. ``copies`` are the files of its trees as a cache has them;
    ``leases`` is what this process has seen of the lake's leases; in ``lines`` the processes of this machine stand."""

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
        leases: LeaseWatch,
        staging_shards: int = 1,
        rendered: Notes | None = None,
        copies: TreeFiles | None = None,
        folder_permissions: "FolderPermissions | None" = None,
        lines: Lines | None = None,
    ) -> None:
        super().__init__(
            known,
            tables,
            objects,
            store,
            clock,
            outside,
            grace,
            leases=leases,
            staging_shards=staging_shards,
            rendered=rendered,
        )
        self.skew = skew
        self._copies = copies
        self._folder_permissions = folder_permissions
        self._deadlines = Deadlines(clock, grace, skew)
        self._tables = tables
        self._clock = clock
        self._known = known
        self._names = DataNames(known.repository.uid, known.secret, grace / 2)
        self._stager = Stager(self._branches, self._staged, clock, self._make_withdrawer)
        self._turns = Turns(known.repository.uid, tables, self._branches, clock, self.leases, lines)

    # Collaborators that most readers never use; loaded on first use.

    @cached_property
    def _uploads(self) -> "Uploads":
        from graveler.lake.uploads import Uploads

        return Uploads(self._objects, self._known.repository.namespace, self._names, self._clock.now)

    def _make_withdrawer(self) -> "Withdrawer":
        from graveler.lake.collected import is_collecting
        from graveler.lake.withdraw import Withdrawer
        from graveler.storage.objects import ObjectMissingError

        def committed(commit_id: CommitID, key: bytes) -> bytes | None:
            return self._trees.load(self._branches.commit(commit_id).metarange).get(key)

        def kept(key: bytes, packed: bytes) -> bool:
            needed = self._traces.needed([self._codec.decode(key, packed).address])
            self._traces.leave(needed)
            if needed and is_collecting(self._tables, self._known.repository.uid):
                return False
            try:
                for name in needed:
                    self._objects.head(name)
            except ObjectMissingError:
                return False
            return True

        return Withdrawer(self._tables, self._refs, self._staged, self._outcomes, committed, kept, self._clock)

    @cached_property
    def _renamer(self) -> "Renamer":
        from graveler.lake.rename import Renamer

        return Renamer(
            self._known.repository,
            self._tables,
            self._refs,
            self._commits,
            self._branches,
            self._staged,
            self._traces,
            self._clock,
        )

    @cached_property
    def _creator(self) -> "Creator":
        from graveler.lake.create import Creator

        return Creator(self._tables, self._refs, self._branches, self._staged, self._trees, self._clock)

    @cached_property
    def _joint(self) -> "JointStager":
        from graveler.lake.joint import JointStager

        return JointStager(self._tables, self._refs, self._branches, self._staged, self._clock, self._deadlines)

    @cached_property
    def _sealer(self) -> "Sealer":
        from graveler.lake.sealing import Sealer

        return Sealer(
            self._tables,
            self._refs,
            self._turns,
            self._staged,
            self._outcomes,
            self._restager,
            self._clock,
            self.leases,
        )

    @cached_property
    def _requests(self) -> "RequestResults":
        from graveler.lake.requests import RequestResults

        return RequestResults(self._tables, self._known.repository.uid, self._outcomes)

    @cached_property
    def _restager(self) -> "Restager":
        from graveler.lake.restage import Restager

        return Restager(
            self._tables, self._refs, self._branches, self._staged, self._outcomes, self._requests, self._clock
        )

    @cached_property
    def _resetter(self) -> "Resetter":
        from graveler.lake.reset import Resetter

        return Resetter(self._refs, self._branches, self._staged, self._sealer, self._restager, self._clock)

    @cached_property
    def _publisher(self) -> "Publisher":
        from graveler.lake.publish import Publisher
        from graveler.lake.records import CommitRecords

        records = CommitRecords(self._tables, self._objects, self._commits)
        return Publisher(self._tables, records, self._refs, self._commits, self._branches, self._requests)

    @cached_property
    def _heads(self) -> "CleanHeads":
        from graveler.lake.clean_heads import CleanHeads

        return CleanHeads(self._branches, self._staged, self._sealer, self._publisher, self._trees)

    @cached_property
    def _committer(self) -> "Committer":
        from graveler.lake.commit import Committer

        return Committer(
            self._known.repository.split,
            self._commits,
            self._branches,
            self._staged,
            self._outcomes,
            self._sealer,
            self._publisher,
            self._trees,
            self._clock,
            self._deadlines,
        )

    @cached_property
    def _lander(self) -> "Lander":
        from graveler.lake.landing import Lander

        return Lander(
            self._heads,
            self._publisher,
            self._applications,
            self._trees,
            self._turns,
            self._clock,
            self._deadlines,
        )

    @cached_property
    def _applications(self) -> "Applications":
        from graveler.lake.applications import Applications

        return Applications(self._tables, self._known.repository.uid, self._refs, self._commits)

    @cached_property
    def _sides(self) -> "Sides":
        from graveler.lake.sides import Sides

        return Sides(self._refs, self._commits, self._branches, self._codec, self._trees)

    @cached_property
    def _settings(self) -> "SettingsKeeper":
        from graveler.lake.settings import SettingsKeeper

        return SettingsKeeper(
            self._known.repository,
            self._tables,
            self._refs,
            self._branches,
            self._staged,
            self._outcomes,
            self._publisher,
            self._clock,
        )

    @cached_property
    def _mover(self) -> "Mover":
        from graveler.lake.move import Mover

        return Mover(self._refs, self._reflog, self._commits, self._branches, self._heads, self._turns)

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

        return ThreeWayLander(self._known.repository.split, self._sides, self._lander, self._trees)

    @cached_property
    def _importer(self) -> "Importer":
        from graveler.lake.importing.importer import Importer

        return Importer(self._known.repository.split, self._lander, self._trees, self._commits.get)

    @property
    def _workers(self) -> int:
        """How many processes may work for this one."""
        return self._trees.empty().store.workers

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

    def _packed(self, entry: ObjectEntry) -> bytes:
        """The entry as a record. :class:`InvalidError` if it cannot be one."""
        try:
            return self._codec.encode(entry)
        except (UnicodeEncodeError, OverflowError, struct.error) as error:
            raise InvalidError(f"object {entry.path!r} cannot be described like this: {error}") from None
