"""From paths to what they name: repository, ref and object, and the operations of the lake that they go to."""

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fsspec.asyn import AsyncFileSystem

from graveler.errors import (
    GravelerError,
    InvalidError,
    NotFoundError,
    ObjectNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from graveler.files.lake import LakeHandle
from graveler.filesystem.addresses import PROTOCOL, PROTOCOLS, Place, place_of
from graveler.filesystem.failures import told
from graveler.filesystem.lakes import OpenedLake, Surroundings, expect_known, take_lake_options
from graveler.filesystem.transactions import CommitTransaction, Transactions
from graveler.model import ObjectEntry
from graveler.values.addresses import with_tag_meant

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository


_NO_REF: Final = f"{{!r}} has no ref between the repository and the path; write {PROTOCOL}://repository/ref/path"


class Resolving(AsyncFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The part of the filesystem that all others stand on: the lake, and where in it a path is read or written."""

    protocol = PROTOCOLS
    root_marker = ""
    cachable = True
    mirror_sync_methods = False
    transaction_type = CommitTransaction
    surroundings = Surroundings()
    _extra_tokenize_attributes = ("surroundings",)

    def __init__(
        self,
        lake: "str | os.PathLike[str] | LakeHandle | None" = None,
        *,
        snapshot: bool = False,
        on_error: Callable[[GravelerError], object] | None = None,
        **storage_options: Any,
    ) -> None:
        if self._cached:
            return
        options = take_lake_options(storage_options)
        expect_known(storage_options)
        super().__init__(lake, **storage_options)
        location: str | Path | LakeHandle | None
        if isinstance(lake, os.PathLike) or (isinstance(lake, str) and "://" not in lake):
            location = Path(lake).expanduser().absolute()  # whatever the working folder is when it is opened
        else:
            location = lake
        self.snapshot = snapshot
        self._on_error = on_error
        self.opened = OpenedLake(location, options, snapshot=snapshot)
        self.transactions = Transactions(self)

    @property
    def fsid(self) -> str:
        """An ID of the lake's address."""
        return f"{PROTOCOL}_{hashlib.sha256(repr(self.opened.lake).encode()).hexdigest()[:16]}"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """Return a path, or a list of them, without protocol and slashes around it: a lake has no repository without a name. The
        ref is spelled as in the names of listings, with which fsspec and others compare it."""
        found = super()._strip_protocol(path)
        if isinstance(found, list):
            return found
        found = found.lstrip("/")
        return place_of(found).name if "%" in found else found

    def _told(self, place: Place) -> AbstractContextManager[None]:
        return told(place.name, partial(self._note, place))

    def _note(self, place: Place, error: GravelerError) -> GravelerError:
        """Return an error as the caller is told it: with the branch of a place instead of a transaction's hidden one. If a path
        has no ref, it names the tag that may be meant, for a listing of tags."""
        if isinstance(error, RefNotFoundError):
            error = with_tag_meant(
                error, place, lambda *page: self.opened.repository(place.repository).tags(*page), f"{PROTOCOL}://"
            ).with_traceback(error.__traceback__)
        if isinstance(error, RepositoryNotFoundError):
            self.opened.forget(place.repository)
        if type(error) is ObjectNotFoundError and self.transactions.is_hidden(error.ref):
            error = ObjectNotFoundError(error.path, place.ref).with_traceback(error.__traceback__)
        if self._on_error is not None:
            self._on_error(error)
        return error

    def _place(self, path: "str | os.PathLike[str]") -> Place:
        return place_of(self._strip_protocol(path))

    def _expect_object(self, place: Place) -> Place:
        """Refuse what cannot be the path of an object."""
        if not place.path:
            raise ValueError(f"{place.name!r} is no path of an object; write {PROTOCOL}://repository/branch/path")
        if not place.ref:
            raise ValueError(_NO_REF.format(place.name))
        return place

    def _reading(self, place: Place) -> "tuple[AnyRepository, str]":
        """Return the operations of the repository, and the ref to read."""
        if place.path and not place.ref:
            raise NotFoundError(_NO_REF.format(place.name))
        if not place.ref:
            if place.repository:
                self.opened.repository(place.repository).repository  # noqa: B018 - a server is asked here
            raise IsADirectoryError(f"{place.name!r} is a folder")
        hidden = self.transactions.reading(place.repository, place.ref)
        return self.opened.repository(place.repository), hidden or self.opened.reading(place.repository, place.ref)

    def _changing(self, place: Place) -> AbstractContextManager[tuple["AnyRepository", str]]:
        """Run a block that changes the branch of a place, as :meth:`_changing_in` the transaction that is meant here."""
        return self._changing_in(self.transactions.meant, place)

    @contextmanager
    def _changing_in(
        self, transaction: CommitTransaction | None, place: Place
    ) -> Iterator[tuple["AnyRepository", str]]:
        """Run a block that changes the branch of a place. It gets the operations of the repository, and the branch to write to.
        If it fails for what is not a branch, the error says so. No request."""
        verbs = self.opened.repository(place.repository)
        try:
            if transaction is None:
                yield verbs, place.ref
            else:
                with transaction.changing(place.repository, place.ref) as hidden:
                    yield verbs, hidden
        except (RefNotFoundError, InvalidError):
            self.opened.expect_branch(place.repository, place.ref, f"writing {place.name!r}")
            raise

    def _stat(self, verbs: "AnyRepository", ref: str, place: Place) -> ObjectEntry:
        """Look an object up. ``IsADirectoryError`` for a folder."""
        try:
            if place.path:
                return verbs.stat(ref, place.path)
        except ObjectNotFoundError:
            if not verbs.list_objects(ref, prefix=place.prefix, amount=1).results:
                raise
        raise IsADirectoryError(f"{place.name!r} is a folder")
