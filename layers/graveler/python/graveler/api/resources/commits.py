"""Commits: create, inspect, list a history."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta

from graveler import model
from graveler.api.background import answer
from graveler.api.call import Call
from graveler.api.errors import ApiError, bad_request
from graveler.api.idempotency import with_id
from graveler.api.immutable_responses import MAY_CHANGE
from graveler.api.queries import DEFAULT_AMOUNT, Amount, Query, Seconds, chosen_names
from graveler.api.response import Response, json_response
from graveler.api.routing import Routes
from graveler.errors import NoChangesError
from graveler.history.commits import is_commit_id
from graveler.history.relative_times import AGO_EXAMPLES, seconds_ago
from graveler.lake.reading.refs_at_commits import RefsAtCommits, refs_at_commits
from graveler.model import CommitID, MetarangeName
from graveler.requests import committing
from graveler.requests.base import Permission
from graveler.wire.documents import (
    Commit,
    CommitList,
    CommitLog,
    CommitRef,
    LoggedCommit,
    commit_document,
    pagination,
    results,
)
from graveler.wire.error_documents import Error
from graveler.wire.operation_documents import OperationDocument

routes = Routes("commits")

_WALK_SECONDS: Final = 5.0
"""Time for the walk of a log that is searched for an author or a text."""
_MESSAGE: Final = 200
"""Characters of a message, where only some members of a commit are asked for."""
_MEMBERS: Final = (*Commit.__struct_fields__, "refs")


class CommitQuery(Query, frozen=True, kw_only=True):
    """The commit to create. ``source_metarange``: commit this existing metarange instead of the branch's uncommitted changes;
    with ``parent``, a commit's whole ID, only if that is the branch's head (else 409)."""

    source_metarange: str = ""
    parent: str = ""


class CommitOfQuery(Query, frozen=True, kw_only=True):
    """``kept``: 410 for an expired commit, whose objects may be gone. A graveler extension."""

    kept: bool = False


class LogQuery(Query, frozen=True, kw_only=True):
    """The commits to list. ``objects`` or ``prefixes`` (both may repeat) keep only those that changed one of them; ``limit``:
    stop at ``amount``, without a next page; ``stop_at``: the commit of this ref is the last one.
    ``author``: only commits of this committer; ``text``: only those whose message has it, in upper or lower case."""

    after: Annotated[str, Meta(description="a commit, or the `next_offset` of the previous page")] = ""
    amount: Amount = DEFAULT_AMOUNT
    objects: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    limit: bool = False
    first_parent: bool = False
    since: Annotated[
        str, Meta(description=f"only commits since then: RFC 3339, or a time ago, such as {AGO_EXAMPLES}")
    ] = ""
    stop_at: str = ""
    author: str = ""
    text: str = ""
    within: Annotated[
        Seconds | None,
        Meta(
            description="time for the walk: a page that takes longer ends early, perhaps without results, with `has_more` and an "
            "offset that continues; with `author` or `text`, 5 if there is none"
        ),
    ] = None
    fields: Annotated[
        str,
        Meta(
            description="only these members of each commit, with commas between them; `refs` are the branches and tags that "
            "point at it; messages are cut at 200 characters, with `message_truncated`"
        ),
    ] = ""

    @property
    def results(self) -> int:
        """The number of commits per page."""
        return self.amount if self.amount > 0 else DEFAULT_AMOUNT

    @property
    def seconds(self) -> float | None:
        """The time for the walk, if it has one."""
        return _WALK_SECONDS if self.within is None and (self.author or self.text) else self.within

    @property
    def members(self) -> Sequence[str]:
        """The members of each commit, if the request names some. :class:`ApiError` for a name that is none."""
        return chosen_names("fields", self.fields, _MEMBERS)


@routes.run(
    committing.Commit,
    also=(committing.CommitMetarange,),
    responses={
        201: Commit,
        202: OperationDocument,
        400: Error,
        403: Error,
        404: Error,
        409: Error,
        412: Error,
    },
)
def commit(call: Call, repository: str, request: committing.Commit, query: CommitQuery) -> Response:
    """Commit all uncommitted changes of a branch."""
    try:
        if not query.source_metarange and not query.parent:
            return answer(call, repository, request, _created)
        of_metarange = committing.CommitMetarange(
            branch=request.branch,
            metarange=MetarangeName(query.source_metarange),
            parent=CommitID(query.parent) if query.parent else None,
            info=request.info,
            allow_empty=request.allow_empty,
            force=request.force,
        )
        if call.request_key:
            of_metarange = with_id(call, of_metarange)
        return _created(call.run(repository, of_metarange))
    except NoChangesError as error:
        raise ApiError(400, "commit: no changes", cause=error) from None


def _created(commit: model.Commit) -> Response:
    return json_response(commit_document(commit), 201)


@routes.get(
    "/repositories/{repository}/commits/{commit_id}",
    "getCommit",
    Permission.READ,
    responses={200: Commit, 400: Error, 404: Error, 410: Error},
    short=True,
)
def get_commit(call: Call, repository: str, commit_id: str, query: CommitOfQuery) -> Response:
    """Describe the commit of any ref expression."""
    opened = call.lake.repository(repository, commit_id)
    commit = opened.commit_of(commit_id)
    if query.kept:
        opened.expect_kept(commit_id)
    return json_response(commit_document(commit))


@routes.get(
    "/repositories/{repository}/refs/{ref}/commits",
    "logCommits",
    Permission.READ,
    responses={200: CommitLog, 400: Error, 404: Error},
    scans=True,
    lasts=True,
)
def log_commits(call: Call, repository: str, ref: str, query: LogQuery) -> Response:
    """List the commits reachable from a ref, newest first."""
    members = query.members
    opened = call.lake.repository(repository)
    after = query.after
    if after and not is_commit_id(after.partition(".")[0]):
        after = opened.commit_of(after).id
    page = opened.log(
        ref,
        after=CommitID(after) if after else None,
        amount=query.results,
        first_parent=query.first_parent,
        since=_seconds(query.since) if query.since else None,
        stop_at=query.stop_at or None,
        paths=query.objects,
        prefixes=query.prefixes,
        author=query.author,
        text=query.text,
        limit=query.limit,
        within=query.seconds,
    )
    # What may be a branch's name, refs, a time ago, and a page that has ended by the clock are others next time.
    is_whole = query.seconds is None or len(page.results) == query.results or not (page.next_after or query.limit)
    is_fixed = after == query.after and not query.stop_at and "refs" not in members and seconds_ago(query.since) is None
    headers = {} if is_fixed and is_whole else MAY_CHANGE
    if not members:
        return json_response(CommitList(pagination(page), results(page, commit_document)), headers=headers)
    refs = refs_at_commits(opened) if "refs" in members and page.results else RefsAtCommits({}, more=False)
    logged = results(page, lambda commit: _logged(commit, members, refs))
    return json_response(CommitLog(pagination(page), logged, True if refs.more else UNSET), headers=headers)


def _logged(commit: model.Commit, members: Sequence[str], refs: RefsAtCommits) -> LoggedCommit:
    """Return some members of a commit."""
    document = commit_document(commit)
    values: dict[str, Any] = {name: getattr(document, name) for name in members if name != "refs"}
    if "message" in values and len(commit.message) > _MESSAGE:
        values.update(message=commit.message[:_MESSAGE], message_truncated=True)
    if "refs" in members:
        values["refs"] = [
            CommitRef("branch" if isinstance(ref, model.Branch) else "tag", ref.name)
            for ref in refs.by_commit.get(commit.id, ())
        ]
    return LoggedCommit(**values)


def _seconds(text: str) -> int:
    """Return the Unix seconds of an RFC 3339 time, rounded up to a whole second, without a zone in UTC; or of a time ago."""
    if (ago := seconds_ago(text)) is not None:
        return int(time.time()) - ago
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return -int(-moment.timestamp() // 1)
    except (ValueError, OverflowError):
        raise bad_request(
            f"since={text[:80]!r} is not a time; write one like 2025-01-31T12:00:00Z, or how long ago ({AGO_EXAMPLES})"
        ) from None
