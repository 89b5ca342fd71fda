"""Damaged bytes of objects are never accepted, whichever way they are read; what only looks like damage is no error."""

import io
from collections.abc import Callable, Generator, Iterator
from hashlib import md5
from itertools import count
from pathlib import Path
from threading import enumerate as threads

import pytest

from graveler.errors import BytesGoneError, CorruptError, DamagedObjectError, GravelerError
from graveler.lake.fsck.findings import FindingKind
from graveler.lake.objects import verification as comparing
from graveler.lake.objects.uploads import finish_upload, upload_part
from graveler.lake.opening.folder import create_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.sdk.lake import Lake
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.memory import MemoryObjects
from tests.lake.support import NAMESPACE, World

SMALL = b"id,amount\n1,100\n"
LARGE = bytes(range(256)) * (5 << 12)  # more than is hashed between two pieces
OTHER = b"id,amount\n2,999\n"

Damage = Callable[[bytes], bytes]
Way = Callable[["Place", str], bytes]


def flip(data: bytes) -> bytes:
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def flip_last(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 128])


def truncate(data: bytes) -> bytes:
    return data[:-1]


def empty(_: bytes) -> bytes:
    return b""


def lengthen(data: bytes) -> bytes:
    return data + b"x"


def replace(data: bytes) -> bytes:
    return (OTHER * len(data))[: len(data)]


DAMAGES = [flip, flip_last, truncate, empty, lengthen, replace]


class Place:
    """A lake in a folder, and where the bytes of its objects lie."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lake = create_folder_lake(folder / "lake")
        self.main = self.lake.create_repository("repo", "local://repo")

    def file(self, path: str) -> Path:
        objects, key = self.main.store_at(self.main.stat("main", path).address)
        assert isinstance(objects, FolderObjects)
        return objects.file_of(key)

    def put(self, path: str, data: bytes, damage: Damage | None = None) -> str:
        """The commit in which an object is, whose bytes are damaged afterwards."""
        self.main.upload("main", path, data)
        commit = self.main.commit("main", path).id
        if damage is not None:
            file = self.file(path)
            file.chmod(0o644)
            file.write_bytes(damage(data))
        return commit


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.lake.close()


# Ways to read


def by_read(place: Place, path: str) -> bytes:
    return place.main.read("main", path)


def by_stream(place: Place, path: str) -> bytes:
    return b"".join(place.main.stream("main", path))


def by_whole_range(place: Place, path: str) -> bytes:
    entry = place.main.stat("main", path)
    return b"".join(place.main.bytes_in("main", entry, 0, entry.size))


def opened(place: Place, path: str = "a", **how: int) -> io.BufferedReader:
    return Lake(place.lake).repository("repo").branch("main").object(path).reader("rb", **how)


def by_open(place: Place, path: str) -> bytes:
    with opened(place, path) as file:
        return file.read()


def by_small_reads(place: Place, path: str) -> bytes:
    with opened(place, path, buffer_size=1 << 16) as file:
        return b"".join(iter(lambda: file.read(1 << 12), b""))


def by_tiny_buffer(place: Place, path: str) -> bytes:
    entry = place.main.stat("main", path)
    with opened(place, path, buffer_size=max(1, entry.size // 7)) as file:
        return b"".join(iter(file.read1, b""))


def by_iteration(place: Place, path: str) -> bytes:
    with opened(place, path) as file:
        return b"".join(file)


def by_rewound(place: Place, path: str) -> bytes:
    """Its size first, as many programs do."""
    with opened(place, path) as file:
        file.seek(0, io.SEEK_END)
        file.seek(0)
        return file.read()


def by_text(place: Place, path: str) -> bytes:
    reader = Lake(place.lake).repository("repo").branch("main").object(path).reader("r", encoding="latin-1", newline="")
    with reader as file:
        return file.read().encode("latin-1")


WAYS = [
    by_read,
    by_stream,
    by_whole_range,
    by_open,
    by_small_reads,
    by_tiny_buffer,
    by_iteration,
    by_rewound,
    by_text,
]


@pytest.mark.parametrize("way", WAYS)
def test_no_way_of_reading_takes_damaged_bytes_for_an_object(place: Place, way: Way) -> None:
    for data in (SMALL, LARGE):
        place.put("whole", data)
        assert way(place, "whole") == data
        for damage in DAMAGES:
            path = damage.__name__
            place.put(path, data, damage)
            with pytest.raises(DamagedObjectError) as caught:
                way(place, path)
            error, address = caught.value, place.main.stat("main", path).address
            assert (error.path, error.ref, error.address) == (path, "main", address)
            assert error.expected == f"{len(data):,} bytes with MD5 {md5(data).hexdigest()}"
            for said in (f"'{path}'", "'main'", address, error.expected, error.found, "restore them"):
                assert said in str(error)


@pytest.mark.parametrize("way", WAYS)
def test_missing_bytes_are_told_as_such(place: Place, way: Way) -> None:
    place.put("a", SMALL)
    place.file("a").unlink()
    with pytest.raises(BytesGoneError):
        way(place, "a")


def test_found_says_what_there_is(place: Place) -> None:
    for damage, found in (
        (flip, f"16 bytes with MD5 {md5(flip(SMALL)).hexdigest()}"),
        (truncate, f"15 bytes with MD5 {md5(truncate(SMALL)).hexdigest()}"),
        (lengthen, "more than 16 bytes"),
    ):
        place.put("a", damage.__name__.encode())
        place.put("a", SMALL, damage)
        with pytest.raises(DamagedObjectError) as caught:
            place.main.read("main", "a")
        assert caught.value.found == found


def test_no_byte_behind_the_noted_end_is_handed_on(place: Place) -> None:
    place.put("a", LARGE, lambda data: data + bytes(3 << 20))
    got: list[bytes] = []
    with pytest.raises(DamagedObjectError):
        got.extend(place.main.stream("main", "a"))
    assert b"".join(got) == LARGE


def test_a_reader_that_was_told_is_told_again(place: Place) -> None:
    place.put("a", LARGE, flip)
    with opened(place) as file:
        for _ in range(3):
            with pytest.raises(DamagedObjectError):
                list(iter(lambda: file.read(1 << 20), b""))


def test_parts_of_an_object_are_compared_by_their_length_alone(place: Place) -> None:
    place.put("a", SMALL, flip)
    assert b"".join(place.main.stream("main", "a", 1)) == flip(SMALL)[1:]
    assert b"".join(place.main.stream("main", "a", 0, 15)) == flip(SMALL)[:15]
    with opened(place) as file:
        file.seek(1)
        assert file.read() == flip(SMALL)[1:]
    assert b"".join(place.main.stream("main", "a", 100)) == b""


def test_a_part_that_is_too_short_is_told(place: Place) -> None:
    for damage in (truncate, empty):
        place.put("a", damage.__name__.encode())
        place.put("a", SMALL, damage)
        for start, length in ((3, None), (3, 13), (15, 1), (3, 100)):
            with pytest.raises(DamagedObjectError):
                list(place.main.stream("main", "a", start, length))


def test_a_read_that_is_given_up_leaves_no_thread(place: Place) -> None:
    place.put("a", LARGE)
    pieces = place.main.stream("main", "a")
    next(pieces)
    assert isinstance(pieces, Generator)
    pieces.close()
    assert [thread for thread in threads() if thread.name.startswith("graveler-md5")] == []


def test_verification_can_be_left_out(place: Place) -> None:
    place.put("a", SMALL, flip)
    entry = place.main.stat("main", "a")
    assert b"".join(place.main.bytes_in("main", entry, verify=False)) == flip(SMALL)
    place.put("a", SMALL + b"!", truncate)
    with pytest.raises(DamagedObjectError):
        list(place.main.bytes_in("main", place.main.stat("main", "a"), verify=False))


# Exports


def test_no_damaged_file_is_exported_and_the_next_export_goes_on(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "out"
    place.put("a", b"at first")
    place.put("fine", SMALL)
    place.main.export("main", out)
    for data in (SMALL, LARGE):
        for damage in DAMAGES:
            path = f"new-{damage.__name__}-{len(data)}"
            for changed in ("a", path):
                place.put(changed, b"before")
                place.main.export("main", out)
                place.put(changed, data, damage)
                with pytest.raises(DamagedObjectError):
                    place.main.export("main", out)
                assert (out / changed).read_bytes() == b"before"
                place.file(changed).write_bytes(data)
                place.main.export("main", out)
                assert ((out / changed).read_bytes(), (out / "fine").read_bytes()) == (data, SMALL)


# What only looks like damage


class Vouching(World):
    """A store whose ETags look like MD5s and are none, as those of S3 with keys of KMS."""

    def objects(self, namespace: str = NAMESPACE) -> MemoryObjects:
        made = super().objects(namespace)
        if not hasattr(made, "looks"):
            made.looks = True  # type: ignore[attr-defined]
            made.serial = count(0xABCD << 112)
        return made


def test_an_etag_that_looks_like_an_md5_is_no_damage() -> None:
    world = Vouching()
    address = world.main.new_address("main", "a")
    stored = world.objects().put(address.removeprefix(NAMESPACE + "/"), SMALL)
    assert len(stored.etag) == 32
    world.main.link("main", ObjectEntry("a", address, len(SMALL), stored.etag, 1))
    world.main.commit("main", "m")
    assert world.main.read("main", "a") == SMALL
    report = world.main.fsck(object_bytes=True)
    assert report.findings == ()
    assert (report.counts.objects, report.counts.objects_by_size) == (1, 1)


def test_what_was_written_again_since_is_damage_whatever_its_etag_looks_like() -> None:
    world = Vouching()
    address = world.main.new_address("main", "a")
    noted = world.objects().put(address.removeprefix(NAMESPACE + "/"), SMALL)
    world.main.link("main", ObjectEntry("a", address, len(SMALL), noted.etag, 1))
    world.objects().put(address.removeprefix(NAMESPACE + "/"), flip(SMALL))
    with pytest.raises(DamagedObjectError):
        world.main.read("main", "a")


def test_asking_the_store_costs_a_request_only_where_the_md5_is_wrong() -> None:
    world = Vouching()
    address = world.main.new_address("main", "a")
    stored = world.objects().put(address.removeprefix(NAMESPACE + "/"), SMALL)
    world.main.link("main", ObjectEntry("a", address, len(SMALL), stored.etag, 1))
    world.main.upload("main", "b", SMALL)
    counted = world.counted()
    for path, head in (("a", 1), ("b", 0)):
        counted.objects.reset()
        assert counted.repository.read("main", path) == SMALL
        assert (counted.objects.calls["stream"], counted.objects.calls["head"]) == (1, head)


@pytest.mark.parametrize(
    "checksum",
    [
        "abc",
        md5(b"other").hexdigest().upper(),
        f"{md5(b'parts').hexdigest()}-2",
        f'"{md5(b"other").hexdigest()}"',
        "0x8DC2F5D5A1B2C3D",
        "f" * 40,
        "f" * 64,
        "g" * 32,
    ],
)
def test_links_with_checksums_of_other_forms_read_fine(place: Place, tmp_path: Path, checksum: str) -> None:
    (tmp_path / "source").write_bytes(SMALL)
    place.main.link("main", ObjectEntry("a", f"file://{tmp_path}/source", len(SMALL), checksum, 1))
    place.main.commit("main", "m")
    for way in WAYS:
        assert way(place, "a") == SMALL
    place.main.export("main", tmp_path / "out")
    assert (tmp_path / "out/a").read_bytes() == SMALL
    assert place.main.fsck(object_bytes=True, outside_objects=True).findings == ()
    (tmp_path / "source").write_bytes(truncate(SMALL))
    with pytest.raises(DamagedObjectError, match=r"has 15 bytes, expected 16 bytes with checksum"):
        place.main.read("main", "a")


def test_an_upload_in_parts_reads_fine(place: Place) -> None:
    upload = place.main.begin_upload("main", "a")
    halves = (SMALL[:8], SMALL[8:])
    parts = [(n, upload_part(place.main.parts, "main", "a", upload, n, half)) for n, half in enumerate(halves, 1)]
    entry = finish_upload(place.main.parts, "main", "a", upload, parts)
    assert entry.checksum != md5(SMALL).hexdigest()
    for way in WAYS:
        assert way(place, "a") == SMALL


def test_an_import_with_the_etags_of_another_store_reads_fine(place: Place, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(SMALL)
    listing = tmp_path / "listing.csv"
    listing.write_text(f"path,address,size,etag\na,file://{tmp_path}/x,{len(SMALL)},{'ab' * 16}-7\n")
    place.main.import_listing("main", listing)
    for way in WAYS:
        assert way(place, "a") == SMALL


def test_an_import_of_a_folder_is_compared(place: Place, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_bytes(SMALL)
    place.main.import_folder("main", tmp_path / "in")
    assert place.main.read("main", "a") == SMALL
    (tmp_path / "in/a").write_bytes(flip(SMALL))
    with pytest.raises(CorruptError):
        place.main.read("main", "a")


def test_an_empty_object_has_no_bytes_to_compare(place: Place, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"")
    place.main.link("main", ObjectEntry("a", f"file://{tmp_path}/source", 0, "0" * 32, 1))
    for way in WAYS:
        if way is not by_tiny_buffer:
            assert way(place, "a") == b""
    (tmp_path / "source").write_bytes(b"x")
    with pytest.raises(DamagedObjectError):
        place.main.read("main", "a")


def test_a_copy_of_a_damaged_object_does_not_become_whole(place: Place) -> None:
    place.put("a", SMALL, flip)
    place.main.duplicate("main", "a", "b")
    with pytest.raises(DamagedObjectError):
        place.main.read("main", "b")


def test_many_bytes_are_hashed_beside_their_reading() -> None:
    entry = ObjectEntry("a", "mem://a", 10, md5(b"0123456789").hexdigest(), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "_BESIDE", 3)
        pieces = (b"012", b"3456", b"", b"789")
        assert b"".join(comparing.checked(entry, "r", iter(pieces), 0, None, lambda: False)) == b"0123456789"
        with pytest.raises(DamagedObjectError):
            list(comparing.checked(entry, "r", iter((b"012", b"345", b"6780")), 0, None, lambda: False))


# fsck


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_fsck_that_reads_all_bytes_names_each_damaged_object(place: Place, damage: Damage, *, staged: bool) -> None:
    place.put("fine", SMALL)
    commit = place.put("a", SMALL, damage)
    place.put("b", LARGE, damage)
    if staged:
        place.main.upload("main", "c", SMALL)
        place.file("c").write_bytes(damage(SMALL))
    kind = FindingKind.OBJECT_BYTES if len(damage(SMALL)) == len(SMALL) else FindingKind.OBJECT_SIZE
    if kind is FindingKind.OBJECT_BYTES:
        assert place.main.fsck(committed_objects=True).findings == ()
    report = place.main.fsck(object_bytes=True)
    assert {finding.kind for finding in report.findings} == {kind}
    said = " ".join(map(str, report.findings))
    for path in ("a", "b", *("c" * staged)):
        assert place.main.stat("main", path).address in said
    assert place.main.stat("main", "fine").address not in said
    if kind is FindingKind.OBJECT_BYTES:
        assert {(one.first, one.last) for one in report.findings} == {(p, p) for p in ("a", "b", *("c" * staged))}
        assert md5(damage(SMALL)).hexdigest() in said
    assert commit in {found for one in report.findings if one.first == "a" for found in one.commits}
    assert {ref.name for one in report.findings for ref in one.refs} == {"main"}
    assert report.counts.objects == (4 if staged else 3)


def test_fsck_counts_and_tells_what_it_reads(place: Place) -> None:
    for number in range(20):
        place.put(f"{number}", SMALL * number)
    place.put("gone", SMALL)
    place.file("gone").unlink()
    told: dict[str, list[tuple[int, int]]] = {}
    report = place.main.fsck(object_bytes=True, progress=lambda p, d, t: told.setdefault(p, []).append((d, t)))
    assert [finding.kind for finding in report.findings] == [FindingKind.OBJECT_MISSING]
    assert report.counts.bytes == len(SMALL) * sum(range(20))
    assert report.counts.objects_by_size == 0
    for phase in ("objects", "bytes"):
        assert told[phase][-1][0] == told[phase][-1][1]
        assert [done for done, _ in told[phase]] == sorted(done for done, _ in told[phase])


def test_fsck_reads_each_object_once_whatever_many_commits_have_it(place: Place) -> None:
    place.put("a", LARGE)
    for number in range(5):
        place.put(f"b{number}", b"x")
    assert place.main.fsck(object_bytes=True).counts.bytes == len(LARGE) + 5


def test_many_damaged_objects_of_a_range_share_a_finding(place: Place) -> None:
    for number in range(130):
        place.main.upload("main", f"{number:03}", SMALL)
    place.main.commit("main", "m")
    for number in range(130):
        place.file(f"{number:03}").write_bytes(flip(SMALL))
    report = place.main.fsck(object_bytes=True)
    assert len(report.findings) == 101
    assert any("30 objects" in finding.what for finding in report.findings)


def test_an_error_of_a_reading_thread_ends_the_check(place: Place) -> None:
    place.put("a", LARGE)

    def stop(phase: str, done: int, total: int) -> None:
        if phase == "bytes":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.main.fsck(object_bytes=True, progress=stop)


def read_all(repository: OpenRepository) -> dict[str, bytes | type[GravelerError]]:
    found: dict[str, bytes | type[GravelerError]] = {}
    for entry in repository.objects("main"):
        try:
            found[entry.path] = repository.read("main", entry.path)
        except GravelerError as error:
            found[entry.path] = type(error)
    return found


def test_fsck_and_reads_agree(place: Place) -> None:
    for damage in DAMAGES:
        place.put(damage.__name__, SMALL, damage)
    place.put("whole", SMALL)
    damaged = {finding.first for finding in place.main.fsck(object_bytes=True).findings if finding.first} | {
        finding.last for finding in place.main.fsck(object_bytes=True).findings if finding.last
    }
    wrong = {path for path, found in read_all(place.main).items() if found is DamagedObjectError}
    assert damaged <= wrong == {damage.__name__ for damage in DAMAGES}
