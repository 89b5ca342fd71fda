"""The landing of a transaction's work: at its end, or later, if something blocked it then; or by another process.

The metadata of the hidden branch's commit holds the terms of the landing: the target branch, the prefixes that must be unchanged,
the application whose numbered write it is, its tag. So a transaction that could not land keeps them with its work.

A transaction of several steps is a hidden branch that :func:`begin` creates, whose first commit is empty and has the terms. Each
step is a transaction on that branch, and its commit there adds the prefixes that the step requires to be unchanged.
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
from graveler.lake.context import Context
from graveler.lake.refs.hidden_branch import HIDDEN, hidden_name
from graveler.lake.repository import OpenRepository
from graveler.location.environment import ServedLake, user_name
from graveler.model import Application, Commit, CommitID
from graveler.requests import committing as requests
from graveler.requests.base import CommitInfo
from graveler.requests.merging import Merge
from graveler.requests.refs import CreateBranch, CreateTag, DeleteBranch, ReleaseBranch
from graveler.spark.handles import LakeLike, Reachable, Reached, reached
from graveler.spark.transaction_session import choose_session

TERMS: Final = "graveler.transaction"
"""The key of the terms in the hidden commit's metadata."""

_MOST_BYTES: Final = 1 << 17
"""Limit on the bytes of prefixes in a commit's metadata: some thousand partitions."""


class Kind(Enum):
    """The owner of the terms: a whole transaction, one that steps join, or such a step; or a transaction that has landed without
    its tag yet."""

    WHOLE = "whole"
    BEGUN = "begun"
    STEP = "step"
    LANDED = "landed"


class Terms(Struct, frozen=True):
    """The terms of a landing: on ``branch``, if nothing below the prefixes ``replaced`` changed since the transaction began.
    ``landed`` is the commit that it became with all work of its hidden branch up to the commit ``upto``."""

    branch: str
    replaced: tuple[str, ...] = ()
    application: Application | None = None
    tag: str | None = None
    kind: Kind = Kind.WHOLE
    landed: CommitID | None = None
    upto: CommitID | None = None


class Work(Struct, frozen=True):
    """The work of a transaction on its hidden branch: the prefixes that it replaced completely, the ``folders`` that it wrote,
    and the contents of the commit."""

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
    """Begin a transaction on ``branch`` that several steps join, each in its own process, sequentially or concurrently. Returns
    its ID, which is the name of a hidden branch. ::

        steps = graveler.spark.begin("sales", "main", message="Nightly")
        with graveler.spark.transaction("sales", steps) as tx:  # in each step
            tx.write(frame, "tables/events", mode="overwrite")
        graveler.spark.land("sales", steps)  # in the last one

    A step is a transaction on that branch: when its block ends, all of its writes become visible to the next ones, or none; one
    with an ``app_id`` may be repeated. :func:`land` makes one commit of all. Only the user ends such a transaction: to discard
    it, delete its branch. ``message``, ``metadata`` and ``tag`` are those of its commit.

    Cost: creating a branch and a commit, one table write. :class:`AlreadyExistsError` for the tag, errors of finding the lake and
    the branch.
    """
    by = user_name() if committer is None else committer
    if tag is not None:
        check_tag(tag)
    with reached(choose_session(spark, repository, lake), repository, lake) as opened:
        if not isinstance(opened, OpenRepository):
            opened.expect_permitted(branch)
        if tag is not None:
            expect_free(opened, tag)
        hidden = hidden_name()
        # It has an owner until it has its terms: if this process dies before, the branch is unknown to users, and a collector
        # removes it.
        owner = token_hex(16)
        opened.run(CreateBranch(name=hidden, source=branch, hidden=True, owner=owner), Context(by=by))
        all_metadata = {**(metadata or {}), TERMS: encode_terms(Terms(branch, tag=tag, kind=Kind.BEGUN))}
        info = CommitInfo(message or f"Transaction on {branch}", by, all_metadata)
        opened.run(requests.Commit(branch=hidden, info=info, allow_empty=True), Context(by=by))
        opened.run(ReleaseBranch(name=hidden, owner=owner))
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
    branch into its target branch, as its end would have done, with its message, metadata and tag (or another ``tag``); then
    delete the hidden branch.

    A kept transaction lands once the obstacle is gone: uncommitted changes committed or reset, conflicts and the like resolved on
    either branch. A dataset that it replaced and that was changed concurrently stays a :class:`graveler.errors.TouchedError`:
    ``graveler merge`` combines both, if that is wanted. The next landing finishes one that died at any point. Cost: merging and
    deleting a branch; with a tag, a commit more. :class:`InvalidError` for a branch without a finished transaction,
    :class:`NoChangesError` if no step has finished; otherwise errors as of :func:`graveler.spark.transaction`.
    """
    by = user_name() if committer is None else committer
    if tag is not None:
        check_tag(tag)
    with reached(choose_session(spark, repository, lake), repository, lake) as opened:
        whole = _whole(opened, hidden)
        named = tag or whole.terms.tag
        if whole.landed is not None:
            merged = opened.commit_of(whole.landed)
        else:
            if named is not None:
                expect_free(opened, named)
            metadata = {key: value for key, value in whole.commit.metadata.items() if key != TERMS}
            merged = merge_hidden(opened, whole.work, whole.terms, whole.commit.message, by, metadata)
            if named is not None:
                _note_landed(opened, hidden, whole, named, merged, by)
        if named is not None:
            give_tag(opened, named, merged.id, by)
        _delete(opened, hidden, whole, merged, by)
        return merged


def _note_landed(repository: Reached, hidden: str, whole: "_Whole", tag: str | None, merged: Commit, by: str) -> None:
    """Record on the hidden branch which commit it became: a repeated landing, after a crash or a late step, learns from it
    whether an existing tag is its own, and what is still to land."""
    landed = Terms(whole.terms.branch, tag=tag, kind=Kind.LANDED, landed=merged.id, upto=whole.work)
    terms = {TERMS: encode_terms(landed)}
    with suppress(RefNotFoundError):  # landed concurrently by another process
        info = CommitInfo(f"Landed on {landed.branch}", by, terms)
        repository.run(requests.Commit(branch=hidden, info=info, allow_empty=True))


def _delete(repository: Reached, hidden: str, landed: "_Whole", merged: Commit, by: str) -> None:
    """Delete the hidden branch of a landing, unless a step has written to it since."""
    with suppress(RefNotFoundError):  # landed concurrently by another process
        while (unlanded := _whole(repository, hidden)).work == landed.work:
            with suppress(MovedError):
                repository.run(DeleteBranch(name=hidden, at=unlanded.head), Context(by=by))
                return
        _note_landed(repository, hidden, landed, landed.terms.tag, merged, by)
        raise BusyError(
            f"transaction {hidden!r} has landed as commit {merged.id}, without what a step has written since then; land it "
            "again, with another tag if it has one"
        )


def finish(repository: Reached, hidden: str, work: Work, by: str, *, allow_empty: bool, keep: bool) -> Commit | None:
    """Commit the hidden branch, with everything that :func:`land` needs, and merge it; return None if ``allow_empty`` and nothing
    was done. With ``keep``, an error of the merge carries the hidden branch as :attr:`GravelerError.kept`. Cost: a commit and a
    merge, with a tag one table read. Errors of both."""
    description = work.message or _description(work.folders)
    terms = Terms(work.branch, replaced_of(work.replaced, work.folders), work.application, work.tag)
    try:
        info = CommitInfo(description, by, {**work.metadata, TERMS: encode_terms(terms)})
        commit = repository.run(requests.Commit(branch=hidden, info=info), Context(by=by))
    except NoChangesError:
        if allow_empty:
            return None
        raise no_changes(work.branch, "its writes changed nothing") from None
    try:
        if work.tag is not None:
            expect_free(repository, work.tag)  # the merge cannot be undone
        exact = replace(terms, replaced=tuple(dict.fromkeys(work.replaced)))
        # The commit, not the branch, as in :func:`land`: to a server both are the same request.
        return merge_hidden(repository, commit.id, exact, description, by, work.metadata)
    except GravelerError as error:
        if keep and not isinstance(error, NoChangesError):
            error.kept = hidden
        raise


def no_changes(branch: str, reason: str) -> NoChangesError:
    """Return the error for a transaction that may not end without a commit, and has nothing to commit. The hidden branch means
    nothing to the user."""
    return NoChangesError(
        f"nothing to commit in the transaction on {branch!r}: {reason}; allow_empty=True (of the data source allowEmpty) lets it "
        "end without a commit"
    )


def merge_hidden(
    repository: Reached, tip: CommitID, terms: Terms, message: str, by: str, metadata: Mapping[str, str]
) -> Commit:
    """Merge a hidden branch, whose commit is ``tip``, on its terms, as one commit; a repetition within a week returns the same
    one. Cost and errors as :class:`~graveler.requests.merging.Merge`; for a numbered write also as :func:`later_write`, and
    :class:`ConflictError` if a later one has reached the branch before: then nothing was changed."""
    joined = {TERMS: encode_terms(replace(terms, kind=Kind.STEP))} if terms.branch.startswith(HIDDEN) else {}
    merged = repository.run(
        Merge(
            source=tip,
            destination=terms.branch,
            # The request ID: after a lost response or a crash, a retry lands it once.
            info=CommitInfo(message, by, {**metadata, **joined}, request_id=tip),
            squash=True,
            unchanged_prefixes=tuple(terms.replaced),
            application=terms.application,
            beside_uncommitted=True,
        ),
        Context(by=by),
    )
    application = terms.application
    later = None if application is None else later_write(repository, terms.branch, application)
    if application is not None and later is not None and later.id == merged.id:
        raise ConflictError(
            f"version {application.version} of application {application.id!r} was not written: branch {terms.branch!r} has got a "
            f"later version meanwhile (commit {merged.id}), and an application writes its versions in order. If its "
            "changes are needed as well, merge its branch (graveler merge)"
        )
    return merged


def later_write(repository: Reached, branch: str, application: Application) -> Commit | None:
    """Return the commit that brought a later version of an application than this one to the branch, or None. One table read; two,
    and the walk to the commit, if it exists."""
    if application.version == LARGEST_VERSION:
        return None
    return repository.written_by(branch, replace(application, version=application.version + 1))


def encode_terms(terms: Terms) -> str:
    """Return them as metadata."""
    return msgspec.json.encode(terms).decode()


def expect_free(repository: Reached, tag: str) -> None:
    """Raise :class:`AlreadyExistsError` for an existing tag. One request."""
    with suppress(RefNotFoundError):
        repository.tag(tag)
        raise AlreadyExistsError("tag", tag)


def give_tag(repository: Reached, tag: str, commit: CommitID, by: str) -> None:
    """Create the tag of a commit, unless an earlier attempt of the same has done so."""
    try:
        repository.run(CreateTag(name=tag, ref=commit), Context(by=by))
    except AlreadyExistsError:
        if repository.tag(tag).commit_id != commit:
            raise


def replaced_of(prefixes: Iterable[str], folders: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes; for more than some thousand partitions the datasets' folders instead, since metadata is limited."""
    distinct = tuple(dict.fromkeys(prefixes))
    if sum(map(len, distinct)) <= _MOST_BYTES:
        return distinct
    whole = [f"{folder}/" for folder in folders]
    return tuple(dict.fromkeys(_around(prefix, whole) for prefix in distinct))


def _description(folders: Sequence[str]) -> str:
    """Return a default message."""
    paths = list(dict.fromkeys(folders))
    return f"Write {', '.join(paths[:3])}{', …' if len(paths) > 3 else ''}" if paths else "Transaction"


def _around(prefix: str, folders: Sequence[str]) -> str:
    return next((folder for folder in folders if prefix.startswith(folder)), prefix)


class _Whole(Struct, frozen=True):
    """The content of a hidden branch: its head; its newest commit with work; the one with the message and metadata of the
    transaction's commit; the terms of what has not landed; and the commit that all of it became, if it has landed."""

    head: CommitID
    work: CommitID
    commit: Commit
    terms: Terms
    landed: CommitID | None


def _whole(repository: Reached, hidden: str) -> _Whole:
    """Return the content of a hidden branch. One request per hundred steps."""
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
            f"branch {hidden!r} does not belong to a finished transaction; if its work is complete, commit it and merge the "
            "branch (graveler merge)"
        )
    try:
        return msgspec.json.decode(encoded, type=Terms)
    except UNREADABLE as error:
        raise InvalidError(f"branch {hidden!r}: its transaction's terms cannot be read: {error}") from None
