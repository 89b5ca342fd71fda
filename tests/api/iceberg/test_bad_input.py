"""Requests of the catalog that nobody should send: a refusal means that nothing happened, and no text is an unexpected error."""

from collections.abc import Mapping
from threading import Barrier, Thread
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graveler.api.settings import Settings
from tests.api.iceberg.test_protocol import CATALOG, SCHEMA, SET, create, error
from tests.api.support import ANYWHERE, Answer, Client, EventClient, make_world
from tests.support.campaigns import examples

TABLE: Final = f"{CATALOG}/namespaces/shop/tables/orders"
UNKNOWN: Final = "CommitStateUnknownException"
VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
SNAPSHOT: Final = {
    "snapshot-id": 7,
    "sequence-number": 1,
    "timestamp-ms": 1_700_000_000_000,
    "manifest-list": "file:///nowhere/list.avro",
    "summary": {"operation": "append"},
    "schema-id": 0,
}
COMMITS: Final = (
    {"requirements": [{"type": "assert-table-uuid", "uuid": "00000000-0000-4000-8000-000000000000"}], "updates": [SET]},
    {"updates": [{"action": "add-snapshot", "snapshot": SNAPSHOT}]},
    {"updates": [{"action": "add-schema", "schema": SCHEMA, "last-column-id": 1}]},
    {
        "updates": [
            {
                "action": "add-spec",
                "spec": {"spec-id": 0, "fields": [{"source-id": 1, "transform": "day", "name": "d"}]},
            }
        ]
    },
    {"updates": [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7}]},
    {
        "updates": [
            {"action": "remove-snapshots", "snapshot-ids": [7]},
            {"action": "upgrade-format-version", "format-version": 3},
        ]
    },
)
NAMES: Final = st.text(min_size=1, max_size=12)


@pytest.fixture(scope="module")
def tables() -> Client:
    """A client of a lake with the table shop.orders, which all examples share."""
    world = make_world(Settings(import_sources=ANYWHERE))
    world.lake.create_repository("repo", "local://repo")
    client = EventClient(world)
    assert client("POST", f"{CATALOG}/namespaces", body={"namespace": ["shop"]}).status == 200
    assert create(client, "orders").status == 200
    return client


def head(call: Client) -> str:
    return str(call("GET", "/repositories/repo/branches/main").json()["commit_id"])


def expect_no_effect_of_a_refusal(call: Client, method: str, path: str, **request: Any) -> Answer:
    """Send a request, and expect that it succeeds or is refused, in the catalog's words and without an effect."""
    before = head(call)
    answer = call(method, path, **request)
    assert answer.status < 500, answer
    if answer.status >= 400:
        status, kind = error(answer)
        assert (status, kind) != (404, UNKNOWN)
        assert head(call) == before
    return answer


@st.composite
def changed_documents(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """A document in which one value is another, or is missing."""
    document = draw(documents)
    if not isinstance(document, Mapping | list) or not document or draw(st.integers(0, 4)) == 0:
        return draw(VALUES)
    if isinstance(document, list):
        index = draw(st.integers(0, len(document) - 1))
        return [*document[:index], draw(changed_documents(st.just(document[index]))), *document[index + 1 :]]
    name = draw(st.sampled_from(sorted(document)))
    changed = {**document, name: draw(changed_documents(st.just(document[name])))}
    if draw(st.integers(0, 4)) == 0:
        del changed[name]
    return changed


@settings(max_examples=examples(25))
@given(changed_documents(st.sampled_from(COMMITS)))
def test_a_changed_commit_is_refused_without_an_effect_or_leaves_a_table(tables: Client, body: object) -> None:
    expect_no_effect_of_a_refusal(tables, "POST", TABLE, body=body)
    assert tables("GET", TABLE).status == 200


@settings(max_examples=examples(25))
@given(changed_documents(st.just({"name": "new", "schema": SCHEMA, "properties": {"format-version": "2"}})))
def test_a_changed_creation_is_refused_without_an_effect(tables: Client, body: object) -> None:
    answer = expect_no_effect_of_a_refusal(tables, "POST", f"{CATALOG}/namespaces/shop/tables", body=body)
    if answer.status == 200 and isinstance(body, dict):
        dropped = f"{CATALOG}/namespaces/shop/tables/{quote(body['name'], safe='')}"
        assert tables("DELETE", dropped).status == 204


@settings(max_examples=examples(25))
@given(st.binary(max_size=40))
@example(b"[" * 100_000)
@example(b'{"updates": [{"action": "set-properties", "updates": {"a": "\\ud800"}}]}')
@example(b'{"requirements": [' + b'{"type": "assert-create"},' * 1000 + b"]}")
def test_a_body_that_is_no_document_is_refused(tables: Client, body: bytes) -> None:
    before = head(tables)
    answer = expect_no_effect_of_a_refusal(tables, "POST", TABLE, body=body)
    assert answer.status in (200, 400)
    assert head(tables) == before, "none of them has a change"


@settings(max_examples=examples(25))
@given(NAMES, NAMES)
@example("a.b", "c.d")
@example("a/b", "..")
@example("%1F", "%2F")
@example("a+b", "100%")
@example(" ", "é\u2028")
@example("n" * 300, "t")
@example("n" * 255, "t" * 255)
@example(".namespace", "x.table")
def test_a_name_is_refused_or_names_its_table_alone(tables: Client, namespace: str, name: str) -> None:
    spelled = quote(namespace, safe="")
    creation = expect_no_effect_of_a_refusal(tables, "POST", f"{CATALOG}/namespaces", body={"namespace": [namespace]})
    if creation.status != 200:
        assert creation.status in (400, 409)
        return
    path = f"{CATALOG}/namespaces/{spelled}/tables"
    created = expect_no_effect_of_a_refusal(tables, "POST", path, body={"name": name, "schema": SCHEMA})
    if created.status == 200:
        table = f"{path}/{quote(name, safe='')}"
        assert tables("GET", table).json()["metadata"] == created.json()["metadata"]
        assert tables("GET", path).json() == {"identifiers": [{"namespace": [namespace], "name": name}]}
        assert tables("DELETE", table).status == 204
    assert tables("DELETE", f"{CATALOG}/namespaces/{spelled}").status == 204
    assert [namespace] not in tables("GET", f"{CATALOG}/namespaces").json()["namespaces"]


@settings(max_examples=examples(25))
@given(st.text(max_size=30) | st.binary(max_size=30).map(bytes.hex))
@example("00")
@example("5f696365626572672f")
@example("ff")
def test_a_changed_token_of_a_page_is_refused_or_continues(tables: Client, token: str) -> None:
    for path in (f"{CATALOG}/namespaces", f"{CATALOG}/namespaces/shop/tables", f"{CATALOG}/namespaces/shop/views"):
        answer = tables("GET", path, {"pageToken": token, "pageSize": "1"})
        assert answer.status in (200, 400), answer
        if answer.status == 200:
            assert all(
                table == {"namespace": ["shop"], "name": "orders"} for table in answer.json().get("identifiers", ())
            )


def test_one_key_in_two_requests_at_one_moment_has_one_effect(tables: Client) -> None:
    headers = {"Idempotency-Key": "0190e2b4-0000-7000-8000-00000000000a"}
    body = {"updates": [{"action": "set-properties", "updates": {"at": "once"}}]}
    before = head(tables)
    answers: list[Answer] = []
    barrier = Barrier(2)

    def send() -> None:
        barrier.wait()
        answers.append(tables("POST", TABLE, body=body, headers=headers))

    threads = [Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status for answer in answers} <= {200, 429}, answers
    assert any(answer.status == 200 for answer in answers)
    assert len({answer.json()["metadata-location"] for answer in answers if answer.status == 200}) == 1
    log = tables("GET", "/repositories/repo/refs/main/commits").json()["results"]
    assert log[1]["id"] == before
