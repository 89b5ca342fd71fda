"""Wrong use and broken storage: an error of the right class that names what, where and what to do, and nothing is lost."""

import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graveler.errors import (
    AlreadyExistsError,
    AmbiguousRefError,
    CorruptError,
    DamagedFileError,
    ForbiddenError,
    GravelerError,
    InvalidError,
    LaterVersionError,
    NoChangesError,
    NotFoundError,
    ObjectNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    UnavailableError,
)
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.repository import OpenRepository
from graveler.model import MetarangeName, ObjectEntry, RetentionRules, SplitParameters
from graveler.requests.importing import AddressType, ImportAddress
from graveler.storage.objects.cache import FileCache
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.memory import MemoryObjects
from tests.lake.support import (
    NAME,
    NAMESPACE,
    TINY,
    World,
    changes,
    commit,
    paths,
    put,
    texts,
    without_rights,
    write_files,
)
from tests.support.campaigns import examples
from tests.support.instruments import Fault

LONE = "\ud800"
"""Text that cannot be written as UTF-8."""


def entry(path: str = "p", **changed: object) -> ObjectEntry:
    given = ObjectEntry(path, "mem://o/1", 1, "00" * 16, 0)
    return msgspec.structs.replace(given, **changed)


def small() -> World:
    world = World()
    commit(world.main, {"a": "1", "b/c": "2"})
    world.main.create_branch("dev", "main")
    world.main.create_tag("v1", "main")
    put(world.main, {"staged": "3"})
    return world


Verb = Callable[[OpenRepository], object]

WRONG_USE: list[tuple[str, Verb, type[GravelerError], str]] = [
    # Refs
    ("unknown ref", lambda r: r.stat("nope", "a"), RefNotFoundError, "'nope' not found: no branch, tag or commit"),
    ("unknown commit", lambda r: r.list_objects("f" * 64), RefNotFoundError, "no branch, tag or commit"),
    ("history too short", lambda r: r.list_objects("main~9"), RefNotFoundError, "main.*2 commits"),
    ("no second parent", lambda r: r.stat("main^2", "a"), RefNotFoundError, "1 parent"),
    ("not a ref", lambda r: r.stat("ma in", "a"), InvalidError, "not a valid ref expression, at character"),
    ("empty ref", lambda r: r.stat("", "a"), InvalidError, "not a valid ref expression"),
    ("ref not UTF-8", lambda r: r.stat(LONE, "a"), InvalidError, "UTF-8"),
    ("@ after a tag", lambda r: r.stat("v1@", "a"), RefNotFoundError, "after the name of a branch"),
    ("staging on a tag", lambda r: r.upload("v1", "a", b""), RefNotFoundError, "no branch has this name"),
    ("staging on a commit", lambda r: r.delete("main~1", ["a"]), InvalidError, "main~1.*branch"),
    ("commit on nothing", lambda r: r.commit("nope", "m"), RefNotFoundError, "nope"),
    ("branch of nothing", lambda r: r.create_branch("new", "nope"), RefNotFoundError, "nope"),
    ("tag of nothing", lambda r: r.create_tag("new", "nope"), RefNotFoundError, "nope"),
    # Names
    (
        "bad branch name",
        lambda r: r.create_branch("a/b", "main"),
        InvalidError,
        "'a/b' is not a valid branch name.*'/'",
    ),
    ("branch name not UTF-8", lambda r: r.create_branch(LONE, "main"), InvalidError, "valid branch name"),
    ("branch name too long", lambda r: r.create_branch("x" * 256, "main"), InvalidError, "256 bytes"),
    ("bad tag name", lambda r: r.create_tag("a..b", "main"), InvalidError, "valid tag name"),
    ("branch taken", lambda r: r.create_branch("dev", "main"), AlreadyExistsError, "branch 'dev' already exists"),
    ("tag taken", lambda r: r.create_tag("v1", "main"), AlreadyExistsError, "tag 'v1' already exists"),
    ("default branch", lambda r: r.delete_branch("main"), ForbiddenError, "default branch of repository"),
    ("branch not there", lambda r: r.delete_branch("nope"), RefNotFoundError, "no branch"),
    ("tag not there", lambda r: r.delete_tag("nope"), RefNotFoundError, "no tag"),
    ("branch by a tag's name", lambda r: r.branch("v1"), RefNotFoundError, "no branch"),
    # Paths
    ("no such object", lambda r: r.stat("main", "nope"), ObjectNotFoundError, "'nope' does not exist in 'main'"),
    ("a prefix is no object", lambda r: r.read("main", "b/"), ObjectNotFoundError, "b/"),
    ("empty path", lambda r: r.upload("main", "", b""), InvalidError, "empty"),
    ("path too long", lambda r: r.upload("main", "é" * 513, b""), InvalidError, "1026 bytes, but at most 1024"),
    ("path not UTF-8", lambda r: r.upload("main", LONE, b""), InvalidError, "UTF-8"),
    ("deleting a bad path", lambda r: r.delete("main", ["a", ""]), InvalidError, "empty"),
    ("reading a bad path", lambda r: r.stat("main", "x" * 1025), InvalidError, "1025"),
    ("prefix not UTF-8", lambda r: r.list_objects("main", prefix=LONE), InvalidError, "prefix.*UTF-8"),
    ("after not UTF-8", lambda r: r.list_objects("main", after=LONE), InvalidError, "after.*UTF-8"),
    ("delimiter not UTF-8", lambda r: r.uncommitted("main", delimiter=LONE), InvalidError, "delimiter.*UTF-8"),
    ("diff prefix not UTF-8", lambda r: r.diff("main", "dev", prefix=LONE), InvalidError, "prefix.*UTF-8"),
    # Objects
    (
        "address of the lake's own",
        lambda r: r.link("main", entry(address=f"{NAMESPACE}/_graveler/x")),
        InvalidError,
        "own namespace, but was not issued by graveler, so garbage collection may remove it",
    ),
    (
        "address for another path",
        lambda r: r.link("main", entry(address=r.new_address("main", "x"))),
        InvalidError,
        "'p'",
    ),
    (
        "address for another branch",
        lambda r: r.link("main", entry(address=r.new_address("dev", "p"))),
        InvalidError,
        "'main'",
    ),
    (
        "address in a data folder, under another name",
        lambda r: r.link("main", entry("t/b", address=f"{r.new_address('main', 't/')}/a")),
        InvalidError,
        "does not end like 't/b'",
    ),
    (
        "address in a data folder, not behind a slash",
        lambda r: r.link("main", entry("t/ba", address=f"{r.new_address('main', 't/b')}/a")),
        InvalidError,
        "does not end like 't/ba'",
    ),
    (
        "address in the data folder of another path",
        lambda r: r.link("main", entry("t/a", address=f"{r.new_address('main', 'u/')}/a")),
        InvalidError,
        "was not issued for 't/a'",
    ),
    (
        "address in the data folder of another branch",
        lambda r: r.link("main", entry("t/a", address=f"{r.new_address('dev', 't/')}/a")),
        InvalidError,
        "was not issued for 't/a'",
    ),
    ("negative size", lambda r: r.link("main", entry(size=-1)), InvalidError, "negative"),
    ("huge size", lambda r: r.link("main", entry(size=1 << 64)), InvalidError, "'p'"),
    ("huge time", lambda r: r.link("main", entry(mtime=1 << 70)), InvalidError, "'p'"),
    ("checksum not UTF-8", lambda r: r.link("main", entry(checksum=LONE)), InvalidError, "'p'"),
    ("checksum too long", lambda r: r.link("main", entry(checksum="0" * 400)), InvalidError, "too long"),
    ("address not UTF-8", lambda r: r.link("main", entry(address="s3://" + LONE)), InvalidError, "'p'"),
    ("address too long", lambda r: r.link("main", entry(address="s3://" + "x" * 70_000)), InvalidError, "too long"),
    ("metadata not UTF-8", lambda r: r.link("main", entry(metadata={"k": LONE})), InvalidError, "'p'"),
    (
        "metadata too large",
        lambda r: r.link("main", entry(metadata={"k": "x" * 500_000})),
        InvalidError,
        "400000|400,000",
    ),
    ("content type not UTF-8", lambda r: r.upload("main", "p", b"", content_type=LONE), InvalidError, "'p'"),
    ("no such file", lambda r: r.upload("main", "p", Path("/nowhere/at all")), NotFoundError, "/nowhere/at all"),
    ("file is a folder", lambda r: r.upload("main", "p", Path("/")), UnavailableError, "'/'"),
    # Commits
    ("message not UTF-8", lambda r: r.commit("main", LONE), InvalidError, "UTF-8"),
    ("message too long", lambda r: r.commit("main", "x" * 500_000), InvalidError, "shorten"),
    ("metadata not UTF-8", lambda r: r.commit("main", "m", metadata={"k": LONE}), InvalidError, "UTF-8"),
    ("committer not UTF-8", lambda r: r.commit("main", "m", committer=LONE), InvalidError, "UTF-8"),
    ("time beyond 64 bits", lambda r: r.commit("main", "m", created=1 << 63), InvalidError, "64 bits|time"),
    ("request id too long", lambda r: r.commit("main", "m", request_id="x" * 3000), InvalidError, "2,048"),
    ("nothing to commit", lambda r: r.commit("dev", "m"), NoChangesError, "branch 'dev'.*no uncommitted changes"),
    ("merge message not UTF-8", lambda r: r.merge("main~1", "dev", message=LONE), InvalidError, "UTF-8"),
    ("import message not UTF-8", lambda r: r.import_folder("dev", Path("/"), message=LONE), InvalidError, "UTF-8"),
    (
        "import to a bad place",
        lambda r: r.import_folder("dev", Path("/"), LONE + "/"),
        InvalidError,
        "destination.*UTF-8",
    ),
    # Copies, settings, history
    ("copy of nothing", lambda r: r.copy("main", "nope", "x"), ObjectNotFoundError, "'nope'"),
    ("copy from a bad ref", lambda r: r.copy("main", "a", "x", source_ref="nope"), RefNotFoundError, "nope"),
    ("copy to an empty path", lambda r: r.copy("main", "a", ""), InvalidError, "empty"),
    ("copy to a tag", lambda r: r.copy("v1", "a", "x"), RefNotFoundError, "no branch"),
    ("move of nothing", lambda r: r.move("main", "nope", "x"), ObjectNotFoundError, "'nope'"),
    ("move onto itself", lambda r: r.move("main", "a", "a"), InvalidError, "a"),
    ("move into itself", lambda r: list(r.move_prefix("main", "b/", "b/c/")), InvalidError, "starts with the other"),
    ("copy of a bad prefix", lambda r: list(r.copy_prefix("main", LONE, "x/")), InvalidError, "UTF-8"),
    ("metadata of nothing", lambda r: r.update_metadata("main", "nope", {}), ObjectNotFoundError, "'nope'"),
    ("object metadata not UTF-8", lambda r: r.update_metadata("main", "a", {"k": LONE}), InvalidError, "'a'"),
    ("metadata with an empty key", lambda r: r.set_metadata({"": "v"}), InvalidError, "empty key"),
    ("metadata that is not UTF-8", lambda r: r.set_metadata({"k": LONE}), InvalidError, "UTF-8"),
    ("protecting by a bad pattern", lambda r: r.protect(["a/b"]), InvalidError, "'a/b' is not a pattern"),
    ("lifting what is not there", lambda r: r.unprotect(["nope"]), NotFoundError, "nope"),
    ("retention of no days", lambda r: r.set_retention(RetentionRules(0)), InvalidError, "at least 1"),
    ("renaming the default branch", lambda r: r.rename_branch("main", "x"), ForbiddenError, "cannot be renamed"),
    ("renaming to a bad name", lambda r: r.rename_branch("dev", "a/b"), InvalidError, "'a/b'"),
    ("renaming to a name that is taken", lambda r: r.rename_branch("dev", "main"), AlreadyExistsError, "'main'"),
    ("hard reset to nothing", lambda r: r.hard_reset("dev", "nope"), RefNotFoundError, "nope"),
    ("undo of nothing", lambda r: r.undo("dev"), NotFoundError, "nothing to undo"),
    ("reset of a path and a prefix", lambda r: r.reset("main", path="a", prefix="a"), InvalidError, "path|prefix"),
    ("revert of nothing", lambda r: r.revert("dev", "nope"), RefNotFoundError, "nope"),
    (
        "cherry-pick from before the first commit",
        lambda r: r.cherry_pick("dev", "main~99"),
        RefNotFoundError,
        "main~99",
    ),
    ("blame of nothing", lambda r: r.blame("main", "nope"), ObjectNotFoundError, "'nope'"),
    ("blame of a bad path", lambda r: r.blame("main", ""), InvalidError, "empty"),
    ("annotating a bad prefix", lambda r: r.annotate("main", prefix=LONE), InvalidError, "UTF-8"),
    ("du of nothing", lambda r: r.du("nope"), RefNotFoundError, "nope"),
    ("du of a bad prefix", lambda r: r.du("main", LONE), InvalidError, "prefix.*UTF-8"),
    ("a summary of a bad prefix", lambda r: r.diff_summary("main", "dev", prefix=LONE), InvalidError, "UTF-8"),
    ("a log of an empty path", lambda r: r.log("main", paths=[""]), InvalidError, "path"),
    ("a log that stops nowhere", lambda r: r.log("main", stop_at="nope"), RefNotFoundError, "nope"),
    (
        "a metarange that is not there",
        lambda r: r.commit_metarange("dev", MetarangeName(f"{'0' * 64}-{'0' * 32}"), "m"),
        NotFoundError,
        "0000",
    ),
    (
        "a metarange by a bad name",
        lambda r: r.commit_metarange("dev", MetarangeName("../x"), "m"),
        InvalidError,
        "not the name of a metarange",
    ),
    (
        "import of a listing that is not there",
        lambda r: r.import_listing("dev", Path("/nowhere.csv")),
        GravelerError,
        "/nowhere.csv",
    ),
    (
        "import from a bad address",
        lambda r: r.import_addresses("dev", [ImportAddress(AddressType.OBJECT, "ftp://x/y", "z")]),
        InvalidError,
        "ftp://x/y",
    ),
    ("export of nothing", lambda r: r.export("nope", Path("/nowhere")), RefNotFoundError, "nope"),
    ("log from a bad place", lambda r: r.log("main", after="x"), InvalidError, "position in a log"),  # type: ignore[arg-type]
    ("amount of nothing", lambda r: r.branches(amount=0), InvalidError, "amount is 0"),
]


@pytest.mark.parametrize(("what", "verb", "error", "says"), WRONG_USE, ids=[case[0] for case in WRONG_USE])
def test_wrong_use_is_told_and_changes_nothing(what: str, verb: Verb, error: type[GravelerError], says: str) -> None:
    world = small()
    state = world.main.parts.branches.state("main")
    with pytest.raises(error, match=says) as caught:
        verb(world.repository())
    assert len(str(caught.value)) < 1200
    assert world.main.parts.branches.state("main") == state
    assert texts(world.main) == {"a": "1", "b/c": "2", "staged": "3"}
    assert changes(world.main) == {"staged": "added"}
    slept = world.clock.slept
    world.main.commit("main", "and it can go on at once")
    assert world.clock.slept == slept


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"metadata": {"rows": 5}}, "metadata of the commit has 5"),
        ({"metadata": {5: "rows"}}, "metadata of the commit has 5"),
        ({"metadata": {"rows": None}}, "metadata of the commit has None"),
        ({"metadata": {"rows": b"5"}}, "metadata of the commit has b'5'"),
        ({"metadata": {"rows": {"of": "a"}}}, "metadata of the commit has {'of': 'a'}"),
        ({"metadata": ["rows"]}, r"metadata of the commit is \['rows'\]; it must be a dictionary"),
        ({"committer": 5}, "author of the commit is 5"),
        ({"message": 5}, "message of the commit is 5"),
    ],
)
def test_a_commit_says_only_texts(given: dict[str, Any], says: str) -> None:
    repo = World().lake().repository(NAME)
    repo.create_branch("dev", "main")
    repo.upload("dev", "x", b"1")
    with pytest.raises(InvalidError, match=says):
        repo.commit("dev", **{"message": "m", **given})
    assert changes(repo, "dev") == {"x": "added"}
    repo.commit("dev", "m")
    with pytest.raises(InvalidError, match=says):
        repo.merge("dev", "main", **{"message": "m", **given})
    assert texts(repo) == {}


@pytest.mark.parametrize(
    "given",
    [
        {"metadata": {"rows": 5}},
        {"metadata": {5: "rows"}},
        {"metadata": {"rows": None}},
        {"metadata": {"rows": b"5"}},
        {"metadata": ["rows"]},
        {"content_type": 5},
        {"content_type": b"text/csv"},
    ],
    ids=str,
)
def test_what_nobody_could_read_again_is_not_staged(given: dict[str, Any]) -> None:
    repo = World().lake().repository(NAME)
    with pytest.raises(InvalidError, match="'x'"):
        repo.upload("main", "x", b"1", **given)
    entry = repo.upload("main", "y", b"1")
    if "metadata" in given:
        with pytest.raises((InvalidError, ValueError)):
            repo.update_metadata("main", "y", given["metadata"])
    for field in ({"mtime": 1.5}, {"size": 1.0}, {"checksum": b"00"}, given):
        with pytest.raises(InvalidError):
            repo.link("main", replace(entry, path="z", **field))
    assert [one.path for one in repo.objects("main")] == ["y"]


def test_an_ambiguous_prefix_names_the_candidates() -> None:
    world = World()
    seen: dict[str, str] = {}
    for number in range(2000):
        made = world.main.commit("main", f"m{number}", allow_empty=True)
        if made.id[:4] in seen:
            with pytest.raises(AmbiguousRefError, match="give more digits") as caught:
                world.main.stat(made.id[:4], "a")
            assert sorted(caught.value.candidates) == sorted([made.id, seen[made.id[:4]]])
            assert world.main.commit_of(made.id[:20]).id == made.id
            return
        seen[made.id[:4]] = made.id
    raise AssertionError("no two commits begin alike")


def test_an_old_address_is_refused() -> None:
    world = World()
    address = world.main.new_address("main", "p")
    world.main.link("main", entry(address=address))
    world.clock.time += 50_000
    with pytest.raises(InvalidError, match=r"14 hours ago.*request a new one"):
        world.main.link("main", entry(address=address))


def test_files_of_a_data_folder_are_linked_to_what_their_names_say() -> None:
    world = World()
    folder = world.main.new_address("main", "t/")
    for name in ("a", "day=1/a", "day=1/day=1/a"):
        world.main.link("main", entry(f"t/{name}", address=f"{folder}/{name}"))
        assert world.main.stat("main", f"t/{name}").address == f"{folder}/{name}"
    world.clock.time += 50_000
    with pytest.raises(InvalidError, match=r"14 hours ago.*request a new one"):
        world.main.link("main", entry("t/b", address=f"{folder}/b"))


# Lakes and repositories


@pytest.mark.parametrize("name", ["", "ab", "Upper", "-x", "a_b", "x" * 64, LONE, "é" * 5, "a/b"])
def test_bad_repository_names_are_refused(name: str) -> None:
    world = World()
    with pytest.raises(InvalidError, match="valid repository name"):
        world.lake().create_repository(name, "mem://x")
    with pytest.raises(RepositoryNotFoundError, match="does not exist"):
        world.lake().repository(name)
    with pytest.raises(RepositoryNotFoundError):
        world.lake().delete_repository(name)


def test_repositories_that_cannot_be_created() -> None:
    world = World()
    lake = world.lake()
    with pytest.raises(AlreadyExistsError, match="'repo' already exists"):
        lake.create_repository(NAME, "mem://other")
    with pytest.raises(InvalidError, match=r"mem://repo already belongs to repository 'repo'.*choose another"):
        lake.create_repository("second", NAMESPACE)
    with pytest.raises(InvalidError, match="mem://repo already belongs"):
        lake.create_repository("second", NAMESPACE + "/")
    with pytest.raises(InvalidError, match="valid branch name"):
        lake.create_repository("second", "mem://second", default_branch="a b")
    with pytest.raises(InvalidError, match=r"min_size|max_size|raggedness"):
        lake.create_repository("second", "mem://second", split=SplitParameters(min_size=0, max_size=-1))
    with pytest.raises(InvalidError, match="UTF-8"):
        lake.repositories(prefix=LONE)
    assert [r.name for r in lake.repositories().results] == [NAME]
    lake.create_repository("second", "mem://second")


def test_the_namespace_of_a_deleted_repository_is_kept() -> None:
    world = small()
    lake = world.lake()
    lake.delete_repository(NAME)
    with pytest.raises(InvalidError, match="'repo', which was deleted but still has data there"):
        lake.create_repository("second", NAMESPACE)
    lake.create_repository(NAME, "mem://second")


def test_a_namespace_of_another_lake_is_refused_however_long_ago() -> None:
    world = small()
    other = World()
    other.clock.time += 10_000_000
    stranger = Lake(other.tables, world.objects, clock=other.clock)
    with pytest.raises(InvalidError, match="belongs to repository 'repo' of another lake"):
        stranger.create_repository("mine", NAMESPACE)
    assert texts(world.repository(), "v1") == {"a": "1", "b/c": "2"}


@pytest.mark.parametrize(
    "namespace",
    [
        "",
        "local://",
        "local://..",
        "local://a/../b",
        "local://a//b",
        "/plain",
        "ftp://bucket",
        "nonsense",
        "local://a\0b",
        LONE,
    ],
)
def test_bad_namespaces_are_refused(namespace: str, tmp_path: Path) -> None:
    lake = create_folder_lake(tmp_path / "lake")
    with pytest.raises(InvalidError):
        lake.create_repository("repo", namespace)
    assert lake.repositories().results == ()


# Damage. A lake in a folder, as somebody finds it whose disk broke.


class FolderLake:
    """A folder lake with a small history."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lake"
        lake = create_folder_lake(self.folder)
        repository = lake.create_repository(NAME, "local://repo", split=TINY)
        files: dict[str, str | None] = {f"k{n:02}": str(n) for n in range(60)}
        commit(repository, files)
        commit(repository, {"k30": "new"})
        self.repository = repository

    def open(self) -> OpenRepository:
        return open_folder_lake(self.folder).repository(NAME)

    def files(self, kind: str) -> list[Path]:
        return sorted((self.folder / "objects" / "repo" / "_graveler" / kind).iterdir())

    def range_of(self, key: str) -> Path:
        tree = self.repository.tree("main")
        for number in range(len(tree)):
            if tree.info(number).first <= key.encode() <= tree.lasts[number]:
                return self.folder / "objects/repo/_graveler/ranges" / tree.info(number).name
        raise AssertionError


def break_file(path: Path, how: str) -> None:
    data = path.read_bytes()
    path.chmod(0o644)
    if how == "missing":
        path.unlink()
    elif how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        middle = len(data) // 3
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :])


DAMAGE = ["missing", "truncated", "empty", "flipped"]


@pytest.mark.parametrize("how", DAMAGE)
def test_a_broken_range_is_named_with_what_it_held(how: str, tmp_path: Path) -> None:
    lake = FolderLake(tmp_path)
    path = lake.range_of("k05")
    held = [key for key in paths(lake.repository) if lake.range_of(key) == path]
    break_file(path, how)
    verbs: list[Verb] = [
        lambda r: r.stat("main", "k05"),
        paths,
        lambda r: commit(r, {"k05": "mine"}),
    ]
    for verb in verbs:
        with pytest.raises(DamagedFileError, match="Restore this file from a copy") as caught:
            verb(lake.open())
        assert isinstance(caught.value, CorruptError)
        assert caught.value.name == path.name
        assert (caught.value.first, caught.value.last) == (held[0].encode(), held[-1].encode())
        assert held[0] in str(caught.value)
        assert path.name in str(caught.value)
    # All else can be read and changed, and nothing is lost.
    repository = lake.open()
    assert repository.read("main", "k50") == b"50"
    assert repository.branch("main").commit_id == lake.repository.branch("main").commit_id
    repository.create_branch("dev", "main")
    commit(repository, {"k50": "other place"}, "dev")
    assert repository.read("dev@", "k50") == b"other place"


@pytest.mark.parametrize("how", DAMAGE)
def test_a_broken_metarange_is_named(how: str, tmp_path: Path) -> None:
    lake = FolderLake(tmp_path)
    name = lake.repository.commit_of("main").metarange
    break_file(lake.folder / "objects/repo/_graveler/metaranges" / name, how)
    put(lake.open(), {"new": "1"})
    verbs: list[Verb] = [
        lambda r: r.stat("main", "k05"),
        lambda r: r.commit("main", "m"),
        lambda r: r.diff("main~1", "main"),
        lambda r: r.uncommitted("main"),
    ]
    for verb in verbs:
        with pytest.raises(DamagedFileError, match=r"metarange.*Restore this file from a copy") as caught:
            verb(lake.open())
        assert caught.value.name == name
    repository = lake.open()
    assert repository.read("main~1", "k30") == b"30"
    assert len(repository.log("main").results) == 3
    assert repository.read("main", "new") == b"1"


def run_sql(lake: FolderLake, statement: str) -> None:
    """Change the table behind its back."""
    with closing(sqlite3.connect(lake.folder / "tables.sqlite")) as table, table:
        table.execute(statement)


def damage_item(
    lake: FolderLake, partition: str, change: Callable[[dict[str, object]], dict[str, object] | None]
) -> None:
    """Change items of the table behind its back."""
    with closing(sqlite3.connect(lake.folder / "tables.sqlite")) as table, table:
        for part, sort, body in table.execute(
            "SELECT partition, sort, body FROM items WHERE partition LIKE ?", (partition,)
        ).fetchall():
            item = change(msgspec.msgpack.decode(body[9:] if body[:1] == b"\x70" else body))  # without its checksum
            if item is None:
                table.execute("DELETE FROM items WHERE partition = ? AND sort = ?", (part, sort))
            else:
                table.execute(
                    "UPDATE items SET body = ? WHERE partition = ? AND sort = ?",
                    (msgspec.msgpack.encode(item), part, sort),
                )
    table.close()


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["ranges", "metaranges"]), st.integers(0, 400))
def test_random_bytes_in_the_place_of_a_file_of_the_tree_are_damage_that_is_named(
    data: bytes, kind: str, kept: int
) -> None:
    world = small()
    objects = world.objects()
    (key, *_) = [stored.key for stored in objects.list(f"_graveler/{kind}/")]
    whole = objects.get(key)
    right = {ref: [entry.path for entry in world.main.objects(ref)] for ref in ("main@", "v1", "main~1")}
    for damaged in (data, whole[:kept] + data):
        objects.put(key, damaged)
        for ref, found in right.items():
            with suppress(CorruptError):
                assert [entry.path for entry in world.repository().objects(ref)] == found


@pytest.mark.parametrize("how", ["missing", "damaged", "newer", "no record"])
def test_a_broken_commit_record_is_named(how: str, tmp_path: Path) -> None:
    lake = FolderLake(tmp_path)
    head = lake.repository.branch("main").commit_id

    def change(item: dict[str, object]) -> dict[str, object] | None:
        record = item["record"]
        assert isinstance(record, bytes)
        if how == "missing":
            return None
        if how == "damaged":
            return {**item, "record": record.replace(b'"message":"m"', b'"message":"n"')}
        if how == "newer":
            return {**item, "record": record.replace(b'"version":1', b'"version":7')}
        return {"line": b""}

    damage_item(lake, "%/commit/%", change)
    put(lake.open(), {"new": "1"})
    verbs: list[Verb] = [
        lambda r: r.stat("main", "k05"),
        lambda r: r.commit("main", "m"),
        lambda r: r.commit_of("main"),
        lambda r: r.list_objects("main"),
        lambda r: r.uncommitted("main"),
        lambda r: r.diff("main", "main"),
        lambda r: r.import_folder("main", tmp_path / "empty"),
        lambda r: r.merge(head, "main"),
    ]
    (tmp_path / "empty").mkdir()
    for number, verb in enumerate(verbs):
        error: type[GravelerError] = LaterVersionError if how == "newer" else CorruptError
        if how == "missing" and number == len(verbs) - 1:
            error = NotFoundError
        with pytest.raises(error, match=head):
            verb(lake.open())
    assert lake.open().branch("main").commit_id == head


def test_damaged_items_of_the_table_are_corrupt_errors(tmp_path: Path) -> None:
    lake = FolderLake(tmp_path)
    damage_item(lake, "%/branch/%", lambda item: {**item, "commit": 7})
    with pytest.raises(CorruptError, match="branch 'main'"):
        lake.open().stat("main", "k05")
    damage_item(lake, "repositories", lambda item: {**item, "created": "never"})
    with pytest.raises(CorruptError, match="repository 'repo'"):
        lake.open()


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_cache_entry_is_healed(how: str, tmp_path: Path) -> None:
    world = World()
    files: dict[str, str | None] = {f"k{n:02}": str(n) for n in range(60)}
    commit(world.main, files)
    cache = FileCache(tmp_path / "cache", 1 << 20, 3600, world.clock.now)
    assert texts(world.repository(cache=cache)) == files
    copies = [path for path in (tmp_path / "cache").iterdir() if not path.name.startswith(".")]
    assert len(copies) >= 5
    for copy in copies:
        break_file(copy, how)
    assert texts(world.repository(cache=cache)) == files
    for copy in copies:
        assert copy.read_bytes() == world.objects().get("_graveler/" + copy.name.split("-", 1)[1].replace("-", "/", 1))


def test_a_cached_copy_of_a_file_that_the_store_lost_is_noticed_after_a_while(tmp_path: Path) -> None:
    world = World()
    commit(world.main, {"k": "1"})
    cache = FileCache(tmp_path / "cache", 1 << 20, 3600, world.clock.now)
    assert texts(world.repository(cache=cache)) == {"k": "1"}
    store = world.objects()
    for stored in list(store.list("_graveler/ranges/")):
        store.delete(stored.key)
    assert world.repository(cache=cache).stat("main", "k").size == 1
    world.clock.time += 4000
    with pytest.raises(DamagedFileError, match="missing from the object store"):
        world.repository(cache=cache).stat("main", "k")


# Disks and rights


class FullDisk(MemoryObjects):
    """Takes no more than some objects."""

    left = 1 << 30

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent=None):  # type: ignore[no-untyped-def]
        if self.left <= 0:
            raise UnavailableError(f"writing {key}: No space left on device; free some space")
        self.left -= 1
        return super().put(key, data, if_absent=if_absent, sent=sent)


@pytest.mark.parametrize("left", range(12))
def test_a_disk_that_fills_up_loses_nothing(left: int, tmp_path: Path) -> None:
    world = World()
    disk = FullDisk(NAMESPACE + "2", world.clock.now)
    lake = Lake(world.tables, lambda _: disk, clock=world.clock)
    repository = lake.create_repository("full", disk.namespace, split=TINY)
    state: dict[str, str | None] = {f"k{n:02}": "1" for n in range(30)}
    head = commit(repository, state)
    folder = write_files(tmp_path, {"in": "1"})
    disk.left = left
    acknowledged: dict[str, str | None] = dict(state)
    for verb, effect in (
        (lambda: repository.upload("main", "new", b"2"), {"new": "2"}),
        (lambda: repository.delete("main", ["k05"]), {"k05": None}),
        (lambda: repository.commit("main", "m"), {}),
        (lambda: repository.import_folder("main", folder, "new/"), {"new/in": "1"}),
    ):
        try:
            verb()
            acknowledged.update(effect)
        except UnavailableError as error:
            assert "free some space" in str(error)  # noqa: PT017
        except GravelerError as error:
            assert left < 12, error  # noqa: PT017 - dirty, since the commit failed
    disk.left = 1 << 30
    fresh = lake.repository("full")
    assert texts(fresh) == {path: text for path, text in acknowledged.items() if text is not None}
    assert texts(fresh, head) == state
    try:
        fresh.commit("main", "again")
    except NoChangesError:
        assert changes(fresh) == {}
    assert texts(fresh, "main@") == texts(fresh)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting takes root")
def test_a_full_file_system_is_told_and_heals(tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(mount)], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this machine does not let us mount a file system")
    try:
        lake = create_folder_lake(mount / "lake")
        repository = lake.create_repository(NAME, "local://repo", split=TINY)
        commit(repository, {"a": "1"})
        written: list[str] = []

        def fill(name: str, stage: Callable[[str], object]) -> None:
            for number in range(2000):
                stage(f"{name}{number:04}")
                written.append(f"{name}{number:04}")

        with pytest.raises(UnavailableError, match=r"(?i)full|no space|no room"):
            fill("k", lambda path: repository.upload("main", path, b"x" * 20_000))
        with pytest.raises(UnavailableError, match=r"(?i)full|no space|no room"):
            fill("l", lambda path: repository.link("main", entry(path, metadata={"k": "x" * 5000})))
        fresh = open_folder_lake(mount / "lake").repository(NAME)
        found = {item.path: item for item in fresh.objects("main")}
        assert sorted(found) == ["a", *sorted(written)]
        assert fresh.read("main", "a") == b"1"
        for number in range(20):  # make room
            (mount / "lake" / "objects" / "repo" / found[f"k{number:04}"].address.split("repo/", 1)[1]).unlink()
        fresh.commit("main", "there is room again")
        assert sorted(paths(fresh, "main@")) == ["a", *sorted(written)]
        repository.parts.tables.close()  # type: ignore[attr-defined]
        fresh.parts.tables.close()  # type: ignore[attr-defined]
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_lake_without_rights_says_so(open_folder: Path) -> None:
    lake = FolderLake(open_folder)
    lake.folder.chmod(0o755)

    def read_only() -> None:
        with pytest.raises(UnavailableError, match="is there, but this user may not open it"):
            commit(lake.open(), {"new": "1"})
        with pytest.raises(UnavailableError, match=r"(?i)permission"):
            create_folder_lake(lake.folder / "inner")

    def nothing() -> None:
        with pytest.raises(UnavailableError, match="is there, but this user may not open it"):
            lake.open()
        with pytest.raises(UnavailableError, match="this user may not open"):
            create_folder_lake(lake.folder)

    without_rights(read_only)
    lake.folder.chmod(0)
    without_rights(nothing)
    lake.folder.chmod(0o755)
    assert len(paths(lake.open())) == 60


# Formats


def test_lakes_that_are_there_already_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no lake in.*graveler init"):
        open_folder_lake(tmp_path)
    create_folder_lake(tmp_path / "lake")
    with pytest.raises(AlreadyExistsError, match="open it"):
        create_folder_lake(tmp_path / "lake")
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="file"):
        create_folder_lake(tmp_path / "file")
    with pytest.raises(UnavailableError, match="file"):
        create_folder_lake(tmp_path / "file" / "below")


def test_a_lake_that_was_only_just_made_can_be_opened(tmp_path: Path) -> None:
    create_folder_lake(tmp_path)
    assert open_folder_lake(tmp_path).repositories().results == ()


def test_two_who_make_a_lake_at_once_do_not_both_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, others = FolderObjects.put, iter([create_folder_lake])

    def second(self: FolderObjects, key: str, data: bytes | Path, *, if_absent: bool = False) -> object:
        for create in others:
            create(tmp_path)
        return original(self, key, data, if_absent=if_absent)

    monkeypatch.setattr(FolderObjects, "put", second)
    with pytest.raises(AlreadyExistsError, match="open it"):
        create_folder_lake(tmp_path)
    open_folder_lake(tmp_path).create_repository(NAME, "local://repo")


NEWER: list[tuple[str, Callable[[FolderLake], object], type[GravelerError], str]] = [
    (
        "lake",
        lambda lake: (lake.folder / "graveler.json").write_text('{"format_version": 2, "more": []}'),
        LaterVersionError,
        "later version of graveler.*format 2",
    ),
    (
        "damaged marker",
        lambda lake: (lake.folder / "graveler.json").write_text('{"format'),
        CorruptError,
        "graveler.json",
    ),
    (
        "repository",
        lambda lake: damage_item(lake, "repositories", lambda item: {**item, "format_version": 3, "new": 1}),
        LaterVersionError,
        "'repo' was made by a later version of graveler: it has format 3",
    ),
    (
        "table",
        lambda lake: run_sql(lake, "PRAGMA user_version = 9"),
        LaterVersionError,
        "later version of graveler: it has format 9",
    ),
]


@pytest.mark.parametrize(("what", "make", "error", "says"), NEWER, ids=[case[0] for case in NEWER])
def test_a_newer_format_is_refused_by_name(
    what: str, make: Callable[[FolderLake], object], error: type[GravelerError], says: str, tmp_path: Path
) -> None:
    lake = FolderLake(tmp_path)
    lake.repository.parts.tables.close()  # type: ignore[attr-defined]
    make(lake)
    with pytest.raises(error, match=says):
        lake.open()


FAULTS: tuple[Fault, ...] = ("fail_before", "fail_after", "repeat")


def test_every_request_of_a_commit_may_fail_and_nothing_is_lost() -> None:
    for moment in range(16):
        for fault in FAULTS:
            world = small()

            def schedule(_: str, number: int, at: int = moment, what: Fault = fault) -> Fault:
                return what if number == at else None

            with suppress(UnavailableError):
                world.repository(schedule).commit("main", "m")
            assert texts(world.main) == {"a": "1", "b/c": "2", "staged": "3"}
            if changes(world.main):
                world.main.commit("main", "m")
            assert texts(world.main, "main@") == {"a": "1", "b/c": "2", "staged": "3"}
