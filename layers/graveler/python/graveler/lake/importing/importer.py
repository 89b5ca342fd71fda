"""Import: a zero-copy import of objects that exist elsewhere, as one commit.

The objects that an import lists replace everything under its destination, and nothing else: ``data/file1`` is not
``data/file10``, and ``collections/`` is not ``collections-old/``. A source that lists nothing would empty its destination, so it
is refused, unless the import explicitly allows it.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import EmptySourceError, InvalidError
from graveler.history.split_parameters import split_of
from graveler.lake.committing.landing import Build, Draft, Landing, land, rehearse
from graveler.lake.committing.publish import NotePublishing
from graveler.lake.committing.resplit import as_cut
from graveler.lake.deadline import Deadline
from graveler.lake.gates.gate import GateTerms
from graveler.lake.importing.import_effects import Compare, compare_here
from graveler.lake.parts import RepositoryParts
from graveler.lake.settings.repository_settings import Intent
from graveler.model import Commit, CommitID, SplitParameters, Totals
from graveler.requests.base import CommitInfo
from graveler.requests.importing import ImportChanges, Imported
from graveler.storage.tables.port import Check
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.tree.apply import Interval
from graveler.tree.parallel_build import Part, build_parallel
from graveler.tree.parts import digest
from graveler.tree.tree import Tree
from graveler.tree.writer import TreeWriter, build
from graveler.values.ignore_rules import IGNORE_FILE, LeftOutFiles
from graveler.values.reserved_paths import END, RESERVED, TablePathError, expect_free

Listing = Callable[[], Iterator[tuple[bytes, bytes]]]
"""Called once; yields records (key and packed bytes) in ascending order of their keys, all under the destination. A generator is
always closed. A listing that cannot be read to its end raises: one that ends is complete."""


class ImportSource(Struct, frozen=True):
    """A source of an import: ``records`` replace what is at ``destination``: one object, or (``is_prefix``) all with this key
    prefix.

    ``parts``, if the source can be read in parts, returns the same records in ascending key intervals, for several processes;
    ``progress`` is then called for each part, with its objects and their bytes. If it returns one part, or none, ``records`` is
    read.

    ``tree``, if the tree of these records is built elsewhere (in a cluster), returns it instead: it is called once, after the
    branch was read. All its keys must be at the destination. ``compare``, if given, compares it with the objects that are there.

    ``name`` is the source's name in messages. ``left_out`` returns what the rules of a folder left out.
    """

    destination: bytes
    is_prefix: bool
    records: Listing
    parts: Callable[[], Sequence[Part]] | None = None
    progress: ObjectProgress = no_object_progress
    tree: Callable[[], Tree] | None = None
    compare: Compare | None = None
    name: str = "the source"
    left_out: Callable[[], LeftOutFiles] | None = None


class Terms(Struct, frozen=True):
    """The options of an import: with ``allow_empty`` its sources may list nothing; with ``dry_run`` it makes no commit, and only
    reports what it would change."""

    allow_empty: bool = False
    dry_run: bool = False


_STRICT = Terms()
_DIRECT = GateTerms(direct=True)


def import_sources(
    repository: RepositoryParts,
    branch: str,
    sources: Sequence[ImportSource],
    info: CommitInfo,
    *,
    force: bool = False,
    gate: GateTerms = _DIRECT,
    terms: Terms = _STRICT,
    only_while: Check | None = None,
    note: NotePublishing | None = None,
) -> Imported:
    """See :class:`graveler.requests.importing.ImportAddresses`. Without a source, the commit has the head's tree. ``gate`` is
    what rules about the branch judge. ``note`` learns whether the commit is published."""
    ordered = sorted_sources(sources)
    landing = replace(import_landing(branch, info, gate, force=force), only_while=only_while, note=note)
    return _end(
        repository, landing, ordered, lambda: [build_source(repository, source) for source in ordered], None, terms
    )


def land_imported(
    repository: RepositoryParts,
    landing: Landing,
    imported: Sequence[tuple[ImportSource, Tree]],
    deadline: Deadline,
    terms: Terms = _STRICT,
) -> Imported:
    """Import like :func:`import_sources`, from sources whose trees are built, in the order of :func:`sorted_sources`."""
    return _end(
        repository, landing, [source for source, _ in imported], lambda: [tree for _, tree in imported], deadline, terms
    )


def _end(
    repository: RepositoryParts,
    landing: Landing,
    sources: Sequence[ImportSource],
    build_all: Callable[[], Sequence[Tree]],
    deadline: Deadline | None,
    terms: Terms,
) -> Imported:
    """Land the trees, however they are listed and built: all imports end here."""
    trees: list[Tree] = []
    comparison = Comparison()
    outcomes: dict[CommitID, tuple[ImportChanges, Tree]] = {}

    def build_trees() -> None:
        if not trees:  # once, however often the head moves
            trees.extend(build_all())
            expect_objects(list(zip(sources, trees, strict=True)), allow_empty=terms.allow_empty)

    def prepare() -> Build:
        def make(head: Commit, before: Tree) -> Draft:
            build_trees()
            split = split_of(head, repository.split)
            imported = [(s, as_cut(tree, repository.split, split)) for s, tree in zip(sources, trees, strict=True)]
            draft = Draft(replaced(before, split, imported))
            outcomes[head.id] = comparison.changes(before, imported), draft.tree
            return draft

        return make

    if terms.dry_run:
        commit = rehearse(repository, landing, prepare)
        return Imported.by(commit, _with_left_out(outcomes[commit.parents[0]][0], sources))
    commit = land(repository, landing, prepare, deadline, build_trees)
    changes, tree = outcomes.get(commit.parents[0], (None, None))
    if changes is None or tree is None or tree.name() != commit.metarange:
        changes = _changes_by(
            repository, commit, sources
        )  # an earlier request, or another attempt of it, made the commit
    return Imported.by(commit, _with_left_out(changes, sources))


def _with_left_out(changes: ImportChanges, sources: Sequence[ImportSource]) -> ImportChanges:
    """Return the changes with the numbers of what the sources' rules left out."""
    counted = [source.left_out() for source in sources if source.left_out is not None]
    return replace(
        changes,
        excluded=sum(files.by_pattern for files in counted),
        left_out=sum(files.by_default for files in counted),
    )


def _changes_by(repository: RepositoryParts, commit: Commit, sources: Sequence[ImportSource]) -> ImportChanges:
    """Return what the commit of an import changed, computed afterwards. Two metaranges read; what differs is compared."""
    before, after = (
        repository.trees.load(state.metarange) for state in (repository.commits.get(commit.parents[0]), commit)
    )
    none = repository.trees.empty()
    totals = held = Totals()
    for source in sources:
        compare = compare_here(source.destination, source.is_prefix)
        totals, held = totals + compare(before, after), held + compare(none, after)
    return ImportChanges.of(totals, held.added, held.added_bytes)


def build_source(repository: RepositoryParts, source: ImportSource) -> Tree:
    """Return the tree of a source. Its listing read, its ranges written. :class:`InvalidError` for a key outside of its
    destination."""
    if source.tree is not None:
        return _at_destination(source, source.tree())
    store = repository.trees.empty().store
    parts = source.parts() if source.parts is not None and store.workers > 1 else ()
    if len(parts) > 1:
        return _at_destination(source, build_parallel(store, repository.split, parts, partial(_tell, source.progress)))
    records = source.records()
    try:
        return _at_destination(source, build(store, repository.split, records))
    finally:
        if isinstance(records, Generator):
            records.close()  # its threads end now, and not when the generator is garbage-collected


class Comparison:
    """A comparison of the trees of one import with the objects at their destinations; repeated only where those have changed
    meanwhile, so that commits elsewhere on the branch do not delay the import (promise C6)."""

    def __init__(self) -> None:
        self._totals: dict[tuple[int, bytes], Totals] = {}

    def changes(self, before: Tree, imported: Sequence[tuple[ImportSource, Tree]]) -> ImportChanges:
        """Return what importing these trees into ``before`` changes. Cost: the ranges at the destinations that differ and overlap
        others."""
        totals = Totals()
        objects = size = 0
        for number, (source, tree) in enumerate(imported):
            position = number, digest([before], _interval(source))
            if position not in self._totals:
                compare = source.compare or compare_here(source.destination, source.is_prefix)
                self._totals[position] = compare(before, tree)
            totals += self._totals[position]
            infos = [tree.info(index) for index in range(len(tree))]
            objects, size = objects + sum(info.count for info in infos), size + sum(info.total for info in infos)
        return ImportChanges.of(totals, objects, size)


def expect_objects(imported: Sequence[tuple[ImportSource, Tree]], *, allow_empty: bool) -> None:
    """Raise :class:`EmptySourceError` if sources list nothing, unless that is allowed. It names each of them: the objects
    at its destination would be removed."""
    empty = [(_with_rules(source), source.destination.decode()) for source, tree in imported if not len(tree)]
    if empty and not allow_empty:
        raise EmptySourceError(empty)


def _with_rules(source: ImportSource) -> str:
    """Return the name of a source that lists nothing, and whether that is due to rules."""
    left_out = None if source.left_out is None else source.left_out()
    number = 0 if left_out is None else left_out.by_pattern + left_out.by_default
    return f"{source.name} ({number:,} left out by {IGNORE_FILE}, patterns or default)" if number else source.name


def replaced(before: Tree, split: SplitParameters, imported: Sequence[tuple[ImportSource, Tree]]) -> Tree:
    """Return ``before`` with the interval of each destination replaced by the source's tree; the sources as of
    :func:`sorted_sources`. Takes whole ranges by reference on both sides of a seam."""
    for source, tree in imported:
        _expect_no_tables(source, before, tree)
    writer = TreeWriter(before.store, split, existing=(before, *(tree for _, tree in imported)))
    after: bytes | None = None
    for source, tree in imported:
        below, upto = _interval(source)
        if below is not None:
            writer.copy(before, after, below)
        writer.take(tree)
        after = upto
        if upto is None:
            return writer.finish()
    writer.copy(before, after, None)
    return writer.finish()


def _interval(source: ImportSource) -> Interval:
    """Return the keys that an import replaces: above the first bound, up to and including the second.

    UTF-8 has no byte 0xff, so a key with one added is above all that begin with it, and below whatever comes next.
    """
    destination = source.destination
    if not destination:
        return None, None
    below = destination[:-1] + (bytes([destination[-1] - 1]) + b"\xff" if destination[-1] else b"")
    return below, destination + b"\xff" if source.is_prefix else destination


def _expect_no_tables(source: ImportSource, before: Tree, tree: Tree) -> None:
    """Raise :class:`TablePathError` if an import would replace or bring something that is part of a table. Two lookups in trees,
    only for a destination that may hold some."""
    destination = source.destination
    if destination.startswith(RESERVED):
        raise TablePathError(destination.decode())
    if not source.is_prefix or not RESERVED.startswith(destination):
        return
    for records in (before, tree):
        keys, _ = next(records.run(RESERVED, END), ((), ()))
        expect_free(keys[:1])


def import_landing(branch: str, info: CommitInfo, gate: GateTerms, *, force: bool) -> Landing:
    """Return the landing of an import."""
    described = replace(info, message=info.message or "Import objects")
    return Landing(branch, "import", "importing into it", described, Intent(direct=True, force=force), gate=gate)


def sorted_sources(sources: Sequence[ImportSource]) -> list[ImportSource]:
    """Return the sources by destination. :class:`InvalidError` if two destinations overlap."""
    ordered = sorted(sources, key=lambda source: source.destination)
    _refuse_overlaps(ordered)
    return ordered


def _refuse_overlaps(sources: Sequence[ImportSource]) -> None:
    for source, other in pairwise(sources):
        same = source.destination == other.destination
        if same or (source.is_prefix and other.destination.startswith(source.destination)):
            raise InvalidError(
                f"the destinations of two imports overlap: {source.destination.decode()!r} and {other.destination.decode()!r}; "
                "import them one after the other, or to different places"
            )


def _at_destination(source: ImportSource, tree: Tree) -> Tree:
    """Return the tree; :class:`InvalidError` if its keys are not under the destination. Keys under a prefix are neighbours, so
    the first and the last one decide."""
    destination = source.destination
    for key in (tree.info(0).first, tree.lasts[-1]) if len(tree) else ():
        if not (key.startswith(destination) if source.is_prefix else key == destination):
            raise InvalidError(f"import to {destination.decode()!r} lists {key!r}, which is outside it")
    return tree


def _tell(progress: ObjectProgress, tree: Tree) -> None:
    infos = [tree.info(number) for number in range(len(tree))]
    progress(sum(info.count for info in infos), sum(info.total for info in infos))
