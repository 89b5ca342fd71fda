"""Resolution of places in the lake: the repository and the ref to read, the branch to write, and errors as those of files."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from graveler.errors import (
    GravelerError,
    InvalidError,
    NotFoundError,
    ObjectNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from graveler.filesystem.addresses import PROTOCOL, Place
from graveler.filesystem.error_translation import translating_lake_errors
from graveler.filesystem.lakes import OpenedLake
from graveler.filesystem.transactions import CommitTransaction, Transactions
from graveler.model import ObjectEntry
from graveler.values.addresses import with_tag_meant

if TYPE_CHECKING:
    from graveler.remote.any_repository import AnyRepository


_NO_REF: Final = f"{{!r}} has no ref between the repository and the path; write {PROTOCOL}://repository/ref/path"


class Resolver:
    """Resolves places in one opened lake. ``on_error`` is called with each error of the lake before it is raised as one of
    files."""

    def __init__(
        self, opened: OpenedLake, transactions: Transactions, on_error: Callable[[GravelerError], object] | None
    ) -> None:
        self.opened = opened
        self.transactions = transactions
        self.on_error = on_error

    def translating_errors(self, place: Place) -> AbstractContextManager[None]:
        """Return a context that raises the lake's errors in its block as errors of files, about a place."""
        return translating_lake_errors(place.name, partial(self.note, place))

    def note(self, place: Place, error: GravelerError) -> GravelerError:
        """Return the error to raise for one of the lake: with the branch of a place instead of a transaction's hidden one. If a
        path has no ref, it names the tag that may be meant, for a listing of tags."""
        if isinstance(error, RefNotFoundError):
            error = with_tag_meant(
                error, place, lambda *page: self.opened.verbs(place.repository).tags(*page), f"{PROTOCOL}://"
            ).with_traceback(error.__traceback__)
        if isinstance(error, RepositoryNotFoundError):
            self.opened.forget(place.repository)
        if type(error) is ObjectNotFoundError and self.transactions.is_hidden(error.ref):
            error = ObjectNotFoundError(error.path, place.ref).with_traceback(error.__traceback__)
        if self.on_error is not None:
            self.on_error(error)
        return error

    def repository_and_ref(self, place: Place) -> "tuple[AnyRepository, str]":
        """Return the repository of a place, and the ref to read there."""
        if place.path and not place.ref:
            raise NotFoundError(_NO_REF.format(place.name))
        if not place.ref:
            if place.repository:
                self.opened.verbs(place.repository).repository  # noqa: B018 - a server is asked here
            raise IsADirectoryError(f"{place.name!r} is a folder")
        hidden = self.transactions.reading(place.repository, place.ref)
        return self.opened.verbs(place.repository), hidden or self.opened.reading(place.repository, place.ref)

    @contextmanager
    def write_target(
        self, place: Place, transaction: CommitTransaction | None
    ) -> "Iterator[tuple[AnyRepository, str]]":
        """Run a block that changes the branch of a place, in a transaction if there is one. It gets the repository, and the
        branch to write to. If it fails for what is not a branch, the error says so. No request."""
        repository = self.opened.verbs(place.repository)
        try:
            if transaction is None:
                yield repository, place.ref
            else:
                with transaction.changing(place.repository, place.ref) as hidden:
                    yield repository, hidden
        except (RefNotFoundError, InvalidError):
            self.opened.expect_branch(place.repository, place.ref, f"writing {place.name!r}")
            raise

    def stat(self, repository: "AnyRepository", ref: str, place: Place) -> ObjectEntry:
        """Look an object up. ``IsADirectoryError`` for a folder."""
        try:
            if place.path:
                return repository.stat(ref, place.path)
        except ObjectNotFoundError:
            if not repository.list_objects(ref, prefix=place.prefix, amount=1).results:
                raise
        raise IsADirectoryError(f"{place.name!r} is a folder")


def expect_object(place: Place) -> Place:
    """Return a place that can be an object's. ``ValueError`` for any other."""
    if not place.path:
        raise ValueError(f"{place.name!r} is no path of an object; write {PROTOCOL}://repository/branch/path")
    if not place.ref:
        raise ValueError(_NO_REF.format(place.name))
    return place
