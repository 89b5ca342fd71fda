"""Comments on pull requests."""

from secrets import token_hex
from typing import Final

from graveler.errors import BusyError, InvalidError, PreconditionError, UnavailableError
from graveler.lake.clock import Backoff
from graveler.lake.context import Context
from graveler.lake.deadline import StoppedError
from graveler.lake.parts import RepositoryParts
from graveler.lake.pulls.approvals import actor_of
from graveler.lake.pulls.pull_changes import check_length
from graveler.lake.pulls.pull_store import PullStore, pull_number, result_number
from graveler.requests.pulls import CommentOnPullRequest, PullComment
from graveler.storage.tables.port import ConditionFailedError, Write

MAX_COMMENT: Final = 16 * 1024
"""The longest comment, in bytes of UTF-8."""
MAX_COMMENTS: Final = 1000
"""The most comments on one pull request."""


def comment_on_pull_request(
    repository: RepositoryParts, request: CommentOnPullRequest, context: Context
) -> PullComment:
    """See :class:`graveler.requests.pulls.CommentOnPullRequest`."""
    check_length("a comment", request.text, MAX_COMMENT)
    if not request.text.strip():
        raise InvalidError("a comment is empty; write something")
    pull = pull_number(request.pull)
    store = PullStore(repository.tables, repository.uid)
    actor = actor_of(context)
    backoff = Backoff(repository.clock)
    while True:
        if (earlier := _earlier(repository, store, pull, request.request_id)) is not None:
            return earlier
        number = store.last_comment(pull) + 1
        if number > MAX_COMMENTS:
            raise PreconditionError(f"pull request {pull} has {MAX_COMMENTS:,} comments, and more are not stored")
        now, mark = repository.clock.now(), token_hex(8)
        comment = PullComment(number, request.text, actor.name, actor.principal, int(now))
        writes: list[Write] = [store.comment_write(pull, comment, mark)]
        if request.request_id:
            writes.append(store.result_write(request.request_id, "comment", number, now))
        if context.only_while is not None:
            writes.append(context.only_while)
        try:
            repository.tables.transact(writes)
            return comment
        except ConditionFailedError as error:
            if store.has_mark(store.comment_key(pull, number), mark):
                return comment  # a retry within the adapter came upon its own first attempt
            if context.only_while is not None and len(writes) - 1 in error.failures:
                raise StoppedError("the comment was stopped; nothing was changed") from None
            if not backoff.wait():
                raise BusyError(f"too many comment on pull request {pull} at once; try again") from None
        except UnavailableError:
            if not store.has_mark(store.comment_key(pull, number), mark):
                raise
            return comment


def _earlier(repository: RepositoryParts, store: PullStore, pull: int, request_id: str) -> PullComment | None:
    """Return the comment that a request with this ID has made already. One table read, two if there is one.
    :class:`PullRequestNotFoundError`."""
    keys = [store.key(pull), *([store.result_key(request_id, "comment")] if request_id else [])]
    item, *results = repository.tables.get_many(keys)
    store.decode(pull, item)
    number = result_number(results[0]) if results else None
    stored = None if number is None else repository.tables.get(store.comment_key(pull, number))
    return None if stored is None else store.comment(stored)
