"""Lakes and repositories: opening, creating, listing, and calls without a request."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import fsspec
import pytest

import graveler
from graveler.remote.connection import Connection
from graveler.remote.lake import RemoteLake
from graveler.sdk.repository import Repository
from tests.sdk.conftest import CountedLake
from tests.support.shell import Shell


def test_a_lake_is_made_opened_and_found(tmp_path: Path, shell: Shell) -> None:
    with graveler.create(tmp_path / "one", user="ada") as made:
        made.repository("demo").create()
    with graveler.open(tmp_path / "one") as opened:
        assert [repository.id for repository in opened.repositories()] == ["demo"]
    shell.export("GRAVELER_LAKE", str(tmp_path / "one"))
    with graveler.open() as named:
        assert named.repository("demo").properties.namespace == "local://demo"
    shell.unset("GRAVELER_LAKE")
    (tmp_path / "one" / "deep").mkdir()
    shell.cd(tmp_path / "one" / "deep")
    with graveler.open() as found:
        assert found.repository("demo").properties.default_branch == "main"
    shell.export("HOME", str(tmp_path))
    with graveler.open("~/one") as at_home:
        assert at_home.repository("demo").id == "demo"


def test_no_lake_and_a_second_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(graveler.NotFoundError):
        graveler.open(tmp_path)
    graveler.create(tmp_path).close()
    with pytest.raises(graveler.AlreadyExistsError):
        graveler.create(tmp_path)


@pytest.mark.parametrize("location", [7, True, b"lake", ["lake"]])
def test_a_location_of_a_wrong_type_is_no_folder(tmp_path: Path, shell: Shell, location: Any) -> None:
    shell.cd(tmp_path)
    graveler.create(str(location)).close()  # what the string of the location would name
    for function in (graveler.open, graveler.create):
        with pytest.raises(TypeError):
            function(location)
    with pytest.raises(TypeError):
        fsspec.filesystem("graveler", lake=location, skip_instance_cache=True).ls("")


def test_commits_are_signed_by_the_user(tmp_path: Path, shell: Shell) -> None:
    shell.export("GRAVELER_USER", "grace")
    with graveler.create(tmp_path) as lake:
        branch = lake.repository("demo").create().branch("main")
        branch.object("a").upload("a")
        assert branch.commit("one").get_commit().committer == "grace"
    with graveler.open(tmp_path, user="ada") as lake:
        branch = lake.repository("demo").branch("main")
        assert branch.commit("two", allow_empty=True).get_commit().committer == "ada"


def test_a_lake_says_which_it_is(tmp_path: Path) -> None:
    with graveler.create(tmp_path / "lake", user="ada") as lake:
        tables = tmp_path / "lake" / "tables.sqlite"
        assert repr(lake) == f"Lake(Lake(SqliteTables({str(tables)!r})), user='ada')"
    served = RemoteLake(Connection("https://lake.example.org/", "AKIA", "secret"))
    assert repr(served) == "RemoteLake('https://lake.example.org')"
    served.close()


def test_handles_ask_nothing(lake: CountedLake) -> None:
    repo = lake.repository("nowhere")
    repo.branch("main").object("a")
    repo.tag("v1").object("a")
    repo.ref("main~1").object("a")
    repo.commit("abcd")
    repo.branches(), repo.tags(), lake.repositories()
    repo.branch("main").objects(), repo.branch("main").uncommitted()
    assert lake.requests == 0
    assert repr(repo.branch("main")) == "Branch('lakefs://nowhere/main')"
    assert repr(repo.branch("main").object("a/b")) == "WriteableObject('lakefs://nowhere/main/a/b')"


def test_a_repository_is_created_once(lake: CountedLake, repo: Repository) -> None:
    with pytest.raises(graveler.AlreadyExistsError):
        repo.create("mem://other")
    again = lake.repository("demo").create("mem://other", exist_ok=True)
    assert again.properties == repo.properties


def test_settings_are_kept(lake: CountedLake) -> None:
    repo = lake.repository("noted").create("mem://noted", metadata={"owner": "ada"})
    assert repo.set_metadata({"team": "sales"}) == repo.metadata == {"owner": "ada", "team": "sales"}
    assert repo.delete_metadata(["owner"]) == {"team": "sales"}
    assert repo.protect("main", "rel*") == repo.protected == ("main", "rel*")
    with pytest.raises(graveler.ForbiddenError):
        repo.branch("main").object("a").upload("a")
    with repo.branch("main").transaction("the way in") as tx:
        tx.object("a").upload("a")
    assert repo.branch("main").object("a").exists()
    assert repo.unprotect("main") == ("rel*",)
    repo.set_read_only(True)
    with pytest.raises(graveler.ForbiddenError):
        repo.branch("main").object("a").upload("b")
    repo.set_read_only(False)
    repo.branch("main").object("a").upload("b")


def test_a_deleted_repository_is_gone(lake: CountedLake, repo: Repository) -> None:
    repo.delete()
    assert list(lake.repositories()) == []
    with pytest.raises(graveler.RepositoryNotFoundError):
        repo.branch("main").get_commit()


def test_listings_stop_where_they_are_told(lake: CountedLake) -> None:
    for name in ("aaa", "aab", "abb", "bbb"):
        lake.repository(name).create(f"mem://{name}")
    assert [found.id for found in lake.repositories()] == ["aaa", "aab", "abb", "bbb"]
    assert [found.id for found in lake.repositories(max_amount=2)] == ["aaa", "aab"]
    assert [found.id for found in lake.repositories(after="aab", prefix="a")] == ["abb"]
    assert list(lake.repositories(max_amount=0)) == []
    with pytest.raises(graveler.InvalidError):
        lake.repositories(max_amount=-1)


def test_importing_the_package_imports_no_room() -> None:
    program = (
        "import sys, graveler\n"
        "rooms = [name for name in sys.modules if name.startswith('graveler.')]\n"
        "assert rooms == [], rooms\n"
        "assert 'msgspec' not in sys.modules\n"
        "assert set(graveler.__all__) <= set(dir(graveler))\n"
        "assert all(getattr(graveler, name) is not None for name in graveler.__all__)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        graveler.nothing  # noqa: B018
