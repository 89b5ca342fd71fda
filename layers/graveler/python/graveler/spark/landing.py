"""Landing what a transaction has written: at its end, or later, where something stood in the way then.

The commit of the hidden branch says in its metadata on what terms it may land: where, what it relies on to be untouched, of which
application it is the numbered write, its tag. So a transaction that could not land keeps all of it with its work.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession

from graveler.errors import UNREADABLE, AlreadyExistsError, InvalidError, RefNotFoundError
from graveler.history.names import check_tag
from graveler.model import Application, Commit
from graveler.places import ServedLake, user_name
from graveler.spark.handles import LakeLike, Reachable, Reached, reached

TERMS: Final = "graveler.transaction"
"""The key of the hidden commit's metadata."""

_MANY: Final = 100


class Terms(Struct, frozen=True):
    """How a transaction lands: on ``branch``, if nobody changed anything below the prefixes ``replaced`` since it began."""

    branch: str
    replaced: tuple[str, ...] = ()
    application: Application | None = None
    tag: str | None = None


def land(
    repository: Reachable,
    hidden: str,
    *,
    tag: str | None = None,
    committer: str | None = None,
    lake: LakeLike | ServedLake = None,
    spark: SparkSession | None = None,
) -> Commit:
    """Land a transaction that was kept (``error.kept``): merge its hidden branch into the branch it was made for, as its end
    would have done, with its message, metadata and, unless ``tag`` is another one, tag; then delete the hidden branch.

    Once what stood in the way is gone: uncommitted changes committed or reset, conflicts and the like mended on either branch.
    A dataset that it replaced and that somebody else has changed since stays a :class:`graveler.errors.TouchedError`:
    ``graveler merge`` brings both together, if that is what is wanted. Cost: merging and deleting a branch.
    :class:`InvalidError` for a branch that no transaction has finished; otherwise errors as of
    :func:`graveler.spark.transaction`.
    """
    by = user_name() if committer is None else committer
    if tag is not None:
        check_tag(tag)
    with reached(spark or SparkSession.getActiveSession(), repository, lake) as found:
        commit = found.commit_of(hidden)
        terms = _terms(hidden, commit)
        named = tag or terms.tag
        if named is not None:
            expect_free(found, named)
        metadata = {key: value for key, value in commit.metadata.items() if key != TERMS}
        merged = merge_hidden(found, hidden, terms, commit.message, by, metadata)
        if named is not None:
            give_tag(found, named, merged, by)
        found.delete_branch(hidden, by=by)
        return merged


def merge_hidden(
    repository: Reached, hidden: str, terms: Terms, message: str, by: str, metadata: Mapping[str, str]
) -> Commit:
    """Merge a hidden branch on its terms. Cost and errors as :meth:`graveler.lake.repository.OpenRepository.merge`."""
    return repository.merge(
        hidden,
        terms.branch,
        message=message,
        committer=by,
        metadata=metadata,
        untouched=terms.replaced,
        application=terms.application,
        beside_uncommitted=True,
    )


def encode_terms(terms: Terms) -> str:
    """As metadata."""
    return msgspec.json.encode(terms).decode()


def replaced_of(prefixes: Iterable[str], folders: Iterable[str]) -> tuple[str, ...]:
    """The prefixes; those of very many partitions as the datasets' folders, since metadata holds only so much."""
    distinct = tuple(dict.fromkeys(prefixes))
    if len(distinct) <= _MANY:
        return distinct
    whole = [f"{folder}/" for folder in folders]
    return tuple(dict.fromkeys(_around(prefix, whole) for prefix in distinct))


def expect_free(repository: Reached, tag: str) -> None:
    """:class:`AlreadyExistsError` for a tag that is there. One request."""
    with suppress(RefNotFoundError):
        repository.tag(tag)
        raise AlreadyExistsError("tag", tag)


def give_tag(repository: Reached, tag: str, commit: Commit, by: str) -> None:
    """Give a commit its tag, unless an earlier try of the same did."""
    try:
        repository.create_tag(tag, commit.id, by=by)
    except AlreadyExistsError:
        if repository.tag(tag).commit_id != commit.id:
            raise


def _around(prefix: str, folders: Sequence[str]) -> str:
    return next((folder for folder in folders if prefix.startswith(folder)), prefix)


def _terms(hidden: str, commit: Commit) -> Terms:
    said = commit.metadata.get(TERMS)
    if said is None:
        raise InvalidError(
            f"branch {hidden!r} is no finished transaction's; if its work is whole, commit it and merge the branch "
            "(graveler merge)"
        )
    try:
        return msgspec.json.decode(said, type=Terms)
    except UNREADABLE as error:
        raise InvalidError(f"branch {hidden!r}: its transaction's terms cannot be read: {error}") from None
