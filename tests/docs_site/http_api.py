"""The site's pages about the HTTP API, from ``docs/openapi.json``: plain pages, which no script draws."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = ROOT / "docs" / "openapi.json"
FOLDER: Final = "docs/reference/http"
LACKING: Final = "not implemented"
"""The tag of operations of lakeFS that answer 501."""


def pages(api: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The pages of an OpenAPI document, by their path: a list of all operations, a page for each tag, in the document's order,
    and one for the documents that requests and responses carry."""
    api = api or json.loads(DOCUMENT.read_text())
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, operations in api["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    base = api["servers"][0]["url"]
    texts = {f"{FOLDER}/README.md": _overview(api, groups, base)}
    for tag in (tag["name"] for tag in api["tags"] if tag["name"] != LACKING):
        texts[f"{FOLDER}/{slug(tag)}.md"] = _group(tag, groups[tag], base)
    return {**texts, f"{FOLDER}/documents.md": _documents(api)}


def slug(heading: str) -> str:
    """What a link names behind ``#``, and the name of a page."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def prose(text: str) -> str:
    """A description as Markdown: one paragraph, in which nothing but code has a meaning."""
    parts = re.split(r"(``.*?``|`.*?`)", " ".join(text.split()))
    marks = re.compile(r"[\\*_<\[\]`|]")
    parts[::2] = [marks.sub(lambda mark: f"&#{ord(mark[0])};", part) for part in parts[::2]]
    parts[1::2] = [f"`{part.strip('`')}`" for part in parts[1::2]]
    return "".join(parts)


def kind(schema: Mapping[str, Any], documents: str = "documents.md") -> str:
    """A schema in a few words, with links to the documents that it names."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}]({documents}#{slug(name)})"
    if choices := schema.get("anyOf"):
        kinds = [kind(each, documents) for each in choices if each.get("type") != "null"]
        return " or ".join(kinds) + (" or null" if len(kinds) < len(choices) else "")
    if values := schema.get("enum"):
        return " or ".join(_code(each) for each in values)
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return f"list of {' and '.join(kind(item, documents) for item in schema['prefixItems'])}"
        case "array":
            return f"list of {kind(schema.get('items', {}), documents)}{_limits(schema)}"
        case "object":
            inner = schema.get("additionalProperties")
            return f"object of {kind(inner, documents)}" if isinstance(inner, dict) else "object"
        case None:
            return "any value"
        case name:
            return f"{name}{_limits(schema)}"


def _limits(schema: Mapping[str, Any]) -> str:
    words = {
        "minimum": "from {}",
        "maximum": "to {}",
        "minLength": "at least {} long",
        "maxLength": "at most {} long",
        "maxItems": "at most {}",
    }
    found = [word.format(schema[name]) for name, word in words.items() if name in schema]
    return f", {' '.join(found)}" if found else ""


def _overview(api: Mapping[str, Any], groups: Mapping[str, Iterable[tuple[str, str, Any]]], base: str) -> str:
    head = (
        f"All operations, from the [OpenAPI document](../../openapi.json) of version {api['info']['version']}. Paths begin with "
        f"`{base}`. [HTTP API](../../api.md) explains errors, pages, retries and the additions to lakeFS; "
        "[documents](documents.md) are the bodies of requests and responses."
    )
    lines = ["# HTTP API: operations", "", head, "", "A request is signed in one of these ways:", ""]
    lines += ["| | |", "|---|---|"]
    for name, scheme in api["components"]["securitySchemes"].items():
        way = scheme.get("name") or scheme.get("scheme")
        lines.append(f"| `{name}` | {scheme['type']}: {_code(way)} |")
    for tag in (tag["name"] for tag in api["tags"]):
        lines += ["", f"## {tag.capitalize()}", ""]
        lines += ["These operations of lakeFS answer 501.", ""] if tag == LACKING else []
        lines += ["| operation | request | |", "|---|---|---|"]
        for method, path, operation in groups[tag]:
            name = operation["operationId"]
            shown = _code(name) if tag == LACKING else f"[`{name}`]({slug(tag)}.md#{slug(name)})"
            said = "" if tag == LACKING else prose(operation["summary"])
            lines.append(f"| {shown} | `{method} {path}` | {said} |")
    return "\n".join(lines) + "\n"


def _group(tag: str, operations: Iterable[tuple[str, str, dict[str, Any]]], base: str) -> str:
    lines = [f"# HTTP: {tag}"]
    for method, path, operation in operations:
        said = prose(f"{operation['summary']} {operation.get('description', '')}")
        lines += ["", f"## {operation['operationId']}", "", f"`{method} {base}{path}`", "", said]
        if operation.get("security") == []:
            lines += ["", "Needs no access key."]
        if operation["parameters"]:
            lines += ["", "| parameter | in | type | |", "|---|---|---|---|"]
        lines += [_parameter(each) for each in operation["parameters"]]
        if body := operation.get("requestBody"):
            lines += ["", f"Body: {_content(body['content'])}{'' if body.get('required') else ', may be missing'}."]
        lines += ["", *_responses(operation["responses"])]
    return "\n".join(lines) + "\n"


def _parameter(parameter: Mapping[str, Any]) -> str:
    schema = parameter["schema"]
    said = [prose(parameter.get("description", ""))]
    if parameter["in"] != "path":
        said.append("required" if parameter.get("required") else _default(schema))
    return f"| `{parameter['name']}` | {parameter['in']} | {kind(schema)} | {'; '.join(filter(None, said))} |"


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return f"default {_code(default)}" if default not in (None, "", [], {}) else ""


def _responses(responses: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A table of the responses, and a line of the statuses that carry the document of an error."""
    lines = ["| status | | body |", "|---|---|---|"]
    errors = []
    for status, response in sorted(responses.items()):
        body = _content(response.get("content", {}))
        if body == _content({"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}):
            errors.append(f"{status} {response['description']}")
            continue
        headers = [f"`{name}`: {prose(each['description'])}" for name, each in response.get("headers", {}).items()]
        lines.append(f"| {status} | {'; '.join([prose(response['description']), *headers])} | {body} |")
    return lines + (["", f"Errors, each with an [Error](documents.md#error): {', '.join(errors)}."] if errors else [])


def _content(content: Mapping[str, Mapping[str, Any]]) -> str:
    shown = []
    for media, each in content.items():
        schema = each.get("schema")
        shown.append(kind(schema) if schema and media == "application/json" else _code(media))
    return " or ".join(shown)


def _documents(api: Mapping[str, Any]) -> str:
    lines = ["# HTTP: documents", "", "The bodies of requests and responses, as JSON."]
    for name, schema in sorted(api["components"]["schemas"].items(), key=lambda item: (item[0].lower(), item[0])):
        lines += ["", f"## {name}", "", prose(schema.get("description", ""))]
        if values := schema.get("enum"):
            lines += ["", f"One of {', '.join(map(_code, values))}."]
        if fields := schema.get("properties"):
            lines += ["", "| field | type | |", "|---|---|---|"]
            for field, inner in fields.items():
                said = "required" if field in schema.get("required", ()) else _default(inner)
                lines.append(f"| `{field}` | {kind(inner, '')} | {said} |")
    return "\n".join(lines) + "\n"


def _code(value: object) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value)}`" if value != "" else "empty"
