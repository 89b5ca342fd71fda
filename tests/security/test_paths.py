"""An attacker who may write in a folder that a server serves, or who knows the secret that signs URLs, tries to reach other
files."""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake, url_signer
from graveler.storage.objects.folder_names import HIDDEN
from graveler.storage.objects.presigned import Grant, UrlSigner
from tests.cli.support import run
from tests.security.strangers import act, let_through
from tests.server.support import Answered, Running, running

SECRET = b"what only the server's user may read"
API = "/api/v1/repositories/team-data"
REPLACE = """
import os
place, target = arguments
if os.path.lexists(place):
    os.rename(place, place + "-before")
os.symlink(target, place)
"""


@dataclass
class Scene:
    """A server, with what strangers may write: the folder ``open`` of a repository and the import source ``given``. The folder
    ``private`` has a file ``secret``, and is its user's alone."""

    server: Running
    folder: Path
    signer: UrlSigner
    authorization: str

    @property
    def open(self) -> Path:
        return self.folder / "open"

    @property
    def given(self) -> Path:
        return self.folder / "given"

    @property
    def private(self) -> Path:
        return self.folder / "private"

    def ask(self, method: str, target: str, body: object = None) -> Answered:
        sent = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {"authorization": self.authorization, "content-type": "application/json"}
        return self.server.ask(method, target, sent, headers, authorised=False)

    def upload(self, path: str) -> str:
        """Upload an object, and return its key in the namespace."""
        where = self.ask("GET", f"{API}/branches/main/staging/backing?path={path}&presign=true").json()
        assert self.server.ask("PUT", where["presigned_url"], b"bytes", authorised=False).status == 200
        link = {"staging": where, "checksum": "0" * 32, "size_bytes": 5}
        assert self.ask("PUT", f"{API}/branches/main/staging/backing?path={path}", link).status == 200
        return str(where["physical_address"]).removeprefix(f"file://{self.open}/")

    def link(self, path: str, address: str) -> Answered:
        """Link an object at an address."""
        link = {"staging": {"physical_address": address}, "checksum": "0" * 32, "size_bytes": 5}
        return self.ask("PUT", f"{API}/branches/main/staging/backing?path={path}", link)

    def url(self, path: str) -> str:
        """A presigned URL to read an object."""
        said = self.ask("GET", f"{API}/refs/main/objects/stat?path={path}&presign=true")
        assert said.status == 200, said
        return str(said.json()["physical_address"])

    def forged(self, namespace: str, key: str, method: str) -> Answered:
        """The answer to a URL that somebody signed who has read the secret."""
        url = self.signer.sign(Grant(namespace, key), method, 60)
        return self.server.ask(method, url, b"x" if method == "PUT" else None, authorised=False)


@contextmanager
def made(folder: Path, *options: str) -> Iterator[Scene]:
    """A server on a new lake in ``folder``, whose import source is ``folder/given``."""
    for name, mode in (("open", 0o777), ("given", 0o777), ("private", 0o700)):
        (folder / name).mkdir()
        (folder / name).chmod(mode)
        let_through(folder / name)
    (folder / "private" / "secret").write_bytes(SECRET)
    with create_folder_lake(folder / "lake") as lake:
        lake.create_repository("team-data", f"file://{folder}/open")
        lake.create_repository("hr-private", "local://hr-private")
        key = Access(lake.tables).create_key("ann", Role.WRITER, ("team-*",), ())
    given = ("--import-source", f"file://{folder}/given/")
    with running(folder, *given, *options, workers=1) as server, open_folder_lake(folder / "lake") as lake:
        word = b64encode(f"{key.key.key_id}:{key.secret}".encode()).decode()
        assert server.data_url is not None
        signer = url_signer(lake.keyring, f"{server.data_url}/objects")
        yield Scene(server, folder, signer, f"Basic {word}")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with made(tmp_path_factory.mktemp("paths")) as scene:
        yield scene


def replaced(place: Path, target: Path) -> None:
    """Another user, who was given the folder above, puts a link there."""
    let_through(place)
    place.parent.chmod(0o777)
    done = act(REPLACE, place, target)
    assert done.returncode == 0, done.stderr
    assert place.is_symlink()


def refused(answer: Answered) -> None:
    assert SECRET not in answer.body
    assert answer.status in (400, 403, 404), answer


def test_who_signs_a_url_opens_no_other_place(scene: Scene) -> None:
    """As somebody could who has read the table."""
    (scene.folder / "elsewhere").mkdir()
    for namespace, key in (
        ("file://", f"{scene.private}/secret"[1:]),
        (f"file://{scene.private}", "secret"),
        (f"file://{scene.folder}", "private/secret"),
        (f"file://{scene.folder}/lake", "tables.sqlite"),
        ("file:///proc/self", "environ"),
        ("local://nowhere", "x"),
        (f"file://{scene.folder}/elsewhere", "x"),
    ):
        for method in ("GET", "HEAD", "PUT"):
            url = scene.signer.sign(Grant(namespace, key), "GET" if method == "HEAD" else method, 60)
            answer = scene.server.ask(method, url, b"x" if method == "PUT" else None, authorised=False)
            refused(answer)
            assert answer.status == 404
    assert list((scene.folder / "elsewhere").iterdir()) == []
    assert (scene.private / "secret").read_bytes() == SECRET


def test_an_object_that_becomes_a_link_is_not_followed(scene: Scene) -> None:
    key = scene.upload("object")
    url = scene.url("object")
    replaced(scene.open / key, scene.private / "secret")
    for answer in (
        scene.server.ask("GET", url, authorised=False),
        scene.server.ask("HEAD", url, authorised=False),
        scene.ask("GET", f"{API}/refs/main/objects?path=object&presign=false"),
    ):
        refused(answer)
    assert b"symbolic link" in scene.server.ask("GET", url, authorised=False).body


@pytest.mark.parametrize("depth", [1, 2])
def test_a_folder_on_the_way_that_becomes_a_link_is_not_followed(scene: Scene, depth: int) -> None:
    key = scene.upload("in-a-folder")
    url = scene.url("in-a-folder")
    below = Path(*Path(key).parts[depth:])
    target = scene.private / f"copy-{depth}"
    (target / below).parent.mkdir(parents=True)
    (target / below).write_bytes(SECRET)
    replaced(scene.open.joinpath(*Path(key).parts[:depth]), target)
    refused(scene.server.ask("GET", url, authorised=False))
    refused(scene.ask("GET", f"{API}/refs/main/objects?path=in-a-folder&presign=false"))
    upload = scene.signer.sign(Grant(f"file://{scene.open}", f"{Path(key).parent}/new"), "PUT", 60)
    refused(scene.server.ask("PUT", upload, b"theirs", authorised=False))
    assert sorted(path.name for path in target.rglob("*") if path.is_file()) == [below.name]
    scene.open.joinpath(*Path(key).parts[:depth]).unlink()


@pytest.mark.parametrize("name", ["", "writes", "uploads"])
def test_nothing_is_written_where_a_link_in_the_place_of_temporary_files_leads(scene: Scene, name: str) -> None:
    scene.upload(f"before{name}")
    began = scene.ask("POST", f"{API}/branches/main/staging/pmpu?path=parts{name}&parts=1").json()
    target = scene.private / f"temporary{name}"
    for folder in ("writes", "uploads", "locks"):
        (target / folder).mkdir(parents=True)
    place = scene.open / HIDDEN / name if name else scene.open / HIDDEN
    replaced(place, target)
    where = scene.ask("GET", f"{API}/branches/main/staging/backing?path=x{name}&presign=true").json()
    whole = scene.server.ask("PUT", where["presigned_url"], b"bytes", authorised=False)
    part = scene.server.ask("PUT", began["presigned_urls"][0], b"bytes", authorised=False)
    if name != "writes":  # a part lies in its upload's folder from the start
        refused(part)
    if name != "uploads":
        refused(whole)
    assert [path for path in target.rglob("*") if path.is_file()] == []
    place.unlink()
    Path(f"{place}-before").rename(place)


def test_what_was_looked_at_in_a_source_is_read_there_or_not_at_all(scene: Scene) -> None:
    file = scene.given / "landed"
    file.write_bytes(b"bytes")
    assert scene.link("landed", f"file://{file}").status == 200
    url = scene.url("landed")
    assert scene.server.ask("GET", url, authorised=False).body == b"bytes"
    replaced(file, scene.private / "secret")
    refused(scene.server.ask("GET", url, authorised=False))
    refused(scene.ask("GET", f"{API}/refs/main/objects?path=landed&presign=false"))
    refused(scene.ask("GET", f"{API}/refs/main/objects/stat?path=landed&presign=true"))
    refused(scene.link("again", f"file://{file}"))
    file.unlink()


def test_an_import_follows_no_link(scene: Scene) -> None:
    branch = {"name": "imports", "source": "main"}
    assert scene.ask("POST", f"{API}/branches", branch).status == 201
    for place, target in (("drop/link", scene.private / "secret"), ("drop/folder", scene.private)):
        (scene.given / "drop").mkdir(mode=0o777, exist_ok=True)
        replaced(scene.given / place, target)
        path = {"type": "common_prefix", "path": f"file://{scene.given}/drop/", "destination": "in/"}
        asked = {"paths": [path], "commit": {"message": "m"}}
        begun = scene.ask("POST", f"{API}/branches/imports/import", asked)
        assert begun.status == 202
        while not (status := scene.ask("GET", f"{API}/branches/imports/import?id={begun.json()['id']}").json())[
            "completed"
        ]:
            if "error" in status:
                break
        assert "symbolic link" in status["error"]["message"]
        (scene.given / place).unlink()
    assert scene.ask("GET", f"{API}/refs/imports/objects/ls?prefix=in/").json()["results"] == []


def test_a_source_that_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "drop").mkdir(parents=True)
    (home / "drop" / "secret").write_bytes(b"bytes")
    home.chmod(0o777)
    let_through(home / "drop")
    drop = home / "drop"
    with made(tmp_path, "--import-source", f"file://{drop}/") as scene:
        assert scene.link("theirs", f"file://{drop}/secret").status == 200
        url = scene.url("theirs")
        replaced(drop, scene.private)
        refused(scene.server.ask("GET", url, authorised=False))
        refused(scene.ask("GET", f"{API}/refs/main/objects?path=theirs&presign=false"))
        refused(scene.link("more", f"file://{drop}/secret"))
    told = run("--lake", tmp_path / "lake", "serve", "--port", "0", "--import-source", f"file://{drop}/")
    assert told.code != 0
    assert "is a symbolic link of another user" in told.err


def test_the_lake_is_no_source_however_wide_the_sources_are(tmp_path: Path) -> None:
    with made(tmp_path, "--import-source", "file:///") as scene:
        (scene.given / "plain").write_bytes(b"bytes")
        assert scene.link("plain", f"file://{scene.given}/plain").status == 200
        assert scene.server.ask("GET", scene.url("plain"), authorised=False).body == b"bytes"
        lake = f"{scene.folder}/lake"
        for key in (f"{lake}/tables.sqlite", f"{lake}/objects/hr-private/_graveler/repository", "/proc/self/environ"):
            for method in ("GET", "PUT"):
                refused(scene.forged("file://", key[1:], method))
            refused(scene.link("stolen", f"file://{key}"))
        (scene.folder / "ours").symlink_to(lake)
        refused(scene.forged("file://", f"{scene.folder}/ours/tables.sqlite"[1:], "GET"))
        assert Path(lake, "tables.sqlite").stat().st_size > 1


def test_nothing_is_written_into_a_source(scene: Scene) -> None:
    before = sorted(scene.given.rglob("*"))
    refused(scene.forged(f"file://{scene.given}", "planted", "PUT"))
    assert sorted(scene.given.rglob("*")) == before


def test_the_urls_of_a_deleted_repository_end(scene: Scene) -> None:
    """A process believes for five seconds that a repository is there; this one is asked about it for the first time."""
    made = {"name": "team-gone", "storage_namespace": "local://team-gone"}
    assert scene.server.ask_json("POST", "/api/v1/repositories", made).status == 201
    assert scene.server.ask("DELETE", "/api/v1/repositories/team-gone").status == 204
    answer = scene.forged("local://team-gone", "_graveler/repository", "GET")
    assert answer.status == 404
    assert b"NoSuchBucket" in answer.body
