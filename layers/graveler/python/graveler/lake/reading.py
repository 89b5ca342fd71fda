"""The half of a repository's verbs that changes nothing: what refs, objects, commits and differences there are."""

from collections.abc import Callable, Iterator
from functools import partial

from graveler.errors import InvalidError, ObjectNotFoundError, RefNotFoundError
from graveler.history import graph
from graveler.history.commits import CommitStore
from graveler.history.expressions import resolve
from graveler.history.reflog import LogEntry, RefLog
from graveler.history.refs import Refs
from graveler.lake.branches import Branches
from graveler.lake.clock import Clock
from graveler.lake.differences import Differences, page_of_changes, uncommitted
from graveler.lake.repositories import KnownRepository
from graveler.lake.snapshot import Snapshot
from graveler.lake.text import utf8
from graveler.model import Branch, Change, Commit, CommitID, CommonPrefix, ObjectEntry, Page, Repository, Tag
from graveler.staging.changes import StagedChanges
from graveler.staging.cleanup import CleanupQueue
from graveler.staging.tokens import Outcomes
from graveler.storage.objects import Objects
from graveler.storage.tables import Tables
from graveler.tree.diff import diff
from graveler.tree.files import TreeStore
from graveler.tree.listing import list_page
from graveler.tree.record import RecordCodec, encode_key
from graveler.tree.tree import Tree, Trees

_PAGE = 1000


class RepositoryReader:
    """What can be asked of a repository. Cheap to make; safe to share between threads.

    Paths and refs are ``str``. A *ref* is a branch, a tag, a commit ID or the beginning of one, and any chain of ``~``, ``~N``,
    ``^``, ``^N`` behind it; a branch's name alone means the branch with its uncommitted changes, ``branch@`` without.

    The cost of each verb is given in requests: table reads and writes, object reads and writes. *Resolving* a ref is one table
    read for a branch, a tag or a whole ID; commits and trees that were used lately cost nothing, others one read each.
    """

    def __init__(
        self,
        known: KnownRepository,
        tables: Tables,
        objects: Objects,
        store: TreeStore,
        clock: Clock,
        outside: Callable[[str], tuple[Objects, str]],
    ) -> None:
        self.repository: Repository = known.repository
        self._objects = objects
        self._outside = outside
        uid = known.repository.uid
        self._codec = RecordCodec(known.repository.namespace)
        self._trees = Trees(store)
        self._commits = CommitStore(tables, uid)
        self._reflog = RefLog(tables, uid)
        self._refs = Refs(tables, uid, self._reflog)
        self._staged = StagedChanges(tables, uid)
        self._outcomes = Outcomes(tables, uid)
        self._cleanup = CleanupQueue(tables, uid)
        self._branches = Branches(
            known.repository, tables, self._refs, self._reflog, self._commits, self._outcomes, self._cleanup, clock
        )

    # Refs

    def commit_of(self, ref: str) -> Commit:
        """The commit that a ref points at, without uncommitted changes. Cost: resolving, one commit."""
        return self._branches.commit(resolve(ref, self._refs, self._commits).commit_id)

    def branch(self, name: str) -> Branch:
        """The branch. Cost: one table read. :class:`RefNotFoundError`."""
        state = self._branches.state(name)
        return Branch(state.name, state.commit_id)

    def branches(
        self, prefix: str = "", after: str = "", amount: int = 100, *, show_hidden: bool = False
    ) -> Page[Branch]:
        """Branches by name. Cost: about one table read for each of 16 shards."""
        return self._branches.page(prefix, after, amount, show_hidden=show_hidden)

    def tag(self, name: str) -> Tag:
        """The tag. Cost: one table read. :class:`RefNotFoundError`."""
        tag = self._refs.tag(name)
        if tag is None:
            raise RefNotFoundError(name, "no tag has this name")
        return tag

    def tags(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Tag]:
        """Tags by name. Cost: about one table read for each of 16 shards."""
        return self._branches.page_of_tags(prefix, after, amount)

    def reflog(self, branch: str, amount: int = 100) -> list[LogEntry]:
        """Where a branch pointed before, and what moved it, newest first; also of a deleted one. Cost: one table read."""
        return self._reflog.entries("branch", branch, amount)

    # Reading

    def stat(self, ref: str, path: str) -> ObjectEntry:
        """What the lake knows of an object. Cost: resolving, one table read more for a branch's name alone; unless it is
        staged there, the commit, its metarange, one range at most.

        :class:`ObjectNotFoundError`.
        """
        key = encode_key(path)
        packed = self._snapshot(ref).get(key)
        if packed is None:
            raise ObjectNotFoundError(path, ref)
        return self._codec.decode(key, packed)

    def list_objects(
        self, ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[ObjectEntry | CommonPrefix]:
        """Objects whose path begins with ``prefix`` and is greater than ``after``, in the order of their UTF-8 bytes.

        With a ``delimiter``, paths that hold it behind the prefix are rolled up into :class:`CommonPrefix`. Cost: resolving, the
        commit, its metarange, the ranges that the page spans (none of those that a common prefix jumps over). For a branch's
        name alone also one table read for each staging token (one, unless commits are under way) and shard, and so many again
        for each thousand staged that the page spans.
        """
        page = list_page(
            self._snapshot(ref).chunk,
            prefix=utf8("prefix", prefix),
            after=utf8("after", after),
            delimiter=utf8("delimiter", delimiter),
            amount=_at_least_one(amount),
        )
        results = tuple(
            CommonPrefix(item.key.decode()) if item.packed is None else self._codec.decode(item.key, item.packed)
            for item in page.results
        )
        return Page(results, results[-1].path if page.more and results else None)

    def objects(self, ref: str, prefix: str = "") -> Iterator[ObjectEntry]:
        """All objects whose path begins with ``prefix``. Streaming. Give a commit ID to read one state: of a branch, each
        thousand is read as it is then."""
        after = ""
        while True:
            page = self.list_objects(ref, prefix=prefix, after=after, amount=_PAGE)
            for item in page.results:
                if isinstance(item, ObjectEntry):
                    yield item
            if page.next_after is None:
                return
            after = page.next_after

    def tree(self, ref: str) -> Tree:
        """The tree of a ref's commit, for those who read records by themselves. Cost: resolving, one commit, one metarange."""
        return self._tree(resolve(ref, self._refs, self._commits).commit_id)

    def stream(self, ref: str, path: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """The bytes of an object, in pieces; ``length`` bytes from ``start``. Cost: :meth:`stat` and one object read."""
        entry = self.stat(ref, path)
        objects, key = self._locate(entry.address)
        return objects.stream(key, start, length)

    def read(self, ref: str, path: str) -> bytes:
        """The whole object. Cost: :meth:`stat` and one object read."""
        return b"".join(self.stream(ref, path))

    def uncommitted(
        self, branch: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]:
        """What is staged on a branch and differs from its last commit, in key order. Cost: resolving, the commit, its metarange,
        the ranges that what is staged touches; one table read for each staging token and shard, and so many again for each
        thousand staged that the page spans."""
        state = self._branches.state(branch)
        tree = self._tree(state.commit_id)
        differences = uncommitted(tree, self._staged.reader((state.open, *state.sealed[::-1])))
        return self._page_of_changes(differences, prefix, after, delimiter, amount)

    # History

    def log(
        self, ref: str, *, after: CommitID | None = None, amount: int = 100, first_parent: bool = False
    ) -> Page[Commit]:
        """Commits that a ref can reach, newest first. Cost: resolving, about one table read for each 32 commits."""
        start = resolve(ref, self._refs, self._commits).commit_id
        return graph.log_page(self._commits, start, after, _at_least_one(amount), first_parent=first_parent)

    def merge_base(self, left: str, right: str) -> Commit | None:
        """The best common ancestor of two refs, as git's; None if they share no history."""
        ids = [resolve(ref, self._refs, self._commits).commit_id for ref in (left, right)]
        base = graph.merge_base(self._commits, *ids)
        return None if base is None else self._commits.get(base)

    def diff(
        self, left: str, right: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]:
        """What turns the commit of ``left`` into that of ``right`` (two dots), in key order.

        Cost: resolving both, one table read of the commits, two metaranges, the ranges that differ, as far as the page goes.
        """
        ids = [resolve(ref, self._refs, self._commits).commit_id for ref in (left, right)]
        return self._page_of_changes(self._differences(*ids), prefix, after, delimiter, amount)

    def compare(
        self, left: str, right: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]:
        """What ``right`` changed since its common base with ``left`` (three dots): what merging it into ``left`` would bring.

        Cost: as :meth:`diff`, and finding the base. :class:`InvalidError` without a common history.
        """
        ids = [resolve(ref, self._refs, self._commits).commit_id for ref in (left, right)]
        base = graph.merge_base(self._commits, *ids)
        if base is None:
            raise InvalidError(f"{left!r} and {right!r} have no common history; compare them with two dots")
        return self._page_of_changes(self._differences(base, ids[1]), prefix, after, delimiter, amount)

    def _differences(self, left: CommitID, right: CommitID) -> Differences:
        self._commits.read(
            [cid for cid in {left, right} if self._commits.in_memory(cid) is None]
        )  # both in one request
        return partial(diff, self._tree(left), self._tree(right))

    def _page_of_changes(
        self, differences: Differences, prefix: str, after: str, delimiter: str, amount: int
    ) -> Page[Change]:
        return page_of_changes(
            differences,
            self._codec,
            prefix=prefix,
            after=after,
            delimiter=delimiter,
            amount=_at_least_one(amount),
        )

    def _tree(self, commit_id: CommitID) -> Tree:
        return self._trees.load(self._branches.commit(commit_id).metarange)

    def _snapshot(self, ref: str) -> Snapshot:
        resolved = resolve(ref, self._refs, self._commits)
        state = resolved.branch
        tokens = () if state is None else (state.open, *state.sealed[::-1])
        return Snapshot(partial(self._tree, resolved.commit_id), self._staged, tokens)

    def _locate(self, address: str) -> tuple[Objects, str]:
        inside = self.repository.namespace + "/"
        if address.startswith(inside):
            return self._objects, address.removeprefix(inside)
        return self._outside(address)


def _at_least_one(amount: int) -> int:
    if amount < 1:
        raise InvalidError(f"amount is {amount}; ask for at least 1")
    return amount
