"""The OpenAPI document says what the routes do, and is checked in."""

import json
import re
from pathlib import Path

from graveler.api.openapi import TAGS, main, openapi_json
from graveler.api.resources import GROUPS
from graveler.api.routing import Router
from tests.api.support import Client

DOCUMENT = Path(__file__).parents[2] / "docs" / "openapi.json"
NAMES = re.compile(r"^[A-Za-z0-9._-]+$")

MERGES = {"mergeIntoBranch", "mergePullRequest"}
"""Operations whose refusals have a document of their own."""


def test_the_document_in_the_repository_is_what_the_routes_say() -> None:
    assert main(["--check", str(DOCUMENT)]) == 0, "run `make openapi`"


def test_a_stale_document_is_noticed_and_written_again(tmp_path: Path) -> None:
    file = tmp_path / "openapi.json"
    assert main(["--check", str(file)]) == 1
    assert main([str(file)]) == 0
    assert main(["--check", str(file)]) == 0


def test_every_route_is_in_it_once_and_every_reference_leads_somewhere() -> None:
    document = json.loads(openapi_json())
    operations = [o["operationId"] for methods in document["paths"].values() for o in methods.values()]
    assert sorted(operations) == sorted(route.operation for route in Router(GROUPS).routes)
    assert len(set(operations)) == len(operations)
    schemas = document["components"]["schemas"]
    assert all(NAMES.match(name) for name in schemas)
    for name in re.findall(r'"#/components/schemas/([^"]+)"', openapi_json().decode()):
        assert name in schemas


def test_a_summary_is_a_whole_sentence_and_the_rest_is_the_description() -> None:
    operations = [o for methods in json.loads(openapi_json())["paths"].values() for o in methods.values()]
    for operation in operations:
        for text in (operation["summary"], operation.get("description", "Nothing.")):
            assert operation["tags"] == ["not implemented"] or re.fullmatch(r"[A-Z0-9].*\.", text), operation
    (reflog,) = [o for o in operations if o["operationId"] == "getReflog"]
    assert reflog["description"] == "Entries are kept for 90 days."


def test_the_groups_are_described_in_the_order_in_which_a_reader_needs_them() -> None:
    tags = json.loads(openapi_json())["tags"]
    assert [tag["name"] for tag in tags][:4] == ["repositories", "branches", "objects", "commits"]
    assert tags[-1]["name"] == "not implemented"
    assert {tag["name"] for tag in tags} == set(TAGS) == {group.tag for group in GROUPS}
    assert all(tag["description"] for tag in tags)


def test_every_path_parameter_is_described_and_every_status_has_a_document() -> None:
    document = json.loads(openapi_json())
    for path, methods in document["paths"].items():
        for operation in methods.values():
            named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
            for status, answer in operation["responses"].items():
                if operation["operationId"] not in MERGES and int(status) >= 400 and answer.get("content"):
                    assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


def test_it_is_served(call: Client) -> None:
    answer = call("GET", "!/openapi.json", authorization=None)
    assert answer.status == 200
    assert answer.body == openapi_json()
