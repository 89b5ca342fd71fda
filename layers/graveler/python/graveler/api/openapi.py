"""The OpenAPI document, generated from the routes, so that it cannot deviate from them.

``python -m graveler.api.openapi FILE`` writes it to a file; with ``--check`` it only tells whether the file is up to date.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec

from graveler import __version__
from graveler.api.call import IDEMPOTENCY_HEADER
from graveler.api.resources import GROUPS
from graveler.api.routing import Route, Router
from graveler.wire.error_documents import Error

OPENAPI_VERSION: Final = "3.1.0"
BASE: Final = "/api/v1"

TAGS: Final[Mapping[str, str]] = {
    "repositories": "Repositories, their metadata and settings",
    "branches": "Branches, and what moves them: reset, revert, cherry-pick",
    "objects": "Objects: read, list, write, delete, copy",
    "commits": "Commits and histories",
    "statuses": "Statuses: verdicts about the trees of commits, which rules ask for",
    "refs": "Two refs: merge, merge base, differences",
    "pulls": "Pull requests: proposed merges, their comments and approvals",
    "tags": "Permanent names for commits",
    "staging": "Uploads by presigned URLs, and links to bytes that are already there",
    "multipart uploads": "Uploads in parts, by presigned URLs",
    "recorded uploads": "Uploads in parts that any client continues by their ID",
    "import": "Imports of existing objects, without copying",
    "rules": "Rules of branches and tags: what a commit needs before a name may point to it",
    "insight": "Merge previews, sums, the last commit of each object, the state of a repository",
    "operations": "Work in the background: long merges, commits and imports, dumps, collections",
    "ingest": "Rules by which objects that land in a bucket become commits",
    "garbage collection": "What is collected, and when",
    "upkeep": "Integrity checks, and the space of each holder",
    "dumps": "Dumps of refs, and repositories restored from them",
    "deleted repositories": "What deleted repositories leave behind",
    "auth": "Login, the current user, users as holders of access keys",
    "keys": "Access keys with their roles and limits",
    "principals": "Rules that admit AWS principals",
    "external": "The AWS principals of users, by the operations of lakeFS",
    "config": "Versions, the kind of store, health",
    "setup": "The first access key of a lake that never had one",
    "not implemented": "Operations of lakeFS that answer 501",
}
"""The groups of routes, in the order in which a reader needs them, each with what it has."""

_SENTENCE_END: Final = re.compile(r"(?<=\.) (?=[A-Z0-9`])")
_REF: Final = "#/components/schemas/{name}"
_ALWAYS: Final = {400: Error, 429: Error, 501: Error, 503: Error}
_WITH_CREDENTIALS: Final = {401: Error, **_ALWAYS}


@lru_cache(maxsize=1)
def openapi_json(base: str = "/") -> bytes:
    """Return the document as indented JSON, for a server below the path ``base``. Generated once per process."""
    described = document(Router(GROUPS).routes)
    described["servers"] = [{"url": f"{base.rstrip('/')}{BASE}"}]
    compact = msgspec.json.encode(described, order="deterministic")
    return msgspec.json.format(compact, indent=1) + b"\n"


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the document that describes these routes."""
    types = dict.fromkeys(_types(routes))
    schemas, components = msgspec.json.schema_components(list(types), ref_template=_REF)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    used = {route.tag for route in routes}
    for route in routes:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "graveler",
            "description": "Git for a data lake: the API of lakeFS clients, and extensions to it.",
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": BASE}],
        "security": [{"basic_auth": []}, {"jwt_token": []}, {"cookie_auth": []}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in used],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "basic_auth": {"type": "http", "scheme": "basic"},
                "jwt_token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "cookie_auth": {"type": "apiKey", "in": "cookie", "name": "internal_auth_session"},
            },
        },
    }


def _types(routes: Sequence[Route]) -> list[Any]:
    types: list[Any] = [Error]
    for route in routes:
        types += [kind for kind in route.responses.values() if kind is not None and kind is not bytes]
        if route.body_type is not None:
            types.append(route.body_type)
    return types


def _operation(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    summary, description = _sentences(route.handler.__doc__ or route.operation)
    operation: dict[str, Any] = {
        "tags": [route.tag],
        "operationId": route.operation,
        "summary": summary,
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_headers(route)],
        "responses": {
            str(status): _response(status, kind, schema_of, route.response_headers if status < 300 else {})
            for status, kind in sorted({**implied_answers(route), **route.responses}.items())
        },
    }
    if description:
        operation["description"] = description
    if route.permission is None:
        operation["security"] = []
    if route.body_type is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema_of[route.body_type]}},
        }
    elif route.raw_body:
        content = {"schema": {"type": "string", "format": "binary"}}
        operation["requestBody"] = {"content": {"application/octet-stream": content}}
    return operation


def _sentences(docstring: str) -> tuple[str, str]:
    """Return the first sentence of a docstring, and the rest, each on one line."""
    summary, *rest = _SENTENCE_END.split(" ".join(docstring.split()), maxsplit=1)
    return summary, "".join(rest)


def implied_answers(route: Route) -> dict[int, Any]:
    """Return the responses that any request may get, besides those its route declares."""
    unchanged = {304: None} if route.lasting_refs else {}
    return {**(_ALWAYS if route.permission is None else _WITH_CREDENTIALS), **unchanged}


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"{(\w+)}", route.template)
    ]


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    (_,), components = msgspec.json.schema_components([route.query], ref_template=_REF)
    schema = components[route.query.__name__]
    required = schema.get("required", [])
    parameters = []
    for name, described in schema["properties"].items():
        parameter: dict[str, Any] = {"name": name, "in": "query", "required": name in required}
        if "description" in described:
            parameter["description"] = described.pop("description")
        parameters.append({**parameter, "schema": described})
    return parameters


def _headers(route: Route) -> list[dict[str, Any]]:
    if not route.changes or route.method != "POST":
        return []
    description = (
        "a name that you choose for this request: if it is repeated under this name, it takes effect only once"
    )
    return [
        {
            "name": IDEMPOTENCY_HEADER.title(),
            "in": "header",
            "required": False,
            "description": description,
            "schema": {"type": "string", "maxLength": 200},
        }
    ]


def _response(status: int, kind: Any, schema_of: dict[Any, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if headers:
        answer["headers"] = {
            name.title(): {"description": description, "schema": {"type": "string"}}
            for name, description in headers.items()
        }
    if kind is str:
        answer["content"] = {"text/plain": {"schema": {"type": "string"}}}
    elif kind is bytes:
        answer["content"] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    elif kind is not None:
        answer["content"] = {"application/json": {"schema": schema_of[kind]}}
    return answer


def main(arguments: Sequence[str]) -> int:
    """Write the document, or check it, and return the exit code."""
    file = Path(arguments[-1])
    document = openapi_json()
    if "--check" in arguments[:-1]:
        if file.exists() and file.read_bytes() == document:
            return 0
        sys.stderr.write(f"{file} does not match the routes; regenerate it with `make openapi`\n")
        return 1
    file.write_bytes(document)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or ["docs/openapi.json"]))
