"""Objects over the API: reading, writing, listing, linking."""

import time
from hashlib import md5
from typing import Any

import pytest

from graveler.api.settings import DEFAULT_PRESIGN_SECONDS
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.objects.port import Noted
from tests.api.support import Answer, Client, segment

REFS = "/repositories/repo/refs/{}/objects"
BRANCH = "/repositories/repo/branches/main"
AWKWARD = [
    "a b",
    "a+b",
    "a%2Fb",
    "ä/ö 漢",
    "a?b#c&d=e",
    "/leading//double/",
    "..",
    "a/../b",
    "~^@$",
    "'\"<>\\",
    "x" * 1024,
]


def put(call: Client, path: str, data: bytes = b"data", **headers: str) -> dict[str, Any]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = call("POST", BRANCH + "/objects", {"path": path}, data, sent)
    assert answer.status == 201, answer
    stats = answer.json()
    assert isinstance(stats, dict)
    return stats


def get(call: Client, path: str, ref: str = "main", method: str = "GET", **query: object) -> Answer:
    return call(method, REFS.format(segment(ref)), {"path": path, **query})


def listed(call: Client, ref: str = "main", **query: object) -> list[str]:
    return [item["path"] for item in call("GET", REFS.format(ref) + "/ls", query).json()["results"]]


def store(call: Client, address: str, data: bytes) -> str:
    """Put bytes where a presigned URL would, and return their ETag."""
    repository = call.world.lake.repository("repo")
    repository.parts.objects.put(address.removeprefix("local://repo/"), data)
    return md5(data).hexdigest()


# Upload and read


@pytest.mark.parametrize("path", AWKWARD)
def test_what_was_uploaded_is_read_back_under_any_path(call: Client, path: str) -> None:
    stats = put(call, path, b"bytes \0\xff")
    assert (stats["path"], stats["size_bytes"], stats["path_type"]) == (path, 8, "object")
    assert stats["checksum"] == md5(b"bytes \0\xff").hexdigest()
    answer = get(call, path)
    assert (answer.status, answer.body) == (200, b"bytes \0\xff")
    assert answer.headers["etag"] == f'"{stats["checksum"]}"'
    assert call("GET", REFS.format("main") + "/stat", {"path": path}).json() == stats
    assert listed(call) == [path]


def test_an_upload_keeps_its_content_type_and_user_metadata(call: Client) -> None:
    stats = put(
        call, "a", content_type="text/csv", x_lakefs_meta_owner="me", x_lakefs_internal_client_mtime="7", x_other="no"
    )
    assert stats["content_type"] == "text/csv"
    assert stats["metadata"] == {"owner": "me", "::lakefs::client-mtime": "7"}
    without = call("GET", REFS.format("main") + "/stat", {"path": "a", "user_metadata": "False"}).json()
    assert "metadata" not in without
    assert put(call, "b")["metadata"] == {}
    assert put(call, "b")["content_type"] == "application/octet-stream"


def form(*parts: bytes) -> bytes:
    return b"".join(b"--edge\r\n" + part + b"\r\n" for part in parts) + b"--edge--\r\n"


FORM = {"content-type": "multipart/form-data; boundary=edge"}
CONTENT = b'Content-Disposition: form-data; name="content"; filename="f"\r\nContent-Type: image/png\r\n\r\n'


@pytest.mark.parametrize("data", [b"", b"x", b"\r\n", b"--edge", b"\r\n--edg", b"\0" * 5000, b"\r", b"\n\r\n"])
def test_a_form_s_part_is_the_object(call: Client, data: bytes) -> None:
    other = b'Content-Disposition: form-data; name="else"\r\n\r\nnot this'
    answer = call("POST", BRANCH + "/objects", {"path": "a"}, form(other, CONTENT + data), FORM)
    assert (answer.status, answer.json()["content_type"]) == (201, "image/png")
    assert get(call, "a").body == data


@pytest.mark.parametrize(
    "body", [b"", b"no form", form(b'Content-Disposition: form-data; name="other"\r\n\r\nx'), form(CONTENT)[:60]]
)
def test_a_form_that_cannot_be_read_stages_nothing(call: Client, body: bytes) -> None:
    assert call("POST", BRANCH + "/objects", {"path": "a"}, body, FORM).status == 400
    assert listed(call) == []


def test_ranges_are_answered_as_http_says(call: Client) -> None:
    put(call, "a", b"0123456789")

    def part(header: str, method: str = "GET") -> Answer:
        return call(method, REFS.format("main"), {"path": "a"}, headers={"Range": header})

    answer = part("bytes=2-4")
    assert (answer.status, answer.body, answer.headers["content-range"]) == (206, b"234", "bytes 2-4/10")
    assert part("bytes=-3").body == b"789"
    assert part("bytes=8-").body == b"89"
    assert part("bytes=0-0", "HEAD").headers["content-length"] == "1"
    beyond = part("bytes=10-")
    assert (beyond.status, beyond.headers["content-range"]) == (416, "bytes */10")
    assert part("bytes=10-", "HEAD").status == 416
    assert part("lines=1-2").status == 200


def test_a_range_goes_on_only_in_the_object_that_it_began_in(call: Client) -> None:
    """Who holds the beginning of an object that was replaced since gets the whole new one."""
    old = put(call, "a", b"0123456789")["checksum"]

    def rest(condition: str, method: str = "GET") -> Answer:
        headers = {"Range": "bytes=8-", "If-Range": condition}
        return call(method, REFS.format("main"), {"path": "a"}, headers=headers)

    assert (rest(f'"{old}"').status, rest(f'"{old}"').body) == (206, b"89")
    put(call, "a", b"abcdefghij")
    for condition in (f'"{old}"', "Sat, 01 Jan 2022 00:00:00 GMT", f'W/"{old}"'):
        assert (rest(condition).status, rest(condition).body) == (200, b"abcdefghij")
        assert rest(condition, "HEAD").headers["content-length"] == "10"


def test_a_client_that_has_the_object_is_not_sent_it_again(call: Client) -> None:
    checksum = put(call, "a")["checksum"]
    for method in ("GET", "HEAD"):
        headers = {"If-None-Match": f'"{checksum}"'}
        assert call(method, REFS.format("main"), {"path": "a"}, headers=headers).status == 304
        assert call(method, REFS.format("main"), {"path": "a"}, headers={"If-None-Match": '"x"'}).status == 200


def test_head_says_what_get_would(call: Client) -> None:
    put(call, "a", b"12345")
    answer = get(call, "a", method="HEAD")
    assert (answer.status, answer.headers["content-length"], answer.body) == (200, "5", b"")
    missing = get(call, "b", method="HEAD")
    assert (missing.status, missing.body) == (404, b"")


def test_presigned_reads_are_redirects(call: Client) -> None:
    stats = put(call, "a b")
    answer = get(call, "a b", presign="True")
    assert (answer.status, answer.body) == (302, b"")
    assert answer.headers["location"].startswith("http://memory.invalid/data/")
    signed = call("GET", REFS.format("main") + "/stat", {"path": "a b", "presign": "true"}).json()
    assert signed["physical_address"].startswith("http://memory.invalid/")
    assert signed["physical_address_expiry"] > stats["mtime"]
    [item] = call("GET", REFS.format("main") + "/ls", {"presign": "true"}).json()["results"]
    assert item["physical_address"].startswith("http://memory.invalid/")


@pytest.mark.parametrize("left", [100, 5000])
def test_a_url_that_ends_before_its_time_says_when(call: Client, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    """As those of S3 do, whose credentials live for another ``left`` seconds."""
    put(call, "X-Amz-Expires=7")
    sign = MemoryObjects.presign

    def presign(store: MemoryObjects, key: str, method: str, expires_in: int, noted: Noted | None = None) -> str:
        return sign(store, key, method, min(expires_in, left), noted)

    monkeypatch.setattr(MemoryObjects, "presign", presign)
    began = int(time.time())
    stats = call("GET", REFS.format("main") + "/stat", {"path": "X-Amz-Expires=7", "presign": "true"}).json()
    [item] = call("GET", REFS.format("main") + "/ls", {"presign": "true"}).json()["results"]
    place = call("GET", BRANCH + "/staging/backing", {"path": "a", "presign": "true"}).json()
    seconds = min(left, DEFAULT_PRESIGN_SECONDS)
    for expiry in (stats["physical_address_expiry"], item["physical_address_expiry"], place["presigned_url_expiry"]):
        assert began + seconds <= expiry <= time.time() + seconds


def test_a_large_object_is_a_redirect_even_if_nobody_asked_for_one(call: Client) -> None:
    put(call, "a", bytes(5 << 20))
    assert get(call, "a").status == 302
    assert call("GET", REFS.format("main"), {"path": "a"}, headers={"Range": "bytes=0-9"}).body == bytes(10)


# Listing


def test_listings_page_and_roll_up(call: Client) -> None:
    for path in ("a/1", "a/2", "b", "c/d/1"):
        put(call, path)
    assert listed(call, delimiter="/") == ["a/", "b", "c/"]
    assert listed(call, delimiter="/", prefix="a/") == ["a/1", "a/2"]
    assert listed(call, delimiter="", prefix="", after="") == ["a/1", "a/2", "b", "c/d/1"]
    page = call("GET", REFS.format("main") + "/ls", {"amount": 1, "delimiter": "/"}).json()
    assert page["pagination"] == {"has_more": True, "next_offset": "a/", "results": 1, "max_per_page": 1000}
    assert page["results"] == [
        {"path": "a/", "path_type": "common_prefix", "physical_address": "", "checksum": "", "mtime": 0}
    ]
    assert listed(call, amount=1, delimiter="/", after="a/") == ["b"]


# Conditions


def test_of_writes_if_absent_one_wins(call: Client) -> None:
    only = {"If-None-Match": "*"}
    assert call("POST", BRANCH + "/objects", {"path": "a"}, b"1", only).status == 201
    refused = call("POST", BRANCH + "/objects", {"path": "a"}, b"2", only)
    assert (refused.status, refused.message.startswith("path already exists")) == (412, True)
    assert get(call, "a").body == b"1"


def test_of_writes_on_one_etag_one_wins(call: Client) -> None:
    missing = call("POST", BRANCH + "/objects", {"path": "a"}, b"1", {"If-Match": "*"})
    assert (missing.status, missing.json()["code"]) == (404, "object_not_found")
    put(call, "a", b"1")
    expected_etag = {"If-Match": get(call, "a").headers["etag"]}
    assert call("POST", BRANCH + "/objects", {"path": "a"}, b"2", expected_etag).status == 201
    refused = call("POST", BRANCH + "/objects", {"path": "a"}, b"3", expected_etag)
    assert (refused.status, refused.json()["code"]) == (412, "object_changed")
    assert get(call, "a").body == b"2"
    assert call("POST", BRANCH + "/objects", {"path": "a"}, b"4", {"If-Match": "*"}).status == 201
    assert get(call, "a").body == b"4"


def test_of_deletes_on_one_etag_one_wins(call: Client) -> None:
    put(call, "a", b"1")
    expected_etag = {"If-Match": get(call, "a").headers["etag"]}
    put(call, "a", b"2")
    assert call("DELETE", BRANCH + "/objects", {"path": "a"}, headers=expected_etag).status == 412
    assert get(call, "a").body == b"2"
    expected_etag = {"If-Match": get(call, "a").headers["etag"]}
    assert call("DELETE", BRANCH + "/objects", {"path": "a"}, headers={"If-None-Match": "*"}).status == 501
    for _ in range(2):  # a missing object is success
        assert call("DELETE", BRANCH + "/objects", {"path": "a"}, headers=expected_etag).status == 204
    assert listed(call) == []


@pytest.mark.parametrize(
    "headers",
    [
        {"If-None-Match": '"etag"'},
        {"If-Match": '"a", "b"'},
        {"If-Match": 'W/"a"'},
        {"If-Match": '""'},
        {"If-Match": "a"},
        {"If-Match": '"a"', "If-None-Match": "*"},
    ],
)
def test_other_conditions_are_refused_and_not_ignored(call: Client, headers: dict[str, str]) -> None:
    assert call("POST", BRANCH + "/objects", {"path": "a"}, b"1", headers).status == 501
    assert listed(call) == []


@pytest.mark.parametrize("headers", [{"If-None-Match": "*"}, {"If-Match": '"etag"'}])
def test_where_no_condition_is_kept_each_is_refused(call: Client, headers: dict[str, str]) -> None:
    put(call, "source")
    assert call("POST", BRANCH + "/staging/links", {}, {"objects": []}, headers).status == 501
    body = {"src_path": "source", "shallow": False}
    assert call("POST", BRANCH + "/objects/copy", {"dest_path": "a"}, body, headers).status == 501
    assert listed(call) == ["source"]


# Delete


def test_delete_of_what_is_not_there_is_no_error(call: Client) -> None:
    put(call, "a")
    for _ in range(2):
        assert call("DELETE", BRANCH + "/objects", {"path": "a", "no_tombstone": "false"}).status == 204
    assert get(call, "a").status == 404
    assert call("DELETE", "/repositories/repo/branches/none/objects", {"path": "a"}).status == 404


def test_many_are_deleted_and_what_cannot_be_a_path_is_reported(call: Client) -> None:
    for path in ("a", "b", "c"):
        put(call, path)
    body = {"paths": ["a", "", "c", "nowhere", "y" * 1025]}
    answer = call("POST", BRANCH + "/objects/delete", body=body)
    assert answer.status == 200
    assert [(e["status_code"], e["path"]) for e in answer.json()["errors"]] == [(400, "y" * 1025)]
    assert listed(call) == ["b"]
    assert call("POST", BRANCH + "/objects/delete", body={"paths": ["x"] * 1001}).status == 400


# Copy, metadata


def test_a_copy_is_the_same_object_under_another_path(call: Client) -> None:
    stats = put(call, "a", b"bytes", content_type="text/plain", x_lakefs_meta_k="v")
    answer = call("POST", BRANCH + "/objects/copy", {"dest_path": "b"}, {"src_path": "a"})
    assert answer.status == 201
    same = ("checksum", "size_bytes", "content_type", "metadata")
    assert [answer.json()[name] for name in same] == [stats[name] for name in same]
    assert get(call, "b").body == b"bytes"
    from_ref = {"src_path": "a", "src_ref": "main"}
    assert call("POST", BRANCH + "/objects/copy", {"dest_path": "c"}, from_ref).status == 201
    assert call("POST", BRANCH + "/objects/copy", {"dest_path": "c"}, {"src_path": "none"}).status == 404
    shallow = call("POST", BRANCH + "/objects/copy", {"dest_path": "c"}, {"src_path": "a", "shallow": True})
    assert (shallow.status, shallow.json()["physical_address"]) == (201, answer.json()["physical_address"])
    own = call("POST", BRANCH + "/objects/copy", {"dest_path": "d"}, {"src_path": "a", "shallow": False})
    assert own.status == 201
    assert own.json()["physical_address"] != answer.json()["physical_address"]
    assert [own.json()[name] for name in same] == [stats[name] for name in same]
    assert get(call, "d").body == b"bytes"
    gone = {"src_path": "none", "shallow": False}
    assert call("POST", BRANCH + "/objects/copy", {"dest_path": "e"}, gone).status == 404


def test_user_metadata_is_replaced_as_a_whole(call: Client) -> None:
    put(call, "a", x_lakefs_meta_old="1")
    answer = call("PUT", BRANCH + "/objects/stat/user_metadata", {"path": "a"}, {"set": {"new": "2"}})
    assert (answer.status, answer.body) == (204, b"")
    stats = call("GET", REFS.format("main") + "/stat", {"path": "a"}).json()
    assert stats["metadata"] == {"new": "2"}
    assert call("PUT", BRANCH + "/objects/stat/user_metadata", {"path": "b"}, {"set": {}}).status == 404


# Link and stage


def backing(call: Client, path: str, branch: str = "main", **query: object) -> Answer:
    return call("GET", f"/repositories/repo/branches/{branch}/staging/backing", {"path": path, **query})


def link(call: Client, path: str, address: str, checksum: str, size: int = 1, **more: object) -> Answer:
    body = {"staging": {"physical_address": address}, "checksum": checksum, "size_bytes": size, **more}
    headers = {"If-None-Match": "*"} if more.pop("absent", False) else {}
    return call("PUT", BRANCH + "/staging/backing", {"path": path}, body, headers)


def test_bytes_are_written_to_an_address_and_linked(call: Client) -> None:
    location = backing(call, "a", presign="true").json()
    assert location["presigned_url"].startswith("http://memory.invalid/data/")
    assert location["presigned_url_expiry"] > 0
    etag = store(call, location["physical_address"], b"12345")
    answer = link(call, "a", location["physical_address"], f'"{etag}"', 5, content_type="a/b", user_metadata={"k": "v"})
    assert answer.status == 200
    stats = answer.json()
    assert (stats["checksum"], stats["size_bytes"], stats["content_type"]) == (etag, 5, "a/b")
    assert stats["metadata"] == {"k": "v"}
    assert get(call, "a").body == b"12345"
    plain = backing(call, "a").json()
    assert plain["presigned_url"] is None


def test_links_that_cannot_be_true_are_refused(call: Client) -> None:
    address = backing(call, "a").json()["physical_address"]
    assert link(call, "other", address, "x").status == 400  # handed out for another path
    assert link(call, "a", address, "").status == 400
    assert link(call, "a", address, '""').status == 400
    assert link(call, "a", address, "x", -1).status == 400
    assert link(call, "a", "", "x").status == 400
    assert link(call, "a", "local://repo/data/x/y", "x").status == 400
    assert link(call, "a", address[:-1] + "!", "x").status == 400
    assert backing(call, "a", branch="none").status == 404
    assert backing(call, "").status == 400
    assert listed(call) == []


def test_of_links_if_absent_one_wins(call: Client) -> None:
    first, second = (backing(call, "a").json()["physical_address"] for _ in range(2))
    assert link(call, "a", first, "x", absent=True).status == 200
    assert link(call, "a", second, "y", absent=True).status == 412
    assert link(call, "a", second, "y").status == 200


def test_a_thousand_objects_are_linked_and_looked_up_at_once(call: Client) -> None:
    links = [
        {
            "path": f"p/{n}",
            "staging": {"physical_address": backing(call, f"p/{n}").json()["physical_address"]},
            "checksum": "ab" * 16,
            "size_bytes": n,
        }
        for n in range(30)
    ]
    answer = call("POST", BRANCH + "/staging/links", body={"objects": links})
    assert [stats["size_bytes"] for stats in answer.json()["results"]] == list(range(30))
    asked = {"paths": ["p/7", "none", "p/3", "p/7"]}
    found = call("POST", REFS.format("main") + "/stats", body=asked).json()
    assert [stats["path"] for stats in found["results"]] == ["p/7", "p/3", "p/7"]
    assert [error["path"] for error in found["errors"]] == ["none"]
    assert call("POST", BRANCH + "/staging/links", body={"objects": links[:1] * 2}).status == 400
    assert call("POST", BRANCH + "/staging/links", body={"objects": links[:1] * 1001}).status == 400


def test_an_object_that_lies_elsewhere_is_staged(call: Client) -> None:
    body = {"physical_address": "file:///else/x", "checksum": "c", "size_bytes": 3, "mtime": 77, "metadata": {"a": "b"}}
    answer = call("PUT", BRANCH + "/objects", {"path": "a"}, body)
    assert answer.status == 201
    assert (answer.json()["physical_address"], answer.json()["mtime"]) == ("file:///else/x", 77)
    assert call("GET", BRANCH + "/objects/stage_allowed", {"path": "a"}).status == 204
    unreadable = call("PUT", BRANCH + "/objects", {"path": "a"}, {**body, "physical_address": "mem://else/x"})
    assert (unreadable.status, "cannot read" in unreadable.message) == (400, True)


# In parts


def test_an_upload_in_parts_becomes_one_object(call: Client) -> None:
    begun = call("POST", BRANCH + "/staging/pmpu", {"path": "a", "parts": 2})
    assert begun.status == 201
    upload = begun.json()
    assert len(upload["presigned_urls"]) == 2
    address = {"physical_address": upload["physical_address"]}
    base = f"{BRANCH}/staging/pmpu/{upload['upload_id']}"
    fresh = call("PUT", base + "/parts/1", {"path": "a"}, address)
    assert fresh.json()["presigned_url"].startswith("http")
    put(call, "source", b"0123456789")
    etags = []
    for number, wanted in ((1, "bytes=0-4"), (2, "bytes=5-9")):
        copied = call(
            "PUT",
            f"{base}/parts/{number}/copy",
            {"path": "a"},
            {**address, "copy_source": {"path": "source", "range": wanted}},
        )
        assert copied.status == 204, copied
        etags.append(copied.headers["etag"])
    parts = [{"part_number": number, "etag": etag} for number, etag in enumerate(etags, 1)]
    done = call("PUT", base, {"path": "a"}, {**address, "parts": parts, "content_type": "a/b"})
    assert done.status == 200
    assert (done.json()["size_bytes"], done.json()["content_type"]) == (10, "a/b")
    assert get(call, "a").body == b"0123456789"
    # A client that did not hear the answer asks again.
    assert call("PUT", base, {"path": "a"}, {**address, "parts": parts, "content_type": "a/b"}).status == 200


def test_of_uploads_in_parts_if_absent_one_wins(call: Client) -> None:
    def finish(headers: dict[str, str]) -> Answer:
        upload = call("POST", BRANCH + "/staging/pmpu", {"path": "a"}).json()
        address = {"physical_address": upload["physical_address"]}
        base = f"{BRANCH}/staging/pmpu/{upload['upload_id']}"
        source = {**address, "copy_source": {"path": "source"}}
        etag = call("PUT", f"{base}/parts/1/copy", {"path": "a"}, source).headers["etag"]
        body = {**address, "parts": [{"part_number": 1, "etag": etag}]}
        return call("PUT", base, {"path": "a"}, body, headers)

    put(call, "source", b"1")
    only = {"If-None-Match": "*"}
    assert finish(only).status == 200
    put(call, "source", b"2")
    refused = finish(only)
    assert (refused.status, refused.message.startswith("path already exists")) == (412, True)
    assert finish({"If-Match": '"other"'}).status == 412
    assert get(call, "a").body == b"1"
    assert finish({"If-Match": get(call, "a").headers["etag"]}).status == 200
    assert get(call, "a").body == b"2"


def test_uploads_in_parts_that_make_no_sense_are_refused(call: Client) -> None:
    upload = call("POST", BRANCH + "/staging/pmpu", {"path": "a"}).json()
    assert "presigned_urls" not in upload
    address = {"physical_address": upload["physical_address"]}
    base = f"{BRANCH}/staging/pmpu/{upload['upload_id']}"
    part = {"part_number": 1, "etag": "x"}
    assert call("POST", BRANCH + "/staging/pmpu", {"path": ""}).status == 400
    assert call("POST", "/repositories/repo/branches/none/staging/pmpu", {"path": "a"}).status == 404
    assert call("POST", BRANCH + "/staging/pmpu", {"path": "a", "parts": 10_001}).status == 400
    assert call("PUT", base, {"path": "a"}, {**address, "parts": []}).status == 400
    assert call("PUT", base, {"path": "b"}, {**address, "parts": [part]}).status == 400
    assert call("PUT", base, {"path": "a"}, {"physical_address": "", "parts": [part]}).status == 400
    assert call("PUT", base, {"path": "a"}, {**address, "parts": [part]}).status in (400, 404)
    assert call("PUT", base + "/parts/0", {"path": "a"}, address).status == 400
    assert call("PUT", base + "/parts/x", {"path": "a"}, address).status == 400
    for _ in range(2):
        assert call("DELETE", base, {"path": "a"}, address).status == 204
    assert listed(call) == []
