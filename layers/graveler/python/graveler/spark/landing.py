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
    BusyError,
    ConflictError,
    GravelerError,
    InvalidError,
    MovedError,
    NoChangesError,
    RefNotFoundError,
)
from graveler.history.names import check_tag
from graveler.lake.committing.applications import LARGEST_VERSION
from graveler.lake.refs.hidden_branch import HIDDEN, hidden_name
from graveler.lake.repository import OpenRepository
from graveler.locations import ServedLake, user_name
from graveler.model import Application, Commit, CommitID
from graveler.spark.beginnings import deciding
from graveler.spark.handles import LakeLike, Reachable, Reached, reached

TERMS: Final = "graveler.transaction"
"""The key of the hidden commit's metadata."""

_MOST_BYTES: Final = 1 << 17
"""Bytes of prefixes that a commit's metadata names: some thousand partitions."""


class Kind(Enum):
    """Whose terms: of a transaction that is whole, of one that steps join, or of such a step; or of one that has landed, and
    whose tag is still to be given."""

    WHOLE = "whole"
    BEGUN = "begun"
    STEP = "step"
    LANDED = "landed"


class Terms(Struct, frozen=True):
    """How a transaction lands: on ``branch``, if nobody changed anything below the prefixes ``replaced`` since it began.
    ``landed`` is the commit that it became with all work of its hidden branch ``upto`` a commit."""

    branch: str
    replaced: tuple[str, ...] = ()
    application: Application | None = None
    tag: str | None = None
    kind: Kind = Kind.WHOLE
    landed: CommitID | None = None
    upto: CommitID | None = None


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
        all_metadata = {**(metadata or {}), TERMS: encode_terms(Terms(branch, tag=tag, kind=Kind.BEGUN))}
        found.commit(
            hidden, message or f"Transaction on {branch}", committer=by, metadata=all_metadata, allow_empty=True
        )
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
        whole = _whole(found, hidden)
        named = tag or whole.terms.tag
        if whole.landed is not None:
            merged = found.commit_of(whole.landed)
        else:
            if named is not None:
                expect_free(found, named)
            metadata = {key: value for key, value in whole.commit.metadata.items() if key != TERMS}
            merged = merge_hidden(found, whole.work, whole.terms, whole.commit.message, by, metadata)
            if named is not None:
                _note_landed(found, hidden, whole, named, merged, by)
        if named is not None:
            give_tag(found, named, merged.id, by)
        _delete(found, hidden, whole, merged, by)
        return merged


def _note_landed(repository: Reached, hidden: str, whole: "_Whole", tag: str | None, merged: Commit, by: str) -> None:
    """Note on the hidden branch which commit it became: whoever lands it again, because this one died or a step came late, knows
    by that whether a tag that is there is its own, and what is still to land."""
    landed = Terms(whole.terms.branch, tag=tag, kind=Kind.LANDED, landed=merged.id, upto=whole.work)
    terms = {TERMS: encode_terms(landed)}
    with suppress(RefNotFoundError):  # somebody has landed it at the same time
        repository.commit(hidden, f"Landed on {landed.branch}", committer=by, metadata=terms, allow_empty=True)


def _delete(repository: Reached, hidden: str, landed: "_Whole", merged: Commit, by: str) -> None:
    """Delete the hidden branch of a landing, unless a step has written to it since."""
    with suppress(RefNotFoundError):  # somebody has landed it at the same time
        while (found := _whole(repository, hidden)).work == landed.work:
            with suppress(MovedError):
                repository.delete_branch(hidden, by=by, at=found.head)
                return
        _note_landed(repository, hidden, landed, landed.terms.tag, merged, by)
        raise BusyError(
            f"transaction {hidden!r} has landed as commit {merged.id}, without what a step has written since; land it again, "
            "with another tag if it has one"
        )


def finish(repository: Reached, hidden: str, work: Work, by: str, *, allow_empty: bool, keep: bool) -> Commit | None:
    """Commit the hidden branch, with all that :func:`land` has to know, and merge it; None if ``allow_empty`` and nothing was
    done. With ``keep``, an error of the merge says that the hidden branch is :attr:`GravelerError.kept`. Cost: a commit and a
    merge, with a tag one table read. Errors of both."""
    description = work.message or _description(work.folders)
    terms = Terms(work.branch, replaced_of(work.replaced, work.folders), work.application, work.tag)
    try:
        commit = repository.commit(
            hidden, description, committer=by, metadata={**work.metadata, TERMS: encode_terms(terms)}
        )
    except NoChangesError:
        if allow_empty:
            return None
        raise
    try:
        if work.tag is not None:
            expect_free(repository, work.tag)  # behind the merge there is no way back
        exact = replace(terms, replaced=tuple(dict.fromkeys(work.replaced)))
        # The commit, and not the branch, as :func:`land` has it: both are one request to a server.
        return merge_hidden(repository, commit.id, exact, description, by, work.metadata)
    except GravelerError as error:
        if keep and not isinstance(error, NoChangesError):
            error.kept = hidden
        raise


def merge_hidden(
    repository: Reached, tip: CommitID, terms: Terms, message: str, by: str, metadata: Mapping[str, str]
) -> Commit:
    """Merge a hidden branch, whose commit is ``tip``, on its terms, as one commit; repeated within a week, the same one.
    Cost and errors as :class:`~graveler.requests.merging.Merge`; for a numbered write as of :func:`later_write`,
    too, and :class:`ConflictError` if a later one has come to the branch before this one: then nothing was changed."""
    joined = {TERMS: encode_terms(replace(terms, kind=Kind.STEP))} if terms.branch.startswith(HIDDEN) else {}
    merged = repository.merge(
        tip,
        terms.branch,
        message=message,
        committer=by,
        metadata={**metadata, **joined},
        squash=True,
        request_id=tip,  # whoever lost the answer, or died behind the merge, lands it again, and once
        unchanged_prefixes=terms.replaced,
        application=terms.application,
        beside_uncommitted=True,
    )
    application = terms.application
    later = None if application is None else later_write(repository, terms.branch, application)
    if application is not None and later is not None and later.id == merged.id:
        raise ConflictError(
            f"version {application.version} of application {application.id!r} was not written: branch {terms.branch!r} got a "
            f"later version meanwhile (commit {merged.id}), and an application writes its versions one after the other. If what "
            "this one has written is to be there as well, merge its branch (graveler merge)"
        )
    return merged


def later_write(repository: Reached, branch: str, application: Application) -> Commit | None:
    """The commit in which the branch got a later version of an application than this one; None if it has none. One table read;
    two, and the walk to the commit, if it has."""
    if application.version == LARGEST_VERSION:
        return None
    return repository.written_by(branch, replace(application, version=application.version + 1))


def encode_terms(terms: Terms) -> str:
    """As metadata."""
    return msgspec.json.encode(terms).decode()


def expect_free(repository: Reached, tag: str) -> None:
    """:class:`AlreadyExistsError` for a tag that is there. One request."""
    with suppress(RefNotFoundError):
        repository.tag(tag)
        raise AlreadyExistsError("tag", tag)


def give_tag(repository: Reached, tag: str, commit: CommitID, by: str) -> None:
    """Give a commit its tag, unless an earlier try of the same did."""
    try:
        repository.create_tag(tag, commit, by=by)
    except AlreadyExistsError:
        if repository.tag(tag).commit_id != commit:
            raise


def replaced_of(prefixes: Iterable[str], folders: Iterable[str]) -> tuple[str, ...]:
    """The prefixes; those of some thousand partitions as the datasets' folders, since metadata holds only so much."""
    distinct = tuple(dict.fromkeys(prefixes))
    if sum(map(len, distinct)) <= _MOST_BYTES:
        return distinct
    whole = [f"{folder}/" for folder in folders]
    return tuple(dict.fromkeys(_around(prefix, whole) for prefix in distinct))


def _description(folders: Sequence[str]) -> str:
    """A message for who gave none."""
    paths = list(dict.fromkeys(folders))
    return f"Write {', '.join(paths[:3])}{', …' if len(paths) > 3 else ''}" if paths else "Transaction"


def _around(prefix: str, folders: Sequence[str]) -> str:
    return next((folder for folder in folders if prefix.startswith(folder)), prefix)


class _Whole(Struct, frozen=True):
    """What is on a hidden branch: its head; its newest commit with work; the one that says what the transaction's commit is to
    say; the terms of what has not landed; and the commit that all of it became, if all has."""

    head: CommitID
    work: CommitID
    commit: Commit
    terms: Terms
    landed: CommitID | None


def _whole(repository: Reached, hidden: str) -> _Whole:
    """What is on a hidden branch. One request for each hundred steps."""
    replaced: list[str] = []
    noted: Terms | None = None
    has_landed = False
    head: CommitID | None = None
    work: CommitID | None = None
    after: CommitID | None = None
    while True:
        page = repository.log(head or hidden, after=after, first_parent=True)
        for commit in page.results:
            head = head or commit.id
            terms = _terms(hidden, commit)
            if terms.kind is Kind.LANDED:
                noted = noted or terms
                continue
            if terms.kind is Kind.BEGUN and work is None:
                raise NoChangesError(f"nothing to land: no step has written to transaction {hidden!r} yet")
            work = work or commit.id
            has_landed = has_landed or (noted is not None and noted.upto == commit.id)
            if not has_landed:
                replaced += terms.replaced
            if terms.kind is not Kind.STEP:
                terms = replace(terms, replaced=tuple(dict.fromkeys(replaced)))
                if noted is not None and noted.upto == work:
                    return _Whole(head, work, commit, replace(terms, tag=noted.tag), noted.landed)
                return _Whole(head, work, commit, terms, None)
        after = page.results[-1].id


def _terms(hidden: str, commit: Commit) -> Terms:
    encoded = commit.metadata.get(TERMS)
    if encoded is None:
        raise InvalidError(
            f"branch {hidden!r} is no finished transaction's; if its work is whole, commit it and merge the branch "
            "(graveler merge)"
        )
    try:
        return msgspec.json.decode(encoded, type=Terms)
    except UNREADABLE as error:
        raise InvalidError(f"branch {hidden!r}: its transaction's terms cannot be read: {error}") from None
