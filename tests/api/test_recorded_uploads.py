"""Uploads in parts that the table records, and copies under conditions, over the API."""

from graveler.lake.objects.upload_records import new_upload_id
from tests.api.support import Client

BRANCH = "/repositories/repo/branches/main"
UPLOADS = f"{BRANCH}/uploads"


def begin(call: Client, path: str) -> str:
    """Begin an upload, and return its ID."""
    begun = call("POST", UPLOADS, {"path": path}, {"content_type": "a/b", "user_metadata": {"k": "v"}})
    assert begun.status == 201, begun
    assert (begun.json()["path"], begun.json()["content_type"]) == (path, "a/b")
    return str(begun.json()["upload_id"])


def test_uploads_are_listed_by_path_and_time(call: Client) -> None:
    ids = [begin(call, path) for path in ("a/1", "a/1", "a/2", "b")]
    listed: list[str] = []
    after = {"after": "", "after_id": ""}
    while True:
        page = call("GET", UPLOADS, {"prefix": "a/", "amount": 2, **after}).json()
        listed += [upload["upload_id"] for upload in page["results"]]
        after = {"after": page["pagination"]["next_offset"], "after_id": listed[-1]}
        if not page["pagination"]["has_more"]:
            break
    assert listed == [
        *sorted(ids[:2]),
        ids[2],
    ]  # two of one path that begin in the same millisecond come in the order of their IDs
    assert [upload["path"] for upload in call("GET", UPLOADS, {"after": "a/1"}).json()["results"]] == ["a/2", "b"]
    assert call("GET", "/repositories/repo/branches/none/uploads").status == 404


def test_the_ids_of_uploads_sort_by_the_millisecond_of_their_beginning() -> None:
    ids = [new_upload_id(1_700_000_000 + number / 500) for number in range(100)]
    assert ids == sorted(ids)


def test_an_upload_is_continued_by_its_id(call: Client) -> None:
    upload = f"{UPLOADS}/{begin(call, 'a')}"
    url = call("PUT", f"{upload}/parts/1", {"path": "a"})
    assert url.json()["presigned_url"].startswith("http")
    assert call("PUT", f"{upload}/parts/0", {"path": "a"}).status == 400
    assert call("PUT", f"{upload}/parts/1", {"path": "b"}).status == 404
    assert call("GET", f"{upload}/parts", {"path": "a"}).json()["results"] == []
    part = {"part_number": 1, "etag": "x"}
    assert call("PUT", upload, {"path": "a"}, {"parts": [part]}).status == 400
    assert call("PUT", upload, {"path": "a"}, {"parts": [part]}, {"If-Match": '"other"'}).status == 404
    assert call("DELETE", upload, {"path": "a"}).status == 204
    for method in ("DELETE", "PUT"):
        gone = call(method, upload, {"path": "a"}, {"parts": [part]} if method == "PUT" else None)
        assert (gone.status, gone.json()["code"]) == (404, "upload_not_found")


def test_a_copy_takes_conditions_and_other_properties(call: Client) -> None:
    checksums = {
        path: call("POST", f"{BRANCH}/objects", {"path": path}, path.encode()).json()["checksum"] for path in "ab"
    }

    def copy(headers: dict[str, str] | None = None, **fields: object) -> int:
        return call("POST", f"{BRANCH}/objects/copy", {"dest_path": "b"}, {"src_path": "a", **fields}, headers).status

    assert copy({"If-None-Match": "*"}) == 412
    assert copy({"If-Match": '"other"'}) == 412
    assert copy(src_checksum="other") == 412
    assert copy(src_checksum="other", shallow=False) == 501
    assert copy({"If-Match": f'"{checksums["b"]}"'}, content_type="a/b", user_metadata={"k": "v"}) == 201
    stats = call("GET", "/repositories/repo/refs/main/objects/stat", {"path": "b"}).json()
    assert (stats["checksum"], stats["content_type"], stats["metadata"]) == (checksums["a"], "a/b", {"k": "v"})
