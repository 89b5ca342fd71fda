"""Metadata of views: new ones, versions and their history, and the dialects that a version must have."""

import copy
from typing import Any

import msgspec
import pytest

from graveler.errors import CorruptError, InvalidError
from graveler.table_format.plain_documents import Document
from graveler.table_format.table_metadata import encode_metadata
from graveler.table_format.view_metadata import new_view, read_view
from graveler.table_format.view_updates import apply_view_updates
from tests.table_format.documents import LOCATION, TIME, UUID, field, schema

LATER = TIME + 60_000
COLUMNS = schema(field(7, "id", "long"))


def query(sql: str, dialect: str = "spark") -> Document:
    return {"type": "sql", "sql": sql, "dialect": dialect}


def version(number: int, *queries: Document, **more: Any) -> Document:
    return {
        "version-id": number,
        "schema-id": 0,
        "timestamp-ms": TIME + number,
        "representations": list(queries or (query(f"SELECT {number}"),)),
        "default-namespace": ["ns"],
        **more,
    }


def view(*queries: Document, **more: Any) -> Document:
    arguments: dict[str, Any] = {
        "schema": COLUMNS | {"schema-id": 3},
        "view_version": version(5, *queries, **{"schema-id": -1}),
        "properties": {},
        "location": LOCATION + "/",
        "uuid": UUID,
    }
    return new_view(**(arguments | more))


def do(action: str, **fields: Any) -> Document:
    return {"action": action, **{name.replace("_", "-"): value for name, value in fields.items()}}


def replace(number: int, *queries: Document, **more: Any) -> list[Document]:
    return [
        do("add-view-version", view_version=version(number, *queries, **more)),
        do("set-current-view-version", view_version_id=-1),
    ]


def apply(base: Document, *updates: Any) -> Document:
    """Apply updates, and check that the base did not change, and that the result can be read."""
    before = copy.deepcopy(base)
    document = apply_view_updates(base, updates, time_ms=LATER)
    assert base == before
    assert read_view(encode_metadata(document), "result") == document
    return document


def test_a_new_view_has_one_version() -> None:
    document = view()
    assert document == {
        "view-uuid": UUID,
        "format-version": 1,
        "location": LOCATION,
        "schemas": [COLUMNS],
        "current-version-id": 1,
        "versions": [version(5) | {"version-id": 1, "summary": {}}],
        "version-log": [{"timestamp-ms": TIME + 5, "version-id": 1}],
        "properties": {},
    }
    assert read_view(encode_metadata(document), "view", stored=True) == document


def test_a_replaced_view_keeps_its_history() -> None:
    document = apply(view(), do("add-schema", schema=schema(field(1, "n", "int"))), *replace(1, **{"schema-id": -1}))
    assert [item["version-id"] for item in document["versions"]] == [1, 2]
    assert (document["versions"][1]["schema-id"], document["current-version-id"]) == (1, 2)
    assert document["version-log"][1] == {"timestamp-ms": TIME + 1, "version-id": 2}
    back = apply(document, do("set-current-view-version", view_version_id=1))
    assert back["version-log"][2] == {"timestamp-ms": LATER, "version-id": 1}
    again = apply(back, do("add-schema", schema=schema(field(1, "n", "int"))), *replace(9, **{"schema-id": 1}))
    assert len(again["versions"]) == 3


@pytest.mark.parametrize(
    "updates",
    [
        [],
        [do("assign-uuid", uuid=UUID.upper()), do("upgrade-format-version", format_version=1)],
        [
            do("set-location", location=LOCATION),
            do("set-properties", updates={}),
            do("remove-properties", removals=["a"]),
        ],
        [do("add-schema", schema=COLUMNS | {"schema-id": 8}), *replace(8, query("SELECT 5"), **{"schema-id": -1})],
    ],
)
def test_updates_that_change_nothing_return_the_same_document(updates: list[Document]) -> None:
    base = view()
    assert apply(base, *updates) is base


def test_old_versions_expire() -> None:
    document = apply(view(), do("set-properties", updates={"version.history.num-entries": "2"}))
    for number in (2, 3):
        document = apply(document, *replace(number))
    assert [item["version-id"] for item in document["versions"]] == [2, 3]
    assert [entry["version-id"] for entry in document["version-log"]] == [2, 3]
    back = apply(document, do("set-current-view-version", view_version_id=2))
    added = do("add-view-version", view_version=version(4))
    assert [item["version-id"] for item in apply(back, added)["versions"]] == [2, 4]
    assert [entry["version-id"] for entry in apply(back, added)["version-log"]] == [2]
    several = [update for number in (4, 5, 6) for update in replace(number)]
    assert [item["version-id"] for item in apply(document, *several)["versions"]] == [4, 5, 6]
    for value, words in (("0", "must be positive but was 0"), ("x", "must be a number")):
        with pytest.raises(InvalidError, match=words):
            apply(document, do("set-properties", updates={"version.history.num-entries": value}))


def test_a_dialect_is_not_lost_by_accident() -> None:
    base = view(query("SELECT 1"), query("SELECT 1", "Trino"))
    with pytest.raises(InvalidError, match=r"loss of view dialects \(replace.drop-dialect.allowed=false\)"):
        apply(base, *replace(2, query("SELECT 2")))
    apply(base, *replace(2, query("SELECT 2", "TRINO"), query("SELECT 2", "Spark"), {"type": "graph", "nodes": 1}))
    allowed = do("set-properties", updates={"replace.drop-dialect.allowed": "TRUE"})
    assert apply(base, allowed, *replace(2, query("SELECT 2")))["current-version-id"] == 2


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (do("add-spec", spec={"fields": []}), "unknown update 'add-spec'"),
        (do("assign-uuid", uuid=UUID.replace("9", "8")), "Cannot reassign uuid"),
        (do("upgrade-format-version", format_version=2), "Unsupported format version: 2"),
        (do("upgrade-format-version", format_version=0), "Cannot downgrade v1 view to v0"),
        (do("add-view-version", view_version=version(2, **{"schema-id": 7})), "unknown schema: 7"),
        (do("add-view-version", view_version=version(2, **{"schema-id": -1})), "no schema has been added"),
        (do("add-view-version", view_version=version(2) | {"representations": []}), "without specifying a query"),
        (do("add-view-version", view_version=version(2, {"type": "sql", "sql": "x"})), "no sql or no dialect"),
        (
            do("add-view-version", view_version=version(2, query("x"), query("y", "SPARK"))),
            "multiple queries for dialect spark",
        ),
        (do("set-current-view-version", view_version_id=-1), "no version has been added"),
        (do("set-current-view-version", view_version_id=7), "unknown version: 7"),
        (do("add-schema", schema=schema(field(1, "a", "blob"))), "Cannot parse type string"),
    ],
)
def test_an_update_that_fails_changes_nothing(update: Document, words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        apply(view(), do("set-properties", updates={"a": "1"}), update)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format-version": 2}, "Unsupported format version: 2"),
        ({"current-version-id": 9}, "Cannot find current version 9"),
        ({"schemas": []}, "Cannot find schema with id 0"),
        ({"versions": [version(1), version(1)]}, "more than once"),
        ({"view-uuid": "x"}, "view-uuid"),
        ({"version-log": 7}, "Expected `array`"),
    ],
)
def test_metadata_that_contradict_themselves_are_refused(changes: Document, words: str) -> None:
    data = msgspec.json.encode(view() | changes)
    for stored, error in ((False, InvalidError), (True, CorruptError)):
        with pytest.raises(error, match=words):
            read_view(data, "view", stored=stored)


def test_fields_that_nobody_knows_survive() -> None:
    base = read_view(msgspec.json.encode(view() | {"new": [1]}), "view")
    document = apply(base, *replace(2, query("x") | {"new": 2}, new=3))
    assert (document["new"], document["versions"][1]["new"]) == ([1], 3)
    assert document["versions"][1]["representations"][0]["new"] == 2
