"""The verbs of a repository that change nothing: reading refs, objects, commits and differences."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import (
    BytesGoneError,
    ExpiredCommitError,
    InvalidError,
    NotCommittedError,
    ObjectNotFoundError,
    RefNotFoundError,
)
from graveler.history import graph
from graveler.history.expressions import Resolved, is_base, keys_of, resolve
from graveler.history.reflog import LogEntry
from graveler.lake.objects.checked import OpenedObject, checked, md5_of, vouches
from graveler.lake.parts import RepositoryParts, Seen
from graveler.lake.reading.differences import Differences, change, outline, page_of_differences, uncommitted
from graveler.lake.reading.snapshot import Snapshot
from graveler.lake.text import utf8
from graveler.model import (
    Branch,
    Change,
    ChangeOutline,
    ChangeType,
    Commit,
    CommitID,
    CommonPrefix,
    ObjectEntry,
    Page,
    Repository,
    Tag,
    Token,
)
from graveler.staging.changes import first_staged
from graveler.storage.objects.port import Noted, ObjectMissingError, Objects
from graveler.storage.tables.port import Item, Key
from graveler.tree.diff import Difference, diff
from graveler.tree.listing import ListedPage
from graveler.tree.record import MakeEntry, encode_key
from graveler.tree.rendered import Rendering
from graveler.tree.tree import Tree

if TYPE_CHECKING:
    from io import FileIO

    from graveler.lake.reading.outside_files import OutsideFiles
    from graveler.lake.reading.summary import Level, Summary, Usage
    from graveler.lake.reading.view import View
    from graveler.tree.key_range import KeyRange

T = TypeVar("T")


class RenderedObjects(Struct, frozen=True):
    """A page of ``count`` objects as text. Each of ``pieces`` has some, separated by commas, with a comma needed between pieces.
    For the rest see :class:`~graveler.model.Page`."""

    pieces: tuple[bytes | memoryview, ...]
    count: int
    next_after: str | None
    commit_id: CommitID


_PAGE = 1000
_SEEN: Final = 256
_SEEN_LENGTH: Final = 100
"""The number of refs to remember, and their maximum length: callers may ask for anything."""


class StatRead(Struct, frozen=True):
    """The items read to look one object up: the items ``beside``, those of the ref, and what is staged under the tokens that the
    branch had when it was last ``seen``."""

    ref: str
    path: str
    key: bytes
    beside: Sequence[Item | None]
    keys: Sequence[Key]
    items: Sequence[Item | None]
    staged: Sequence[Item | None]
    seen: Seen | None


class RepositoryReader:
    """The reads of a repository. Cheap to make; safe to share between threads.

    Paths and refs are ``str``. A *ref* is a branch, a tag, a commit ID or the beginning of one, and any chain of ``~``, ``~N``,
    ``^``, ``^N`` behind it; a branch's name alone means the branch with its uncommitted changes, ``branch@`` without;
    ``branch@{N}`` is where it was before its last N moves, ``branch@{TIME}`` where it was at that time.

    The cost of each verb is given in requests: table reads and writes, object reads and writes. *Resolving* a ref is one table
    read for a branch, a tag or a whole ID, and for ``@{…}`` one for each thousand moves since; recently used commits and trees
    cost nothing, others one read each.
    """

    def __init__(self, parts: RepositoryParts) -> None:
        self.parts = parts
        """The parts, for functions that change the repository."""
        self.leases = parts.leases
        """The lake's leases as this process has seen them."""
        self.skew = parts.skew
        """Seconds by which clocks of the lake's writers may differ."""
        self.grace = parts.grace
        """The grace period in seconds: garbage collection leaves younger files alone."""
        self.tables = parts.tables
        """The tables, in which the rooms above keep items of this repository too."""
        self.namespace = parts.objects
        """The objects stored in the repository's namespace."""
        self.clock = parts.clock
        self.repository: Repository = parts.known.repository
        self.locate_outside = parts.outside
        """Returns the object store and the key there of an address outside of the namespace. Can be sent to tasks."""
        self._objects = parts.objects
        self._outside = parts.outside
        self.codec: Final = parts.codec
        """Decodes the repository's records."""
        self._renderer = parts.renderer
        self._trees = parts.trees
        self._commits = parts.commits
        self._reflog = parts.reflog
        self._refs = parts.refs
        self._staged = parts.staged
        self._branches = parts.branches
        self._seen = parts.seen
        self._latest: tuple[CommitID, Tree] | None = None

    def keys_of(self, ref: str) -> list[Key]:
        """Return the keys that are read first to resolve a ref, for :meth:`with_prefetched`. No request."""
        return keys_of(ref, self._refs, self._commits)

    def with_prefetched(self, items: Mapping[Key, Item | None]) -> Self:
        """Return this repository for one reader that resolves a ref whose :meth:`keys_of` was just read. No request."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)  # as copy.copy, which takes several times as long
        view._refs = self._refs.with_prefetched(items)
        view.parts = replace(self.parts, refs=view._refs)
        return view

    def pinned_to(self, ref: str, state: str = "") -> tuple[Self, str]:
        """Return this repository for one reader that resolves ``ref``, a branch's name, to the ``state`` that an earlier call
        returned, or to the present one; and that state as text, empty for any other ref. Cost and errors as of
        :func:`graveler.lake.reading.states.pinned_items`."""
        from graveler.lake.reading.states import pinned_items  # servers list in states

        items, text = pinned_items(self.parts, ref, state)
        return self.with_prefetched(items), text

    # Refs

    def commit_of(self, ref: str) -> Commit:
        """Return the commit that a ref points at, without uncommitted changes. Cost: resolving, one commit."""
        return self._branches.commit(resolve(ref, self._refs, self._commits).commit_id)

    def branch(self, name: str) -> Branch:
        """Return the branch. Cost: one table read. :class:`RefNotFoundError`."""
        state = self._branches.state(name)
        return Branch(state.name, state.commit_id, state.hidden)

    def branches(
        self, prefix: str = "", after: str = "", amount: int = 100, *, show_hidden: bool = False
    ) -> Page[Branch]:
        """Return a page of branches, by name. Cost: about one table read for each of 16 shards."""
        return self._branches.page(prefix, after, amount, show_hidden=show_hidden)

    def tag(self, name: str) -> Tag:
        """Return the tag. Cost: one table read. :class:`RefNotFoundError`."""
        tag = self._refs.tag(name)
        if tag is None:
            raise RefNotFoundError(name, kind="tag")
        return tag

    def tags(self, prefix: str = "", after: str = "", amount: int = 100) -> Page[Tag]:
        """Return a page of tags, by name. Cost: about one table read for each of 16 shards."""
        return self._branches.page_of_tags(prefix, after, amount)

    def reflog(self, branch: str, amount: int = 100) -> list[LogEntry]:
        """Return where a branch pointed before, and what moved it, newest first; also for a deleted branch. Cost: one table
        read."""
        return self._reflog.entries("branch", branch, amount)

    # Reading

    def stat(self, ref: str, path: str) -> ObjectEntry:
        """Return the metadata of an object. Cost: resolving, one table read more for a branch's name alone, unless the branch is
        unchanged since the last lookup of an object there; unless it is staged, the commit, its metarange, one range at most.

        :class:`ObjectNotFoundError`.
        """
        return self.finish_stat(self.prefetch_stat(ref, path))

    def prefetch_stat(self, ref: str, path: str, beside: Sequence[Key] = ()) -> StatRead:
        """Read what :meth:`stat` needs, and the items ``beside``, for :meth:`finish_stat`. One table read. For a known ref, this
        includes what is staged under the tokens that it had then: that counts only if the ref's items are the same."""
        key = encode_key(path)
        seen = self._seen.get(ref)
        keys = self.keys_of(ref) if seen is None else seen.keys
        staged = () if seen is None else self._staged.keys(seen.tokens, key)
        wanted = [*beside, *keys, *staged]
        items = self.tables.get_many(wanted) if wanted else []
        first, behind = len(beside), len(beside) + len(keys)
        return StatRead(ref, path, key, items[:first], keys, items[first:behind], items[behind:], seen)

    def finish_stat(self, read: StatRead) -> ObjectEntry:
        """Return the result of :meth:`stat` from what was read for it. Cost: none for what is still true, else as there."""
        ref, seen, key = read.ref, read.seen, read.key
        if seen is not None and read.items == seen.items:
            resolved, staged = seen.resolved, first_staged(read.staged)
        else:
            self._seen.pop(ref, None)
            resolved = resolve(
                ref, self._refs.with_prefetched(dict(zip(read.keys, read.items, strict=True))), self._commits
            )
            tokens = _tokens(resolved)
            staged = self._staged.get(tokens, key) if tokens else None
            self._note(read, resolved, tokens)
        packed = self._tree(resolved.commit_id).get(key) if staged is None else staged.packed
        if packed is None:
            raise ObjectNotFoundError(read.path, ref)
        return self.codec.decode(key, packed, read.path)

    def _note(self, read: StatRead, resolved: Resolved, tokens: tuple[Token, ...]) -> None:
        """Remember what a ref means, if that follows from the items that were read."""
        if len(read.ref) > _SEEN_LENGTH or all(item is None for item in read.items) or not is_base(read.ref):
            return
        if len(self._seen) >= _SEEN:
            self._seen.clear()
        self._seen[read.ref] = Seen(read.keys, read.items, resolved, tokens)

    def list_objects(
        self, ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[ObjectEntry | CommonPrefix]:
        """Return objects whose path begins with ``prefix`` and is greater than ``after``, in the order of their UTF-8 bytes.

        With a ``delimiter``, paths that contain it after the prefix are rolled up into :class:`CommonPrefix`. Cost: resolving,
        the commit, its metarange, the ranges that the page spans (none of those that a common prefix skips). For a branch's name
        alone also one table read for each staging token (one, unless commits are in progress) and shard, and as many again for
        each thousand staged records that the page spans.
        """
        return self.list_as(ObjectEntry, ref, prefix=prefix, after=after, delimiter=delimiter, amount=amount)

    def list_as(
        self, make: MakeEntry[T], ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[T | CommonPrefix]:
        """List as :meth:`list_objects`, with the result of ``make`` for the fields of each object."""
        snapshot, commit_id = self._state(ref)
        page = snapshot.page(
            prefix=utf8("prefix", prefix),
            after=utf8("after", after),
            delimiter=utf8("delimiter", delimiter),
            amount=_at_least_one(amount),
        )
        made = self._made(make, page)
        results: list[T | CommonPrefix] = [*made]
        if len(made) < len(page.keys):
            following = iter(made)
            results = [
                CommonPrefix(key.decode()) if packed is None else next(following)
                for key, packed in zip(page.keys, page.packed, strict=True)
            ]
        return Page(tuple(results), page.keys[-1].decode() if page.more and page.keys else None, (commit_id,))

    def render(
        self, rendering: Rendering[T], ref: str, *, prefix: str = "", after: str = "", amount: int = 100
    ) -> RenderedObjects:
        """List as :meth:`list_as` without a delimiter, as text. Costs the same requests, and little time if such a page was
        requested before."""
        snapshot, commit_id = self._state(ref)
        first, rest = snapshot.rendered(
            self._renderer, rendering, utf8("prefix", prefix), utf8("after", after), _at_least_one(amount)
        )
        pieces, last = first.pieces, first.last
        if rest.keys:
            pieces.append(rendering.texts(self._made(rendering.make, rest)))
            last = rest.keys[-1]
        return RenderedObjects(
            tuple(pieces), first.count + len(rest.keys), last.decode() if rest.more else None, commit_id
        )

    def _made(self, make: MakeEntry[T], page: ListedPage) -> list[T]:
        """Make something for each object of a page."""
        return self.codec.decode_many(
            make, [(key, packed) for key, packed in zip(page.keys, page.packed, strict=True) if packed is not None]
        )

    def objects(self, ref: str, prefix: str = "") -> Iterator[ObjectEntry]:
        """Yield all objects whose path begins with ``prefix``. Pass a commit ID to read one state: for a branch, each
        thousand is read as it is at that time."""
        after = ""
        while True:
            page = self.list_objects(ref, prefix=prefix, after=after, amount=_PAGE)
            for item in page.results:
                if isinstance(item, ObjectEntry):
                    yield item
            if page.next_after is None:
                return
            after = page.next_after

    def view(self, ref: str) -> "View":
        """Return one state of a ref, for several reads. Cost: resolving."""
        from graveler.lake.reading.view import View  # for programs that list at length

        snapshot, commit_id = self._state(ref)
        return View(ref, commit_id, snapshot, self.codec)

    def view_of_branch(self, branch: str) -> "View":
        """Return :meth:`view` of a branch. :class:`RefNotFoundError` for any other ref."""
        from graveler.lake.reading.view import View  # for programs that list at length

        state = self._branches.state(branch)
        snapshot, commit_id = self._snapshot_of(Resolved(state.commit_id, state))
        return View(branch, commit_id, snapshot, self.codec)

    def du(self, ref: str, prefix: str = "", delimiter: str = "") -> "Usage":
        """Return the number and bytes of the objects whose path begins with ``prefix``; with a ``delimiter`` also for each common
        prefix, and directly in the prefix.

        Cost: resolving, the commit, its metarange; without a delimiter the two ranges at the ends of the prefix, none for the
        whole ref; with one also each range that holds objects of several common prefixes, or of none. For a branch's name alone
        also as :meth:`uncommitted` of all.
        """
        level = _level(prefix, delimiter)
        resolved = resolve(ref, self._refs, self._commits)
        return level.usage(self._tree(resolved.commit_id), self._staged.reader(_tokens(resolved)))

    def tree(self, ref: str) -> Tree:
        """Return the tree of a ref's commit, for callers that read records by themselves. Cost: resolving, one commit, one
        metarange."""
        return self._tree(resolve(ref, self._refs, self._commits).commit_id)

    def stream(self, ref: str, path: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of an object, in pieces; ``length`` bytes from ``start``, verified like those of :meth:`bytes_in`.
        Cost: :meth:`stat` and one object read."""
        return self.bytes_in(ref, self.stat(ref, path), start, length)

    def stat_many(self, ref: str, paths: Sequence[str]) -> list[ObjectEntry | None]:
        """Return the metadata of several objects, all of one state; None for a missing one. Cost: as :meth:`stat`, each
        metarange and range once; one table read for each hundred that may be staged."""
        snapshot = self._snapshot(ref)
        keys = [encode_key(path) for path in paths]
        found = snapshot.get_many(sorted(set(keys)))
        return [None if (packed := found[key]) is None else self.codec.decode(key, packed) for key in keys]

    def url(self, entry: ObjectEntry, expires_in: int) -> str:
        """Return a URL with which anyone may read an object's bytes for ``expires_in`` seconds. No request.
        :class:`UnavailableError` if its store has no such URLs."""
        objects, key = self._locate(entry.address)
        return objects.presign(key, "GET", expires_in, Noted(entry.size, md5_of(entry)))

    def signed_url(self, ref: str, entry: ObjectEntry, expires_in: int) -> str:
        """Return :meth:`url` of an object that was looked up in ``ref``."""
        del ref
        return self.url(entry, expires_in)

    def bytes_in(
        self, ref: str, entry: ObjectEntry, start: int = 0, length: int | None = None, *, verify: bool = True
    ) -> Iterator[bytes]:
        """Yield the bytes of an object that was looked up in ``ref``, in pieces; ``length`` bytes from ``start`` (not negative).

        Their number is compared with what the lake recorded, and with ``verify`` the MD5 of a whole object too, if its checksum
        can be one (:mod:`graveler.lake.objects.checked`): :class:`DamagedObjectError` instead of the end. If they are missing,
        :class:`BytesGoneError`, or :class:`ExpiredCommitError` if retention has let that commit expire. Cost: one object
        read; one object request more if only the MD5 is wrong.
        """
        objects, key = self._locate(entry.address)
        if length is not None and start + length >= entry.size > start:
            length = None  # to the end, to detect an object that is longer than recorded
        try:
            pieces = objects.stream(key, start, length)
            yield from checked(entry, ref, pieces, start, length, lambda: self._vouches(entry), verify=verify)
        except ObjectMissingError:
            self.expect_kept(ref)
            raise BytesGoneError(entry.path, ref, entry.address) from None

    def open_file(self, ref: str, entry: ObjectEntry) -> "FileIO | None":
        """Return an object that was looked up in ``ref`` as an open file, which the caller closes; None if its store is not a
        folder. Cost: one open. Errors as :meth:`bytes_in`; nothing is verified."""
        from graveler.storage.objects.folder import FolderObjects  # not for lakes on AWS

        objects, key = self._locate(entry.address)
        if not isinstance(objects, FolderObjects):
            return None
        try:
            return objects.open_file(key)
        except ObjectMissingError:
            self.expect_kept(ref)
            raise BytesGoneError(entry.path, ref, entry.address) from None

    def native(self, ref: str, entry: ObjectEntry) -> str:
        """Return where the bytes of an object that was looked up in ``ref`` are, for programs that read by themselves: the path
        of a file, or a URL ``s3://…``, for which they need credentials of their own. No request."""
        del ref  # a server's URLs are those of a ref
        from graveler.storage.objects.folder import FolderObjects

        objects, key = self._locate(entry.address)
        return objects.name_of(key) if isinstance(objects, FolderObjects) else f"{objects.namespace}/{key}"

    def expect_kept(self, ref: str) -> None:
        """Refuse a ref whose commit has expired. Cost: resolving, one table read; no more for a branch.
        :class:`ExpiredCommitError`."""
        resolved = resolve(ref, self._refs, self._commits)
        if resolved.branch is None and self._commits.has_expired(resolved.commit_id):
            raise ExpiredCommitError(resolved.commit_id)

    def expect_readable(self, address: str) -> None:
        """Refuse an address at which no object could be read, whether there is one or not. No request.
        :class:`InvalidError` if no store is known by its scheme, :class:`ForbiddenError`."""
        self._locate(address)

    def look_at_outside_files(self, ref: str, prefix: str = "") -> "OutsideFiles | None":
        """Compare size and time of imported and linked files on this machine with what the commit of a ref says. None unless the
        repository itself is in a folder. Cost: resolving, and as
        :func:`graveler.lake.reading.outside_files.look_at_outside_files`."""
        from graveler.lake.reading.outside_files import look_at_outside_files
        from graveler.storage.objects.folder import FolderObjects  # not for lakes on AWS

        if not isinstance(self._objects, FolderObjects):
            return None
        tree = self.tree(ref)
        return look_at_outside_files(tree, self.codec, self.repository.namespace, self._locate, utf8("prefix", prefix))

    def open_object(self, ref: str, path: str) -> OpenedObject:
        """Open an object as it is now; its later reads, as :meth:`bytes_in`, do not depend on what ``ref`` then has at the path.
        A caller that reads all of it compares the MD5. Cost: :meth:`stat`, and one object read each time."""
        return self.opened(ref, self.stat(ref, path))

    def opened(self, ref: str, entry: ObjectEntry) -> OpenedObject:
        """Return an object that was looked up in ``ref`` as :meth:`open_object` does. No request."""
        return OpenedObject(
            ref,
            entry,
            lambda start, length: self.bytes_in(ref, entry, start, length, verify=False),
            lambda: self._vouches(entry),
        )

    def read(self, ref: str, path: str) -> bytes:
        """Return the whole object, compared with what the lake recorded as :meth:`bytes_in` does. Cost: :meth:`stat` and one
        object read. :class:`DamagedObjectError`."""
        return b"".join(self.stream(ref, path))

    def has_staged(self, branch: str) -> bool:
        """Return whether anything is staged that no commit has sealed. One table read of the branch, one for each shard at
        most."""
        return self._staged.exists([self._branches.state(branch).open])

    def uncommitted(
        self, branch: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]:
        """Return what is staged on a branch and differs from its last commit, in key order. Cost: resolving, the commit, its
        metarange, the ranges that the staged changes touch; one table read for each staging token and shard, and as many again
        for each thousand staged records that the page spans."""
        differences, commit_id = self._uncommitted(branch)
        return self._page_of_changes(differences, (commit_id,), prefix, after, delimiter, amount)

    def uncommitted_outline(
        self, branch: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[ChangeOutline]:
        """Return :meth:`uncommitted` with only the sizes of the objects. Costs the same requests, and less time."""
        differences, commit_id = self._uncommitted(branch)
        return _shown_page(ChangeOutline, outline, differences, (commit_id,), prefix, after, delimiter, amount)

    def uncommitted_summary(self, branch: str, *, prefix: str = "", delimiter: str = "") -> "Summary":
        """Return how many objects and bytes :meth:`uncommitted` adds, removes and changes: in total, and with a ``delimiter`` for
        each common prefix. Cost: as :meth:`uncommitted` of all."""
        return _level(prefix, delimiter).of_differences(self._uncommitted(branch)[0])

    def _uncommitted(self, branch: str) -> tuple[Differences, CommitID]:
        """Return what is staged on a branch and differs from its last commit, and the ID of that commit."""
        state = self._branches.state(branch)
        staged = self._staged.reader((state.open, *state.sealed[::-1]))
        return uncommitted(self._tree(state.commit_id), staged), state.commit_id

    # History

    def log(
        self,
        ref: str,
        *,
        after: CommitID | None = None,
        amount: int = 100,
        first_parent: bool = False,
        since: int | None = None,
        stop_at: str | None = None,
        paths: Sequence[str] = (),
        prefixes: Sequence[str] = (),
        limit: bool = False,
    ) -> Page[Commit]:
        """Return commits that a ref can reach, newest first.

        ``first_parent`` follows only the first parent of merges. ``since`` (Unix seconds) omits commits created before, and
        what only they reach. ``stop_at`` is a ref: its commit is the last one, if the walk comes to it. With ``paths`` or
        ``prefixes``, only commits that changed one of those paths, or what begins with one of those prefixes: that differ there
        from each of their parents (with ``first_parent``, from the first one). ``limit`` asks for ``amount`` commits and no
        more: no ``next_after``, and no search for further commits.

        Cost: resolving, about one table read for each 32 commits. With paths or prefixes, the walk goes on until it finds a
        commit of the next page (unless ``limit``), however far that is. For each commit that it passes, it reads the metarange,
        and of the ranges there that a parent does not have those that it needs to decide.
        """
        from graveler.lake.reading.blame import (  # not on the path of a cold start
            keys_of_path,
            keys_of_prefix,
            touching,
        )

        key_ranges = [*map(keys_of_path, paths), *map(keys_of_prefix, prefixes)]
        start = resolve(ref, self._refs, self._commits).commit_id
        return graph.log_page(
            self._commits,
            start,
            after,
            _at_least_one(amount),
            first_parent=first_parent,
            since=since,
            stop_at=resolve(stop_at, self._refs, self._commits).commit_id if stop_at is not None else None,
            shows=touching(key_ranges, self._tree_of, self._trees.empty()) if key_ranges else None,
            limit=limit,
        )

    def blame(self, ref: str, path: str) -> Commit:
        """Return the commit that made the object at ``path`` what it is in the commit of ``ref``: following the parents that have
        the same object (the first such of each merge), the last one that has.

        Uncommitted changes do not count. Cost: resolving, the walk down to that commit: about one table read for each 32
        commits, the metarange of each, and ranges only where the one that holds the path differs. :class:`ObjectNotFoundError`.
        """
        from graveler.lake.reading.blame import keys_of_path, last_changes  # not on the path of a cold start

        keys = keys_of_path(path)
        resolved = resolve(ref, self._refs, self._commits)
        if self._tree(resolved.commit_id).get(keys.start) is None:
            staged = resolved.branch is not None and self._snapshot(ref).get(keys.start) is not None
            raise NotCommittedError(path, ref) if staged else ObjectNotFoundError(path, ref)
        return last_changes(self._commits, resolved.commit_id, [keys], self._tree_of)[0]

    def annotate(
        self, ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[tuple[ObjectEntry | CommonPrefix, Commit]]:
        """Return :meth:`list_objects` of the commit of ``ref``, and for each entry the last commit that changed it: for an object
        as :meth:`blame`, for a common prefix the one that made its whole contents what they are.

        Cost: as :meth:`list_objects`, and one walk for the whole page, down to its oldest result.
        """
        from graveler.lake.reading.blame import (  # not on the path of a cold start
            keys_of_path,
            keys_of_prefix,
            last_changes,
        )

        commit_id = resolve(ref, self._refs, self._commits).commit_id
        page = self.list_objects(commit_id, prefix=prefix, after=after, delimiter=delimiter, amount=amount)
        key_ranges = [
            keys_of_prefix(item.path) if isinstance(item, CommonPrefix) else keys_of_path(item.path)
            for item in page.results
        ]
        commits = last_changes(self._commits, commit_id, key_ranges, self._tree_of)
        return Page(tuple(zip(page.results, commits, strict=True)), page.next_after, page.commits)

    def last_changes_of(self, commit_id: CommitID, keys: Iterable[bytes]) -> list[Commit]:
        """Return for each key of the commit's tree the last commit that changed it, as :meth:`annotate`. Cost: one walk, down to
        the oldest result."""
        from graveler.lake.reading.blame import last_changes  # not on the path of a cold start
        from graveler.tree.key_range import KeyRange

        return last_changes(self._commits, commit_id, [KeyRange(key, key + b"\0") for key in keys], self._tree_of)

    def merge_base(self, left: str, right: str) -> Commit | None:
        """Return the best common ancestor of two refs, as git's; None if they share no history."""
        base = self.base_of(*self._both(left, right))
        return None if base is None else self._commits.get(base)

    def base_of(self, left: CommitID, right: CommitID) -> CommitID | None:
        """Return :meth:`merge_base` of two commits. Cost: the part of their histories that is not in memory."""
        return graph.merge_base(self._commits, left, right)

    def diff(
        self, left: str, right: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]:
        """Return what turns the commit of ``left`` into that of ``right`` (two dots), in key order.

        Cost: resolving both, one table read of the commits, two metaranges, the ranges that differ, as far as the page goes.
        """
        ids = self._both(left, right)
        return self._page_of_changes(self._differences(*ids, amount), ids, prefix, after, delimiter, amount)

    def all_differences(
        self, left: CommitID, right: CommitID, key_ranges: "Sequence[KeyRange]"
    ) -> Iterator[Difference]:
        """Return all of :meth:`diff` of two commits in some key ranges, for callers that decode records by themselves
        (:attr:`codec`). Costs the same."""
        return _in_ranges(partial(diff, *self._two_trees(left, right)), key_ranges)

    def diff_outline(
        self, left: str, right: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[ChangeOutline]:
        """Return :meth:`diff` with only the sizes of the objects. Costs the same requests, and less time."""
        ids = self._both(left, right)
        differences = self._differences(*ids, amount)
        return _shown_page(ChangeOutline, outline, differences, ids, prefix, after, delimiter, amount)

    def compare(
        self, left: str, right: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[Change]:
        """Return what ``right`` changed since its common base with ``left`` (three dots): what merging it into ``left`` would
        bring.

        Cost: as :meth:`diff`, and finding the base. :class:`InvalidError` without a common history.
        """
        ids = self._both(left, right)
        differences = self._differences(self._base(left, right, ids), ids[1], amount)
        return self._page_of_changes(differences, ids, prefix, after, delimiter, amount)

    def diff_summary(self, left: str, right: str, *, prefix: str = "", delimiter: str = "") -> "Summary":
        """Return how many objects and bytes :meth:`diff` adds, removes and changes: in total, and with a ``delimiter`` for each
        common prefix.

        Cost: resolving both, one table read of the commits, two metaranges, and of the ranges that differ those that overlap
        others or hold several common prefixes; a range for which the other side has nothing is not opened.
        """
        return _level(prefix, delimiter).between(*self._two_trees(*self._both(left, right)))

    def compare_summary(self, left: str, right: str, *, prefix: str = "", delimiter: str = "") -> "Summary":
        """Return the :meth:`diff_summary` of what :meth:`compare` shows. Cost: as that, and finding the base.
        :class:`InvalidError` without a common history."""
        ids = self._both(left, right)
        return _level(prefix, delimiter).between(*self._two_trees(self._base(left, right, ids), ids[1]))

    def _both(self, left: str, right: str) -> tuple[CommitID, CommitID]:
        """Return the commit IDs of two refs."""
        return (
            resolve(left, self._refs, self._commits).commit_id,
            resolve(right, self._refs, self._commits).commit_id,
        )

    def _base(self, left: str, right: str, ids: tuple[CommitID, CommitID]) -> CommitID:
        """Return the common base of two refs, whose commits are ``ids``."""
        base = self.base_of(*ids)
        if base is None:
            raise InvalidError(f"{left!r} and {right!r} have no common history; compare them with two dots instead")
        return base

    def _differences(self, left: CommitID, right: CommitID, amount: int) -> Differences:
        """Return the differences for a page of so many; one more shows whether anything follows."""
        return partial(diff, *self._two_trees(left, right), most=amount + 1)

    def _two_trees(self, left: CommitID, right: CommitID) -> tuple[Tree, Tree]:
        self._commits.read(
            [cid for cid in {left, right} if self._commits.in_memory(cid) is None]
        )  # both in one request
        one, other = self._trees.load_many([self._branches.commit(each).metarange for each in (left, right)])
        return one, other

    def _page_of_changes(
        self,
        differences: Differences,
        commits: tuple[CommitID, ...],
        prefix: str,
        after: str,
        delimiter: str,
        amount: int,
    ) -> Page[Change]:
        show = partial(change, self.codec)
        return _shown_page(Change, show, differences, commits, prefix, after, delimiter, amount)

    def _tree(self, commit_id: CommitID) -> Tree:
        latest = self._latest  # most lookups are in the commit of the one before
        if latest is None or latest[0] != commit_id:
            latest = self._latest = commit_id, self._tree_of(self._branches.commit(commit_id))
        return latest[1]

    def _tree_of(self, commit: Commit) -> Tree:
        return self._trees.load(commit.metarange)

    def _snapshot(self, ref: str) -> Snapshot:
        return self._state(ref)[0]

    def _state(self, ref: str) -> tuple[Snapshot, CommitID]:
        """Return the state that a ref shows, and the commit below the staged changes."""
        return self._snapshot_of(resolve(ref, self._refs, self._commits))

    def _snapshot_of(self, resolved: Resolved) -> tuple[Snapshot, CommitID]:
        tokens = _tokens(resolved)
        return Snapshot(partial(self._tree, resolved.commit_id), self._staged, tokens), resolved.commit_id

    def _vouches(self, entry: ObjectEntry) -> bool:
        """Return whether the store vouches for an object whose MD5 is not its checksum. One object request."""
        return vouches(*self._locate(entry.address), entry.checksum)

    def _locate(self, address: str) -> tuple[Objects, str]:
        prefix = self.repository.namespace + "/"
        if address.startswith(prefix):
            return self._objects, address.removeprefix(prefix)
        return self._outside(address)


def _tokens(resolved: Resolved) -> tuple[Token, ...]:
    """Return a branch's staging tokens, from the newest on."""
    state = resolved.branch
    return () if state is None else (state.open, *state.sealed[::-1])


def _shown_page(
    kind: Callable[[ChangeType, str], T],
    show: Callable[[bytes, bytes | None, bytes | None], T],
    differences: Differences,
    commits: tuple[CommitID, ...],
    prefix: str,
    after: str,
    delimiter: str,
    amount: int,
) -> Page[T]:
    page = page_of_differences(
        differences,
        show,
        partial(kind, ChangeType.PREFIX_CHANGED),
        prefix=prefix,
        after=after,
        delimiter=delimiter,
        amount=_at_least_one(amount),
    )
    return Page(page.results, page.next_after, commits)


def _in_ranges(differences: Differences, key_ranges: "Sequence[KeyRange]") -> Iterator[Difference]:
    return chain.from_iterable(differences(keys.start, keys.end) for keys in key_ranges if not keys.empty)


def _at_least_one(amount: int) -> int:
    if amount < 1:
        raise InvalidError(f"amount is {amount}; ask for at least 1")
    return amount


def _level(prefix: str, delimiter: str) -> "Level":
    from graveler.lake.reading.summary import Level  # not on the path of a cold start

    return Level(prefix, delimiter)
