"""The pages about the HTTP API have every operation and every document of the OpenAPI document, and their links lead there."""

import json
import re
from pathlib import PurePosixPath

import pytest

from tests.docs_site.http_api import DOCUMENT, FOLDER, LACKING, kind, pages, prose, slug

API = json.loads(DOCUMENT.read_text())
OPERATIONS = [(method.upper(), path, each) for path, all_ in API["paths"].items() for method, each in all_.items()]


def test_every_operation_is_listed_and_described() -> None:
    made = pages()
    for method, path, operation in OPERATIONS:
        assert f"| `{method} {path}` |" in made[f"{FOLDER}/README.md"]
        tag = operation["tags"][0]
        if tag != LACKING:
            page = made[f"{FOLDER}/{slug(tag)}.md"]
            (section,) = re.findall(rf"^## {operation['operationId']}\n.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
            assert f"`{method} /api/v1{path}`" in section
            assert all(f"| `{each['name']}` | {each['in']} |" in section for each in operation["parameters"])
            assert all(status in section for status in operation["responses"])


def test_every_document_has_its_fields() -> None:
    page = pages()[f"{FOLDER}/documents.md"]
    for name, schema in API["components"]["schemas"].items():
        (section,) = re.findall(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        assert all(f"| `{field}` |" in section for field in schema.get("properties", ()))
        assert all((f"`{value}`" if value else "empty") in section for value in schema.get("enum", ()))


def test_links_between_the_pages_lead_somewhere() -> None:
    made = pages()
    anchors = {
        path: {slug(each) for each in re.findall(r"^#+ (.+)$", text, re.MULTILINE)} for path, text in made.items()
    }
    for path, text in made.items():
        for link in re.findall(r"\]\(([^)]+)\)", text):
            target, _, anchor = link.partition("#")
            there = str(PurePosixPath(FOLDER) / target) if target else path
            if not target.startswith("../"):
                assert there in made
                assert not anchor or anchor in anchors[there], link


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#/components/schemas/a.b.Commit"}, "[a.b.Commit](documents.md#abcommit)"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 480}, "list of string, at most 480"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of integer"),
        ({"type": "object"}, "object"),
        ({"enum": ["", "source-wins"]}, "empty or `source-wins`"),
        ({"type": "integer", "minimum": -1, "maximum": 1000}, "integer, from -1 to 1000"),
        ({}, "any value"),
    ],
)
def test_a_schema_in_words(schema: dict[str, object], words: str) -> None:
    assert kind(schema) == words


def test_only_code_has_a_meaning_in_a_description() -> None:
    assert prose("a ``b_c*`` and\n    `d_e`; *f* [g] <h> i_j|k") == (
        "a `b_c*` and `d_e`; &#42;f&#42; &#91;g&#93; &#60;h> i&#95;j&#124;k"
    )
