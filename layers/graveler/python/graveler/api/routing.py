"""The routing of methods and paths to handlers.

Paths are split at ``/`` before each segment is percent-decoded, so an encoded slash is part of a name. Literal segments win over
parameters. Paths are neither normalized nor redirected: an empty segment in the middle is a 400, as clients expect.

A gateway that decodes paths before anybody sees them makes the slash of a name a separator like any other. There a router
``joins`` segments: if no template matches segment by segment, the parameters in :data:`JOINED` may take several, the first ones
as few as possible. Design record 15 has the reasons, and the names that cannot be told apart.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cached_property
from typing import Any, Final, NamedTuple, Required, TypeAlias, TypedDict, TypeVar, Unpack
from urllib.parse import unquote

import msgspec

from graveler.api.call import Call
from graveler.api.errors import UNKNOWN_ROUTE, ApiError, bad_request
from graveler.api.queries import Query, query_of, read_query
from graveler.api.response import Response
from graveler.errors import UNREADABLE
from graveler.requests.base import Function, Permission, Request
from graveler.wire.error_documents import UNKNOWN_ROUTE_CODE
from graveler.wire.request_shapes import RequestShape, shape_of

Handler = Callable[..., Response]
H = TypeVar("H", bound=Handler)
Needs: TypeAlias = Permission | type[Request[Any]] | tuple[type[Request[Any]], ...] | None
"""The caller's required permissions: the needs of the requests that a route runs, or else a permission; None: nothing."""

JOINED: Final = frozenset(("commit_id", "left", "ref", "right", "source", "tag", "user"))
"""Names of path parameters whose values may hold a slash. A repository and a branch, which permissions are for, never do."""
_JOINABLE: Final = 256
"""The segments of the longest path that is joined: no name of a ref has more than 128."""

_RECENT: Final = 1024
_RECENT_LENGTH: Final = 256
"""Limits of the route cache, in entries and in characters of a path: any client may request anything."""

SAFE: Final = ("GET", "HEAD")
"""Methods that change nothing."""
_BRANCH_PARAMETERS: Final = ("branch", "destination")
"""Names of path parameters that hold the branch that a changing route changes."""
_REFS: Final = ("ref", "left", "right")
"""Names of path parameters that hold a ref that is read."""
_SECRETS: Final = ("/auth/", "/setup_lakefs")
"""Beginnings of paths whose responses hold tokens and keys."""
_PATH_PARAMETERS: Final = ("path", "dest_path")
"""Names of query parameters that hold the object that a route changes."""


class BodyKind(Enum):
    """The size class of a route's request bodies."""

    SMALL = "small"
    """For routes that need no key, or no body."""
    JSON = "json"
    UPLOAD = "upload"


class Handling(NamedTuple):
    """The needs of a request that a server has to know before it has the body: its size class, whether it may take long because
    it reads all of a ref or of a history, and whether it needs so little, all of it cached, that it needs no thread."""

    body_kind: BodyKind = BodyKind.SMALL
    scans: bool = False
    short: bool = False


class RouteOptions(TypedDict, total=False):
    """Options of a route, besides its method, path, operation and needs; see :class:`Route`."""

    responses: Required[Mapping[int, Any]]
    response_headers: Mapping[str, str]
    raw_body: bool
    branch_in_body: bool
    scans: bool
    short: bool
    lasts: bool
    function: Function


class Route:
    """One operation.

    ``requests`` are the lake's requests that it may run, which define what it needs. ``responses`` maps each status to the
    document of its body (``str``: plain text; None: no body); ``response_headers`` describes the headers of a successful
    response. ``raw_body``: the body is bytes that the handler reads itself. ``branch_in_body``: the handler itself requires the
    permission, once it knows the branch. A route that ``scans`` may read a whole ref, or a history; its path ends with a word. A
    ``short`` one reads little, all of it cached, and writes to the table once at most: a server may handle it without a thread
    (:mod:`graveler.system.pauses`). If a route ``lasts``, its response never changes where all of its refs are IDs of commits
    (:mod:`graveler.api.immutable_responses`). ``function`` answers it on Lambda, by default the one for its method.
    """

    def __init__(
        self,
        method: str,
        template: str,
        operation: str,
        needs: Needs,
        handler: Handler,
        tag: str,
        options: RouteOptions,
    ) -> None:
        self.method = method
        self.template = template
        self.operation = operation
        self.permission, self.requests = _declared(needs)
        self.handler = handler
        self.responses = options["responses"]
        self.tag = tag
        self.raw_body = options.get("raw_body", False)
        self.branch_in_body = options.get("branch_in_body", False)
        self.response_headers = options.get("response_headers", {})
        self.scans = options.get("scans", False)
        self.short = options.get("short", False)
        self.lasting_refs = [name for name in _REFS if f"{{{name}}}" in template] if options.get("lasts") else []
        """The path parameters of which all must be IDs of commits for the response to last."""
        self.holds_secrets = template.startswith(_SECRETS)
        self.function = options.get("function") or ("read" if method in SAFE else "write")
        self.branch_parameter = next((name for name in _BRANCH_PARAMETERS if f"{{{name}}}" in template), None)
        self.changes = method not in SAFE and self.permission not in (None, Permission.READ)
        kinds = handler.__annotations__
        self._request: type[Request[Any]] | None = kinds.get("request")
        self._query: type[Query] | None = kinds.get("query")
        self._body: Any = kinds.get("body")
        endpoint = None if self._request is None else self._request.endpoint
        self.has_body = self._body is not None or (endpoint is not None and bool(endpoint.body))
        """Whether it has a JSON document."""
        self.handling = Handling(self.body_kind, self.scans, self.short)

    @cached_property
    def shape(self) -> RequestShape[Any] | None:
        """The places of the fields of the request that its handler takes, if it takes one."""
        return None if self._request is None else shape_of(self._request)

    @cached_property
    def query(self) -> type[Query] | None:
        """The type of its query, if it has one."""
        return self._query or (query_of(self.shape) if self.shape is not None and self.shape.query else None)

    @cached_property
    def body_type(self) -> Any:
        """The type of its document, if it has one."""
        return self._body if self.shape is None else self._body or self.shape.body

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self.body_type)

    @cached_property
    def path_parameter(self) -> str | None:
        """The query parameter that holds the object that the route changes."""
        return next((name for name in _PATH_PARAMETERS if self.query and name in self.query.__struct_fields__), None)

    @property
    def body_kind(self) -> BodyKind:
        """The size class of its requests' bodies."""
        if self.permission is None:
            return BodyKind.SMALL
        return BodyKind.UPLOAD if self.raw_body else BodyKind.JSON if self.has_body else BodyKind.SMALL

    def answer(self, call: Call, parameters: Mapping[str, str], pairs: list[tuple[str, str]]) -> Response:
        """Parse the parameters and call the handler."""
        query = None if self.query is None else read_query(self.query, pairs)
        body = _read_body(self._decoder, call.body_bytes()) if self.has_body else None
        if self.shape is not None:
            request = self.shape.request_of(parameters, query, body, call.committer, call.force)
            if self._query is None:
                return self.handler(call, parameters["repository"], request)
            return self.handler(call, parameters["repository"], request, query)
        parsed: dict[str, Any] = {}
        if query is not None:
            parsed["query"] = query
        if body is not None:
            parsed["body"] = body
        return self.handler(call, **parameters, **parsed)

    def permit(self, call: Call, parameters: Mapping[str, str]) -> None:
        """Raise unless the caller has the permission."""
        if self.permission is not None:
            needed = Permission.READ if self.branch_in_body else self.permission
            branch = parameters[self.branch_parameter] if self.branch_parameter else ""
            call.identity.require(needed, parameters.get("repository", ""), branch)


class Routes:
    """The routes of one resource group, in the order of their declaration."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.routes: list[Route] = []

    def run(
        self, kind: type[Request[Any]], *, also: tuple[type[Request[Any]], ...] = (), **options: Unpack[RouteOptions]
    ) -> Callable[[H], H]:
        """Declare the operation of a request's endpoint, which may ``also`` run others. The handler takes the call, the
        repository's name, the request, and perhaps a query of its own."""
        endpoint = kind.endpoint
        assert endpoint is not None, kind
        options.setdefault("function", endpoint.function)
        needs = (kind, *also)
        return self.route(endpoint.method, endpoint.template, endpoint.operation, needs, **options)

    def get(self, template: str, operation: str, needs: Needs, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        """Declare a GET."""
        return self.route("GET", template, operation, needs, **options)

    def post(self, template: str, operation: str, needs: Needs, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        """Declare a POST."""
        return self.route("POST", template, operation, needs, **options)

    def put(self, template: str, operation: str, needs: Needs, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        """Declare a PUT."""
        return self.route("PUT", template, operation, needs, **options)

    def delete(self, template: str, operation: str, needs: Needs, **options: Unpack[RouteOptions]) -> Callable[[H], H]:
        """Declare a DELETE."""
        return self.route("DELETE", template, operation, needs, **options)

    def route(
        self, method: str, template: str, operation: str, needs: Needs, **options: Unpack[RouteOptions]
    ) -> Callable[[H], H]:
        """Declare a route of any method. The types of ``request``, ``query`` and ``body`` come from the handler's annotations."""

        def declare(handler: H) -> H:
            self.routes.append(Route(method, template, operation, needs, handler, self.tag, options))
            return handler

        return declare


def _declared(needs: Needs) -> tuple[Permission | None, tuple[type[Request[Any]], ...]]:
    if needs is None or isinstance(needs, Permission):
        return needs, ()
    requests = needs if isinstance(needs, tuple) else (needs,)
    (permission,) = {request.permission for request in requests}
    return permission, requests


class _Node:
    """A node of the routing tree, with what may follow it in a path."""

    __slots__ = ("is_joined", "literals", "parameter", "routes")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.routes: dict[str, tuple[Route, tuple[tuple[int, str], ...]]] = {}
        self.is_joined = False
        """Whether it is a parameter in :data:`JOINED`."""


class Router:
    """The routes below ``base``, searchable by request. Of two that declare the same method and path the first counts. With
    ``joins``, a parameter in :data:`JOINED` may take several segments."""

    def __init__(self, groups: Iterable[Routes], base: str = "", *, joins: bool = False) -> None:
        self._root = _Node()
        self._base = base
        self._joins = joins
        self._recent: dict[tuple[str, str], tuple[Route, Mapping[str, str]]] = {}
        """A cache of recent requests, since most are repeated."""
        self.routes: list[Route] = []
        for route in [route for group in groups for route in group.routes]:
            node = self._root
            names = []
            for index, segment in enumerate(route.template.split("/")[1:]):
                if segment[:1] == "{":
                    names.append((index, segment[1:-1]))
                    node.parameter = node.parameter or _Node()
                    node = node.parameter
                    node.is_joined = segment[1:-1] in JOINED
                else:
                    node = node.literals.setdefault(segment, _Node())
            if route.method not in node.routes:
                node.routes[route.method] = (route, tuple(names))
                self.routes.append(route)

    def find(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        """Return the route of a raw path, which begins with the router's ``base``, and its decoded parameters, which are shared
        between calls. :class:`ApiError`: 400 for an empty segment, 404 for an unknown path, 405 for a method that the path does
        not have."""
        match = self._recent.get((method, path))
        if match is None:
            match = self._search(method, path)
            if len(path) <= _RECENT_LENGTH:
                if len(self._recent) >= _RECENT:
                    self._recent.clear()
                self._recent[method, path] = match
        return match

    def _search(self, method: str, path: str) -> tuple[Route, Mapping[str, str]]:
        segments = (path[len(self._base) :] or "/").split("/")[1:]
        if "" in segments[:-1]:
            raise bad_request(f"path {path[:200]!r} has an empty segment, where a name is missing")
        match = self._matched(segments, method)
        if match is None:
            other_methods = self._matched(segments, None)
            if other_methods is None:
                raise ApiError(404, UNKNOWN_ROUTE, code=UNKNOWN_ROUTE_CODE)
            allowed = ", ".join(sorted(other_methods[0].routes))
            raise ApiError(405, f"{method} is not allowed here; allowed: {allowed}", {"allow": allowed})
        node, segments = match
        route, names = node.routes[method]
        return route, {name: _decoded(segments[index]) for index, name in names}

    def _matched(self, segments: list[str], method: str | None) -> "tuple[_Node, list[str]] | None":
        """Return the node that has a route for the method (any: None), and the segments with those of one parameter joined."""
        node = _match(self._root, segments, 0, method)
        if node is not None:
            return node, segments
        if not self._joins or len(segments) > _JOINABLE or "" in segments:
            return None
        return _match_joined(self._root, segments, 0, method)


def _match(node: _Node, segments: list[str], index: int, method: str | None) -> _Node | None:
    """Return the node at the end of the path that has a route for the method (any: None)."""
    if index == len(segments):
        return node if (method in node.routes if method else node.routes) else None
    segment = segments[index]
    below = node.literals.get(segment)
    if below is not None:
        match = _match(below, segments, index + 1, method)
        if match is not None:
            return match
    if node.parameter is not None and segment:
        return _match(node.parameter, segments, index + 1, method)
    return None


def _match_joined(node: _Node, segments: list[str], index: int, method: str | None) -> "tuple[_Node, list[str]] | None":
    """Return what :func:`_match` does, where parameters may take several segments, and the segments from ``index`` on with those
    of one parameter joined."""
    if index == len(segments):
        return (node, []) if (method in node.routes if method else node.routes) else None
    below = node.literals.get(segments[index])
    if below is not None:
        match = _match_joined(below, segments, index + 1, method)
        if match is not None:
            return match[0], [segments[index], *match[1]]
    if node.parameter is not None:
        for end in range(index + 1, len(segments) + 1 if node.parameter.is_joined else index + 2):
            match = _match_joined(node.parameter, segments, end, method)
            if match is not None:
                return match[0], ["/".join(segments[index:end]), *match[1]]
    return None


def _decoded(segment: str) -> str:
    if "%" not in segment:
        return segment
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise bad_request(f"path segment {segment[:200]!r} is not UTF-8 after percent-decoding") from None


def _read_body(decoder: msgspec.json.Decoder[Any], data: bytes) -> Any:
    try:
        return decoder.decode(data or b"{}")
    except UNREADABLE as error:
        raise bad_request(f"request body: {error}") from None
    except RecursionError:
        raise bad_request("request body: nested too deeply") from None
