"""Tags with slashes and percent signs: each interface names them in the same way, and what it prints names them again.

By API: tests/api/test_tags.py; by Spark: tests/spark/test_names_of_refs.py.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pytest

import graveler.duckdb
import graveler.polars
from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.api.settings import Settings
from graveler.cli.exits import ExitCode
from graveler.errors import RefNotFoundError
from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.sdk.lake import Lake, open_lake
from graveler.values.addresses import quote_ref
from tests.api.over_http import HOST, serving
from tests.cli.support import done, run
from tests.support.gateways import TAGS, FunctionApplication
from tests.support.shell import Shell

PATH: Final = "d/x.csv"


class Scene(NamedTuple):
    """The variables that lead to a lake whose repository ``sales`` has the tags; each tag's object says its name."""

    variables: dict[str, str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("names") / "lake"
    with create_folder_lake(folder) as lake:
        repository = lake.create_repository("sales", "local://sales")
        for tag in TAGS:
            repository.upload("main", PATH, f"name\n{tag}\n".encode())
            repository.commit("main", tag)
            repository.create_tag(tag, "main")
        repository.create_branch("drafts", "main")
    return folder


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[Scene]:
    """The same lake behind functions of which a gateway decodes all paths."""
    with serving() as switch, open_folder_lake(folder) as lake:
        access = Access(lake.tables)
        key = access.create_key("ada", Role.ADMIN)
        application = FunctionApplication(lake, access, Settings(presigned=False, decoded_paths=True))
        switch.application = application
        yield Scene(
            {
                "GRAVELER_ENDPOINT": f"http://{HOST}:{switch.port}",
                "GRAVELER_ACCESS_KEY_ID": key.key.key_id,
                "GRAVELER_SECRET_ACCESS_KEY": key.secret,
            }
        )
        application.close()


@pytest.fixture(params=["folder", "gateway"])
def scene(request: pytest.FixtureRequest, shell: Shell, tmp_path: Path) -> Scene:
    if request.param == "folder":
        scene = Scene({"GRAVELER_LAKE": str(request.getfixturevalue("folder"))})
    else:
        scene = request.getfixturevalue("gateway")
    shell.export("GRAVELER_CONFIG", str(tmp_path / "config.toml"))
    shell.export("GRAVELER_PAGER", "")
    shell.cd(tmp_path)
    shell.export_all(scene.variables)
    return scene


@pytest.fixture
def lake(scene: Scene) -> Iterator[Lake]:
    with open_lake() as lake:
        yield lake


def lines(tag: str) -> str:
    return f"name\n{tag}\n"


def cat(uri: str) -> str:
    return done("cat", f"{uri}/{PATH}").out


def got(uri: str) -> str:
    done("get", f"{uri}/{PATH}", "file.csv")
    return Path("file.csv").read_text()


def exported(uri: str) -> str:
    done("export", f"{uri}/d/", "exported")
    return (Path("exported") / "x.csv").read_text()


def copied(uri: str) -> str:
    done("cp", f"{uri}/{PATH}", "lakefs://sales/drafts/copy.csv")
    return done("cat", "lakefs://sales/drafts/copy.csv").out


def selected(uri: str) -> str:
    address = uri.replace("lakefs://", "graveler://")
    return done("sql", f"SELECT name FROM '{address}/{PATH}'", "--format", "csv").out


READERS: Final[tuple[Callable[[str], str], ...]] = (cat, got, exported, copied, selected)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.usefixtures("scene")
def test_the_command_line_reads_at_each_tag(read: Callable[[str], str]) -> None:
    for tag in TAGS:
        assert read(f"lakefs://sales/{quote_ref(tag)}") == lines(tag), tag


@pytest.mark.usefixtures("scene")
def test_the_command_line_describes_at_each_tag() -> None:
    for number, tag in enumerate(TAGS):
        uri = f"lakefs://sales/{quote_ref(tag)}"
        checksum = done("stat", f"{uri}/{PATH}", "--json").json["checksum"]
        (listed,) = done("ls", f"{uri}/d/", "--json").lines
        assert (listed["path"], listed["checksum"]) == (PATH, checksum)
        assert done("du", "-s", f"{uri}/d/", "--json").lines[-1]["size"] == len(lines(tag))
        assert done("blame", f"{uri}/{PATH}", "--json").lines[0]["commit"]["message"] == tag
        for spelled in (uri, f"lakefs://sales/{tag.replace('%', '%25')}"):  # where no path can follow
            assert done("show", spelled, "--json").lines[0]["message"] == tag
            (newest,) = done("log", spelled, "-n", "1", "--json").lines
            assert newest["message"] == tag
        if number:
            (change,) = done("diff", f"{uri}~1..{quote_ref(tag)}", "--json").lines
            assert change["path"] == PATH
            assert done("cat", f"{uri}~1/{PATH}").out == lines(TAGS[number - 1])
        assert run("cat", f"{uri}/{PATH}~").err.count(f"`graveler ls {uri}/d/`") == 1


def test_the_filesystem_reads_and_lists_each_tag(scene: Scene) -> None:
    fs = GravelerFileSystem(skip_instance_cache=True)
    folders = fs.ls("sales", detail=False)
    assert [fs.cat_file(f"{name}/{PATH}").decode() for name in sorted(map(tag_folder, TAGS))] == [
        lines(tag) for tag in sorted(TAGS, key=tag_folder)
    ]
    assert set(folders) == {*map(tag_folder, TAGS), "sales/main", "sales/drafts"}
    for tag in TAGS:
        name = f"{tag_folder(tag)}/{PATH}"
        assert fs.find(tag_folder(tag)) == fs.glob(f"{tag_folder(tag)}/d/*.csv") == [name]
        assert fs.info(name)["name"] == fs.info(f"graveler://{name.replace('%2F', '%2f')}")["name"] == name
        assert [row[0] for row in fs.walk(tag_folder(tag))] == [tag_folder(tag), f"{tag_folder(tag)}/d"]
        fs.get(name, "got.csv")
        assert Path("got.csv").read_text() == lines(tag)
    matching = fs.glob("sales/nightly*/d/*")
    assert matching == sorted(f"{tag_folder(tag)}/{PATH}" for tag in TAGS if tag.startswith("nightly"))


def tag_folder(tag: str) -> str:
    return f"sales/{quote_ref(tag)}"


def test_libraries_read_at_each_tag(lake: Lake) -> None:
    pandas, upath = pytest.importorskip("pandas"), pytest.importorskip("upath")
    with graveler.duckdb.connect(lake) as connection:
        for tag in TAGS:
            address = f"graveler://{tag_folder(tag)}/{PATH}"
            assert connection.sql(f"SELECT name FROM read_csv('{address}')").fetchall() == [(tag,)]
            assert connection.sql(f"SELECT name FROM '{address.replace('x.csv', '*.csv')}'").fetchall() == [(tag,)]
            assert list(pandas.read_csv(address, storage_options={"lake": lake})["name"]) == [tag]
            path = upath.UPath(address, lake=lake)
            assert path.read_text() == lines(tag)
            assert [str(below) for below in path.parent.iterdir()] == [address]


def test_polars_reads_at_each_tag(folder: Path) -> None:
    for tag in TAGS:
        for address in (f"{tag_folder(tag)}/{PATH}", f"{tag_folder(tag).replace('%2F', '%2f')}/d/*.csv"):
            assert graveler.polars.read_csv(f"graveler://{address}", folder).rows() == [(tag,)]
        frame = graveler.polars.scan_csv(f"graveler://{tag_folder(tag)}/d/", folder, include_file_paths="file")
        assert frame.collect().rows() == [(tag, f"graveler://{tag_folder(tag)}/{PATH}")]


def test_functions_of_sql_take_each_tag(lake: Lake) -> None:
    """In one statement, which takes a second to analyse if it is a query for each."""
    queries, expected = [], []
    for before, tag in zip((None, *TAGS), TAGS, strict=False):
        quoted, unquoted = quote_ref(tag), tag.replace("%", "%25")  # no path can follow
        queries += [
            f"SELECT '{tag}', message FROM blame('sales/{quoted}')",
            f"SELECT '{tag}', arg_max(message, generation) FROM commits('graveler://sales/{unquoted}')",
            f"SELECT '{tag}', path FROM objects('lakefs://sales/{quoted}')",
        ]
        expected += [(tag, tag), (tag, tag), (tag, PATH)]
        if before is not None:
            queries.append(f"SELECT '{tag}', path FROM diff('sales', '{before}', '{tag}')")  # refs by themselves
            expected.append((tag, PATH))
    assert lake.sql(" UNION ALL ".join(f"({query})" for query in queries)).fetchall() == expected


def test_handles_take_a_name_as_it_is_and_print_its_address(lake: Lake) -> None:
    repository = lake.repository("sales")
    for tag in TAGS:
        ref = repository.ref(tag)
        assert ref.object(PATH).reader("r").read() == lines(tag)
        assert ref.get_commit().message == tag
        assert repr(ref) == f"Reference('lakefs://{tag_folder(tag)}')"
        assert repr(ref.object(PATH)) == f"StoredObject('lakefs://{tag_folder(tag)}/{PATH}')"
        assert repository.branch("b").create(tag).get_commit().message == tag
        repository.branch("b").delete()


@pytest.mark.parametrize(("ref", "tag"), [("x/y/z", "x/y/z"), ("x/y/z~1", "x/y/z"), ("a/b", "a/b")])
@pytest.mark.usefixtures("scene")
def test_an_address_that_begins_with_a_tag_says_how_that_is_written(ref: str, tag: str) -> None:
    written = f"sales/{quote_ref(ref)}/{PATH}"
    for verb in ("cat", "stat", "ls", "du", "blame", "get"):
        result = run(verb, f"lakefs://sales/{ref}/{PATH}")
        assert result.code == ExitCode.NOT_FOUND, result
        assert f"The tag {tag!r} is written lakefs://{written}" in result.err
    fs = GravelerFileSystem(skip_instance_cache=True)
    for use in (fs.cat_file, fs.info, fs.find, fs.open):
        with pytest.raises(FileNotFoundError, match="is written") as failed:
            use(f"sales/{ref}/{PATH}")
        assert isinstance(failed.value.__cause__, RefNotFoundError)
        assert f"the tag {tag!r} is written graveler://{written}" in str(failed.value)


@pytest.mark.usefixtures("scene")
def test_what_takes_a_ref_takes_its_address() -> None:
    for number, tag in enumerate(TAGS):
        uri = f"lakefs://sales/{quote_ref(tag)}"
        for ref in (tag, uri):
            done("branch", "create", "lakefs://sales/fresh", "--source", ref)
            done("tag", "create", "lakefs://sales/fresh/tag", ref)
            assert done("reset", "lakefs://sales/fresh", "--hard", "main", "--json").json["commit_id"]
            moved = done("reset", "lakefs://sales/fresh", "--hard", ref, "--json").json["commit_id"]
            tried = done("reset", "lakefs://sales/fresh", "--hard", ref, "--dry-run", "--json").json["commit_id"]
            assert done("show", "lakefs://sales/fresh/tag", "--json").lines[0]["id"] == tried == moved
            assert done("show", uri, "--json").lines[0]["id"] == moved
            newer = done("log", "lakefs://sales/main", "--stop-at", ref, "--json").lines
            assert [commit["message"] for commit in newer] == list(reversed(TAGS[number:]))
            done("branch", "delete", "lakefs://sales/fresh", "--yes")
            done("tag", "delete", "lakefs://sales/fresh%2Ftag")
    assert run("reset", "lakefs://sales/drafts", "--hard", "lakefs://other/main").code == ExitCode.INVALID


@pytest.mark.usefixtures("scene")
def test_verbs_for_branches_name_the_tag_that_they_refuse() -> None:
    source = f"lakefs://sales/main/{PATH}"
    for tag in ("nightly/2026-01-31", "a%2Fb"):
        uri = f"lakefs://sales/{quote_ref(tag)}"
        for arguments in (
            ("use", uri),
            ("status", uri),
            ("commit", uri, "-m", "x"),
            ("put", "-", f"{uri}/x"),
            ("rm", f"{uri}/{PATH}"),
            ("rm", "-r", f"{uri}/d/", "--yes"),
            ("cp", source, f"{uri}/x"),
            ("mv", f"{uri}/{PATH}", f"{uri}/x"),
            ("reset", f"{uri}/{PATH}"),
            ("reset", "-r", f"{uri}/d/", "--yes"),
            ("reset", uri, "--hard", "main"),
            ("merge", "lakefs://sales/drafts", tag),
        ):
            result = run(*arguments)
            said = f"{tag!r} is not a valid branch name" in result.err
            assert (result.code, said) == (ExitCode.INVALID, True), (arguments, result)


def test_the_filesystem_writes_to_no_tag(lake: Lake) -> None:
    fs = GravelerFileSystem(lake, skip_instance_cache=True)
    for tag in ("nightly/2026-01-31", "a%2Fb"):
        name = f"{tag_folder(tag)}/{PATH}"
        refused = f"{tag!r} is not a branch"
        with pytest.raises(PermissionError, match=refused):
            fs.pipe_file(name, b"x")
        with pytest.raises(PermissionError, match=refused):
            fs.rm_file(name)
        with pytest.raises(PermissionError, match=refused):
            fs.cp_file(name, f"{name}x")
        assert fs.cat_file(name).decode() == lines(tag)


def test_the_base_of_two_tags_is_found(lake: Lake) -> None:
    repository = lake.repository("sales")
    for before, tag in pairwise(TAGS):
        for left, right in ((before, tag), (tag, before)):
            base = repository.verbs.merge_base(left, right)
            assert base is not None
            assert base.message == before
