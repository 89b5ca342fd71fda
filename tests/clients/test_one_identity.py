"""The same bytes are the same object, whoever uploads them: a content type is stored as the client gave it, and never guessed
from a path. So branches to which several clients uploaded the same bytes differ in nothing. (The checksum of what was sent in
parts is that of the parts, as on S3.)"""

from collections.abc import Callable, Iterator
from pathlib import Path

import lakefs
from lakefs_spec import LakeFSFileSystem

import graveler
from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.model import DEFAULT_CONTENT_TYPE
from tests.cli.support import done
from tests.clients.support import Served, Wire, form
from tests.support.shell import Shell

PATH = "raw/table.csv"
DATA = b"id,amount\n1,100\n"


class Uploads:
    """Ways to upload the same bytes to a branch without a content type."""

    def __init__(self, served: Served, repository: lakefs.Repository, wire: Wire, folder: Path) -> None:
        assert served.lake is not None
        self._served = served
        self._lake = served.lake
        self._repository = repository
        self._wire = wire
        self._file = folder / "table.csv"
        self._file.write_bytes(DATA)

    def __iter__(self) -> Iterator[Callable[[str], None]]:
        yield from (
            self.raw,
            self.form,
            self.presigned,
            self.presigned_without_type,
            self.staged,
            self.in_parts,
            self.lakefs,
            self.lakefs_spec,
            self.here,
            self.behind_a_server,
            self.filesystem,
            self.filesystem_behind_a_server,
            self.writer,
            self.command,
            self.command_behind_a_server,
        )

    def _branch(self, branch: str) -> str:
        return f"/repositories/{self._repository.id}/branches/{branch}"

    def raw(self, branch: str) -> None:
        self._wire("POST", f"{self._branch(branch)}/objects", {"path": PATH}, DATA, {"Content-Type": ""}).expect(201)

    def form(self, branch: str) -> None:
        data, kind = form(DATA)
        data = data.replace(b"Content-Type: application/octet-stream\r\n", b"")
        self._wire("POST", f"{self._branch(branch)}/objects", {"path": PATH}, data, {"Content-Type": kind}).expect(201)

    def presigned(self, branch: str, **more: object) -> None:
        backing = f"{self._branch(branch)}/staging/backing"
        where = self._wire("GET", backing, {"path": PATH, "presign": "true"}).expect(200).json()
        put = self._wire.plain("PUT", where["presigned_url"], DATA).expect(200)
        body = {"staging": where, "checksum": put.headers["ETag"], "size_bytes": len(DATA), "content_type": ""}
        self._wire("PUT", backing, {"path": PATH}, {**body, **more}).expect(200)

    def presigned_without_type(self, branch: str) -> None:
        self.presigned(branch, content_type=None)

    def staged(self, branch: str) -> None:
        self.raw(branch)
        stat = self._wire(
            "GET", f"/repositories/{self._repository.id}/refs/{branch}/objects/stat", {"path": PATH}
        ).json()
        body = {name: stat[name] for name in ("physical_address", "checksum", "size_bytes")}
        self._wire("PUT", f"{self._branch(branch)}/objects", {"path": PATH}, body).expect(201)

    def in_parts(self, branch: str) -> None:
        uploads = f"{self._branch(branch)}/staging/pmpu"
        begun = self._wire("POST", uploads, {"path": PATH, "parts": 1}).expect(201).json()
        etag = self._wire.plain("PUT", begun["presigned_urls"][0], DATA).expect(200).headers["ETag"]
        done = {"physical_address": begun["physical_address"], "parts": [{"part_number": 1, "etag": etag}]}
        self._wire("PUT", f"{uploads}/{begun['upload_id']}", {"path": PATH}, done).expect(200)

    def lakefs(self, branch: str) -> None:
        self._repository.branch(branch).object(PATH).upload(DATA)

    def lakefs_spec(self, branch: str) -> None:
        served = self._served
        fs = LakeFSFileSystem(host=served.url, username=served.key_id, password=served.secret, skip_instance_cache=True)
        fs.put_file(str(self._file), f"{self._repository.id}/{branch}/{PATH}")

    def here(self, branch: str) -> None:
        with graveler.open(self._lake) as lake:
            lake.repository(self._repository.id).branch(branch).object(PATH).upload(DATA)

    def behind_a_server(self, branch: str) -> None:
        with graveler.open(self._served.url) as lake:
            lake.repository(self._repository.id).branch(branch).object(PATH).upload(self._file)

    def writer(self, branch: str) -> None:
        with (
            graveler.open(self._served.url) as lake,
            lake.repository(self._repository.id).branch(branch).object(PATH).writer() as file,
        ):
            file.write(DATA)

    def command(self, branch: str) -> None:
        self._put(branch, "--lake", str(self._lake))

    def command_behind_a_server(self, branch: str) -> None:
        self._put(branch, "--lake", self._served.url)

    def _put(self, branch: str, *options: str) -> None:
        done("put", self._file, f"lakefs://{self._repository.id}/{branch}/{PATH}", *options)

    def filesystem(self, branch: str) -> None:
        fs = GravelerFileSystem(lake=str(self._lake), skip_instance_cache=True)
        fs.pipe_file(f"{self._repository.id}/{branch}/{PATH}", DATA)

    def filesystem_behind_a_server(self, branch: str) -> None:
        fs = GravelerFileSystem(lake=self._served.url, skip_instance_cache=True)
        fs.put_file(str(self._file), f"{self._repository.id}/{branch}/{PATH}")


def test_the_same_bytes_are_the_same_object_whoever_uploads_them(
    served: Served, repo: lakefs.Repository, wire: Wire, tmp_path: Path, shell: Shell
) -> None:
    shell.export("GRAVELER_ACCESS_KEY_ID", served.key_id)
    shell.export("GRAVELER_SECRET_ACCESS_KEY", served.secret)
    branches = []
    for number, upload in enumerate(Uploads(served, repo, wire, tmp_path)):
        branch = repo.branch(f"b{number}").create("main")
        upload(branch.id)
        stat = branch.object(PATH).stat()
        assert (stat.content_type, stat.size_bytes) == (DEFAULT_CONTENT_TYPE, len(DATA)), upload
        branch.commit("upload")
        branches.append((branch, upload))
    (first, _), *others = branches
    for branch, upload in others:
        if upload.__name__ != "in_parts":
            assert [*first.diff(branch)] == [], upload
