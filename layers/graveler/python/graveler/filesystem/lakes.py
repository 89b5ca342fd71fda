"""The lake behind a filesystem: opened when it is first needed, with refs resolved as its options say."""

import os
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, cast

from graveler.errors import ForbiddenError, InvalidError, RefNotFoundError
from graveler.files.lake import LakeHandle, LakeOptions, open_handle, shared_lake_of
from graveler.files.repository import RepositoryAccess
from graveler.lake.opening.location import AwsLake
from graveler.location.configuration import CONFIG, PROFILE
from graveler.location.environment import ENDPOINT, KEY_ID, LAKE, OBJECTS, TABLES, USER
from graveler.system.forks import new_lock

if TYPE_CHECKING:
    from graveler import Lake, Repository
    from graveler.remote.any_repository import AnyRepository


FRESH: Final = 60
"""Seconds after which a repository is looked up again."""

_OPTIONS: Final = ("objects", "region", "s3_endpoint_url", "dynamodb_endpoint_url", "user", "login", "profile")
"""The storage options that are arguments of :func:`graveler.open`."""
_OF_FSSPEC: Final = frozenset(
    ("asynchronous", "loop", "batch_size", "use_listings_cache", "listings_expiry_time", "max_paths", "anon")
)
"""Options that fsspec gives every filesystem; and ``anon``, with which pandas tries again what was refused by a
``PermissionError``, for public buckets (``pandas/io/common.py``): the second try is then refused for the same reason."""


class Surroundings:
    """The surroundings that decide which lake the same options mean: the working folder and the variables. fsspec keeps an
    instance by the text of its arguments, to which it adds that of this object, so that no instance is taken for one of another
    lake."""

    def __repr__(self) -> str:
        names = (LAKE, TABLES, ENDPOINT, OBJECTS, KEY_ID, USER, CONFIG, PROFILE)
        return repr((os.getcwd(), [os.environ.get(name) for name in names]))  # noqa: PTH109 - a text


class OpenedLake:
    """The repositories of one lake; whoever opened it before closes it. ``snapshot`` fixes the commit of each ref when it is
    first read. Safe to share between threads; survives a fork."""

    def __init__(self, location: "str | Path | LakeHandle | None", options: LakeOptions, *, snapshot: bool) -> None:
        self._location = location
        self._options = options
        self._snapshot = snapshot
        self._lock: Lock = new_lock()
        self._lake: Lake | None = None
        self._repositories: dict[str, tuple[RepositoryAccess, float]] = {}
        """Each with the time at which it was looked up."""
        self._commits: dict[tuple[str, str], str] = {}

    @property
    def location(self) -> "str | Path | LakeHandle | None":
        """The location of the lake, or the lake itself; None if the other process has to find it."""
        return self._location

    @property
    def handle(self) -> LakeHandle:
        """The lake, opened when it is first needed. Errors as :func:`graveler.open`."""
        return self._location if isinstance(self._location, LakeHandle) else self.lake

    @property
    def lake(self) -> "Lake":
        """The lake as :func:`graveler.open` returns it, for programs that use both. Errors as there."""
        from graveler import Lake  # the Python API stands above; its names are loaded when they are asked for

        if isinstance(self._location, Lake):
            return self._location
        if isinstance(self._location, LakeHandle):
            shared = shared_lake_of(self._location)
            return Lake(shared.lake, self._location.user, shared.address)
        with self._lock:
            if self._lake is None:
                self._lake = open_handle(Lake, self._location, **self._options)
            return self._lake

    def repository(self, name: str) -> "Repository":
        """Return a handle on a repository, as :meth:`graveler.sdk.lake.Lake.repository` does. No request."""
        return self.lake.repository(name)

    def access(self, name: str) -> RepositoryAccess:
        """Return the access to a repository, which need not exist. No request."""
        now = monotonic()
        entry = self._repositories.get(name)
        if entry is None or now - entry[1] > FRESH:
            access = RepositoryAccess(shared_lake_of(self.handle), name, self.handle.user)
            entry = self._repositories[name] = access, now
        return entry[0]

    def verbs(self, name: str) -> "AnyRepository":
        """Return the verbs of a repository. Cost: one table read, the first time and each minute: the repository may have been
        deleted, and made again."""
        return self.access(name).repository

    def forget(self, name: str) -> None:
        """Look a repository up again the next time, as it does not exist any more."""
        self._repositories.pop(name, None)

    def reading(self, repository: str, ref: str) -> str:
        """Return the ref to read for ``ref``: itself, or the commit that it had first with ``snapshot``."""
        if not self._snapshot:
            return ref
        commit = self._commits.get((repository, ref))
        if commit is None:
            current = self.verbs(repository).commit_of(ref).id
            with self._lock:
                commit = self._commits.setdefault((repository, ref), current)
        return commit

    def expect_branch(self, repository: str, ref: str, doing: str) -> None:
        """Refuse to write to what is not a branch. Cost: a table read, two if it is none. :class:`ForbiddenError` for another
        ref, :class:`RefNotFoundError`."""
        opened = self.verbs(repository)
        try:
            opened.branch(ref)
        except (RefNotFoundError, InvalidError):  # ``main~1`` is no name of a branch
            opened.commit_of(ref)
            raise ForbiddenError(
                f"{doing}: {ref!r} is not a branch, and only branches can be written to; create one, then write to it"
            ) from None

    def store_options(self) -> dict[str, str]:
        """Return how readers of their own reach the lake's objects in S3, by the names of Rust's ``object_store``; nothing that
        AWS's own configuration says, and no credentials."""
        address = shared_lake_of(self.handle).address
        if not isinstance(address, AwsLake):
            return {}
        endpoint = address.s3_endpoint_url
        options = {"aws_region": address.region, "aws_endpoint_url": endpoint}
        if endpoint is not None and endpoint.startswith("http://"):
            options["aws_allow_http"] = "true"
        return {name: value for name, value in options.items() if value is not None}

    def close(self) -> None:
        """Release files and connections; the next use opens the lake again."""
        with self._lock:
            lake, self._lake = self._lake, None
            self._repositories.clear()
        if lake is not None:
            lake.close()


def take_lake_options(storage_options: dict[str, Any]) -> LakeOptions:
    """Return those of the storage options that say where the lake is, and take them out of ``storage_options``."""
    names = storage_options.keys() & {*_OPTIONS}
    return cast("LakeOptions", {name: storage_options.pop(name) for name in names})


def expect_known(names: Iterable[str]) -> None:
    """Refuse storage options that are neither ours nor fsspec's: one that was misspelt would be without effect. ``TypeError``."""
    unknown = sorted({*names} - _OF_FSSPEC)
    if unknown:
        options = ", ".join(("lake", "snapshot", "on_error", *_OPTIONS))
        raise TypeError(f"graveler:// has no storage option {', '.join(map(repr, unknown))}; its options are {options}")
