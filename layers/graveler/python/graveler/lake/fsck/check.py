"""fsck of one repository: all checks, in order."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from graveler.errors import UNREADABLE, LaterVersionError
from graveler.history.commits import CommitStore, expect_known_version, is_commit_id
from graveler.history.reflog import RefLog
from graveler.history.refs import Refs
from graveler.lake.committing.applications import Applications
from graveler.lake.committing.records import COMMITS_FOLDER
from graveler.lake.fsck.applications import ApplicationCheck
from graveler.lake.fsck.candidates import CandidateCheck
from graveler.lake.fsck.commit_records import CommitCheck, later_commit
from graveler.lake.fsck.findings import Counts, FindingKind, Garbage, Report, Scope, TableState
from graveler.lake.fsck.history import Damage, History
from graveler.lake.fsck.items import DamagedItem, scan
from graveler.lake.fsck.objects import ObjectCheck, Store, Trouble
from graveler.lake.fsck.owners import check_owners
from graveler.lake.fsck.pull_items import PullRequestCheck
from graveler.lake.fsck.rebuild import Rebuilder
from graveler.lake.fsck.refs import RefCheck
from graveler.lake.fsck.staged_changes import StagedCheck
from graveler.lake.fsck.tree_statuses import check_statuses
from graveler.lake.fsck.trees import TreeCheck
from graveler.lake.fsck.uploads import check_uploads
from graveler.lake.gates.candidates import Candidates
from graveler.lake.gates.statuses import Statuses
from graveler.lake.objects.upload_records import UploadRecords
from graveler.lake.opening.folder_permissions import FolderPermissions
from graveler.lake.opening.nesting import Neighbours
from graveler.lake.opening.repositories import LAKE, MARKER, KnownRepository, Repositories
from graveler.lake.pulls.pull_store import PullStore
from graveler.model import CommitID, Repository
from graveler.storage.objects.namespaces import locate
from graveler.storage.objects.port import Objects
from graveler.storage.objects.tree_files import FOLDER
from graveler.storage.tables.port import Absent, ConditionFailedError, Item, Put, Tables, VerifiableTables
from graveler.system.progress import Progress, no_progress
from graveler.tree.record import RecordCodec
from graveler.tree.store import METARANGES, RANGES, TreeFiles

_HEX: Final = "0123456789abcdef"
_MARK: Final = "Another repository could claim the namespace and mix its files with this one's; run again with repair"
_NARROW: Final = "Run again with repair, on the lake itself"
_APART: Final = (
    "Export one of the two and import it into a new repository elsewhere; until then, create no keys that are only for the "
    "outer one"
)
_TABLE: Final = (
    "Stop all programs that use the lake, and restore the folder from a copy; or dump each repository that can still be read, "
    "and restore the dumps in an empty lake"
)
_SHOWN_ERRORS: Final = 5
_SHARED: Final = (
    "Find out which repository owns the namespace before collecting garbage in it; then restore or remove this file"
)


def fsck(
    registered: KnownRepository,
    tables: Tables,
    objects: Objects,
    *,
    copies: TreeFiles | None = None,
    repair: bool = False,
    reflog: bool = True,
    committed_objects: bool = False,
    outside_objects: bool = False,
    object_bytes: bool = False,
    outside: Callable[[str], tuple[Objects, str]] = locate,
    folder_permissions: FolderPermissions | None = None,
    progress: Progress = no_progress,
) -> Report:
    """Check everything that a repository can reach, and report what is wrong with it, and what was checked.

    ``copies`` are the tree's files through the cache, if there is one: only ``repair`` and its preview look there. ``reflog``:
    include what only the reference logs of the refs reach. Always checked are size and existence of the objects of staged
    records, and of the files on this machine outside the namespace that committed records name. ``committed_objects``: also
    those of all other committed records. ``outside_objects``: among all these also objects in other stores than the file system.
    ``object_bytes``: read them all, including those of committed records, and compare size and MD5
    (:mod:`graveler.lake.objects.verification`). ``folder_permissions``: also check the permissions of the lake's own folder.
    ``repair`` rebuilds what it can, each file only when its recomputed name is right, and never an undamaged one. Commits of
    later versions are findings, but no damages: nothing is concluded from them, neither about what they reach nor about garbage.

    The repository may be in use meanwhile; changes after the refs were read are not checked. Cost: a table read
    for each ref's log, about each 32 commits and each thousand staged changes; one object read for each commit, and for each
    distinct metarange and range; a status of each file outside the namespace; then a listing of these for the garbage. A table
    that can check its own file does (:class:`graveler.storage.tables.port.VerifiableTables`), which reads all of it. About 6 µs a
    record, 100 µs a file outside. Memory: 300 bytes a commit, 250 a range, and the records of one; 8 MiB for the bytes of
    objects. Raises :class:`graveler.errors.UnavailableError` when a store is unavailable.
    """
    repository = registered.repository
    history, counts = History(), Counts()
    table_state, table_damages = _check_table(tables)
    progress("table", 1, 1)
    store, refs = Store(objects), Refs(tables, repository.uid)
    commits = CommitStore(tables, repository.uid)
    codec = RecordCodec(repository.namespace)
    looker = ObjectCheck(objects, outside, counts, progress, other_stores=outside_objects, read_bytes=object_bytes)
    all_objects = committed_objects or object_bytes
    ref_check = RefCheck(history, tables, repository.uid, refs, counts)
    ref_check.run(repository.default_branch)
    lease_damages = check_owners(tables, repository.uid, refs, repair=repair)
    applications = Applications(tables, repository.uid, refs, commits)
    log = RefLog(tables, repository.uid)
    application_damages = ApplicationCheck(tables, applications, log, commits, repair=repair).run(ref_check.branches)
    upload_damages = check_uploads(tables, UploadRecords(tables, repository.uid), repair=repair)
    pulls = PullStore(tables, repository.uid)
    pull_damages = PullRequestCheck(tables, pulls, refs, commits, log, repair=repair).run(ref_check.branches)
    candidate_check = CandidateCheck(tables, Candidates(tables, repository.uid), history, repair=repair)
    status_damages = check_statuses(tables, Statuses(tables, repository.uid), repair=repair)
    progress("refs", len(history.heads), len(history.heads))
    staged_check = StagedCheck(tables, repository.uid, refs, codec, looker, counts, progress, repair=repair)
    staged_check.run(ref_check.branches)
    commit_check = CommitCheck(history, tables, commits, store, counts, progress, repair=repair)
    commit_check.walk()
    commit_check.walk(candidate_check.run())
    if reflog:
        commit_check.walk(ref_check.logged())
    commit_check.finish()
    tree_check = TreeCheck(
        history,
        store,
        repository.split,
        codec,
        Rebuilder(history, objects, copies, commits, repository.split),
        looker,
        counts,
        progress,
        only_files=not all_objects,
        repair=repair,
    )
    tree_check.run()
    damages = [
        *table_damages,
        *([] if folder_permissions is None else _check_permissions(folder_permissions, repair=repair)),
        *_check_namespace(registered, tables, store, repair=repair),
        *_check_neighbours(repository, Neighbours(tables, folder_permissions.folder if folder_permissions else None)),
        *ref_check.damages,
        *lease_damages,
        *application_damages,
        *upload_damages,
        *pull_damages,
        *candidate_check.damages,
        *status_damages,
        *staged_check.damages,
        *commit_check.damages,
        *tree_check.damages,
    ]
    unreached, later = _unreached_items(repository, tables, history)
    damages += later
    is_garbage_known = not any(damage.kind is FindingKind.LATER_VERSION for damage in damages)
    garbage = _garbage(unreached, objects, history, tree_check, progress) if is_garbage_known else Garbage()
    scope = Scope(reflog, all_objects, outside_objects, object_bytes, table_state, garbage=is_garbage_known)
    return Report(repository.name, tuple(history.attribute(damages)), counts, garbage, scope, looker.obstacle)


def _check_table(tables: Tables) -> tuple[TableState, list[Damage]]:
    """Let the table's store check its own file, if it can."""
    if not isinstance(tables, VerifiableTables):
        return TableState.NOT_APPLICABLE, []
    errors = tables.integrity_errors()
    if not errors:
        return TableState.SOUND, []
    rest = f"; and {len(errors) - _SHOWN_ERRORS:,} more" if len(errors) > _SHOWN_ERRORS else ""
    defect = f"is damaged: {'; '.join(errors[:_SHOWN_ERRORS])}{rest}"
    return TableState.DAMAGED, [Damage(FindingKind.TABLE, "the file of the table", defect, _TABLE)]


def _check_permissions(folder_permissions: FolderPermissions, *, repair: bool) -> list[Damage]:
    """Check that the permissions of the lake's folder keep others out."""
    wider = folder_permissions.wider()
    if not wider:
        return []
    reason = "is open to users who should not use this lake: they could read the secrets that sign URLs and tokens"
    damage = Damage(FindingKind.PERMISSIONS, str(wider[0]), reason, _NARROW)
    if repair:
        damage.remedy, damage.repaired = (
            f"{folder_permissions.narrow()} files and folders were closed to them",
            not folder_permissions.wider(),
        )
    return [damage]


def _check_namespace(registered: KnownRepository, tables: Tables, store: Store, *, repair: bool) -> list[Damage]:
    """Check that the namespace and the table name this repository as the namespace's owner."""
    repository, repositories = registered.repository, Repositories(tables)
    damages = []
    for write in repositories.create_writes(registered)[1:]:
        item = tables.get(write.key)
        if item is not None and item.get("uid") == repository.uid:
            continue
        whose = "nobody" if item is None else f"repository {item.get('repository')!r}"
        damage = Damage(
            FindingKind.MARKER, f"the item of {repository.namespace}", f"says that it belongs to {whose}", _MARK
        )
        if item is None and repair and isinstance(write, Put):
            with suppress(ConditionFailedError):
                tables.put(write.key, write.item, Absent())
                damage.mark_repaired("Written again")
        damages.append(damage)
    trouble = _whose(store.get(MARKER), repository, tables.get(LAKE))
    if trouble is not None:
        damage = Damage(
            FindingKind.MARKER,
            f"{repository.namespace}/{MARKER}",
            trouble.reason,
            _MARK if trouble.missing else _SHARED,
        )
        if trouble.missing and repair and repositories.mark(repository, store.objects):
            damage.mark_repaired("Written again")
        damages.append(damage)
    return damages


def _check_neighbours(repository: Repository, neighbours: Neighbours) -> list[Damage]:
    """Check that the namespace nests with no other. Earlier versions allowed that."""
    return [
        Damage(
            FindingKind.NESTED,
            repository.namespace,
            f"overlaps {other.namespace} of repository {other.name!r}: anyone who can link in the outer one can read the other",
            _APART,
        )
        for other in neighbours.nested(repository)
    ]


def _whose(marker: bytes | Trouble, repository: Repository, lake: Item | None) -> Trouble | None:
    """Return why the namespace's mark is not this repository's; None if it is."""
    if isinstance(marker, Trouble):
        return marker
    try:
        owner = msgspec.json.decode(marker, type=dict[str, str | int])
    except UNREADABLE as error:
        return Trouble(False, f"cannot be read ({error})")
    if owner.get("uid") != repository.uid:
        return Trouble(False, f"says that the namespace belongs to repository {owner.get('repository')!r}")
    if lake is None or owner.get("lake") != lake.get("id"):
        return Trouble(False, "says that the namespace belongs to another lake")
    return None


def _unreached_items(repository: Repository, tables: Tables, history: History) -> tuple[int, list[Damage]]:
    """Return the number of commit items that were not reached; and the finding of the first of a later version, if there is one:
    what that leads to may look like garbage. One table read for each thousand commits."""
    items = 0
    for digit in _HEX:
        for sort, item in scan(tables, f"{repository.uid}/commit/{digit}"):
            name = sort.decode("ascii", "replace")
            if (isinstance(item, DamagedItem) and item.rest) or history.names(name):
                continue
            items += 1
            record = None if isinstance(item, DamagedItem) else item.get("record")
            if isinstance(record, bytes) and is_commit_id(name):
                cid = CommitID(name)
                try:
                    expect_known_version(cid, record)
                except LaterVersionError as error:
                    return items, [later_commit(history.number(cid), cid, error)]
    return items, []


def _garbage(items: int, objects: Objects, history: History, trees: TreeCheck, progress: Progress) -> Garbage:
    """Count the files that were not reached. One listing request for each thousand."""
    unreached = {COMMITS_FOLDER: 0, f"{FOLDER}/{METARANGES}": 0, f"{FOLDER}/{RANGES}": 0}
    is_reached = {
        COMMITS_FOLDER: history.names,
        f"{FOLDER}/{METARANGES}": history.has_metarange,
        f"{FOLDER}/{RANGES}": trees.knows_range,
    }
    size = listed = 0
    for folder, is_kept in is_reached.items():
        for stored in objects.list(f"{folder}/"):
            listed += 1
            if not is_kept(stored.key.removeprefix(f"{folder}/")):
                unreached[folder] += 1
                size += stored.size
            if listed % 1000 == 0:
                progress("garbage", listed, listed)
    records, metaranges, ranges = unreached.values()
    return Garbage(items, records, metaranges, ranges, size)
