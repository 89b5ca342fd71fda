"""An event comes in, the application's answer goes out, and the log has its cost."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from graveler.errors import InvalidError
from graveler.functions.deployed_lake import open_deployed_lake
from graveler.functions.deployment_settings import Configuration, read_configuration
from graveler.functions.entry import MAX_ANSWER, api_handler, raw_path
from graveler.functions.traffic import Tier, Traffic
from graveler.lake.opening.aws import STAGING_SHARDS
from graveler.model import ObjectEntry
from graveler.storage.objects.s3 import S3Objects
from tests.functions.conftest import Handler
from tests.functions.events import event
from tests.infra.test_deploy_docs import FIGURES
from tests.support.shell import Shell

REPOSITORIES = "/api/v1/repositories"


def figures(said: str) -> list[dict[str, Any]]:
    """The lines that hold figures."""
    return [line for line in map(json.loads, said.splitlines()) if "_aws" in line]


def test_requests_and_cache_are_counted_by_event(
    write: Handler, authorization: str, capsys: pytest.CaptureFixture[str]
) -> None:
    created = {"name": "counted", "storage_namespace": "s3://lake/counted"}
    assert write(event("POST", REPOSITORIES, body=created, authorization=authorization), None)["statusCode"] == 201
    listing = event("GET", f"{REPOSITORIES}/counted/refs/main/objects/ls", authorization=authorization)
    capsys.readouterr()
    assert write(listing, None)["statusCode"] == 200
    (line,) = figures(capsys.readouterr().out)
    assert (line["operation"], line["repository"], line["status"]) == ("listObjects", "counted", 200)
    assert line["request_id"] == "request"
    assert 1 <= line["TableRequests"][0] <= 3 + STAGING_SHARDS
    assert line["ObjectRequests"] == [0.0]
    assert line["Retries"] == [0.0]


def test_a_function_that_is_paused_answers_nothing_and_asks_nothing(
    deployment: None, authorization: str, capsys: pytest.CaptureFixture[str], shell: Shell
) -> None:
    shell.export("GRAVELER_PAUSED", "true")
    paused = api_handler("write")
    created = {"name": "paused", "storage_namespace": "s3://lake/paused"}
    response = paused(event("POST", REPOSITORIES, body=created, authorization=authorization), None)
    assert (response["statusCode"], response["headers"]["retry-after"]) == (503, "60")
    assert response["headers"]["x-request-id"] == "request"
    assert "paused" in json.loads(response["body"])["message"]
    (line,) = figures(capsys.readouterr().out)
    assert (line["status"], line["TableRequests"], line["ObjectRequests"]) == (503, [0.0], [0.0])
    shell.unset("GRAVELER_PAUSED")
    missing = api_handler("read")(event("GET", f"{REPOSITORIES}/paused", authorization=authorization), None)
    assert missing["statusCode"] == 404


def test_where_files_of_trees_were_found_is_counted_by_tier(
    deployment: None,
    write: Handler,
    authorization: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    shell: Shell,
) -> None:
    """Memory, then a folder of one's own, then one that functions share, then S3; each function here is on a new machine, if
    nothing else is said."""
    shell.export("GRAVELER_SHARED_CACHE", str(tmp_path / "shared"))
    created = {"name": "tiers", "storage_namespace": "s3://lake/tiers"}
    assert write(event("POST", REPOSITORIES, body=created, authorization=authorization), None)["statusCode"] == 201
    lake = open_deployed_lake(read_configuration(os.environ), Traffic())
    lake.repository("tiers").upload("main", "a", b"1")
    lake.repository("tiers").commit("main", "one")
    listing = event("GET", f"{REPOSITORIES}/tiers/refs/main/objects/ls", authorization=authorization)
    names = ("MemoryHits", "ScratchHits", "SharedHits", "CacheMisses")

    def where(handler: Handler) -> dict[str, float]:
        capsys.readouterr()
        assert handler(listing, None)["statusCode"] == 200
        (line,) = figures(capsys.readouterr().out)
        return {name: line[name][0] for name in names if line.get(name, [0.0])[0]}

    def machine(name: str, *, shares: bool) -> Handler:
        shell.export("GRAVELER_CACHE", str(tmp_path / name))
        if not shares:
            shell.unset("GRAVELER_SHARED_CACHE")
        handler = api_handler("read")
        assert handler(event("GET", "/api/v1/healthcheck"), None)["statusCode"] == 204
        return handler

    files = 2.0  # a metarange and a range
    first = machine("first", shares=True)
    assert where(first) == {"SharedHits": files}
    assert where(first) == {"MemoryHits": 1.0}  # of the metarange it has the list of ranges at hand
    assert where(machine("first", shares=True)) == {"ScratchHits": files}
    alone = machine("alone", shares=False)
    assert where(alone) == {"CacheMisses": files}
    assert where(machine("alone", shares=False)) == {"ScratchHits": files}


def test_a_cache_that_is_not_there_costs_a_read_and_is_counted(
    deployment: None,
    write: Handler,
    authorization: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    shell: Shell,
) -> None:
    """What the shared file system was mounted at is a file, so that all it is asked for fails."""
    created = {"name": "unmounted", "storage_namespace": "s3://lake/unmounted"}
    assert write(event("POST", REPOSITORIES, body=created, authorization=authorization), None)["statusCode"] == 201
    lake = open_deployed_lake(read_configuration(os.environ), Traffic())
    lake.repository("unmounted").upload("main", "a", b"1")
    lake.repository("unmounted").commit("main", "one")
    (tmp_path / "gone").write_bytes(b"")
    shell.export("GRAVELER_SHARED_CACHE", str(tmp_path / "gone"))
    shell.export("GRAVELER_CACHE", str(tmp_path / "new machine"))
    handler = api_handler("read")
    listing = event("GET", f"{REPOSITORIES}/unmounted/refs/main/objects/ls", authorization=authorization)
    capsys.readouterr()
    for expected in ({"CacheMisses": 2.0, "CacheFailures": 4.0}, {"MemoryHits": 1.0}):
        answer = handler(listing, None)
        assert answer["statusCode"] == 200
        assert [entry["path"] for entry in json.loads(answer["body"])["results"]] == ["a"]
        (line,) = figures(capsys.readouterr().out)
        names = ("MemoryHits", "ScratchHits", "SharedHits", "CacheMisses", "CacheFailures")
        assert {name: line[name][0] for name in names if line.get(name, [0.0])[0]} == expected


def test_figures_have_one_dimension(write: Handler, capsys: pytest.CaptureFixture[str]) -> None:
    """Each value of a dimension is paid for as a metric of its own."""
    write(event("GET", "/api/v1/healthcheck"), None)
    (line,) = figures(capsys.readouterr().out)
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]]
    assert len(line["_aws"]["CloudWatchMetrics"][0]["Metrics"]) == FIGURES
    assert line["ColdStarts"] == [1.0]
    write(event("GET", "/api/v1/healthcheck"), None)
    (line,) = figures(capsys.readouterr().out)
    assert line["ColdStarts"] == [0.0]


def test_audit_lines_are_json_with_the_request(authorization: str, capsys: pytest.CaptureFixture[str]) -> None:
    created = {"name": "audited", "storage_namespace": "s3://lake/audited"}
    write = api_handler("write")  # its log is where this test looks
    write(event("POST", REPOSITORIES, body=created, authorization=authorization), None)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (line,) = [line for line in lines if line.get("action") == "createRepository"]
    assert (line["outcome"], line["request_id"], line["source"]) == ("201", "request", "192.0.2.1")


def test_only_the_deployments_buckets_hold_repositories(write: Handler, authorization: str) -> None:
    for namespace, status in (("s3://other/x", 400), ("local://x", 400), ("s3://raw/x", 201), ("s3://lake/y", 201)):
        created = {"name": namespace[5:].replace("/", "-"), "storage_namespace": namespace}
        answer = write(event("POST", REPOSITORIES, body=created, authorization=authorization), None)
        assert answer["statusCode"] == status, answer["body"]


def test_an_answer_is_what_a_gateway_takes(write: Handler) -> None:
    answer = write(event("GET", "/api/v1/nothing"), None)
    assert set(answer) <= {"statusCode", "headers", "body", "isBase64Encoded", "cookies"}
    assert answer["statusCode"] == 404


def test_a_page_that_lambda_would_not_let_through_is_made_shorter(
    deployment: None, write: Handler, authorization: str
) -> None:
    """The fault of objects with very much metadata. What is no page says what to do."""
    created = {"name": "large", "storage_namespace": "s3://lake/large"}
    assert write(event("POST", REPOSITORIES, body=created, authorization=authorization), None)["statusCode"] == 201
    repository = open_deployed_lake(read_configuration(os.environ), Traffic()).repository("large")
    note = "é" * 50_000  # two bytes each, as JSON in JSON seven
    entries = [ObjectEntry(f"{n:02}", "s3://raw/a", 1, "0" * 32, 0, metadata={"note": note}) for n in range(30)]
    repository.link_many("main", entries)

    objects = f"{REPOSITORIES}/large/refs/main/objects"
    listed: list[str] = []
    pages, after = 0, ""
    while pages == 0 or after:
        query = f"amount=30&after={after}&user_metadata=true"
        answer = write(event("GET", f"{objects}/ls", query=query, authorization=authorization), None)
        assert answer["statusCode"] == 200
        assert MAX_ANSWER // 2 * (pages == 0) <= len(json.dumps(answer)) <= MAX_ANSWER
        page = json.loads(answer["body"])
        listed += [entry["path"] for entry in page["results"]]
        pages, after = pages + 1, page["pagination"]["next_offset"]
    assert listed == [entry.path for entry in entries]
    assert pages == 2

    paths = {"paths": listed}
    refused = write(event("POST", f"{objects}/stats", body=paths, authorization=authorization), None)
    assert refused["statusCode"] == 400
    assert "request less at once" in json.loads(refused["body"])["message"]
    assert refused["headers"]["x-request-id"] == "request"
    few = event("POST", f"{objects}/stats", body={"paths": listed[:10]}, authorization=authorization)
    assert write(few, None)["statusCode"] == 200


@pytest.mark.parametrize(
    ("handed_over", "path"),
    [
        ("/api/v1/repositories/a/refs/main~1/objects", "/api/v1/repositories/a/refs/main~1/objects"),
        ("/api/v1/repositories/a/tags/a%2Fb", "/api/v1/repositories/a/tags/a%252Fb"),
        ("/api/v1/repositories/a/tags/a%41", "/api/v1/repositories/a/tags/a%2541"),
        ("/api/v1/auth/users/a b?c#d", "/api/v1/auth/users/a%20b%3Fc%23d"),
        ("/api/v1/auth/users/é", "/api/v1/auth/users/%C3%A9"),
        ("/api/v1/auth/users/100%", "/api/v1/auth/users/100%25"),
    ],
)
def test_paths_that_a_gateway_has_decoded_are_encoded_again(handed_over: str, path: str) -> None:
    assert raw_path(handed_over) == path


def test_a_tag_with_a_percent_sign_or_a_slash_is_the_one_that_was_named(
    deployment: None, write: Handler, authorization: str
) -> None:
    """Decoding twice would answer with, and delete, another one."""
    created = {"name": "tagged", "storage_namespace": "s3://lake/tagged"}
    assert write(event("POST", REPOSITORIES, body=created, authorization=authorization), None)["statusCode"] == 201
    repository = open_deployed_lake(read_configuration(os.environ), Traffic()).repository("tagged")
    names = {"aA", "a%41", "a/b", "a%2Fb", "nightly", "nightly/2026-01-31", "x/y/z"}
    for name in names:
        repository.create_tag(name, "main")
    read = api_handler("read")
    for name in sorted(names):
        path = f"{REPOSITORIES}/tagged/tags/{quote(name, safe='')}"
        answer = read(event("GET", path, authorization=authorization), None)
        assert (answer["statusCode"], json.loads(answer["body"])["id"]) == (200, name)
        assert write(event("DELETE", path, authorization=authorization), None)["statusCode"] == 204
        names.remove(name)
        assert {tag.name for tag in repository.tags().results} == names


def test_a_configuration_says_what_is_missing() -> None:
    given = {"GRAVELER_OBJECTS": "s3://lake", "GRAVELER_TABLES": "dynamodb://lake"}
    assert read_configuration(given) == Configuration(objects="s3://lake", tables="dynamodb://lake")
    for name, value, said in (
        ("GRAVELER_TABLES", "", "GRAVELER_TABLES is not set"),
        ("GRAVELER_OBJECTS", "lake", "must be s3://<bucket>"),
        ("GRAVELER_CACHE_BYTES", "many", "must be a whole number"),
        ("GRAVELER_PRESIGN_SECONDS", "0", "must be a whole number from 1 on"),
    ):
        with pytest.raises(InvalidError, match=said):
            read_configuration({**given, name: value})


def test_figures_have_the_namespace_of_their_deployment(
    write: Handler, authorization: str, capsys: pytest.CaptureFixture[str], shell: Shell
) -> None:
    for namespace, expected in (("another-lake", "another-lake"), ("", "graveler")):
        shell.export("POWERTOOLS_METRICS_NAMESPACE", namespace)
        capsys.readouterr()
        assert api_handler("read")(event("GET", "/api/v1/healthcheck"), None)["statusCode"] == 204
        (line,) = figures(capsys.readouterr().out)
        assert line["_aws"]["CloudWatchMetrics"][0]["Namespace"] == expected


def test_a_function_waits_for_s3_as_long_as_its_deployment_says(deployment: None, shell: Shell) -> None:
    shell.export("GRAVELER_READ_SECONDS", "7")
    lake = open_deployed_lake(read_configuration(os.environ), Traffic())
    store = lake.create_repository("timed", "s3://lake/timed").namespace
    assert isinstance(store, S3Objects)
    assert store._client().meta.config.read_timeout == 7  # type: ignore[attr-defined]


def test_counts_begin_anew_when_they_are_taken() -> None:
    traffic = Traffic()
    traffic.note_request("DynamoDB table 'x', get_item", False)
    traffic.note_request("s3://lake/a: get 'b'", False)
    traffic.note_request("s3://lake/a: get 'b'", True)
    for tier in Tier:
        traffic.note_file(tier)
    traffic.note_file(Tier.MEMORY)
    traffic.note_cache_failure()
    counts = traffic.take()
    assert counts.cache_failures == 1
    assert (counts.tables, counts.objects, counts.retries) == (1, 2, 1)
    assert (counts.in_memory, counts.in_scratch, counts.shared, counts.missed) == (2, 1, 1, 1)
    assert traffic.take().objects == 0
