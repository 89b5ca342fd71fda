"""Requests of the lake as HTTP requests: path, query, document and result, by their endpoints."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, get_args, get_origin

from graveler import model
from graveler.errors import InvalidError
from graveler.history.names import check_branch
from graveler.remote.connection import SILENCE, Connection, Query, Response
from graveler.requests.base import CommitInfo, Request
from graveler.wire import documents, object_documents, status_documents
from graveler.wire.request_shapes import shape_of

T = TypeVar("T")

_BRANCHES = ("branch", "destination")
"""Parameters of paths that name a branch. Behind a gateway that decodes paths, the path of what no branch can be called may be
that of something else."""


def send(
    connection: Connection,
    repository: str,
    request: Request[Any],
    headers: Mapping[str, str] | None = None,
    passing: Sequence[int] = (),
    seconds: float = SILENCE,
) -> Response:
    """Send a request to its endpoint and return the response. ``passing`` and ``seconds`` as of :meth:`Connection.call`.
    :class:`InvalidError` for what no branch can be called, and for a creation time where the API accepts none."""
    shape = shape_of(type(request))
    endpoint = shape.endpoint
    info: CommitInfo | None = getattr(request, "info", None)
    if info is not None and endpoint.info != "dated":
        expect_no_date(info)
    parameters = {"repository": repository, **shape.path_of(request)}
    for name in _BRANCHES:
        if name in parameters:
            check_branch(parameters[name])
    path = [parameters[part[1:-1]] if part[:1] == "{" else part for part in endpoint.template.split("/")[1:]]
    query: Query = shape.query_of(request)
    key = "" if endpoint.method != "POST" else info.request_id if info else getattr(request, "request_id", "")
    document = shape.document_of(request)
    return connection.call(
        endpoint.method, path, query, document, headers=headers, key=key, passing=passing, seconds=seconds
    )


def expect_no_date(info: CommitInfo) -> None:
    """Refuse a creation time where the API accepts none, with :class:`InvalidError`."""
    if info.created is not None:
        raise InvalidError("a server accepts created only for commits of uncommitted changes; leave it out")


def read_result(request: Request[T], response: Response) -> T:
    """Return the result of a request, whose document depends on its type only."""
    result: Any = None
    match _result_of(type(request)):
        case model.Branch:
            result = response.read(documents.Ref).branch()
        case model.Tag:
            result = response.read(documents.Ref).tag()
        case model.Commit:
            result = response.read(documents.Commit).value()
        case model.ObjectEntry:
            result = response.read(object_documents.ObjectStats).entry()
        case model.Status:
            result = response.read(status_documents.Status).value()
    return result  # type: ignore[no-any-return]


@cache
def _result_of(kind: type[Request[Any]]) -> Any:
    """Return the type of a request's result."""
    for class_ in kind.__mro__:
        for base in getattr(class_, "__orig_bases__", ()):
            if issubclass(get_origin(base) or object, Request):
                (result,) = get_args(base)
                return result
    raise TypeError(kind)
