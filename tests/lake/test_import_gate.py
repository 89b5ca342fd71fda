"""An import commits nothing that nobody can read: it asks the reader's gate, whatever its source is."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import ForbiddenError, InvalidError
from graveler.lake.importing.gate import Gate, GateOfMany
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.requests.importing import AddressType, ImportAddress
from tests.lake.support import World
from tests.support.campaigns import examples

REFUSALS = (ForbiddenError, InvalidError)


class Strange:
    """A folder that has what only some readers, or none, may read."""

    def __init__(self, folder: Path, lake: Path) -> None:
        self.folder = folder
        self.lake = lake
        folder.mkdir(parents=True)

    def plain(self) -> Path:
        return self._file("a plain file with the longest name")

    def hidden(self) -> Path:
        return self._file(".hidden")

    def reserved(self) -> Path:
        return self._file(".graveler-tmp/writes/x")

    def reserved_name(self) -> Path:
        return self._file("in/.graveler-tmp")

    def long(self) -> Path:
        return self._file("/".join(["d" * 200] * 5) + "/f")

    def long_in_bytes(self) -> Path:
        return self._file("/".join(["é" * 100] * 5) + "/f")

    def as_long_as_can_be(self) -> Path:
        return self._of_length(1024)

    def a_byte_too_long(self) -> Path:
        return self._of_length(1025)

    def linked(self) -> Path:
        outside = self.folder.parent / "outside"
        outside.write_text("outside")
        return self._link("linked", outside)

    def link_into_the_lake(self) -> Path:
        data = min((self.lake / "objects/repo/data").glob("*/*"))
        return self._link("into the lake", data)

    def link_to_the_marker(self) -> Path:
        return self._link("marker", self.lake / "graveler.json")

    def link_to_the_table(self) -> Path:
        return self._link("table", self.lake / "tables.sqlite")

    def link_of_a_link_to_the_table(self) -> Path:
        return self._link("again", self._link("first", self.lake / "tables.sqlite"))

    def hard_link_to_the_table(self) -> Path:
        return self._hard_link("hard", "tables.sqlite")

    def hard_link_to_the_log(self) -> Path:
        return self._hard_link("log", "tables.sqlite-wal")

    def environment(self) -> Path:
        return self._link("environment", Path("/proc/self/environ"))

    def system(self) -> Path:
        return self._link("system", Path("/sys/kernel/mm/transparent_hugepage/enabled"))

    def _file(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name[-5:])
        return path

    def _of_length(self, length: int) -> Path:
        """A file whose path has so many bytes behind its first slash."""
        name, rest = "", length - len(str(self.folder))
        while rest > 200:
            name, rest = f"{name}{'e' * 179}/", rest - 180
        return self._file(name + "n" * rest)

    def _link(self, name: str, to: Path) -> Path:
        (self.folder / name).symlink_to(to)
        return self.folder / name

    def _hard_link(self, name: str, of: str) -> Path:
        os.link(self.lake / of, self.folder / name)
        return self.folder / name


KINDS: list[Callable[[Strange], Path]] = [
    Strange.plain,
    Strange.hidden,
    Strange.reserved,
    Strange.reserved_name,
    Strange.long,
    Strange.long_in_bytes,
    Strange.as_long_as_can_be,
    Strange.a_byte_too_long,
    Strange.linked,
    Strange.link_into_the_lake,
    Strange.link_to_the_marker,
    Strange.link_to_the_table,
    Strange.link_of_a_link_to_the_table,
    Strange.hard_link_to_the_table,
    Strange.hard_link_to_the_log,
    Strange.environment,
    Strange.system,
]
READABLE = {Strange.plain, Strange.hidden, Strange.linked, Strange.as_long_as_can_be}
LONG = {Strange.long, Strange.long_in_bytes, Strange.a_byte_too_long}
COPIED = {
    *LONG,
    *READABLE,
    Strange.reserved,
    Strange.reserved_name,
}


def by_folder(repository: OpenRepository, folder: Path, _: list[Path]) -> None:
    repository.import_folder("main", folder, "in/")


def by_time(repository: OpenRepository, folder: Path, _: list[Path]) -> None:
    repository.import_folder("main", folder, "in/", trust_mtime=True)


def by_copy(repository: OpenRepository, folder: Path, _: list[Path]) -> None:
    repository.import_folder("main", folder, "in/", copy=True)


def by_prefix(repository: OpenRepository, folder: Path, _: list[Path]) -> None:
    repository.import_addresses("main", [ImportAddress(AddressType.COMMON_PREFIX, f"file://{folder}/", "in/")])


def by_objects(repository: OpenRepository, _: Path, files: list[Path]) -> None:
    sources = [
        ImportAddress(AddressType.OBJECT, f"file://{file}", f"in/{number}") for number, file in enumerate(sorted(files))
    ]
    repository.import_addresses("main", sources)


def by_listing(repository: OpenRepository, folder: Path, files: list[Path]) -> None:
    listing = folder.parent / "listing.csv"
    rows = [f"in/{number},file://{file},{file.stat().st_size},e" for number, file in enumerate(files)]
    listing.write_text("\n".join(["key,physical_address,size,etag", *rows]))
    repository.import_listing("main", listing)


WAYS = [by_folder, by_time, by_copy, by_prefix, by_objects, by_listing]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("gate") / "lake"
    with create_folder_lake(folder) as lake:
        made = lake.create_repository("repo", "local://repo")
        made.upload("main", "object", b"bytes")
        made.commit("main", "m")
        yield lake


def import_and_read(lake: Lake, folder: Path, kinds: set[Callable[[Strange], Path]], way: Callable[..., None]) -> bool:
    """Return whether the import was made. All that it committed is read; if it was refused, nothing was committed."""
    assert lake.folder_permissions is not None
    strange = Strange(folder / "files", lake.folder_permissions.folder)
    files = [kind(strange) for kind in sorted(kinds, key=KINDS.index)]
    repository = lake.repository("repo")
    before = repository.branch("main").commit_id
    try:
        way(repository, strange.folder, files)
    except REFUSALS:
        assert repository.branch("main").commit_id == before
        return False
    read = [
        b"".join(repository.stream("main", entry.path))
        for entry in repository.list_objects("main", prefix="in/").results
    ]
    assert len(read) >= len(kinds)
    return True


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_nobody_could_read_is_refused_and_all_else_is_imported(
    opened: Lake, tmp_path: Path, kind: Callable[[Strange], Path], way: Callable[..., None]
) -> None:
    if kind is Strange.system and not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists():
        pytest.skip("this system has no such file")
    expected = COPIED if way is by_copy else READABLE
    assert import_and_read(opened, tmp_path, {Strange.plain, kind}, way) == (kind in expected)


@settings(max_examples=examples(25), deadline=None)
@given(kinds=st.sets(st.sampled_from(KINDS[:-1]), min_size=1, max_size=5), way=st.sampled_from(WAYS))
def test_whatever_is_committed_can_be_read(
    opened: Lake,
    tmp_path_factory: pytest.TempPathFactory,
    kinds: set[Callable[[Strange], Path]],
    way: Callable[..., None],
) -> None:
    imported = import_and_read(opened, tmp_path_factory.mktemp("strange"), kinds, way)
    assert imported == kinds.issubset(COPIED if way is by_copy else READABLE)


@pytest.mark.parametrize("way", [by_prefix, by_listing, by_objects])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not Strange.linked])
def test_a_servers_import_asks_the_servers_gate(
    opened: Lake, tmp_path: Path, kind: Callable[[Strange], Path], way: Callable[..., None]
) -> None:
    """A server follows no link at all, and knows a file by its path below the source, which is shorter."""
    assert opened.folder_permissions is not None
    if kind is Strange.system and not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists():
        pytest.skip("this system has no such file")
    with open_folder_lake(opened.folder_permissions.folder, sources=[f"file://{tmp_path}"]) as served:
        assert import_and_read(served, tmp_path, {Strange.plain, kind}, way) == (kind in {*READABLE, *LONG})


def test_all_refused_files_are_counted_and_the_first_ones_named(opened: Lake, tmp_path: Path) -> None:
    (tmp_path / "files/deep").mkdir(parents=True)
    for number in range(7):
        (tmp_path / f"files/deep/{number}").symlink_to("/proc/self/environ")
    for number in range(600):  # more than a batch
        (tmp_path / f"files/{number}").write_text("x")
    with pytest.raises(ForbiddenError, match=r"^7 files cannot be imported.*files/deep/0.*files/deep/4.*; and 2 more$"):
        opened.repository("repo").import_folder("main", tmp_path / "files", "in/")


def test_no_file_is_read_once_one_is_refused(opened: Lake, tmp_path: Path) -> None:
    (tmp_path / "files/a").mkdir(parents=True)
    (tmp_path / "files/0").symlink_to("/proc/self/environ")
    (tmp_path / "files/a/large").write_text("x")
    told: list[int] = []
    with pytest.raises(ForbiddenError, match="1 file cannot be imported"):
        opened.repository("repo").import_folder(
            "main", tmp_path / "files", "in/", progress=lambda objects, _: told.append(objects)
        )
    assert sum(told) == 0


def test_a_system_folder_is_no_source(opened: Lake) -> None:
    for copy in (False, True):
        with pytest.raises(ForbiddenError, match="view of the system"):
            opened.repository("repo").import_folder("main", Path("/proc/self/net"), "in/", copy=copy)


def test_listed_rows_that_nobody_could_read_are_named_and_counted(opened: Lake, tmp_path: Path) -> None:
    rows = ["a,file:///fine/1,1,e", "b,file:///proc/self/environ,1,e", "c,gs://bucket/x,1,e", "d,s3://b/../x,1,e"]
    (tmp_path / "listing.csv").write_text("\n".join(["key,physical_address,size,etag", *rows]))
    with pytest.raises(InvalidError, match=r"row 3 cannot be imported: .*view of the system.*So cannot 2 of the next"):
        opened.repository("repo").import_listing("main", tmp_path / "listing.csv")


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["bucket", "other", "no"]), st.sampled_from(["", "a/", "own/"]), st.text(max_size=3)),
        max_size=12,
    ),
    st.integers(1_000, 1_030),
)
def test_many_addresses_are_refused_as_each_alone(drawn: list[tuple[str, str, str]], length: int) -> None:
    addresses = [f"s3://{bucket}/{folder}{name}" for bucket, folder, name in drawn]
    addresses += ["s3://bucket/a/" + "x" * length, "s3://bucket/a/" + "x" * (length - 20), "s3://bucket/a/x\0"]
    usable = [address for address in addresses if not any("\ud800" <= letter <= "\udfff" for letter in address)]
    gate = Gate("mem://repo", World().main.locate_outside)
    expected = [number for number, address in enumerate(usable) if gate.refusal(address) is not None]
    many = GateOfMany(gate)
    for _ in range(2):  # with and without what it remembers
        assert [number for number, _ in many.refusals([address.encode() for address in usable])] == expected
