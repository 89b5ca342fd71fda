"""Parts of a catalog's requests that its routes share: names, pages, the author of a commit, the reader of a ref."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from graveler.api.call import Call
from graveler.api.errors import bad_request
from graveler.api.idempotency import request_id
from graveler.api.staging import require_source
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.model import Commit, Page
from graveler.requests.base import CommitInfo, Request
from graveler.requests.iceberg import Identifier

T = TypeVar("T")

SEPARATOR: Final = "\x1f"
"""Between the levels of a namespace in a path."""
_PAGE: Final = 1000


class NamedRelation(Struct, frozen=True):
    """The name of a table or a view in a document."""

    namespace: tuple[str, ...]
    name: str

    def identifier(self) -> Identifier:
        """Return it as the lake names it."""
        return Identifier(self.namespace, self.name)


def levels(text: str) -> tuple[str, ...]:
    """Return the levels of a namespace in a path or a query."""
    return tuple(text.split(SEPARATOR))


def identifier(namespace: str, name: str) -> Identifier:
    """Return the identifier of a table or a view in a path."""
    return Identifier(levels(namespace), name)


def commit_info(call: Call) -> CommitInfo:
    """Return the author of a commit, and the ID under which a repeated request gets its result. Cost and refusals as of
    :func:`graveler.api.idempotency.request_id`."""
    return CommitInfo(author=call.committer, request_id=request_id(call))


def run(call: Call, repository: str, request: Request[T]) -> T:
    """Run a request whose tables may name files in import sources that the caller may read. Where the process is stopped at the
    end of the call's time, the request does not wait for longer. One table read, and the request."""
    opened = call.lake.repository(repository)
    context = replace(call.context(), expect_source=partial(require_source, call, opened))
    if call.is_bounded:
        context = replace(context, stop=lambda: call.seconds_left() <= 0)
    return opened.run(request, context)


def reader(call: Call, repository: str, ref: str, commit: Commit | None = None) -> CatalogReader:
    """Return the reader of a branch's head or of a commit; of ``commit`` without a request. One table read for the repository,
    and resolving the ref."""
    parts = call.lake.repository(repository).parts
    return CatalogReader(parts, ref, commit)


def page_of(read: Callable[[str, int], Page[T]], token: str, size: int) -> tuple[list[T], str | None]:
    """Return the results of a page and the token of the next one; all results if the client names neither a token nor a size."""
    try:
        after = bytes.fromhex(token).decode()
    except ValueError:
        raise bad_request(
            f"pageToken {token[:80]!r} was not returned by a listing; leave it out to start from the beginning"
        ) from None
    if token or size:
        page = read(after, min(size or _PAGE, _PAGE))
        return list(page.results), None if page.next_after is None else page.next_after.encode().hex()
    results: list[T] = []
    while True:
        page = read(after, _PAGE)
        results += page.results
        if page.next_after is None:
            return results, None
        after = page.next_after
