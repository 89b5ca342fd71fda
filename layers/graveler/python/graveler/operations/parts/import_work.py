"""Import in parts: each part lists one source and builds its tree; publishing replaces the contents of the destinations."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from hashlib import sha256

from graveler.lake.committing.landing import Landing, give_back_turn, keeping_turn, look_at_head
from graveler.lake.deadline import Deadline
from graveler.lake.importing.importer import ImportSource, Terms, build_source, land_imported, sorted_sources
from graveler.lake.importing.prefix_listing import destination_of
from graveler.lake.parts import RepositoryParts
from graveler.operations.parts.division import Results, Sizes
from graveler.operations.parts.part_files import PartResult, Plan, PlannedPart
from graveler.requests.importing import ImportAddress, Imported
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.tree.parts import Load
from graveler.tree.tree import Tree


class ImportWork:
    """The work of importing ``addresses``. ``source_at`` opens one of them, which reports its progress; that may cost a look at
    a file system, so a part opens only its own."""

    def __init__(
        self,
        repository: RepositoryParts,
        landing: Landing,
        addresses: Sequence[ImportAddress],
        source_at: Callable[[ImportAddress, ObjectProgress], ImportSource],
        deadline: Deadline,
        terms: Terms,
    ) -> None:
        self._repository = repository
        self._landing = landing
        self._addresses = addresses
        self._source_at = source_at
        self._deadline = deadline
        self._terms = terms

    def plan(self, sizes: Sizes, before: Plan | None) -> Plan:
        """See :class:`PartedWork`: a part for each source. The size of a listing is not known before it is read."""
        del sizes, before
        sources = self._all_sources()
        look_at_head(self._repository, self._landing)  # refuse before the listing
        return Plan(
            tuple(
                PlannedPart(
                    (None, None), Load(), sha256(b"import\0%d\0" % number + source.destination).hexdigest()[:32]
                )
                for number, source in enumerate(sources)
            )
        )

    def run(self, plan: Plan, number: int, progress: ObjectProgress) -> PartResult:
        """See :class:`PartedWork`. The listing; its ranges written."""
        del plan
        tree = build_source(self._repository, self._source_at(self._in_order[number], progress))
        infos = [tree.info(index) for index in range(len(tree))]
        records, size = sum(info.count for info in infos), sum(info.size for info in infos)
        return PartResult(tree.lasts, tree.packed, (), records, size)

    def publish(self, plan: Plan, results: Results, sizes: Sizes) -> Imported:
        """See :class:`PartedWork`. One object read for each part, and as import in one call after the listing; on any head. The
        commit of a dry run has no ID."""
        del plan, sizes
        store = self._repository.trees.empty().store
        sources = self._all_sources()
        built = [Tree(store, result.lasts, result.packed) for result in results()]
        return land_imported(
            self._repository, self._landing, list(zip(sources, built, strict=True)), self._deadline, self._terms
        )

    def _all_sources(self) -> list[ImportSource]:
        return sorted_sources([self._source_at(address, no_object_progress) for address in self._addresses])

    @cached_property
    def _in_order(self) -> list[ImportAddress]:
        """The addresses in the order of :func:`sorted_sources`."""
        return sorted(self._addresses, key=destination_of)

    def keeping(self) -> AbstractContextManager[None]:
        """See :class:`PartedWork`. Keeps the branch's turn, in a round that is not the first one."""
        return keeping_turn(self._repository, self._landing)

    def give_up(self) -> None:
        """See :class:`PartedWork`. One table write."""
        give_back_turn(self._repository, self._landing)
