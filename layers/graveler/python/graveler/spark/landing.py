"""Landing what a transaction has written: at its end, or later, where something stood in the way then; or by another process.

The commit of the hidden branch says in its metadata on what terms it may land: where, what it relies on to be untouched, of which
application it is the numbered write, its tag. So a transaction that could not land keeps all of it with its work.

A transaction of several steps is a hidden branch that :func:`begin` makes, whose first commit is empty and has the terms. Each
step is a transaction on that branch, and its commit there adds to them what the step relies on.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from secrets import token_hex
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import SparkSession

from graveler.errors import (
    UNREADABLE,
    AlreadyExistsError,
    GravelerError,
    InvalidError,
    NoChangesError,
    RefNotFoundError,
)
from graveler.history.names import check_tag
from graveler.lake.hidden_branch import HIDDEN, hidden_name
from graveler.lake.repository import OpenRepository
from graveler.model import Application, Commit, CommitID
from graveler.places import ServedLake, user_name
from graveler.spark.beginnings import deciding
from graveler.spark.handles import LakeLike, Reachable, Reached, reached

TERMS: Final = "graveler.transaction"
"""The key of the hidden commit's metadata."""

_MANY: Final = 100


class Kind(Enum):
    """Whose terms: of a transaction that is whole, of one that steps join, or of such a step; or of one that has landed, and
    whose tag is still to be given."""

    WHOLE = "whole"
    BEGUN = "begun"
    STEP = "step"
    LANDED = "landed"


class Terms(Struct, frozen=True):
    """How a transaction lands: on ``branch``, if nobody changed anything below the prefixes ``replaced`` since it began.
    ``landed`` is the commit that it became."""

    branch: str
    replaced: tuple[str, ...] = ()
    application: Application | None = None
    tag: str | None = None
    kind: Kind = Kind.WHOLE
    landed: CommitID | None = None


class Work(Struct, frozen=True):
    """What a transaction has done on its hidden branch: the prefixes of which it replaced all, and the ``folders`` that it
    wrote; and what the commit is to say."""

    branch: str
    replaced: tuple[str, ...]
    folders: tuple[str, ...]
    message: str = ""
    metadata: Mapping[str, str] = {}
    application: Application | None = None
    tag: str | None = None


def begin(
    repository: Reachable,
    branch: str,
    *,
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    tag: str | None = None,
    committer: str | None = None,
    lake: LakeLike | ServedLake = None,
    spark: SparkSession | None = None,
) -> str:
    """Begin a transaction on ``branch`` that several steps join, each in a process of its own, one after the other or at once.
    Its ID, which is the name of a hidden branch. ::

        steps = graveler.spark.begin("sales", "main", message="Nightly")
        with graveler.spark.transaction("sales", steps) as tx:  # in each step
            tx.write(frame, "tables/events", mode="overwrite")
        graveler.spark.land("sales", steps)  # in the last one

    A step is a transaction on that branch: what it writes is there as a whole when its block ends, for the next ones to read, or
    not at all; one with an ``app_id`` may be repeated. :func:`land` makes one commit of all. Nobody ends such a transaction but
    its user: one that is not to land is deleted with its branch. ``message``, ``metadata`` and ``tag`` are of its commit.

    Cost: creating a branch and a commit, one table write. :class:`AlreadyExistsError` for the tag, errors of finding the lake and
    the branch.
    """
    by = user_name() if committer is None else committer
    if tag is not None:
        check_tag(tag)
    with reached(deciding(spark, repository, lake), repository, lake) as found:
        if not isinstance(found, OpenRepository):
            found.expect_permitted(branch)
        if tag is not None:
            expect_free(found, tag)
        hidden = hidden_name()
        # An owner until the branch has its terms: whoever dies before has told nobody of it, and a collector ends it.
        owner = token_hex(16)
        found.create_branch(hidden, branch, by=by, hidden=True, owner=owner)
        said = {**(metadata or {}), TERMS: encode_terms(Terms(branch, tag=tag, kind=Kind.BEGUN))}
        found.commit(hidden, message or f"Transaction on {branch}", committer=by, metadata=said, allow_empty=True)
        found.release_branch(hidden, owner)
        return hidden


def land(
    repository: Reachable,
    hidden: str,
    *,
    tag: str | None = None,
    committer: str | None = None,
    lake: LakeLike | ServedLake = None,
    spark: SparkSession | None = None,
) -> Commit:
    """Land a transaction that was kept (``error.kept``), or that several steps have joined (:func:`begin`): merge its hidden
    branch into the branch it was made for, as its end would have done, with its message, metadata and, unless ``tag`` is another
    one, tag; then delete the hidden branch.

    One that was kept lands once what stood in the way is gone: uncommitted changes committed or reset, conflicts and the like
    mended on either branch. A dataset that it replaced and that somebody else has changed since stays a
    :class:`graveler.errors.TouchedError`: ``graveler merge`` brings both together, if that is what is wanted. A landing
    that died anywhere is finished by the next one. Cost: merging and deleting a branch; with a tag, a commit more.
    :class:`InvalidError` for a branch that no transaction has finished, :class:`NoChangesError` if no step has; otherwise
    errors as of :func:`graveler.spark.transaction`.
    """
    by = user_name() if committer is None else committer
    if tag is not None:
        check_tag(tag)
    with reached(deciding(spark, repository, lake), repository, lake) as found:
        tip, commit, terms = _whole(found, hidden)
        named = tag or terms.tag
        if terms.landed is not None:
            merged = found.commit_of(terms.landed)
        else:
            if named is not None:
                expect_free(found, named)
            metadata = {key: value for key, value in commit.metadata.items() if key != TERMS}
            merged = merge_hidden(found, hidden, tip, terms, commit.message, by, metadata)
            if named is not None:
                _note_landed(found, hidden, terms, named, merged, by)
        if named is not None:
            give_tag(found, named, merged, by)
        with suppress(RefNotFoundError):  # somebody has landed it at the same time
            found.delete_branch(hidden, by=by)
        return merged


def _note_landed(repository: Reached, hidden: str, terms: Terms, tag: str, merged: Commit, by: str) -> None:
    """Note on the hidden branch which commit it became: whoever lands it again, because this one died, knows by that whether a
    tag that is there is its own."""
    landed = Terms(terms.branch, tag=tag, kind=Kind.LANDED, landed=merged.id)
    said = {TERMS: encode_terms(landed)}
    with suppress(RefNotFoundError):  # somebody has landed it at the same time
        repository.commit(hidden, f"Landed on {terms.branch}", committer=by, metadata=said, allow_empty=True)


def finish(repository: Reached, hidden: str, work: Work, by: str, *, allow_empty: bool, keep: bool) -> Commit | None:
    """Commit the hidden branch, with all that :func:`land` has to know, and merge it; None if ``allow_empty`` and nothing was
    done. With ``keep``, an error of the merge says that the hidden branch is :attr:`GravelerError.kept`. Cost: a commit and a
    merge, with a tag one table read. Errors of both."""
    said = work.message or _said(work.folders)
    terms = Terms(work.branch, replaced_of(work.replaced, work.folders), work.application, work.tag)
    try:
        commit = repository.commit(hidden, said, committer=by, metadata={**work.metadata, TERMS: encode_terms(terms)})
    except NoChangesError:
        if allow_empty:
            return None
        raise
    try:
        if work.tag is not None:
            expect_free(repository, work.tag)  # behind the merge there is no way back
        exact = replace(terms, replaced=tuple(dict.fromkeys(work.replaced)))
        return merge_hidden(repository, hidden, commit.id, exact, said, by, work.metadata)
    except GravelerError as error:
        if keep and not isinstance(error, NoChangesError):
            error.kept = hidden
        raise


def merge_hidden(
    repository: Reached, hidden: str, tip: CommitID, terms: Terms, message: str, by: str, metadata: Mapping[str, str]
) -> Commit:
    """Merge a hidden branch, whose commit is ``tip``, on its terms, as one commit; repeated within a week, the same one. Cost and
    errors as
    :meth:`graveler.lake.repository.OpenRepository.merge`."""
    joined = {TERMS: encode_terms(replace(terms, kind=Kind.STEP))} if terms.branch.startswith(HIDDEN) else {}
    return repository.merge(
        hidden,
        terms.branch,
        message=message,
        committer=by,
        metadata={**metadata, **joined},
        squash=True,
        request_id=tip,  # whoever lost the answer, or died behind the merge, lands it again, and once
        untouched=terms.replaced,
        application=terms.application,
        beside_uncommitted=True,
    )


def encode_terms(terms: Terms) -> str:
    """As metadata."""
    return msgspec.json.encode(terms).decode()


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


def replaced_of(prefixes: Iterable[str], folders: Iterable[str]) -> tuple[str, ...]:
    """The prefixes; those of very many partitions as the datasets' folders, since metadata holds only so much."""
    distinct = tuple(dict.fromkeys(prefixes))
    if len(distinct) <= _MANY:
        return distinct
    whole = [f"{folder}/" for folder in folders]
    return tuple(dict.fromkeys(_around(prefix, whole) for prefix in distinct))


def _said(folders: Sequence[str]) -> str:
    """A message for who gave none."""
    paths = list(dict.fromkeys(folders))
    return f"Write {', '.join(paths[:3])}{', …' if len(paths) > 3 else ''}" if paths else "Transaction"


def _around(prefix: str, folders: Sequence[str]) -> str:
    return next((folder for folder in folders if prefix.startswith(folder)), prefix)


def _whole(repository: Reached, hidden: str) -> tuple[CommitID, Commit, Terms]:
    """The commit that the branch is at, the one that says what a transaction's commit is to say, and the terms of all its steps.
    One request for each hundred steps."""
    replaced: list[str] = []
    after: CommitID | None = None
    tip = CommitID("")
    steps = 0
    while True:
        page = repository.log(tip or hidden, after=after, first_parent=True)
        for commit in page.results:
            tip = tip or commit.id
            terms = _terms(hidden, commit)
            replaced += terms.replaced
            if terms.kind is Kind.BEGUN and not steps:
                raise NoChangesError(f"nothing to land: no step has written to transaction {hidden!r} yet")
            if terms.kind is not Kind.STEP:
                return tip, commit, replace(terms, replaced=tuple(dict.fromkeys(replaced)))
            steps += 1
        after = page.results[-1].id


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
