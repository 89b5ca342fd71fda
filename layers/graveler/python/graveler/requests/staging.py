"""Requests that change the uncommitted state of a branch: objects staged, copied, moved, deleted; changes dropped."""

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Final

from msgspec import Struct

from graveler.errors import InvalidError
from graveler.model import ObjectEntry
from graveler.requests.base import Endpoint, Field, Permission, Request

ANY_OBJECT: Final = "*"
"""The ``if_match`` that every object fulfils."""


class Condition(Struct, frozen=True):
    """The condition under which a write takes effect: that the path has no object (``if_absent``), or one with the ETag
    ``if_match`` (its checksum; ``*``: any object). :class:`InvalidError` for both."""

    if_absent: bool = False
    if_match: str = ""

    def __post_init__(self) -> None:
        if self.if_absent and self.if_match:
            raise InvalidError("if_absent and if_match exclude each other; give one of them")

    def __bool__(self) -> bool:
        """Return whether there is a condition."""
        return self.if_absent or bool(self.if_match)


class Upload(Request[ObjectEntry], frozen=True, kw_only=True):
    """Write an object's bytes, the context's ``body``, and stage it; readers of the branch see it at once (promise C3).

    With ``if_absent`` or ``if_match``, only under this condition of :class:`Link`, now and at the end: of several concurrent
    calls, one wins. If the condition fails already, no byte is written. Cost: one object write, and :class:`Link`; with a server
    two requests and one object write. Without a content type, it is ``application/octet-stream``.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    paths: ClassVar = ("path",)
    implementation: ClassVar = "objects.uploads:upload"

    branch: str
    path: str
    content_type: str = ""
    metadata: Mapping[str, str] = {}
    if_absent: Annotated[bool, Field("Fail with exit code 4 if there is an object already.")] = False
    force: bool = False
    if_match: Annotated[
        str,
        Field("Fail with exit code 5 unless the object has this ETag: the checksum that `stat` shows.", metavar="ETAG"),
    ] = ""

    @property
    def condition(self) -> Condition:
        """The condition of the write. :class:`InvalidError` for two of them."""
        return Condition(self.if_absent, self.if_match)


class Link(Request[None], frozen=True, kw_only=True):
    """Stage an object whose bytes are already at ``entry.address``.

    An address inside the namespace must come from ``new_address`` for this path and branch, and be at most half a
    day old; outside, any address is valid. Cost: one table write, one table read (once more on the first use of a branch).
    :class:`InvalidError`.

    With ``if_absent``, only if the branch has no object of this path (:class:`AlreadyExistsError`); with ``if_match``, only if
    its object has this ETag, which is its checksum, or any for ``*`` (:class:`ObjectNotFoundError`, :class:`ObjectChangedError`).
    Of several concurrent calls, one wins. Cost: two table reads (the branch, the staged change of the path); unless something is
    staged there, the commit, its metarange, one range at most; one transaction. Such calls on one branch, and commits there,
    exclude each other: the loser looks again. :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    implementation: ClassVar = "objects.linking:link"

    branch: str
    entry: ObjectEntry
    if_absent: bool = False
    force: bool = False
    if_match: str = ""

    @property
    def condition(self) -> Condition:
        """The condition of the write. :class:`InvalidError` for two of them."""
        return Condition(self.if_absent, self.if_match)


class LinkMany(Request[None], frozen=True, kw_only=True):
    """Stage many objects with distinct paths, as :class:`Link`. Each is staged, and acknowledged, by itself: after an error some
    may be, and repeating all of them is safe. Cost: for one object as :class:`Link`; for several one table read, one table write
    for each 25, one table read for each thousand."""

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    implementation: ClassVar = "objects.linking:link_many"

    branch: str
    entries: tuple[ObjectEntry, ...]
    force: bool = False


class Delete(Request[None], frozen=True, kw_only=True):
    """Remove objects from the branch; a missing path is not an error. Their bytes stay, for older commits.

    Cost: for one path one table write, one table read; for several one table read, one table write for each 25, one table read
    for each thousand. With a server one request for each thousand.

    With ``if_match``, one path only, and only if its object has this ETag, as for :class:`Link`, which states the cost; a missing
    object is success here, too. :class:`InvalidError` for several paths, :class:`ObjectChangedError`, :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    implementation: ClassVar = "objects.linking:delete"

    branch: str
    objects: tuple[str, ...]
    force: bool = False
    if_match: str = ""

    @property
    def conditional_path(self) -> str:
        """The path of a delete with ``if_match``. :class:`InvalidError` for another number of paths."""
        paths = dict.fromkeys(self.objects)
        if len(paths) != 1:
            raise InvalidError(
                f"if_match is the ETag of one object, but {len(paths):,} are named; delete each of them alone"
            )
        return next(iter(paths))


class Copy(Request[ObjectEntry], frozen=True, kw_only=True):
    """Stage on a branch another object with the same bytes: ``source_path`` in ``source_ref`` (this branch, if empty).

    No byte is copied: both have one address, which is safe, since objects are never changed and stay as long as anything refers
    to them. Checksum, content type and metadata are the source's, the time is now. Cost: a stat and :class:`Link`.
    :class:`ObjectNotFoundError`, :class:`RefNotFoundError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    paths: ClassVar = ("destination_path",)
    implementation: ClassVar = "objects.copying:copy"

    branch: str
    source_path: str
    destination_path: str
    source_ref: str = ""
    force: bool = False


class Duplicate(Copy, frozen=True, kw_only=True):
    """Copy an object as :class:`Copy` does, but have the store copy the bytes, so that the copy has an address of its own.
    Objects outside of the namespace, and those larger than 256 MiB, are only copied as by :class:`Copy`: copying their bytes
    would take too long for one call.

    Cost: a stat, a copy within the store, and :class:`Link`. Errors as :class:`Copy`, and :class:`BytesGoneError`.
    """

    implementation: ClassVar = "objects.copying:duplicate"


class CopyPrefix(Request[Iterator[ObjectEntry]], frozen=True, kw_only=True):
    """Copy all objects whose path begins with ``source_prefix``, as :class:`Copy`; ``destination_prefix`` replaces it.

    Yields the staged objects, a page at a time, while it is consumed; after an error some are staged, and repeating it is safe.
    Cost: a listing of each thousand, and :class:`LinkMany`; with a server one request for each object.
    :class:`InvalidError` for a prefix that begins with the other, on one branch.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    paths: ClassVar = ("destination_prefix",)
    implementation: ClassVar = "objects.copying:copy_prefix"

    branch: str
    source_prefix: str
    destination_prefix: str
    source_ref: str = ""
    force: bool = False


class Move(Request[ObjectEntry], frozen=True, kw_only=True):
    """Move an object of a branch to another path: :class:`Copy`, and then :class:`Delete`.

    A failure between the two leaves both, never none; repeating it is safe. Cost: both of them. :class:`ObjectNotFoundError`;
    :class:`InvalidError` if both paths are the same.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    paths: ClassVar = ("source_path", "destination_path")
    implementation: ClassVar = "objects.copying:move"

    branch: str
    source_path: str
    destination_path: str
    force: bool = False


class MovePrefix(Request[Iterator[tuple[str, ObjectEntry]]], frozen=True, kw_only=True):
    """Move all objects whose path begins with ``source_prefix``, as :class:`Move`: old path and new object, a page at a time.

    Each page is copied before it is deleted; after an error some are moved, and repeating it is safe. Cost: as
    :class:`CopyPrefix`, and :class:`Delete` of each thousand. :class:`InvalidError` for a prefix that begins with the other.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    paths: ClassVar = ("source_prefix", "destination_prefix")
    implementation: ClassVar = "objects.copying:move_prefix"

    branch: str
    source_prefix: str
    destination_prefix: str
    force: bool = False


class UpdateMetadata(Request[ObjectEntry], frozen=True, kw_only=True):
    """Replace an object's own metadata; address, time and all else stay. Returns the object as it is afterwards.

    A concurrent replacement is never overwritten. Cost: two table reads; unless it is staged, the commit, its metarange, one
    range at most; one transaction; all again after losing a race. With a server two requests. :class:`ObjectNotFoundError`,
    :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    paths: ClassVar = ("path",)
    implementation: ClassVar = "objects.copying:update_metadata"
    endpoint: ClassVar = Endpoint(
        "PUT",
        "/repositories/{repository}/branches/{branch}/objects/stat/user_metadata",
        "updateObjectUserMetadata",
        body="UserMetadata",
        meaning="The new user metadata, which replaces all existing user metadata.",
        query=("path", "force"),
    )

    branch: str
    path: str
    metadata: Annotated[Mapping[str, str], Field(wire="set")]
    force: bool = False


class Reset(Request[None], frozen=True, kw_only=True):
    """Drop uncommitted changes: all, or those of one path, or of the paths that begin with a prefix. Resetting nothing is not an
    error. Changes staged while this runs may be dropped or stay.

    All changes are dropped at once. Those of a prefix are dropped one by one: after an error some may be gone, and repeating it
    is safe. Cost for all: one table read of the branch, one for each staging token and shard to see that something is staged, and
    one transaction, whatever is staged. For a path: two table reads, one transaction if it is staged. For a prefix: the branch,
    one table read for each token and shard and thousand staged there, one transaction for each 99. Waits for a commit in
    progress. If a commit died after it took such changes, the other changes that it took are first staged again: one table read
    for each token and shard and thousand of them, one transaction for each 99 and one at the end. :class:`InvalidError` for both
    path and prefix, :class:`BusyError`.
    """

    permission: ClassVar = Permission.WRITE
    changes: ClassVar = ("branch",)
    implementation: ClassVar = "objects.reset:reset"

    branch: str
    path: str | None = None
    prefix: str | None = None
    force: bool = False
