"""Objects at a ref: their metadata, listings, amounts, and bytes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from graveler.errors import (
    BytesGoneError,
    ExpiredCommitError,
    ObjectNotFoundError,
)
from graveler.history.expressions import Resolved, is_base, resolve
from graveler.lake.objects.verification import OpenedObject, checked, md5_of, vouches
from graveler.lake.parts import RefMemo
from graveler.lake.reading.state_reader import StateReader, at_least_one, staging_tokens
from graveler.lake.text import utf8
from graveler.model import (
    CommitID,
    CommonPrefix,
    ObjectEntry,
    Page,
    Token,
)
from graveler.staging.changes import StagedReader, first_staged
from graveler.storage.objects.port import Noted, ObjectMissingError, Objects
from graveler.storage.tables.port import Item, Key
from graveler.tree.listing import ListedPage
from graveler.tree.record import MakeBrief, MakeEntry, encode_key
from graveler.tree.rendered_pages import Rendering
from graveler.tree.tree import Tree

if TYPE_CHECKING:
    from io import FileIO

    from graveler.lake.reading.outside_files import OutsideFiles
    from graveler.lake.reading.summary import Usage
    from graveler.lake.reading.view import View


T = TypeVar("T")


class RenderedObjects(Struct, frozen=True):
    """A page of ``count`` objects as text. Each of ``pieces`` has some, separated by commas, with a comma needed between pieces.
    For the rest see :class:`~graveler.model.Page`."""

    pieces: tuple[bytes | memoryview, ...]
    count: int
    next_after: str | None
    commit_id: CommitID


_PAGE: Final = 1000
_MEMOS: Final = 256
_MEMO_LENGTH: Final = 100
"""The number of refs to remember, and their maximum length: callers may ask for anything."""


class StatRead(Struct, frozen=True):
    """The items read to look one object up: the ``other_items``, those of the ref, and what is staged under the tokens that the
    branch had according to the ``memo``."""

    ref: str
    path: str
    key: bytes
    other_items: Sequence[Item | None]
    keys: Sequence[Key]
    items: Sequence[Item | None]
    staged: Sequence[Item | None]
    memo: RefMemo | None


class ObjectReader(StateReader):
    """Reads the metadata of objects: one, some, listings and sums."""

    def stat(self, ref: str, path: str) -> ObjectEntry:
        """Return the metadata of an object. Cost: resolving, one table read more for a branch's name alone, unless the branch is
        unchanged since the last lookup of an object there; unless it is staged, the commit, its metarange, one range at most.

        :class:`ObjectNotFoundError`.
        """
        return self.finish_stat(self.prefetch_stat(ref, path))

    def prefetch_stat(self, ref: str, path: str, other_keys: Sequence[Key] = ()) -> StatRead:
        """Read what :meth:`stat` needs, and the items of ``other_keys``, for :meth:`finish_stat`. One table read. For a known
        ref, this includes what is staged under the tokens that it had then: that counts only if the ref's items are the same."""
        key = encode_key(path)
        memo = self._memos.get(ref)
        keys = self.keys_of(ref) if memo is None else memo.keys
        staged = () if memo is None else self._staged.keys(memo.tokens, key)
        all_keys = [*other_keys, *keys, *staged]
        items = self.tables.get_many(all_keys) if all_keys else []
        start, end = len(other_keys), len(other_keys) + len(keys)
        return StatRead(ref, path, key, items[:start], keys, items[start:end], items[end:], memo)

    def finish_stat(self, read: StatRead) -> ObjectEntry:
        """Return the result of :meth:`stat` from what was read for it. Cost: none for what is still true, else as there."""
        ref, memo, key = read.ref, read.memo, read.key
        if memo is not None and read.items == memo.items:
            resolved, staged = memo.resolved, first_staged(read.staged)
        else:
            self._memos.pop(ref, None)
            resolved = resolve(
                ref, self._refs.with_prefetched(dict(zip(read.keys, read.items, strict=True))), self._commits
            )
            tokens = staging_tokens(resolved)
            staged = self._staged.get(tokens, key) if tokens else None
            self._note(read, resolved, tokens)
        packed = self._get(resolved.commit_id, key) if staged is None else staged.packed
        if packed is None:
            raise ObjectNotFoundError(read.path, ref)
        return self.codec.decode(key, packed, read.path)

    def _note(self, read: StatRead, resolved: Resolved, tokens: tuple[Token, ...]) -> None:
        """Remember what a ref means, if that follows from the items that were read."""
        if len(read.ref) > _MEMO_LENGTH or all(item is None for item in read.items) or not is_base(read.ref):
            return
        if len(self._memos) >= _MEMOS:
            self._memos.clear()
        self._memos[read.ref] = RefMemo(read.keys, read.items, resolved, tokens)

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
        return self._listed(partial(self.codec.decode_many, make), ref, prefix, after, delimiter, amount)

    def list_brief(
        self, make: MakeBrief[T], ref: str, *, prefix: str = "", after: str = "", delimiter: str = "", amount: int = 100
    ) -> Page[T | CommonPrefix]:
        """List as :meth:`list_as`, in half the time, with the result of ``make`` for a part of each object's fields."""
        return self._listed(partial(self.codec.decode_brief, make), ref, prefix, after, delimiter, amount)

    def _listed(
        self,
        decode: Callable[[Iterable[tuple[bytes, bytes]]], list[T]],
        ref: str,
        prefix: str,
        after: str,
        delimiter: str,
        amount: int,
    ) -> Page[T | CommonPrefix]:
        snapshot, commit_id = self._state(ref)
        page = snapshot.page(
            prefix=utf8("prefix", prefix),
            after=utf8("after", after),
            delimiter=utf8("delimiter", delimiter),
            amount=at_least_one(amount),
        )
        objects = decode(_objects_of(page))
        results: list[T | CommonPrefix] = [*objects]
        if len(objects) < len(page.keys):
            following = iter(objects)
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
        rendered, rest = snapshot.rendered(
            self._renderer, rendering, utf8("prefix", prefix), utf8("after", after), at_least_one(amount)
        )
        pieces, last = rendered.pieces, rendered.last
        if rest.keys:
            pieces.append(rendering.texts(self.codec.decode_many(rendering.make, _objects_of(rest))))
            last = rest.keys[-1]
        return RenderedObjects(
            tuple(pieces), rendered.count + len(rest.keys), last.decode() if rest.more else None, commit_id
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
        from graveler.lake.reading.summary import Level  # not on the path of a cold start

        resolved = resolve(ref, self._refs, self._commits)
        return Level(prefix, delimiter).usage(
            self._tree(resolved.commit_id), StagedReader(self._staged, staging_tokens(resolved))
        )

    def tree(self, ref: str) -> Tree:
        """Return the tree of a ref's commit, for callers that read records by themselves. Cost: resolving, one commit, one
        metarange."""
        return self._tree(resolve(ref, self._refs, self._commits).commit_id)

    def stat_many(self, ref: str, paths: Sequence[str]) -> list[ObjectEntry | None]:
        """Return the metadata of several objects, all of one state; None for a missing one. Cost: as :meth:`stat`, each
        metarange and range once; one table read for each hundred that may be staged."""
        snapshot = self._snapshot(ref)
        keys = [encode_key(path) for path in paths]
        records = snapshot.get_many(sorted(set(keys)))
        return [None if (packed := records[key]) is None else self.codec.decode(key, packed) for key in keys]

    def has_staged(self, branch: str) -> bool:
        """Return whether anything is staged that no commit has sealed. One table read of the branch, one for each shard at
        most."""
        return self._staged.exists([self._branches.state(branch).open])


class ByteReader(ObjectReader):
    """Reads the bytes of objects, and tells where they are."""

    def stream(self, ref: str, path: str, start: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the bytes of an object, in pieces; ``length`` bytes from ``start``, verified like those of :meth:`bytes_in`.
        Cost: :meth:`stat` and one object read."""
        return self.bytes_in(ref, self.stat(ref, path), start, length)

    def bytes_in(
        self, ref: str, entry: ObjectEntry, start: int = 0, length: int | None = None, *, verify: bool = True
    ) -> Iterator[bytes]:
        """Yield the bytes of an object that was looked up in ``ref``, in pieces; ``length`` bytes from ``start`` (not negative).

        Their number is compared with what the lake recorded, and with ``verify`` the MD5 of a whole object too, if its checksum
        can be one (:mod:`graveler.lake.objects.verification`): :class:`DamagedObjectError` instead of the end. If they are
        missing, :class:`BytesGoneError`, or :class:`ExpiredCommitError` if retention has let that commit expire. Cost: one object
        read; one object request more if only the MD5 is wrong."""
        objects, key = self.store_at(entry.address)
        if length is not None and start + length >= entry.size > start:
            length = None  # to the end, to detect an object that is longer than recorded
        try:
            pieces = objects.stream(key, start, length)
            yield from checked(
                entry, ref, pieces, start, length, lambda: vouches(objects, key, entry.checksum), verify=verify
            )
        except ObjectMissingError:
            self.expect_kept(ref)
            raise BytesGoneError(entry.path, ref, entry.address) from None

    def read(self, ref: str, path: str) -> bytes:
        """Return the whole object, compared with what the lake recorded as :meth:`bytes_in` does. Cost: :meth:`stat` and one
        object read. :class:`DamagedObjectError`."""
        return b"".join(self.stream(ref, path))

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
            lambda: vouches(*self.store_at(entry.address), entry.checksum),
        )

    def open_file(self, ref: str, entry: ObjectEntry) -> "FileIO | None":
        """Return an object that was looked up in ``ref`` as an open file, which the caller closes; None if its store is not a
        folder. Cost: one open. Errors as :meth:`bytes_in`; nothing is verified."""
        from graveler.storage.objects.folder import FolderObjects  # not for lakes on AWS

        objects, key = self.store_at(entry.address)
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

        objects, key = self.store_at(entry.address)
        return objects.name_of(key) if isinstance(objects, FolderObjects) else f"{objects.namespace}/{key}"

    def url(self, entry: ObjectEntry, expires_in: int) -> str:
        """Return a URL with which anyone may read an object's bytes for ``expires_in`` seconds. No request.
        :class:`UnavailableError` if its store has no such URLs."""
        objects, key = self.store_at(entry.address)
        return objects.presign(key, "GET", expires_in, Noted(entry.size, md5_of(entry)))

    def signed_url(self, ref: str, entry: ObjectEntry, expires_in: int) -> str:
        """Return :meth:`url` of an object that was looked up in ``ref``."""
        del ref
        return self.url(entry, expires_in)

    def expect_kept(self, ref: str) -> None:
        """Refuse a ref whose commit has expired. Cost: resolving, one table read; no more for a branch.
        :class:`ExpiredCommitError`."""
        resolved = resolve(ref, self._refs, self._commits)
        if resolved.branch is None and self._commits.has_expired(resolved.commit_id):
            raise ExpiredCommitError(resolved.commit_id)

    def look_at_outside_files(self, ref: str, prefix: str = "") -> "OutsideFiles | None":
        """Compare size and time of imported and linked files on this machine with what the commit of a ref says. None unless the
        repository itself is in a folder. Cost: resolving, and as
        :func:`graveler.lake.reading.outside_files.look_at_outside_files`."""
        from graveler.lake.reading.outside_files import look_at_outside_files
        from graveler.storage.objects.folder import FolderObjects  # not for lakes on AWS

        if not isinstance(self._objects, FolderObjects):
            return None
        tree = self.tree(ref)
        return look_at_outside_files(tree, self.codec, self.repository.namespace, self.store_at, utf8("prefix", prefix))

    def store_at(self, address: str) -> tuple[Objects, str]:
        """Return the object store that holds an address, and its key there, whether there is an object or not. No request.
        :class:`InvalidError` if no store is known by its scheme, :class:`ForbiddenError` if it may not be read."""
        prefix = self.repository.namespace + "/"
        if address.startswith(prefix):
            return self._objects, address.removeprefix(prefix)
        return self._outside(address)


def _objects_of(page: ListedPage) -> list[tuple[bytes, bytes]]:
    """Return the records of a page, without its common prefixes."""
    return [(key, packed) for key, packed in zip(page.keys, page.packed, strict=True) if packed is not None]
