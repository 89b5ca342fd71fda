"""Definitions: what a rule can have, and the errors for what it cannot."""

from typing import Any

import pytest

from graveler.errors import InvalidError
from graveler.lake.gates.checks.check_settings import CheckSettings
from graveler.lake.gates.checks.definitions import KINDS, VERSIONS, definition_of, reads_of
from graveler.lake.gates.checks.run import check_definition

SETTINGS = CheckSettings(
    commands={"dbt": ("dbt", "test")},
    lambdas={"quality": "arn"},
    secrets={"hooks": "s3cret"},
    private_hosts=("hooks.internal", "10.0.0.1:8080"),
)
GOOD: list[dict[str, Any]] = [
    {"kind": "schema", "prefix": "t/"},
    {"kind": "formats"},
    {"kind": "limits", "most_changed": 0},
    {"kind": "no-deletes"},
    {"kind": "metadata", "keys": {"ticket": "*"}},
    {"kind": "hidden-keys"},
    {"kind": "addresses", "allowed": ["s3://bucket/"]},
    {"kind": "live-uploads"},
    {"kind": "webhook", "url": "https://example.org/check?x=1", "secret": "hooks"},
    {"kind": "webhook", "url": "http://10.0.0.1:8080/"},
    {"kind": "command", "name": "dbt"},
    {"kind": "lambda", "name": "quality"},
]
BAD = [
    ({"kind": "sqll"}, "a check has the kind 'sqll'; it must be one of sql, schema"),
    ({}, "a check has the kind None"),
    ({"kind": "schema", "prefix": "t/", "other": 1}, "Object contains unknown field `other`"),
    ({"kind": "schema", "prefix": "t/", "mode": "shrunk"}, "mode is 'shrunk'"),
    ({"kind": "schema", "prefix": 1}, "Expected `str`, got `int`"),
    ({"kind": "limits"}, "has no bound"),
    ({"kind": "limits", "most_changed": -1}, "most_changed is -1"),
    ({"kind": "formats", "patterns": []}, "has 0 patterns"),
    ({"kind": "metadata", "keys": {}}, "has 0 keys"),
    ({"kind": "addresses", "allowed": ["/etc"]}, "'/etc' is not the beginning of an address"),
    ({"kind": "live-uploads", "seconds": 0}, "seconds is 0"),
    ({"kind": "webhook", "url": "ftp://x"}, "is not a URL of a webhook"),
    ({"kind": "webhook", "url": "https://"}, "is not a URL of a webhook"),
    ({"kind": "webhook", "url": "https://u:p@x/"}, "has a password"),
    ({"kind": "webhook", "url": "http://example.org/"}, "is not encrypted"),
    ({"kind": "webhook", "url": "https://x:99999/"}, "is not a URL"),
    ({"kind": "webhook", "url": "https://x/", "secret": "no"}, "have no secret 'no', but: hooks"),
    ({"kind": "webhook", "url": "https://x/", "seconds": 61}, "seconds is 61"),
    ({"kind": "command", "name": "rm -rf /"}, "have no command 'rm -rf /', but: dbt"),
    ({"kind": "lambda", "name": ""}, "have no lambda ''"),
    ({"kind": "sql", "query": "SELECT 1", "tables": {}}, "has 0 tables"),
    ({"kind": "sql", "query": "", "tables": {"t": "t/"}}, "query has 0 characters"),
    ({"kind": "sql", "query": "SELECT 1", "tables": {"a b": "t/"}}, "'a b' cannot be the name of a table"),
    ({"kind": "sql", "query": "SELECT 1", "tables": {"t": "t/"}, "memory": 1}, "memory is 1"),
    ({"kind": object()}, "no JSON object"),
]


def test_every_kind_has_a_version_and_says_what_it_reads() -> None:
    tested = {document["kind"] for document in GOOD} | {"sql"}
    assert tested == set(KINDS) == set(VERSIONS)
    assert [reads_of(definition_of(document)).of_tree for document in GOOD] == [False] * len(GOOD)
    tables = definition_of({"kind": "sql", "query": "SELECT 1", "tables": {"t": "a/b*/c.csv", "u": "d/"}})
    assert reads_of(tables).of_tree


@pytest.mark.parametrize("document", GOOD, ids=lambda document: document["kind"])
def test_good_definitions(document: dict[str, Any]) -> None:
    check_definition(document, SETTINGS)
    assert definition_of(document) == definition_of({**document})


@pytest.mark.parametrize(("document", "words"), BAD, ids=[words[:30] for _, words in BAD])
def test_bad_definitions_are_refused_with_the_reason(document: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidError) as refused:
        check_definition(document, SETTINGS)
    assert words in str(refused.value)
