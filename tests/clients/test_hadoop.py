"""The requests of ``hadoop-lakefs`` (Spark's ``lakefs://``), replayed one by one, since the Java client is not available here.

It uses a Java SDK that sends empty parameters, checks statuses exactly, and reads and writes presigned URLs by itself.
"""

from collections.abc import Iterator
from hashlib import md5
from urllib.parse import quote

import lakefs
import pytest

from tests.clients.support import Reply, Served, Wire, form

AGENT = "lakefs-hadoopfs/0.2.5"
OBJECT_HEADERS = {"Content-Type": "application/octet-stream", "x-ms-blob-type": "BlockBlob"}


class Hadoop:
    """The file system ``lakefs://<repository>/<branch>/``, in its presigned mode."""

    def __init__(self, wire: Wire, repository: str, branch: str = "main") -> None:
        self.wire = wire
        self.repository = f"/repositories/{repository}"
        self.refs = f"{self.repository}/refs/{branch}"
        self.branch = f"{self.repository}/branches/{branch}"

    def stat(self, path: str, *, presign: bool = False) -> Reply:
        return self.wire(
            "GET", f"{self.refs}/objects/stat", {"path": path, "user_metadata": "true", "presign": presign}
        )

    def list(self, prefix: str, amount: int = 1000, delimiter: str = "", after: str = "") -> list[dict[str, object]]:
        # Present and empty means absent.
        query = f"user_metadata=true&after={quote(after)}&amount={amount}&delimiter={quote(delimiter)}&prefix={quote(prefix)}"
        results = self.wire("GET", f"{self.refs}/objects/ls", query).expect(200).json()["results"]
        assert isinstance(results, list)
        return results

    def create(self, path: str, data: bytes) -> None:
        staging = (
            self.wire("GET", f"{self.branch}/staging/backing", {"path": path, "presign": "true"}).expect(200).json()
        )
        put = self.wire.plain("PUT", staging["presigned_url"], data, OBJECT_HEADERS).expect(200)
        said = {"staging": staging, "checksum": put.headers["ETag"].strip('"'), "size_bytes": len(data)}
        self.wire("PUT", f"{self.branch}/staging/backing", {"path": path}, said).expect(200)
        self.mark_parents_gone(path)

    def open(self, path: str) -> bytes:
        """As its stream does: a first request for one byte, which tells the size; then one for what is wanted."""
        url = self.stat(path, presign=True).expect(200).json()["physical_address"]
        first = self.wire.plain("GET", url, headers={"Range": "bytes=0-0"}).expect(206)
        unit, size = first.headers["Content-Range"].split("/")
        assert unit == "bytes 0-0"
        return self.wire.plain("GET", url, headers={"Range": f"bytes=0-{int(size) - 1}"}).expect(206).body

    def status(self, path: str) -> str:
        """``getFileStatus``: a file, else a marker, else whatever lies below."""
        if self.stat(path).status == 200:
            return "file"
        if self.stat(f"{path}/").status == 200 or self.list(f"{path}/", amount=1):
            return "folder"
        return "none"

    def exists(self, path: str) -> bool:
        found = [item["path"] for item in self.list(path, amount=5)]
        return (
            path in found or any(str(item).startswith(f"{path}/") for item in found) or bool(self.list(f"{path}/", 1))
        )

    def mkdirs(self, path: str) -> None:
        self.marker(f"{path}/")

    def marker(self, path: str) -> int:
        """An empty object that stands for a folder. One that is there already is fine."""
        body, kind = form()
        headers = {"Content-Type": kind, "If-None-Match": "*"}
        reply = self.wire("POST", f"{self.branch}/objects", {"path": path}, body, headers)
        assert reply.status in (201, 412), reply
        return reply.status

    def mark_parents_gone(self, path: str) -> None:
        """Objects below make markers of their folders needless."""
        folder = path
        while "/" in folder:
            folder = folder.rpartition("/")[0]
            query = {"path": f"{folder}/", "no_tombstone": "true"}
            self.wire("DELETE", f"{self.branch}/objects", query).expect(204)

    def rename(self, source: str, target: str) -> None:
        query = {"dest_path": target}
        self.wire("POST", f"{self.branch}/objects/copy", query, {"src_path": source, "src_ref": "main"}).expect(201)
        self.wire("DELETE", f"{self.branch}/objects", {"path": source}).expect(204)
        if "/" in source:
            self.marker(source.rpartition("/")[0] + "/")

    def delete_recursive(self, folder: str) -> None:
        paths = [item["path"] for item in self.list(f"{folder}/")]
        for begin in range(0, len(paths), 1000):
            query = {"force": "false", "no_tombstone": "false"}
            body = {"paths": paths[begin : begin + 1000]}
            assert self.wire("POST", f"{self.branch}/objects/delete", query, body).expect(200).json() == {"errors": []}


@pytest.fixture
def hadoop(served: Served, repo: lakefs.Repository) -> Iterator[Hadoop]:
    wire = Wire(served, AGENT)
    yield Hadoop(wire, repo.id)
    wire.close()


def test_the_simple_mode_learns_where_the_bytes_are(hadoop: Hadoop) -> None:
    assert hadoop.wire("GET", hadoop.repository).expect(200).json()["storage_id"] == ""
    config = hadoop.wire("GET", "/config").expect(200).json()["storage_config"]
    assert {"blockstore_type", "blockstore_namespace_ValidityRegex", "pre_sign_support"} <= set(config)
    query = {"path": "a", "presign": "false"}
    staging = hadoop.wire("GET", f"{hadoop.branch}/staging/backing", query).expect(200).json()
    assert "://" in staging["physical_address"]
    assert staging.get("presigned_url") is None


def test_a_file_is_created_and_opened(hadoop: Hadoop) -> None:
    data = b"0123456789" * 1000
    hadoop.create("dir/file", data)
    assert hadoop.open("dir/file") == data
    stat = hadoop.stat("dir/file").expect(200).json()
    assert (stat["checksum"], stat["size_bytes"]) == (md5(data).hexdigest(), len(data))


@pytest.mark.parametrize(("asked", "status", "said"), [("0-0", 206, "0-0"), ("5-", 206, "5-9"), ("9-20", 206, "9-9")])
def test_reads_of_a_range_insist_on_206(hadoop: Hadoop, asked: str, status: int, said: str) -> None:
    hadoop.create("file", b"0123456789")
    url = hadoop.stat("file", presign=True).json()["physical_address"]
    part = hadoop.wire.plain("GET", url, headers={"Range": f"bytes={asked}"}).expect(status)
    assert part.headers["Content-Range"] == f"bytes {said}/10"
    begin, end = (int(number) for number in said.split("-"))
    assert part.body == b"0123456789"[begin : end + 1]
    assert part.headers["Content-Length"] == str(len(part.body))
    beyond = hadoop.wire.plain("GET", url, headers={"Range": "bytes=10-"}).expect(416)
    assert beyond.headers["Content-Range"] == "bytes */10"


def test_a_status_is_asked_for_three_times(hadoop: Hadoop) -> None:
    hadoop.create("dir/file", b"1")
    hadoop.mkdirs("marked")
    expected = {"dir/file": "file", "dir": "folder", "marked": "folder", "none": "none"}
    assert {path: hadoop.status(path) for path in expected} == expected
    assert {path: hadoop.exists(path) for path in expected} == {path: path != "none" for path in expected}
    assert hadoop.wire("GET", hadoop.branch).expect(200).json()["id"] == "main"  # the root
    missing = hadoop.stat("none").expect(404)
    assert missing.json()["message"]
    assert missing.reason == "Not Found"


def test_a_folder_is_listed(hadoop: Hadoop) -> None:
    for path in ("dir/a", "dir/b", "dir/sub/c"):
        hadoop.create(path, b"1")
    hadoop.mkdirs("dir/empty")
    listed = [(item["path"], item["path_type"]) for item in hadoop.list("dir/", delimiter="/")]
    assert listed == [
        ("dir/a", "object"),
        ("dir/b", "object"),
        ("dir/empty/", "common_prefix"),
        ("dir/sub/", "common_prefix"),
    ]
    assert [item["path"] for item in hadoop.list("dir/", amount=2, after="dir/a")] == ["dir/b", "dir/empty/"]


def test_a_marker_is_made_once(hadoop: Hadoop) -> None:
    assert hadoop.marker("dir/") == 201
    assert hadoop.marker("dir/") == 412
    stat = hadoop.stat("dir/").expect(200).json()
    assert (stat["size_bytes"], stat["path"]) == (0, "dir/")
    hadoop.create("dir/file", b"1")
    assert hadoop.stat("dir/").status == 404


def test_spark_commits_its_output_by_renaming(hadoop: Hadoop) -> None:
    temporary = "out/_temporary/0/task_1"
    for number in range(3):
        hadoop.create(f"{temporary}/part-{number}", str(number).encode())
    for number in range(3):
        hadoop.rename(f"{temporary}/part-{number}", f"out/part-{number}")
    hadoop.delete_recursive("out/_temporary")
    hadoop.create("out/_SUCCESS", b"")
    assert [item["path"] for item in hadoop.list("out/")] == ["out/_SUCCESS", "out/part-0", "out/part-1", "out/part-2"]
    assert hadoop.open("out/part-2") == b"2"


def test_thousands_are_deleted_in_thousands(hadoop: Hadoop, repo: lakefs.Repository) -> None:
    links = []
    for number in range(3):
        hadoop.create(f"many/{number}", b"1")
        links.append(f"many/{number}")
    repo.branch("main").commit("many")
    paths = [*links, *(f"many/missing-{number}" for number in range(997))]
    reply = hadoop.wire("POST", f"{hadoop.branch}/objects/delete", "no_tombstone=false", {"paths": paths}).expect(200)
    assert reply.json() == {"errors": []}
    assert hadoop.list("many/") == []
    hadoop.wire("POST", f"{hadoop.branch}/objects/delete", "", {"paths": [*paths, "one more"]}).expect(400)


def test_empty_segments_are_refused_not_cleaned(hadoop: Hadoop) -> None:
    reply = hadoop.wire("GET", "/repositories//refs/main/objects/stat", {"path": "a"}).expect(400)
    assert reply.json()["message"]
    hadoop.create("a//b", b"1")  # in a path of an object they are ordinary
    assert hadoop.open("a//b") == b"1"
    assert [item["path"] for item in hadoop.list("a/", delimiter="/")] == ["a//"]


def test_a_commit_without_changes_is_told_by_its_text(hadoop: Hadoop) -> None:
    reply = hadoop.wire("POST", f"{hadoop.branch}/commits", "", {"message": "every so many deletes"}).expect(400)
    assert "no changes" in reply.json()["message"]
