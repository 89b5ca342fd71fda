"""A request comes back from the path, the query and the document that ask for it."""

from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from graveler.api.queries import query_of, read_query
from graveler.requests import merging
from graveler.requests.base import Request
from graveler.wire.request_shapes import shape_of
from tests.remote.test_requests_sent import variants

REQUESTS = {name: request for name, request in variants() if request.endpoint is not None}


def received(request: Request[Any], *, force: bool = True) -> Request[Any]:
    """The request that a server reads from what a client sends."""
    shape = shape_of(type(request))
    body = msgspec.json.encode(shape.document_of(request))
    document = None if shape.body is None else msgspec.json.decode(body, type=shape.body)
    query: Struct | None = None
    if shape.query:
        pairs = [(name, str(value)) for name, value in shape.query_of(request).items() if value is not None]
        query = read_query(query_of(shape), pairs)
    request_: Request[Any] = shape.request_of(shape.path_of(request), query, document, "me", lambda _: force)
    return request_


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_comes_back_from_what_is_sent(name: str) -> None:
    request = REQUESTS[name]
    shape = shape_of(type(request))
    expected = request
    if shape.has_info:
        info = request.info  # type: ignore[attr-defined]
        date = info.created if shape.endpoint.info == "dated" else None
        expected = replace(request, info=replace(info, author="me", request_id="", created=date))
    if hasattr(request, "request_id"):
        expected = replace(request, request_id="")
    assert received(request) == expected


def test_what_a_document_leaves_out_has_the_default_of_the_request() -> None:
    shape = shape_of(merging.Merge)
    assert shape.body is not None
    document = msgspec.json.decode(b"{}", type=shape.body)
    request = shape.request_of({"source": "s", "destination": "d"}, None, document, "", bool)
    assert request == merging.Merge(source="s", destination="d")


def test_force_counts_only_if_the_client_may_force() -> None:
    request = merging.Merge(source="s", destination="d", force=True)
    assert received(request, force=True).force  # type: ignore[attr-defined]
    assert not received(request, force=False).force  # type: ignore[attr-defined]
