"""The routing of methods and paths to handlers.

Paths are split at ``/`` before each segment is percent-decoded, so an encoded slash is part of a name. Literal segments win over
parameters. Paths are neither normalized nor redirected: an empty segment in the middle is a 400, as clients expect.

A gateway that decodes paths before anybody sees them makes the slash of a name a separator like any other. There a router
``joins`` segments: if no template matches segment by segment, the parameters in :data:`JOINED` may take several, the first ones
as few as possible. Design record 15 has the reasons, and the names that cannot be told apart.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import unquote

import msgspec

from graveler.api.call import Call
from graveler.api.errors import UNKNOWN_ROUTE, ApiError, bad_request
from graveler.api.queries import Query, read_query
from graveler.api.response import Response
from graveler.errors import UNREADABLE
from graveler.requests.base import Permission, Request
from graveler.wire.errors import UNKNOWN_ROUTE_CODE

Handler = Callable[..., Response]
H = TypeVar("H", bound=Handler)
Needs: TypeAlias = Permission | type[Request[Any]] | tuple[type[Request[Any]], ...] | None
"""The caller's required permissions: the needs of the requests that a route runs, or else a permission; None: nothing."""

JOINED: Final = frozenset(("commit_id", "left", "ref", "right", "source", "tag", "user"))
"""Names of path parameters whose values may hold a slash. A repository and a branch, which permissions are for, never do."""
_JOINABLE: Final = 256
"""The segments of the longest path that is joined: no name of a ref has more than 128."""

_KEPT: Final = 1024
_KEPT_LENGTH: Final = 256
"""Limits of the route cache, in entries and in characters of a path: any client may request anything."""

NO_HEADERS: Final[Mapping[str, str]] = {}
_BRANCH_PARAMETERS: Final = ("branch", "destination")
"""Names of path parameters that hold the branch that a changing route changes."""
_PATH_PARAMETERS: Final = ("path", "dest_path")
"""Names of query parameters that hold the object that a route changes."""


class BodyKind(Enum):
    """The size class of a route's request bodies."""

    SMALL = "small"
    """For routes that need no key, or no body."""
    JSON = "json"
    UPLOAD = "upload"


class Route(msgspec.Struct, frozen=True):
    """One operation. ``requests`` are the lake's requests that it may run, which define what it needs. ``responses`` maps each
    status to the document of its body (``str``: plain text; None: no body); ``says`` describes the headers of a successful
    response. A route that ``scans`` may read a whole ref, or a history; its path ends with a word. A ``short`` one reads little,
    all of it cached, and writes to the table once at most: a server may handle it without a thread
    (:mod:`graveler.system.pauses`)."""

    method: str
    template: str
    operation: str
    permission: Permission | None
    requests: tuple[type[Request[Any]], ...]
    handler: Handler
    responses: Mapping[int, Any]
    tag: str
    query: type[Query] | None
    body: msgspec.json.Decoder[Any] | None
    body_type: Any
    raw_body: bool
    branch_parameter: str | None
    path_parameter: str | None
    changes: bool
    branch_in_body: bool
    says: Mapping[str, str]
    scans: bool
    short: bool

    @property
    def body_kind(self) -> BodyKind:
        """The size class of its requests' bodies."""
        if self.permission is None:
            return BodyKind.SMALL
        return BodyKind.UPLOAD if self.raw_body else BodyKind.JSON if self.body is not None else BodyKind.SMALL

    def answer(self, call: Call, parameters: Mapping[str, str], pairs: list[tuple[str, str]]) -> Response:
        """Parse the parameters and call the handler."""
        parsed: dict[str, Any] = {}
        if self.query is not None:
            parsed["query"] = read_query(self.query, pairs)
        if self.body is not None:
            parsed["body"] = _read_body(self.body, call.body_bytes())
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

    def get(
        self,
        template: str,
        operation: str,
        needs: Needs,
        *,
        responses: Mapping[int, Any],
        says: Mapping[str, str] = NO_HEADERS,
        scans: bool = False,
        short: bool = False,
    ) -> Callable[[H], H]:
        """Declare a GET."""
        return self.route("GET", template, operation, needs, responses=responses, says=says, scans=scans, short=short)

    def post(
        self,
        template: str,
        operation: str,
        needs: Needs,
        *,
        responses: Mapping[int, Any],
        raw_body: bool = False,
        branch_in_body: bool = False,
        says: Mapping[str, str] = NO_HEADERS,
        scans: bool = False,
        short: bool = False,
    ) -> Callable[[H], H]:
        """Declare a POST. ``raw_body``: the body is bytes that the handler reads itself. ``branch_in_body``: the handler itself
        requires the permission, once it knows the branch."""
        return self.route(
            "POST",
            template,
            operation,
            needs,
            responses=responses,
            raw_body=raw_body,
            branch_in_body=branch_in_body,
            says=says,
            scans=scans,
            short=short,
        )

    def put(
        self,
        template: str,
        operation: str,
        needs: Needs,
        *,
        responses: Mapping[int, Any],
        short: bool = False,
    ) -> Callable[[H], H]:
        """Declare a PUT."""
        return self.route("PUT", template, operation, needs, responses=responses, short=short)

    def delete(
        self,
        template: str,
        operation: str,
        needs: Needs,
        *,
        responses: Mapping[int, Any],
        short: bool = False,
    ) -> Callable[[H], H]:
        """Declare a DELETE."""
        return self.route("DELETE", template, operation, needs, responses=responses, short=short)

    def route(
        self,
        method: str,
        template: str,
        operation: str,
        needs: Needs,
        *,
        responses: Mapping[int, Any],
        raw_body: bool = False,
        branch_in_body: bool = False,
        says: Mapping[str, str] = NO_HEADERS,
        scans: bool = False,
        short: bool = False,
    ) -> Callable[[H], H]:
        """Declare a route of any method. The types of ``query`` and ``body`` come from the handler's annotations."""

        permission, requests = _declared(needs)

        def declare(handler: H) -> H:
            kinds = handler.__annotations__
            body, query = kinds.get("body"), kinds.get("query")
            self.routes.append(
                Route(
                    method,
                    template,
                    operation,
                    permission,
                    requests,
                    handler,
                    responses,
                    self.tag,
                    query,
                    None if body is None else msgspec.json.Decoder(body),
                    body,
                    raw_body,
                    next((name for name in _BRANCH_PARAMETERS if f"{{{name}}}" in template), None),
                    next((name for name in _PATH_PARAMETERS if query and name in query.__struct_fields__), None),
                    method not in ("GET", "HEAD") and permission in (Permission.WRITE, Permission.ADMIN),
                    branch_in_body,
                    says,
                    scans,
                    short,
                )
            )
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
        self._found: dict[tuple[str, str], tuple[Route, Mapping[str, str]]] = {}
        """A cache of recent requests, since most are repeated."""
        self.routes: list[Route] = []
        for route in [route for group in groups for route in group.routes]:
            node = self._root
            names = []
            for at, segment in enumerate(route.template.split("/")[1:]):
                if segment[:1] == "{":
                    names.append((at, segment[1:-1]))
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
        found = self._found.get((method, path))
        if found is None:
            found = self._search(method, path)
            if len(path) <= _KEPT_LENGTH:
                if len(self._found) >= _KEPT:
                    self._found.clear()
                self._found[method, path] = found
        return found

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
        return route, {name: _decoded(segments[at]) for at, name in names}

    def _matched(self, segments: list[str], method: str | None) -> "tuple[_Node, list[str]] | None":
        """Return the node that has a route for the method (any: None), and the segments with those of one parameter joined."""
        node = _match(self._root, segments, 0, method)
        if node is not None:
            return node, segments
        if not self._joins or len(segments) > _JOINABLE or "" in segments:
            return None
        return _match_joined(self._root, segments, 0, method)


def _match(node: _Node, segments: list[str], at: int, method: str | None) -> _Node | None:
    """Return the node at the end of the path that has a route for the method (any: None)."""
    if at == len(segments):
        return node if (method in node.routes if method else node.routes) else None
    segment = segments[at]
    below = node.literals.get(segment)
    if below is not None:
        match = _match(below, segments, at + 1, method)
        if match is not None:
            return match
    if node.parameter is not None and segment:
        return _match(node.parameter, segments, at + 1, method)
    return None


def _match_joined(node: _Node, segments: list[str], at: int, method: str | None) -> "tuple[_Node, list[str]] | None":
    """Return what :func:`_match` does, where parameters may take several segments, and the segments from ``at`` on with those of
    one parameter joined."""
    if at == len(segments):
        return (node, []) if (method in node.routes if method else node.routes) else None
    below = node.literals.get(segments[at])
    if below is not None:
        match = _match_joined(below, segments, at + 1, method)
        if match is not None:
            return match[0], [segments[at], *match[1]]
    if node.parameter is not None:
        for end in range(at + 1, len(segments) + 1 if node.parameter.is_joined else at + 2):
            match = _match_joined(node.parameter, segments, end, method)
            if match is not None:
                return match[0], ["/".join(segments[at:end]), *match[1]]
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
