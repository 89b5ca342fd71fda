"""Changes of one side of a merge: the files that it added and removed since the base, with its compactions taken out.

A compaction (a snapshot of operation ``replace``) changed no row. The decisions of a merge are made about a side without its
compactions; those that stand in nobody's way are then applied again.
"""

from collections.abc import Iterable, Mapping, Sequence, Set

from msgspec import Struct

from graveler.table_format.live_files import DATA, EQUALITY_DELETES, POSITION_DELETES, FileKey, LiveFile

Files = dict[FileKey, LiveFile]


class Compaction(Struct, frozen=True, eq=False):
    """A snapshot that replaced files by others with the same rows."""

    snapshot_id: int
    added: Mapping[FileKey, LiveFile]
    removed: Mapping[FileKey, LiveFile]


class SideChanges(Struct, frozen=True, eq=False):
    """``added`` and ``removed`` are relative to the base, without ``compactions`` (oldest first). ``appends`` are the snapshots
    that are known to have only added data."""

    added: Files
    removed: Files
    compactions: tuple[Compaction, ...] = ()
    appends: frozenset[int] = frozenset()

    def data_added(self) -> list[LiveFile]:
        """Return the data files that the side added."""
        return [file for file in self.added.values() if file.content == DATA]

    def data_removed(self) -> list[LiveFile]:
        """Return the data files of the base that the side removed."""
        return [file for file in self.removed.values() if file.content == DATA]

    def equality_deletes(self) -> list[LiveFile]:
        """Return the files of equality deletes that the side added."""
        return [file for file in self.added.values() if file.content == EQUALITY_DELETES]

    def position_deletes(self) -> list[LiveFile]:
        """Return the position deletes that the side added on files of the base: those that can only touch files which the side
        itself added are left out."""
        return [
            file
            for file in self.added.values()
            if file.content == POSITION_DELETES and not (file.target and (file.target, -1) in self.added)
        ]

    def restored_deletes(self) -> list[LiveFile]:
        """Return the deletes of the base that the side removed, but for those on files that it removed, too: their rows are
        live again, unless newer deletes of the side replace them."""
        return [
            file
            for file in self.removed.values()
            if file.content != DATA and not (file.target and (file.target, -1) in self.removed)
        ]

    def derived(self) -> list[LiveFile]:
        """Return the added data files whose rows may be rows of the base, changed: those not known to be appended."""
        return [file for file in self.data_added() if file.snapshot_id not in self.appends]


def side_changes(
    added: Mapping[FileKey, LiveFile],
    removed: Mapping[FileKey, LiveFile],
    compactions: Sequence[Compaction],
    appends: Set[int],
) -> SideChanges:
    """Return a side's changes from the difference of its live files to the base's, and its compactions, oldest first.

    A compaction whose files the side itself changed later cannot be taken out: it counts as a rewrite.
    """
    plain_added, plain_removed = dict(added), dict(removed)
    separable = []
    for compaction in reversed(compactions):
        if _can_undo(compaction, plain_added, plain_removed, removed):
            for key in compaction.added:
                del plain_added[key]
            new_keys = compaction.removed.keys() - plain_removed.keys()
            plain_added |= {key: compaction.removed[key] for key in new_keys}
            for key in compaction.removed.keys() - new_keys:
                del plain_removed[key]
            separable.append(compaction)
    return SideChanges(plain_added, plain_removed, tuple(reversed(separable)), frozenset(appends))


def _can_undo(
    compaction: Compaction, added: Files, removed: Files, removed_since_base: Mapping[FileKey, LiveFile]
) -> bool:
    if not all(key in added for key in compaction.added):
        return False
    if any(key in added or (key in removed_since_base and key not in removed) for key in compaction.removed):
        return False
    compacted = [file for file in compaction.added.values() if file.content == DATA]
    return not any(
        file.may_touch(data_file)
        for file in added.values()
        if file.content == POSITION_DELETES and file.key not in compaction.added
        for data_file in compacted
    )


def reapply(changes: SideChanges, compactions: Iterable[Compaction]) -> tuple[Files, Files]:
    """Return a side's added and removed files with some of its compactions, oldest first, which :func:`applicable` chose."""
    added, removed = dict(changes.added), dict(changes.removed)
    for compaction in compactions:
        new_keys = compaction.removed.keys() & added.keys()
        removed |= {key: compaction.removed[key] for key in compaction.removed.keys() - new_keys}
        for key in new_keys:
            del added[key]
        added |= compaction.added
    return added, removed


def applicable(changes: SideChanges, omitted: Set[int]) -> list[Compaction]:
    """Return the compactions of a side, oldest first, without the ``omitted`` ones (snapshots), and without those that compacted
    files which only an omitted one had written."""
    missing: set[FileKey] = set()
    chosen = []
    for compaction in changes.compactions:
        if compaction.snapshot_id in omitted or not missing.isdisjoint(compaction.removed):
            missing.update(compaction.added)
        else:
            chosen.append(compaction)
    return chosen
