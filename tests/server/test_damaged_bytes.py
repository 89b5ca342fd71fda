"""Damaged bytes do not pass a server: graveler's own client compares them itself, and for other clients the server compares
their size, or with --verify-bytes all of them."""

from collections.abc import Iterator
from http.client import IncompleteRead
from pathlib import Path

import pytest

from graveler.errors import BytesGoneError, DamagedObjectError
from graveler.lake.fsck.findings import FindingKind
from graveler.location.environment import ServedLake
from graveler.remote.checks_and_dumps import RemoteUpkeep
from graveler.remote.lake import RemoteLake
from graveler.remote.opening import open_served
from graveler.remote.repository import RemoteRepository
from graveler.sdk.lake import Lake
from tests.lake.test_damaged_bytes import DAMAGES, LARGE, SMALL, Damage, flip, flip_last, replace, truncate
from tests.server.support import KEY_ID, SECRET, Answered, Running, running

API = "/api/v1/repositories"
KINDS = {"small": SMALL, "medium": LARGE[: 1 << 20], "large": LARGE}
"""Sent by the API and in one piece, by the API and in several, and by a redirect."""


class Served:
    """A server, and damaged objects in a branch of its lake: ``<kind>-<damage>``, and whole ones, ``<kind>``."""

    def __init__(self, server: Running, *, verifies: bool) -> None:
        self.server = server
        self.verifies = verifies
        place = ServedLake(url=server.url, key_id=KEY_ID, secret=SECRET)
        self.lake: RemoteLake = open_served(place)
        self.lake.create_repository("repo", "local://repo")
        self.repository: RemoteRepository = self.lake.repository("repo")
        for kind, data in KINDS.items():
            self.put(kind, data, None)
            for damage in DAMAGES:
                self.put(f"{kind}-{damage.__name__}", data, damage)
        self.repository.commit("main", "all of them")

    def put(self, path: str, data: bytes, damage: Damage | None) -> None:
        entry = self.repository.upload("main", path, data)
        if damage is not None:
            file = self.server.lake / "objects" / entry.address.removeprefix("local://")
            file.chmod(0o644)
            file.write_bytes(damage(data))

    def get(self, path: str, **headers: str) -> Answered:
        """As a client of others, which follows redirects and knows nothing of checksums."""
        found = self.server.ask("GET", f"{API}/repo/refs/main/objects?path={path}", headers=headers)
        if found.status == 302:
            return self.server.ask("GET", found.headers["location"], authorised=False, headers=headers)
        return found


@pytest.fixture(scope="module", params=[False, True], ids=["sizes", "bytes"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with running(tmp_path_factory.mktemp("serve"), *(["--verify-bytes"] if request.param else [])) as server:
        made = Served(server, verifies=request.param)
        yield made
        made.lake.close()


@pytest.mark.parametrize("kind", KINDS)
def test_whole_objects_get_through(served: Served, kind: str) -> None:
    assert served.get(kind).body == KINDS[kind]
    assert served.repository.read("main", kind) == KINDS[kind]
    url = served.server.ask("GET", f"{API}/repo/refs/main/objects?path={kind}&presign=true").headers["location"]
    assert served.server.ask("GET", url, authorised=False).body == KINDS[kind]
    part = served.server.ask("GET", url, authorised=False, headers={"range": "bytes=1-3"})
    assert (part.status, part.body) == (206, KINDS[kind][1:4])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("presign", [False, True])
def test_no_client_takes_what_the_server_can_tell_for_whole(
    served: Served, kind: str, damage: Damage, *, presign: bool
) -> None:
    path, data = f"{kind}-{damage.__name__}", KINDS[kind]
    same_size = len(damage(data)) == len(data)

    def read() -> Answered:
        if not presign:
            return served.get(path)
        url = served.server.ask("GET", f"{API}/repo/refs/main/objects?path={path}&presign=true").headers["location"]
        return served.server.ask("GET", url, authorised=False)

    if same_size and not served.verifies:
        assert read().body == damage(data)
        return
    try:
        answer = read()
    except IncompleteRead:  # the connection was broken before the last byte
        return
    assert answer.status == 500
    assert b"bytes" in answer.body
    assert data[:16] not in answer.body


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_gravelers_own_client_compares_by_itself(served: Served, kind: str, damage: Damage) -> None:
    path, data = f"{kind}-{damage.__name__}", KINDS[kind]
    with pytest.raises(DamagedObjectError) as caught:
        served.repository.read("main", path)
    error = caught.value
    assert (error.path, error.ref, error.address) == (path, "main", served.repository.stat("main", path).address)
    assert f"{len(data):,} bytes" in error.expected
    with (
        Lake(served.lake).repository("repo").branch("main").object(path).reader() as file,
        pytest.raises(DamagedObjectError),
    ):
        file.read()
    with (
        Lake(served.lake).repository("repo").branch("main").object(path).reader(buffer_size=100_000) as file,
        pytest.raises(DamagedObjectError),
    ):
        list(iter(lambda: file.read(1000), b""))


@pytest.mark.parametrize("kind", KINDS)
def test_missing_bytes_are_told_as_such(served: Served, kind: str) -> None:
    entry = served.repository.upload("main", "gone", KINDS[kind] + b"gone")
    (served.server.lake / "objects" / entry.address.removeprefix("local://")).unlink()
    with pytest.raises(BytesGoneError):
        served.repository.read("main", "gone")
    served.repository.delete("main", ["gone"])


def test_an_export_through_a_server_leaves_no_damaged_file(served: Served, tmp_path: Path) -> None:
    for damage in (flip, truncate, replace):
        branch = f"only-{damage.__name__}"
        served.repository.create_branch(branch, "main")
        keep = {f"large-{damage.__name__}", "small"}
        others = [one.path for one in served.repository.objects("main") if one.path not in keep]
        served.repository.delete(branch, others)
        served.repository.commit(branch, "only these")
        with pytest.raises(DamagedObjectError):
            served.repository.export(branch, tmp_path / branch)
        assert not (tmp_path / branch / f"large-{damage.__name__}").exists()
        served.repository.delete_branch(branch)


def test_the_check_behind_a_server_reads_all_bytes(served: Served) -> None:
    upkeep = RemoteUpkeep(served.repository.connection, "repo")
    report = upkeep.fsck(repair=False, reflog=True, committed_objects=True, outside_objects=False, object_bytes=True)
    same_size = {f"{kind}-{damage.__name__}" for kind in KINDS for damage in (flip, flip_last, replace)}
    assert {one.first for one in report.findings if one.kind is FindingKind.OBJECT_BYTES} == same_size
    assert any(one.kind is FindingKind.OBJECT_SIZE for one in report.findings)
    assert report.counts.bytes > 0
    plain = upkeep.fsck(repair=False, reflog=True, committed_objects=True, outside_objects=False)
    assert not any(one.kind is FindingKind.OBJECT_BYTES for one in plain.findings)
    summary = served.server.ask("GET", f"{API}/repo/fsck?bytes=true").json()
    assert summary["clean"] is False
    assert {one["kind"] for one in summary["results"]} == {"object-bytes", "object-size"}
