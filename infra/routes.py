"""Functions of the operations of the API, and the routes of the gateway to them.

Paths and methods come from docs/openapi.json, and functions from functions.json: both are made from the API's routes. Each method
has a route for all paths below BASE (FALLBACKS). Beside these, only operations have a route of their own that another function
answers, or that have a limit of their own (docs/design/0010-a-route-for-each-operation.md). A function routes what it gets by
itself: it answers 501 what is not implemented, and 404 or 405 what is no operation. One route leads to the catalog of Iceberg
tables, whose paths are Iceberg's.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

Verb = Literal["read", "write", "commit", "merge", "diff", "catalog"]

DOCUMENT: Final = Path(__file__).resolve().parent.parent / "docs" / "openapi.json"
BASE: Final = "/api/v1"
CATCH_ALL: Final[Verb] = "read"
JOINED: Final = frozenset(("commit_id", "left", "ref", "right", "source", "tag", "user"))
"""As graveler.api.routing.JOINED: parameters whose values may hold a slash."""
FALLBACK_PATH: Final = f"{BASE}/{{proxy+}}"
FALLBACKS: Final[dict[str, Verb]] = {
    "GET": "read",
    "HEAD": "read",
    "POST": "write",
    "PUT": "write",
    "PATCH": "write",
    "DELETE": "write",
}
"""The function of each method for paths below BASE that no other route matches: a full match counts first, then the greedy route
with the most segments, then ``$default``
(https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-develop-routes.html#http-api-develop-routes.evaluation)."""
METHODS: Final = tuple(method.lower() for method in FALLBACKS)
CATALOG: Final[Verb] = "catalog"
CATALOG_PATH: Final = "/iceberg/{proxy+}"
"""Of all operations of Iceberg's protocol, by any method. It has one function, with all its rights: names in its paths are a
client's, so a path alone does not tell a table from an operation on one."""
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_NOT_IMPLEMENTED: Final = "not implemented"

_EXCEPTIONS: Final[dict[str, Verb]] = json.loads((Path(__file__).parent / "functions.json").read_text())
"""The functions of operations that another one answers than that of their method. ``python -m tests.infra.make_functions`` makes
the file from the routes of the API, which the environment of this program cannot load."""


Limit = tuple[int, int]
"""Requests a second, and how many at once."""


@dataclass(frozen=True)
class ApiRoute:
    """An operation of the API, and the function that answers it."""

    method: str
    path: str
    operation: str
    verb: Verb

    @property
    def is_joined(self) -> bool:
        """Whether a name in the path may hold a slash, so that the decoded path of a request may match no route of its own."""
        return not JOINED.isdisjoint(_PARAMETER.findall(self.path))

    @property
    def greedy_path(self) -> str:
        """The path that matches all requests for the operation, with and without slashes in names: its segments before the first
        name that may hold one."""
        fixed = re.split(rf"\{{(?:{'|'.join(sorted(JOINED))})\}}", self.path, maxsplit=1)[0]
        return f"{fixed}{{proxy+}}"


@dataclass(frozen=True)
class GatewayRoute:
    """A route of API Gateway: ``name`` in the template, the function behind it, and perhaps a limit."""

    method: str
    path: str
    name: str
    verb: Verb
    limit: Limit | None = None

    @property
    def key(self) -> str:
        """The route as the gateway names it."""
        return f"{self.method} {self.path}"


@cache
def api_routes(document: Path = DOCUMENT) -> tuple[ApiRoute, ...]:
    """Return all operations that are implemented, by path and method."""
    routes = []
    for path, methods in json.loads(document.read_text())["paths"].items():
        for method in METHODS:
            described = methods.get(method)
            if described is not None and _NOT_IMPLEMENTED not in described["tags"]:
                operation = described["operationId"]
                verb = _EXCEPTIONS.get(operation, FALLBACKS[method.upper()])
                routes.append(ApiRoute(method.upper(), BASE + path, operation, verb))
    return tuple(sorted(routes, key=lambda route: (route.path, route.method)))


FUNCTION_OF: Final[dict[str, Verb]] = {route.operation: route.verb for route in api_routes()}


def gateway_routes(limits: Mapping[str, Limit]) -> list[GatewayRoute]:
    """Return the routes of the gateway, besides ``$default``, with these ``limits`` of operations.

    A slash in a name takes a request past the route of its operation, but not past its limit: an operation with one whose names
    may hold slashes also has a greedy route, with that limit; the lowest one, if it is there for several. Operations that would
    otherwise come by that route get routes of their own."""
    operations = api_routes()
    greedy: dict[tuple[str, str], Limit] = {}
    for operation in operations:
        limit = limits.get(operation.operation)
        if limit is not None and operation.is_joined:
            route = operation.method, operation.greedy_path
            lowest = greedy.get(route, limit)
            greedy[route] = min(limit[0], lowest[0]), min(limit[1], lowest[1])
    prefixes = {(method, path.removesuffix("{proxy+}")) for method, path in greedy}
    explicit = [
        GatewayRoute(route.method, route.path, route.operation, route.verb, limits.get(route.operation))
        for route in operations
        if route.verb != FALLBACKS[route.method]
        or route.operation in limits
        or any(route.method == method and route.path.startswith(prefix) for method, prefix in prefixes)
    ]
    fallbacks = [
        GatewayRoute(method, FALLBACK_PATH, f"Fallback{method.capitalize()}", verb)
        for method, verb in FALLBACKS.items()
    ]
    limited = [
        GatewayRoute(method, path, _greedy_name(method, path), FALLBACKS[method], limit)
        for (method, path), limit in greedy.items()
    ]
    return [*explicit, *fallbacks, *limited, GatewayRoute("ANY", CATALOG_PATH, "Catalog", CATALOG)]


def _greedy_name(method: str, path: str) -> str:
    words = re.findall("[a-z]+", path.removeprefix(BASE).removesuffix("{proxy+}"))
    return "".join(["Greedy", method.capitalize(), *map(str.capitalize, words)])
