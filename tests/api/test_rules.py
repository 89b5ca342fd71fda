"""Rules of branches and tags over HTTP."""

from typing import Any

import pytest

from graveler.access.permissions import Role
from graveler.lake.gates.reports import report
from graveler.lake.gates.statuses import Statuses
from graveler.lake.repository import OpenRepository
from graveler.model import Lack, Status, StatusState
from tests.api.support import Client, EventClient, basic, make_world

RULES = "/repositories/repo/settings/rules"
OF_LAKE = "/settings/rules"
QUALITY = {"name": "quality", "branches": ["main"], "statuses": [{"name": "dbt", "posters": ["ci-*"]}]}
FROZEN = {"name": "frozen", "branches": ["release"], "frozen": "audit"}


@pytest.fixture
def client() -> Client:
    world = make_world()
    world.lake.create_repository("repo", "mem://repo")
    return EventClient(world)


def repository(client: Client) -> OpenRepository:
    return client.world.lake.repository("repo")


def test_rules_are_set_and_read(client: Client) -> None:
    before = client("GET", RULES)
    assert (before.json(), before.headers["etag"]) == ({"version": 0, "rules": []}, '"0"')
    answer = client("PUT", RULES, (), {"rules": [QUALITY, FROZEN]})
    assert (answer.status, answer.headers["etag"]) == (200, '"1"')
    assert answer.json() == {"version": 1, "rules": [QUALITY, FROZEN]} == client("GET", RULES).json()


@pytest.mark.parametrize("how", ["if-match", "version"])
def test_rules_are_replaced_only_if_they_are_as_they_were_read(client: Client, how: str) -> None:
    def put(version: int, *rules: object) -> int:
        headers = {"If-Match": f'"{version}"'} if how == "if-match" else {}
        more = {"version": version} if how == "version" else {}
        return client("PUT", RULES, (), {"rules": rules, **more}, headers).status

    assert put(0, QUALITY) == 200
    assert put(0, QUALITY) == 200, "a repetition"
    assert put(0, FROZEN) == 412
    assert put(1, FROZEN) == 200
    assert client("GET", RULES).json() == {"version": 2, "rules": [FROZEN]}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"rules": [{**QUALITY, "aprovals": []}]}, "unknown field `aprovals`"),
        ({"rules": [{**QUALITY, "statuses": [{"name": "s", "poster": ["x"]}]}]}, "unknown field `poster`"),
        ({"rules": [QUALITY], "verson": 1}, "unknown field `verson`"),
        ({}, "missing required field `rules`"),
        ({"rules": [{**QUALITY, "strategies": ["theirs"]}]}, "Invalid enum value"),
        ({"rules": [{**QUALITY, "statuses": [{"name": "s"}]}]}, "nobody could post status 's'"),
        ({"rules": [{**QUALITY, "of_lake": True}]}, "is of the lake"),
        ({"rules": [QUALITY] * 51}, "51 rules are too many"),
        ({"rules": None}, "got `null`"),
    ],
)
def test_a_document_that_cannot_be_is_refused(client: Client, document: dict[str, Any], words: str) -> None:
    answer = client("PUT", RULES, (), document)
    assert answer.status == 400
    assert words in answer.message
    assert client("GET", RULES).json()["version"] == 0


@pytest.mark.parametrize("path", [RULES, OF_LAKE])
def test_no_check_takes_an_upload_url_for_ended_that_still_lives(client: Client, path: str) -> None:
    def put(**seconds: int) -> int:
        check = {"kind": "live-uploads", **seconds}
        rule = {**QUALITY, "statuses": [{"name": "live", "check": check}]}
        return client(
            "PUT", path, (), {"rules": [{**rule, **({"repositories": ["*"]} if path == OF_LAKE else {})}]}
        ).status

    assert (put(seconds=899), put(seconds=900), put()) == (400, 200, 200)


@pytest.mark.parametrize("etag", ['"x"', "'1'", '"-1"', '"²"'])
def test_an_etag_that_is_none_of_rules_is_refused(client: Client, etag: str) -> None:
    assert client("PUT", RULES, (), {"rules": []}, {"If-Match": etag}).status == 400


def test_two_versions_that_differ_are_refused(client: Client) -> None:
    assert client("PUT", RULES, (), {"rules": [], "version": 1}, {"If-Match": '"0"'}).status == 400


def test_a_commit_is_tried(client: Client) -> None:
    client("PUT", RULES, (), {"rules": [QUALITY]})
    answer = client("POST", f"{RULES}/test", (), {"ref": "main", "branch": "main"})
    words = "status 'dbt' is missing; ci-* may post it"
    lack = {"rule": "quality", "requirement": "status", "name": "dbt", "words": words}
    assert answer.json() == {"rules": ["quality"], "lacks": [lack], "observed": []}
    tried = client("POST", f"{RULES}/test", (), {"ref": "main", "tag": "v1", "rules": [{**FROZEN, "tags": ["v*"]}]})
    assert [lack["requirement"] for lack in tried.json()["lacks"]] == ["frozen"]
    for wrong in ({}, {"branch": "a", "tag": "b"}, {"branch": ""}):
        assert client("POST", f"{RULES}/test", (), {"ref": "main", **wrong}).status == 400
    assert client("POST", f"{RULES}/test", (), {"ref": "nope", "branch": "main"}).status == 404


def test_readers_try_rules_in_force_and_set_none(client: Client) -> None:
    reader = client.world.reader
    assert client("GET", RULES, authorization=reader).status == 200
    body = {"ref": "main", "branch": "main"}
    assert client("POST", f"{RULES}/test", (), body, authorization=reader).status == 200
    assert client("POST", f"{RULES}/test", (), {**body, "rules": []}, authorization=reader).status == 401
    assert client("PUT", RULES, (), {"rules": []}, authorization=reader).status == 401


def test_checks_are_tried_by_writers_and_others_than_those_of_the_rules_by_admins(client: Client) -> None:
    path = f"{RULES}/checks"
    kept = {"kind": "no-deletes"}
    client("PUT", RULES, (), {"rules": [{**QUALITY, "statuses": [{"name": "kept", "check": kept}]}]})
    body = {"ref": "main", "branch": "main"}
    access = client.world.access
    writer, limited = (basic(access.create_key("w", Role.WRITER, (), branches)) for branches in ((), ("dev",)))
    answer = client("POST", path, (), body, authorization=writer)
    head = repository(client).commit_of("main").id
    assert (answer.status, answer.json()["commit_id"]) == (200, head)
    assert answer.json()["outcomes"] == [{"name": "kept", "state": "success"}]
    for refused in (limited, client.world.reader):
        assert client("POST", path, (), body, authorization=refused).status == 401
    own = {**body, "definitions": {"ticket": {"kind": "metadata", "keys": {"ticket": "*"}}}}
    assert client("POST", path, (), own, authorization=writer).status == 401
    assert client("POST", path, (), own).json()["outcomes"][0]["state"] == "failure"
    assert client("POST", path, (), {"ref": "main", "branch": "dev"}).status == 400


def test_a_process_that_is_stopped_soon_makes_no_check(client: Client) -> None:
    client("PUT", RULES, (), {"rules": [{**QUALITY, "statuses": [{"name": "kept", "check": {"kind": "no-deletes"}}]}]})
    body = {"ref": "main", "branch": "main"}
    bounded = EventClient(client.world, seconds_left=lambda: 1.0)
    answer = bounded("POST", f"{RULES}/checks", (), body)
    assert (answer.status, "Send the request again" in answer.message) == (429, True)


def test_reports_are_listed_in_pages(client: Client) -> None:
    opened = repository(client)
    commit = opened.commit_of("main")
    for number in range(3):
        report(opened.parts, f"b{number}", commit, [Lack("r", "status", "dbt", words="missing")])
    page = client("GET", f"{RULES}/reports", {"amount": 2}).json()
    assert [result["ref"] for result in page["results"]] == ["b2", "b1"]
    assert page["results"][0]["lacks"] == [{"rule": "r", "requirement": "status", "name": "dbt", "words": "missing"}]
    after = page["pagination"]["next_offset"]
    rest = client("GET", f"{RULES}/reports", {"amount": 2, "after": after}).json()
    assert ([result["ref"] for result in rest["results"]], rest["pagination"]["has_more"]) == (["b0"], False)
    assert client("GET", f"{RULES}/reports", {"after": "x"}).status == 400


MERGE = "/repositories/repo/refs/dev/merge/main"
CANDIDATES = "/repositories/repo/candidates"


def waiting(client: Client, authorization: str = "") -> str:
    """The ID of the commit of a merge that waits for the status of ci."""
    opened = repository(client)
    opened.create_branch("dev", "main")
    opened.upload("dev", "a", b"1")
    opened.commit("dev", "change")
    client("PUT", RULES, (), {"rules": [{**QUALITY, "statuses": [{"name": "dbt", "posters": ["ci"]}]}]})
    refused = client("POST", MERGE, (), {}, authorization=authorization)
    assert refused.status == 412
    assert refused.json()["code"] == "rule_not_fulfilled"
    assert isinstance(refused.json()["fields"]["candidate"], str)
    return str(refused.json()["fields"]["candidate"])


def pass_check(client: Client, commit: str) -> None:
    opened = repository(client)
    status = Status("dbt", StatusState.SUCCESS, principal="ci", created=1)
    statuses = Statuses(opened.parts.tables, opened.parts.uid)
    statuses.post(opened.commit_of(commit).metarange, [status])


def test_a_candidate_is_listed_described_and_published(client: Client) -> None:
    commit = waiting(client)
    (candidate,) = client("GET", CANDIDATES).json()["results"]
    assert (candidate["commit_id"], candidate["state"]) == (commit, "open")
    details = client("GET", f"{CANDIDATES}/{candidate['id']}").json()
    assert details["candidate"] == candidate
    assert not {"key_id", "tokens", "lives"} & candidate.keys()
    assert [lack["name"] for lack in details["lacks"]] == ["dbt"]
    assert client("GET", f"{CANDIDATES}/x").status == 400
    assert client("GET", f"{CANDIDATES}/{'0' * 32}").status == 404
    assert client("POST", f"{CANDIDATES}/{commit}/publish", (), {}).status == 412
    pass_check(client, commit)
    assert client("POST", f"{CANDIDATES}/{commit}/publish", (), {}).json()["id"] == commit
    assert client("GET", "/repositories/repo/branches/main").json()["commit_id"] == commit
    assert client("DELETE", f"{CANDIDATES}/{commit}").status == 409


def test_a_candidate_is_withdrawn_by_its_maker_or_an_admin(client: Client) -> None:
    access = client.world.access
    maker = basic(access.create_key("maker", Role.WRITER))
    other = basic(access.create_key("other", Role.WRITER))
    elsewhere = basic(access.create_key("maker", Role.WRITER, (), ("dev",)))
    commit = waiting(client, maker)
    path = f"{CANDIDATES}/{commit}"
    assert client("DELETE", path, authorization=other).status == 403
    for method, target in (("DELETE", path), ("POST", f"{path}/publish")):
        for refused in (elsewhere, client.world.reader):
            assert client(method, target, (), {}, authorization=refused).status == 401
    assert client("DELETE", path, authorization=maker).status == 204
    assert client("DELETE", path).status == 204, "a repetition"
    assert client("POST", f"{path}/publish", (), {}).status == 409


def test_rules_of_the_lake(client: Client) -> None:
    everywhere = {**FROZEN, "repositories": ["*"]}
    assert client("GET", OF_LAKE).json() == {"version": 0, "rules": [], "in_force": True}
    assert client("PUT", OF_LAKE, (), {"rules": [FROZEN]}).status == 400
    answer = client("PUT", OF_LAKE, (), {"rules": [everywhere]}, {"If-Match": '"0"'})
    in_force = {"version": 1, "rules": [everywhere], "in_force": True}
    assert (answer.status, answer.json(), answer.headers["etag"]) == (200, in_force, '"1"')
    assert client("PUT", OF_LAKE, (), in_force).json() == in_force, "what was read may be sent back"
    assert client("GET", RULES).json() == {"version": 1, "rules": [{**FROZEN, "of_lake": True}]}
    assert client("PUT", OF_LAKE, (), {"rules": []}, {"If-Match": '"0"'}).status == 412
    limited = basic(client.world.access.create_key("limited", Role.ADMIN, ("repo",)))
    for method, document in (("GET", None), ("PUT", {"rules": []})):
        assert client(method, OF_LAKE, (), document, authorization=limited).status == 401
        assert client(method, OF_LAKE, (), document, authorization=client.world.reader).status == 401
