"""Functions make no call that their policies refuse, also where no deployment's story leads: dumps and restores, garbage and
purges, repairs, ingest and its replays, merged tables. They run in this process; the reviewed templates judge their calls."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient

from graveler.functions.deployed_lake import open_deployed_lake
from graveler.functions.deployment_settings import read_configuration
from graveler.functions.entry import api_handler
from graveler.functions.ingest_entry import ingest_handler
from graveler.functions.maintenance import maintain_handler
from graveler.functions.traffic import Traffic
from tests.functions.conftest import authorization, deployment, write
from tests.functions.events import event
from tests.functions.test_ingesting import record
from tests.functions.test_maintenance import Context, queue, records
from tests.infra.iam.declared import as_role
from tests.infra.iam.limits import roles, table_of
from tests.infra.iam.operations import needs
from tests.infra.iam.policies import Request
from tests.infra.iam.templates import Stacks
from tests.infra.test_stacks import SNAPSHOT
from tests.support.waiting import skip_waits

__all__ = ["authorization", "deployment", "queue", "write"]

REPOSITORY = "/api/v1/repositories/kept"
TABLES = "/iceberg/v1/kept"
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "n", "type": "long", "required": False}]}


class Calls:
    """The calls of clients of S3 and DynamoDB, by the function that made them."""

    def __init__(self) -> None:
        self.function = ""
        self.records: list[tuple[str, str, str, Any]] = []

    def note(self, service: str, operation: str, parameters: Any) -> None:
        if self.function and service in ("s3", "dynamodb"):
            self.records.append((self.function, service, operation, parameters))

    def of(self, name: str, handler: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
        """A function whose calls are noted."""

        def run(argument: Any) -> Any:
            self.function = name
            try:
                return handler(argument, Context())
            finally:
                self.function = ""

        return run

    def requests(self, stacks: Stacks) -> Iterator[Request]:
        """What the calls ask for, of the buckets and the table of a deployment."""
        buckets = {
            logical: stacks.arn(stack, logical)
            for stack, logical, _ in stacks.each("AWS::S3::Bucket")
            if stack == "stateful"
        }
        (landing,) = (arn for logical, arn in buckets.items() if logical.startswith("Landing"))
        (objects,) = (arn for logical, arn in buckets.items() if logical.startswith("Objects"))
        places = {"arn:aws:s3:::lake": objects, "arn:aws:s3:::raw": landing}
        role_of = roles(stacks)
        for function, service, operation, parameters in self.records:
            for action, resource, keys in needs(service, operation, parameters):
                store, slash, key = resource.partition("/")
                where = f"{places[store]}{slash}{key}" if service == "s3" else table_of(stacks)
                request = as_role(role_of[function], action, where, f"{operation} in {function}")
                yield Request(request.principal, action, where, {**request.context, **keys}, request.reason)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Those of this process from now on."""
    recorder = Calls()
    emit = BaseClient._emit_api_params  # type: ignore[attr-defined]

    def emitting(client: Any, api_params: Any, operation_model: Any, context: Any) -> Any:
        recorder.note(client.meta.service_model.service_name, operation_model.name, api_params)
        return emit(client, api_params, operation_model, context)

    monkeypatch.setattr(BaseClient, "_emit_api_params", emitting)
    return recorder


@pytest.mark.ci
def test_no_call_of_a_function_is_refused(
    calls: Calls, queue: str, authorization: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = {
        verb: calls.of(verb.capitalize(), api_handler(verb))
        for verb in ("read", "write", "commit", "merge", "catalog", "diff")
    }
    skip_waits(monkeypatch)
    monkeypatch.setattr("graveler.functions.maintenance._LOOK_EVERY", 0.01)
    maintain, ingest = calls.of("Maintain", maintain_handler()), calls.of("Ingest", ingest_handler())

    def ask(verb: str, method: str, path: str, body: Any = None, query: str = "") -> Any:
        answer = handlers[verb](event(method, path, body=body, query=query, authorization=authorization))
        assert answer["statusCode"] < 300, (verb, path, answer["body"])
        kind = answer["headers"].get("content-type", "")
        return json.loads(answer["body"]) if kind.startswith("application/json") else None

    def work() -> None:
        messages = records(queue)
        assert messages
        for message in messages:
            maintain({"Records": [message]})

    ask("write", "POST", "/api/v1/repositories", {"name": "kept", "storage_namespace": "s3://lake/a/kept"})
    lake = open_deployed_lake(read_configuration(os.environ), Traffic())
    for path in ("a", "b"):
        lake.repository("kept").upload("main", path, path.encode())
    first = ask("commit", "POST", f"{REPOSITORY}/branches/main/commits", {"message": "first"})
    ask("write", "POST", f"{REPOSITORY}/branches", {"name": "dev", "source": "main"})
    ask("write", "POST", f"{REPOSITORY}/branches/dev/objects/copy", {"src_path": "a"}, "dest_path=c")
    ask("commit", "POST", f"{REPOSITORY}/branches/dev/commits", {"message": "second"})
    ask("diff", "GET", f"{REPOSITORY}/refs/main/diff/dev")
    ask("merge", "POST", f"{REPOSITORY}/refs/dev/merge/main", {})
    ask("merge", "POST", f"{REPOSITORY}/branches/main/revert", {"ref": "main", "parent_number": 1})
    ask("read", "GET", f"{REPOSITORY}/refs/{first['id']}/objects/ls")
    ask("catalog", "POST", f"{TABLES}/main/namespaces", {"namespace": ["shop"]})
    ask("catalog", "POST", f"{TABLES}/main/namespaces/shop/tables", {"name": "orders", "schema": SCHEMA})
    ask("write", "POST", f"{REPOSITORY}/branches", {"name": "tables", "source": "main"})
    for branch in ("main", "tables"):
        update = {"action": "set-properties", "updates": {branch: "changed"}}
        ask("catalog", "POST", f"{TABLES}/{branch}/namespaces/shop/tables/orders", {"updates": [update]})
    ask("diff", "GET", f"{REPOSITORY}/refs/tables/merge/main/preview")
    ask("merge", "POST", f"{REPOSITORY}/refs/tables/merge/main", {})
    merged = ask("catalog", "GET", f"{TABLES}/main/namespaces/shop/tables/orders")
    assert {"main", "tables"} <= set(merged["metadata"]["properties"])
    rule = {"name": "r", "source": "s3://raw/in/", "branch": "main", "destination": "in/", "commit": {"objects": 1}}
    ask("write", "POST", f"{REPOSITORY}/ingest/rules", rule)
    landed = record("1", "in/x", "1")
    assert ingest({"Records": [landed]}) == {"batchItemFailures": []}
    ingest({})
    replayed = ask("commit", "POST", f"{REPOSITORY}/ingest/replay", {"messages": [record("2", "in/y", "1")["body"]]})
    assert replayed["results"][0]["outcome"] == "staged"
    ask("write", "POST", f"{REPOSITORY}/ingest/reconciliations", {"rule": "r"})
    work()
    ask("write", "POST", f"{REPOSITORY}/checks", {"repair": True, "objects": True})
    ask("write", "POST", f"{REPOSITORY}/space", {})
    ask("write", "POST", f"{REPOSITORY}/dump", {})
    ask("write", "POST", f"{REPOSITORY}/gc/runs", {"quarantine": True})
    work()
    dumps = ask("read", "GET", f"{REPOSITORY}/dumps")["results"]
    key = ask("write", "POST", "/api/v1/auth/keys", {"name": "reader", "role": "reader"})
    ask("write", "DELETE", f"/api/v1/auth/keys/{key['access_key_id']}")
    maintain({"source": "aws.events"})
    ask("write", "DELETE", REPOSITORY)
    parts = ("branches", "commits", "tags")
    restored = {f"{part}_meta_range_id": dumps[-1]["id"] for part in parts} | {"storage_namespace": "s3://lake/a/kept"}
    ask("commit", "POST", f"{REPOSITORY}/restore", restored)
    ask("read", "GET", f"{REPOSITORY}/refs/main/objects/ls")
    ask("write", "DELETE", REPOSITORY)
    ask("write", "POST", "/api/v1/deleted_repositories/kept/purge", {"force": True, "at_once": True})
    assert boto3.client("s3").list_objects_v2(Bucket="lake")["KeyCount"] == 0
    stacks = Stacks(json.loads(SNAPSHOT.read_text()))
    policies = stacks.policies()
    refused = sorted({said for request in calls.requests(stacks) if (said := policies.decide(request).refusal)})
    assert refused == []
    assert {function for function, *_ in calls.records} == {
        "Read",
        "Write",
        "Commit",
        "Merge",
        "Catalog",
        "Diff",
        "Maintain",
        "Ingest",
    }
