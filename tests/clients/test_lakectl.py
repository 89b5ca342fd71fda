"""The requests of ``lakectl``, replayed command by command, since the binary is not available here.

The Go client decodes an error only of type JSON and of a documented status; it reads times of presigned URLs from their query.
"""

import json
import re
import socket
from base64 import b64encode
from calendar import timegm
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from hashlib import md5
from http.client import HTTPResponse
from pathlib import Path
from time import strptime, time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import lakefs
import pytest

from tests.clients.support import Served, Wire, form
from tests.support.patience import PATIENCE

AGENT = "lakectl/1.84.0"
PART = 5 << 20


@pytest.fixture
def ctl(served: Served) -> Wire:
    """A client that has asked what every command asks first."""
    wire = Wire(served, AGENT)
    wire("POST", "/statistics", "", {"events": [{"class": "lakectl", "name": "fs", "count": 1}]}).expect(204)
    config = wire("GET", "/config").expect(200).json()
    assert config["version_config"]["version_context"] == "lakeFS"
    return wire


@pytest.fixture
def base(repo: lakefs.Repository) -> str:
    return f"/repositories/{repo.id}"


def upload(ctl: Wire, base: str, path: str, data: bytes) -> Any:
    """``fs upload`` of a small file."""
    query = {"path": path, "presign": "true"}
    where = ctl("GET", f"{base}/branches/main/staging/backing", query).expect(200).json()
    put = ctl.plain("PUT", where["presigned_url"], data, {"Content-Type": "text/plain"}).expect(200)
    body = {
        "staging": where,
        "checksum": put.headers["ETag"],  # with its quotes
        "size_bytes": len(data),
        "content_type": "text/plain",
        "user_metadata": {"::lakefs::client-mtime": "1700000000"},
    }
    return ctl("PUT", f"{base}/branches/main/staging/backing", {"path": path}, body).expect(200).json()


def test_doctor_likes_the_keys_and_finds_no_other_api(ctl: Wire, served: Served) -> None:
    assert re.fullmatch(r"AKIA[IJ][A-Z0-9]{14}Q", served.key_id)
    assert len(served.secret) == 40
    ctl("GET", "/repositories", {"amount": 1}).expect(200)
    elsewhere = ctl.plain("GET", f"{served.url}/api/v11/config")
    assert "json" not in elsewhere.headers["content-type"]
    refused = ctl.plain("GET", f"{served.api}/repositories").expect(401).json()
    assert refused["message"] == "error authenticating request"


def test_identity_and_usage(ctl: Wire) -> None:
    assert ctl("GET", "/user").expect(200).json()["user"]["id"]
    assert "installation_id" in ctl("GET", "/usage-report/summary").expect(200).json()


def test_branches_and_tags(ctl: Wire, base: str) -> None:
    made = ctl("POST", f"{base}/branches", "", {"name": "b", "source": "main"}).expect(201)
    assert made.headers["content-type"].startswith("text/plain")
    commit = made.body.decode()
    assert re.fullmatch("[0-9a-f]{64}", commit)
    again = ctl("POST", f"{base}/branches", "", {"name": "b", "source": "main"}).expect(409)
    assert "branch already exists" in again.json()["message"]
    listed = ctl("GET", f"{base}/branches", {"prefix": "", "after": "", "amount": 100}).expect(200).json()
    assert listed["results"] == [{"id": "b", "commit_id": commit}, {"id": "main", "commit_id": commit}]
    assert ctl("POST", f"{base}/tags", "", {"id": "v1", "ref": "b"}).expect(201).json() == {
        "id": "v1",
        "commit_id": commit,
    }
    assert ctl("GET", f"{base}/tags/v1").expect(200).json()["commit_id"] == commit
    ctl("DELETE", f"{base}/tags/v1").expect(204)
    ctl("DELETE", f"{base}/tags/v1").expect(404)
    ctl("DELETE", f"{base}/branches/b").expect(204)
    ctl("DELETE", f"{base}/branches/main").expect(403)


def test_commit_log_show_and_diff(ctl: Wire, base: str) -> None:
    upload(ctl, base, "a", b"1")
    uncommitted = ctl("GET", f"{base}/branches/main/diff", {"after": "", "amount": 1000}).expect(200).json()
    assert uncommitted["results"] == [{"type": "added", "path": "a", "path_type": "object", "size_bytes": 1}]
    body = {"message": "one", "metadata": {"k": "v"}, "allow_empty": False}
    made = ctl("POST", f"{base}/branches/main/commits", "", body).expect(201).json()
    log = ctl("GET", f"{base}/refs/main/commits", {"amount": 100, "after": "", "limit": False}).expect(200).json()
    assert [commit["message"] for commit in log["results"]] == ["one", "Repository created"]
    for ref in ("main", "main%7E0", "main%40", made["id"], made["id"][:10], "main%5E0"):
        assert ctl("GET", f"{base}/commits/{ref}").expect(200).json() == made, ref
    query = {"type": "two_dot", "amount": 1000}
    diff = ctl("GET", f"{base}/refs/main~1/diff/main", query).expect(200).json()["results"]
    assert [(item["type"], item["path"]) for item in diff] == [("added", "a")]
    nothing = ctl("POST", f"{base}/branches/main/commits", "", body).expect(400)
    assert "no changes" in nothing.json()["message"]


def test_merge_revert_and_cherry_pick(ctl: Wire, base: str) -> None:
    upload(ctl, base, "a", b"1")
    ctl("POST", f"{base}/branches", "", {"name": "b", "source": "main"}).expect(201)
    dirty = ctl("POST", f"{base}/refs/b/merge/main", "", {}).expect(400).json()
    assert dirty["message"]
    ctl("POST", f"{base}/branches/main/commits", "", {"message": "one"}).expect(201)
    merged = ctl("POST", f"{base}/refs/main/merge/b", "", {"strategy": "", "squash_merge": False}).expect(200).json()
    assert re.fullmatch("[0-9a-f]{64}", merged["reference"])
    common = ctl("GET", f"{base}/refs/main/merge/b").expect(200).json()
    assert set(common) == {"source_commit_id", "destination_commit_id", "base_commit_id"}
    ctl("POST", f"{base}/branches/main/revert", "", {"ref": "main", "parent_number": 0}).expect(204)
    picked = ctl("POST", f"{base}/branches/main/cherry-pick", "", {"ref": "main~1"}).expect(201).json()
    assert picked["metadata"]["cherry-pick-origin"]
    ctl("PUT", f"{base}/branches/main", "", {"type": "reset"}).expect(204)


def test_annotate_asks_the_log_of_each_object(ctl: Wire, base: str) -> None:
    for number, path in enumerate(("dir/a", "dir/b")):
        upload(ctl, base, path, b"1")
        ctl("POST", f"{base}/branches/main/commits", "", {"message": f"commit {number}"}).expect(201)
    found = {}
    for item in ctl("GET", f"{base}/refs/main/objects/ls", {"prefix": "dir/"}).expect(200).json()["results"]:
        query = {"objects": item["path"], "amount": 1, "limit": True}
        log = ctl("GET", f"{base}/refs/main/commits", query).expect(200).json()
        found[item["path"]] = log["results"][0]["message"]
        assert not log["pagination"]["has_more"]
    assert found == {"dir/a": "commit 0", "dir/b": "commit 1"}
    query = {"prefixes": "dir/", "amount": 1, "limit": True}
    log = ctl("GET", f"{base}/refs/main/commits", query).expect(200).json()
    assert [commit["message"] for commit in log["results"]] == ["commit 1"]


def test_small_files_are_uploaded_by_one_put(ctl: Wire, base: str) -> None:
    stat = upload(ctl, base, "dir/a", b"bytes")
    assert (stat["checksum"], stat["content_type"]) == (md5(b"bytes").hexdigest(), "text/plain")
    assert stat["metadata"] == {"::lakefs::client-mtime": "1700000000"}
    assert ctl("GET", f"{base}/refs/main/objects/stat", {"path": "dir/a"}).expect(200).json() == stat
    listed = ctl("GET", f"{base}/refs/main/objects/ls", {"delimiter": "/", "prefix": ""}).expect(200).json()["results"]
    assert listed == [
        {"path": "dir/", "path_type": "common_prefix", "physical_address": "", "checksum": "", "mtime": 0}
    ]


def test_without_presign_files_are_uploaded_as_forms(ctl: Wire, base: str) -> None:
    body, kind = form(b"bytes", "text/csv")
    headers = {"Content-Type": kind, "x-lakefs-meta-Team": "lake", "x-lakefs-internal-client-mtime": "17"}
    stat = ctl("POST", f"{base}/branches/main/objects", {"path": "f.csv"}, body, headers).expect(201).json()
    assert (stat["content_type"], stat["size_bytes"]) == ("text/csv", 5)
    assert stat["metadata"] == {"team": "lake", "::lakefs::client-mtime": "17"}
    assert ctl("GET", f"{base}/refs/main/objects", {"path": "f.csv"}).expect(200).body == b"bytes"


def test_an_upload_to_a_protected_branch_ends_at_once_with_403(ctl: Wire, base: str) -> None:
    """lakectl repeats requests after 429, 500 and 503, and after broken connections. It shows the message and, in a line of its
    own, the status; of the address it shows only the message, which therefore has both lines."""
    ctl("PUT", f"{base}/settings/branch_protection", "", [{"pattern": "main"}]).expect(204)
    for query in ({"path": "a", "presign": "true"}, {"path": "a"}):
        refused = ctl("GET", f"{base}/branches/main/staging/backing", query).expect(403).json()
        assert refused["message"].split("\n") == ["cannot write to protected branch", "403 Forbidden"]
        assert refused["code"] == "branch_protected"
    data, kind = form(b"x" * 300_000)
    refused = ctl("POST", f"{base}/branches/main/objects", {"path": "a"}, data, {"Content-Type": kind}).expect(403)
    assert refused.json()["message"] == "cannot write to protected branch"
    parts = ctl("POST", f"{base}/branches/main/staging/pmpu", {"path": "a", "parts": 3}).expect(403)
    assert parts.json()["message"] == "cannot write to protected branch"


@pytest.mark.parametrize("length", ["Content-Length: 4000000000", "Transfer-Encoding: chunked"])
def test_a_large_upload_is_refused_before_its_bytes_are_sent(ctl: Wire, base: str, served: Served, length: str) -> None:
    """Of the form only its beginning arrives: the response is not to wait for the rest."""
    ctl("PUT", f"{base}/settings/branch_protection", "", [{"pattern": "main"}]).expect(204)
    where = urlsplit(served.api)
    assert where.hostname is not None
    token = b64encode(f"{served.key_id}:{served.secret}".encode()).decode()
    _, kind = form(b"")
    head = (
        f"POST {where.path}{base}/branches/main/objects?path=a HTTP/1.1\r\nHost: {where.netloc}\r\n"
        f"Authorization: Basic {token}\r\nContent-Type: {kind}\r\n{length}\r\n\r\n"
    )
    with socket.create_connection((where.hostname, where.port or 80), PATIENCE) as connection:
        connection.sendall(head.encode())
        response = HTTPResponse(connection)
        response.begin()
        assert response.status == 403
        assert json.loads(response.read())["message"] == "cannot write to protected branch"


def test_large_files_are_uploaded_in_parts_with_fresh_urls(ctl: Wire, base: str) -> None:
    data = bytes(range(256)) * (PART // 256) + b"the end"
    uploads = f"{base}/branches/main/staging/pmpu"
    begun = ctl("POST", uploads, {"path": "big", "parts": 2}).expect(201).json()
    first = begun["presigned_urls"][0]
    # It looks there when a URL ends, and asks for another in time.
    signed = parse_qs(urlsplit(first).query)
    ends = timegm(strptime(signed["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ")) + int(signed["X-Amz-Expires"][0])
    assert ends > time() + 15
    part = f"{uploads}/{begun['upload_id']}/parts/2"
    where = {"physical_address": begun["physical_address"]}
    second = ctl("PUT", part, {"path": "big"}, where).expect(200).json()["presigned_url"]
    parts = [
        {"part_number": number, "etag": ctl.plain("PUT", url, piece).expect(200).headers["ETag"]}
        for number, url, piece in ((1, first, data[:PART]), (2, second, data[PART:]))
    ]
    done = {**where, "parts": parts, "content_type": "application/x-big", "user_metadata": {"k": "v"}}
    stat = ctl("PUT", f"{uploads}/{begun['upload_id']}", {"path": "big"}, done).expect(200).json()
    assert (stat["size_bytes"], stat["content_type"]) == (len(data), "application/x-big")

    # fs download: ranges in parallel
    query = {"path": "big", "presign": "true"}
    url = ctl("GET", f"{base}/refs/main/objects/stat", query).expect(200).json()["physical_address"]
    step = 1 << 20

    def fetch(begin: int) -> bytes:
        end = min(begin + step, len(data)) - 1
        reply = ctl.plain("GET", url, headers={"Range": f"bytes={begin}-{end}"}).expect(206)
        assert len(reply.body) == end - begin + 1
        return reply.body

    with ThreadPoolExecutor(4) as pool:
        assert b"".join(pool.map(fetch, range(0, len(data), step))) == data


def test_uploads_are_aborted(ctl: Wire, base: str) -> None:
    uploads = f"{base}/branches/main/staging/pmpu"
    begun = ctl("POST", uploads, {"path": "big"}).expect(201).json()
    assert "presigned_urls" not in begun
    where = {"physical_address": begun["physical_address"]}
    ctl("DELETE", f"{uploads}/{begun['upload_id']}", {"path": "big"}, where).expect(204)
    ctl("PUT", f"{uploads}/{begun['upload_id']}", {"path": "big"}, {**where, "parts": []}).expect(400)
    for query in ({"path": ""}, {}):
        ctl("POST", uploads, query).expect(400)


def test_downloads_follow_a_redirect(ctl: Wire, base: str) -> None:
    upload(ctl, base, "a", b"bytes")
    reply = ctl("GET", f"{base}/refs/main/objects", {"path": "a", "presign": "true"}).expect(302)
    assert ctl.plain("GET", reply.headers["Location"]).expect(200).body == b"bytes"
    # Go may send its credentials along; the URL counts.
    with_credentials = {"Authorization": "Basic bm9ib2R5Om5vdGhpbmc="}
    assert ctl.plain("GET", reply.headers["Location"], headers=with_credentials).expect(200).body == b"bytes"
    assert urlsplit(reply.headers["Location"]).hostname != "127.0.0.1"


def test_objects_are_staged_changed_and_removed(ctl: Wire, base: str, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"bytes")
    body = {"physical_address": f"file://{tmp_path}/there", "checksum": "c", "size_bytes": 5, "metadata": {"a": "b"}}
    objects = f"{base}/branches/main/objects"
    assert ctl("PUT", objects, {"path": "s"}, body).expect(201).json()["metadata"] == {"a": "b"}
    assert ctl("PUT", f"{objects}/stat/user_metadata", {"path": "s"}, {"set": {"c": "d"}}).expect(204).body == b""
    assert ctl("GET", f"{base}/refs/main/objects/stat", {"path": "s"}).json()["metadata"] == {"c": "d"}
    ctl("DELETE", objects, {"path": "s"}).expect(204)
    ctl("DELETE", objects, {"path": "s"}).expect(204)
    assert ctl("POST", f"{objects}/delete", "", {"paths": ["s"]}).expect(200).json() == {"errors": []}


def test_local_checkouts_ask_for_a_commit_and_its_objects(ctl: Wire, base: str) -> None:
    upload(ctl, base, "data/a", b"1")
    ctl("POST", f"{base}/branches/main/commits", "", {"message": "one"}).expect(201)
    head = ctl("GET", f"{base}/branches/main").expect(200).json()["commit_id"]
    query = {"prefix": "data/", "amount": 1000, "after": ""}
    listed = ctl("GET", f"{base}/refs/{head}/objects/ls", query).expect(200).json()["results"]
    assert listed[0]["metadata"] == {"::lakefs::client-mtime": "1700000000"}
    upload(ctl, base, "data/b", b"2")
    query = {"type": "two_dot", "prefix": "data/"}
    changed = ctl("GET", f"{base}/refs/{head}/diff/main", query).expect(200).json()["results"]
    assert [(item["type"], item["path"]) for item in changed] in ([], [("added", "data/b")])
    body = {"message": "from a folder", "metadata": {"local": "yes"}}
    assert ctl("POST", f"{base}/branches/main/commits", "", body).expect(201).json()["metadata"] == {"local": "yes"}


def test_imports_are_followed(ctl: Wire, base: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"1")
    body = {
        "paths": [{"type": "common_prefix", "path": f"file://{tmp_path}/in/", "destination": "to/"}],
        "commit": {"message": "imported", "metadata": {}},
    }
    target = f"{base}/branches/main/import"
    started = ctl("POST", target, "", body).expect(202).json()["id"]
    status: dict[str, Any] = {}
    while not status.get("completed"):
        status = ctl("GET", target, {"id": started}).expect(200).json()
        assert "error" not in status, status
    assert datetime.fromisoformat(status["update_time"]).tzinfo
    assert (status["ingested_objects"], status["commit"]["message"]) == (1, "imported")
    assert ctl("DELETE", target, {"id": started}).expect(409).json()["message"]
    ctl("GET", target, {"id": "none"}).expect(404)
    metadata = ctl("GET", f"{base}/metadata").expect(200).json()
    assert metadata.get(".lakefs.last.import.timestamp") == str(status["commit"]["creation_date"])


def test_rules_are_read_and_set_under_a_condition(ctl: Wire, base: str) -> None:
    rules = f"{base}/settings/branch_protection"
    found = ctl("GET", rules).expect(200)
    headers = {"If-Match": found.headers["ETag"]}
    ctl("PUT", rules, "", [{"pattern": "v*"}], headers).expect(204)
    ctl("PUT", rules, "", [{"pattern": "w*"}], headers).expect(412)
    assert ctl("GET", rules).json() == [{"pattern": "v*"}]
