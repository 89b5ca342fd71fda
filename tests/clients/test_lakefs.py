"""Every flow of the published Python package ``lakefs``, against a running server."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from hashlib import md5
from pathlib import Path
from typing import Any

import lakefs
import lakefs_sdk
import pytest
from lakefs.client import Client
from lakefs.exceptions import (
    BadRequestException,
    ConflictException,
    ForbiddenException,
    ImportManagerException,
    NotAuthorizedException,
    NotFoundException,
    ObjectExistsException,
    ObjectNotFoundException,
    PermissionException,
    TransactionException,
)
from lakefs.models import CommonPrefix, ObjectInfo

from tests.clients.support import SECRET, Served, Wire, new_name
from tests.support.lakefs_clients import client_of

NO_COMMIT = "0" * 64


def paths(listed: Iterator[Any]) -> list[str]:
    return [item.path for item in listed]


# The server


def test_a_client_learns_version_and_store(client: Client) -> None:
    assert [int(part) for part in client.version.split(".")] >= [1, 3, 1]
    storage = client.storage_config
    assert storage.pre_sign_support
    assert storage.import_support
    assert storage.default_namespace_prefix


def test_a_wrong_secret_is_not_authorized(served: Served, repo: lakefs.Repository) -> None:
    wrong = Client(host=served.url, username=served.key_id, password=SECRET[::-1])
    with pytest.raises(NotAuthorizedException, match="error authenticating request") as caught:
        lakefs.Repository(repo.id, client=wrong).branch("main").get_commit()
    assert caught.value.status_code == 401


def client_of_a_new_key(served: Served, *options: str) -> Client:
    """A client with a key that `graveler keys create` has made while the server runs."""
    if served.lake is None:
        pytest.skip("the lake of this server is not here, so no keys can be made in it")
    command = [sys.executable, "-m", "graveler.cli", "keys", "create", "somebody", "--json", "--lake", str(served.lake)]
    made = json.loads(subprocess.run([*command, *options], check=True, capture_output=True).stdout)
    return Client(host=served.url, username=made["access_key_id"], password=made["secret_access_key"])


def test_a_reader_reads_and_changes_nothing(served: Served, main: lakefs.Branch) -> None:
    main.object("o").upload(b"bytes")
    reader = lakefs.Repository(main.repo_id, client=client_of_a_new_key(served, "--role", "reader")).branch("main")
    assert reader.object("o").reader().read() == b"bytes"
    with pytest.raises(PermissionException):
        reader.object("o").delete()
    with pytest.raises(NotAuthorizedException):
        reader.object("o").upload(b"other", pre_sign=False)
    with pytest.raises(lakefs_sdk.exceptions.UnauthorizedException):
        reader.object("o").upload(b"other", pre_sign=True)
    with pytest.raises(NotAuthorizedException, match="insufficient permissions"):
        reader.commit("no")
    assert main.object("o").reader().read() == b"bytes"


def test_a_key_for_some_branches_changes_no_others(served: Served, repo: lakefs.Repository) -> None:
    repo.branch("ingest-1").create("main")
    client = client_of_a_new_key(served, "--repository", repo.id, "--branch", "ingest-*")
    limited = lakefs.Repository(repo.id, client=client)
    limited.branch("ingest-1").object("o").upload(b"1")
    limited.branch("ingest-1").commit("allowed")
    with pytest.raises(NotAuthorizedException):
        limited.branch("main").commit("not allowed", allow_empty=True)
    with pytest.raises(NotAuthorizedException):
        limited.branch("ingest-1").merge_into("main")
    with pytest.raises(NotAuthorizedException):
        limited.branch("other").create("main")
    assert [found.id for found in lakefs.repositories(client=client)] == [repo.id]


# Repositories


def test_a_repository_is_created_described_listed_and_deleted(client: Client) -> None:
    name = new_name()
    made = lakefs.Repository(name, client=client).create(storage_namespace=f"local://{name}", default_branch="trunk")
    assert made.properties.default_branch == "trunk"
    assert made.properties.storage_namespace == f"local://{name}"
    assert made.properties.storage_id == ""
    assert made.metadata == {}
    assert [found.id for found in lakefs.repositories(client=client, prefix=name)] == [name]
    assert [found.id for found in lakefs.repositories(client=client, after=name) if found.id == name] == []
    made.delete()
    with pytest.raises(NotFoundException, match="repository not found"):
        made.delete()


def test_a_repository_is_created_once_unless_told_that_it_may_exist(repo: lakefs.Repository, client: Client) -> None:
    again = lakefs.Repository(repo.id, client=client)
    with pytest.raises(ConflictException, match=r"Conflict.*not unique"):
        again.create(storage_namespace=f"local://{repo.id}")
    assert again.create(storage_namespace="local://other", exist_ok=True).properties.storage_namespace == (
        f"local://{repo.id}"
    )


@pytest.mark.parametrize("name", ["Upper", "a", "under_score", "x" * 64, "-first", "", "a/b", "naïve"])
def test_a_bad_repository_name_is_a_bad_request(name: str, wire: Wire) -> None:
    # The package itself refuses these.
    reply = wire("POST", "/repositories", body={"name": name, "storage_namespace": f"local://{new_name()}"})
    assert "name" in reply.expect(400).json()["message"]


def test_a_bad_namespace_is_a_bad_request(client: Client) -> None:
    with pytest.raises(BadRequestException):
        lakefs.Repository(new_name(), client=client).create(storage_namespace="local://../outside")


def test_repository_metadata_is_kept(repo: lakefs.Repository, client: Client) -> None:
    internal = client.sdk_client.internal_api
    internal.set_repository_metadata(repo.id, {"metadata": {"team": "lake", "cost": "1"}})
    assert repo.metadata == {"team": "lake", "cost": "1"}
    internal.delete_repository_metadata(repo.id, {"keys": ["cost"]})
    assert repo.metadata == {"team": "lake"}


# Branches and refs


def test_branches_are_created_listed_and_deleted(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    for number in range(3):
        repo.branch(f"b{number}").create("main")
    assert [branch.id for branch in repo.branches()] == ["b0", "b1", "b2", "main"]
    assert [branch.id for branch in repo.branches(prefix="b", after="b0", max_amount=1)] == ["b1"]
    assert repo.branch("b0").head.id == main.head.id
    repo.branch("b0").delete()
    with pytest.raises(NotFoundException):
        repo.branch("b0").get_commit()
    with pytest.raises(NotFoundException):
        repo.branch("b0").delete()


def test_a_hidden_branch_is_shown_on_request_only(repo: lakefs.Repository) -> None:
    repo.branch("shy").create("main", hidden=True)
    assert [branch.id for branch in repo.branches()] == ["main"]
    assert [branch.id for branch in repo.branches(show_hidden=True)] == ["main", "shy"]


def test_what_cannot_be_a_branch(repo: lakefs.Repository) -> None:
    repo.branch("taken").create("main")
    with pytest.raises(ConflictException, match="branch already exists"):
        repo.branch("taken").create("main")
    assert repo.branch("taken").create("main", exist_ok=True).id == "taken"
    with pytest.raises(NotFoundException):
        repo.branch("new").create("nowhere")
    with pytest.raises(BadRequestException):
        repo.branch("a/b").create("main")
    with pytest.raises(ForbiddenException):
        repo.branch("main").delete()
    with pytest.raises(NotFoundException):
        lakefs.Repository(new_name(), client=client_of(repo)).branch("main").get_commit()


def test_refs_name_ancestors_committed_states_and_short_ids(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    root = main.get_commit()
    main.object("a").upload("1")
    first = main.commit("first")
    main.object("a").upload("2")
    second = main.commit("second")
    main.object("a").upload("not committed")
    for expression, expected in [
        ("main", second.id),
        ("main@", second.id),
        ("main~", first.id),
        ("main~1", first.id),
        ("main^", first.id),
        ("main^1", first.id),
        ("main~2", root.id),
        ("main~1~1", root.id),
        (second.id[:12], second.id),
        (f"{second.id}~1", first.id),
    ]:
        assert repo.ref(expression).get_commit().id == expected, expression
    assert repo.ref("main").object("a").reader().read() == b"not committed"
    assert repo.ref("main@").object("a").reader().read() == b"2"
    assert repo.ref("main~1").object("a").reader().read() == b"1"
    assert not repo.ref("main~2").object("a").exists()
    with pytest.raises(NotFoundException):
        repo.ref("main~9").get_commit()
    with pytest.raises(BadRequestException):
        repo.ref("main^9").get_commit()
    with pytest.raises(BadRequestException):
        repo.ref("main~x").get_commit()


def test_the_first_commit_is_what_clients_expect(main: lakefs.Branch) -> None:
    root = main.get_commit()
    assert (root.message, root.committer, root.parents, root.meta_range_id) == ("Repository created", "", [], "")
    assert root.metadata == {}


# Objects


@pytest.mark.parametrize("pre_sign", [True, False, None])
def test_an_object_is_written_described_and_read(main: lakefs.Branch, pre_sign: bool | None) -> None:
    data = os.urandom(70_000)
    made = main.object("dir/file.bin").upload(
        data, mode="wb", pre_sign=pre_sign, content_type="image/png", metadata={"who": "me", "why": "test"}
    )
    stat = made.stat()
    assert (stat.path, stat.size_bytes, stat.content_type) == ("dir/file.bin", len(data), "image/png")
    assert stat.checksum == md5(data).hexdigest()
    assert stat.metadata == {"who": "me", "why": "test"}
    assert made.reader(pre_sign=pre_sign).read() == data
    assert made.exists()
    assert not main.object("dir/other").exists()


@pytest.mark.parametrize("pre_sign", [True, False])
def test_text_is_read_by_lines(main: lakefs.Branch, pre_sign: bool) -> None:
    with main.object("text").writer("w", pre_sign=pre_sign) as file:
        file.write("première\n")
        file.write("zweite\n")
    with main.object("text").reader("r", pre_sign=pre_sign) as file:
        assert file.readline() == "première\n"
        assert file.readline() == "zweite\n"
        assert file.readline() == ""
    assert main.object("text").stat().content_type == "application/octet-stream"


@pytest.mark.parametrize("pre_sign", [True, False])
@pytest.mark.parametrize("mode", ["x", "xb"])
def test_exclusive_creation_finds_what_is_there(main: lakefs.Branch, mode: Any, pre_sign: bool) -> None:
    main.object("new").upload(b"1", mode=mode, pre_sign=pre_sign)
    with pytest.raises(ObjectExistsException):
        main.object("new").upload(b"2", mode=mode, pre_sign=pre_sign)
    with pytest.raises(ObjectExistsException), main.object("late").writer(mode, pre_sign=pre_sign) as file:  # noqa: PT012
        file.write(b"3")
        main.object("late").upload(b"was faster", pre_sign=pre_sign)
    assert main.object("new").reader().read() == b"1"
    assert main.object("late").reader().read() == b"was faster"


@pytest.mark.parametrize("pre_sign", [True, False])
def test_a_writer_that_fails_writes_nothing(main: lakefs.Branch, pre_sign: bool) -> None:
    with pytest.raises(RuntimeError), main.object("half").writer(pre_sign=pre_sign) as file:  # noqa: PT012
        file.write(b"half")
        raise RuntimeError
    assert not main.object("half").exists()


@pytest.mark.parametrize("pre_sign", [True, False])
def test_a_reader_seeks_and_stops_at_the_end(main: lakefs.Branch, pre_sign: bool) -> None:
    data = bytes(range(256)) * 4
    with main.object("ranged").upload(data, mode="wb").reader(pre_sign=pre_sign) as file:
        assert file.read(10) == data[:10]
        assert file.tell() == 10
        file.seek(500)
        assert file.read(24) == data[500:524]
        file.seek(-10, os.SEEK_END)
        assert file.read() == data[-10:]
        assert file.read(5) == b""
        file.seek(5_000)
        assert file.read(5) == b""
        file.seek(1_020)
        assert file.read(100) == data[1_020:]
        file.seek(-4, os.SEEK_CUR)
        assert file.read(2) == data[-4:-2]


@pytest.mark.parametrize("pre_sign", [True, False])
def test_a_reader_of_nothing_is_at_its_end(main: lakefs.Branch, pre_sign: bool) -> None:
    with main.object("empty").upload(b"", mode="wb", pre_sign=pre_sign).reader(pre_sign=pre_sign) as file:
        assert file.read(10) == b""
        assert file.read() == b""
    with main.object("empty").reader(pre_sign=pre_sign) as file:
        file.seek(10)
        assert file.read(10) == b""


@pytest.mark.parametrize("pre_sign", [True, False])
def test_large_objects_go_up_and_down(main: lakefs.Branch, pre_sign: bool) -> None:
    data = os.urandom(1 << 20) * 9
    made = main.object("large").upload(data, mode="wb", pre_sign=pre_sign)
    assert made.stat().checksum == md5(data).hexdigest()
    assert made.reader(pre_sign=pre_sign).read() == data
    with made.reader(pre_sign=pre_sign) as file:
        file.seek(8 << 20)
        assert file.read(1000) == data[8 << 20 :][:1000]


def test_an_object_is_not_found(main: lakefs.Branch) -> None:
    with pytest.raises(ObjectNotFoundException):
        main.object("none").stat()
    with pytest.raises(ObjectNotFoundException):
        main.object("none").reader().read()
    with pytest.raises(FileNotFoundError):
        main.object("none").reader(pre_sign=False).read()
    main.object("none").delete()
    nowhere = lakefs.Branch(main.repo_id, "nowhere", client=client_of(main)).object("o")
    with pytest.raises(NotFoundException):
        nowhere.upload(b"", pre_sign=False)
    with pytest.raises(lakefs_sdk.exceptions.NotFoundException):  # the package lets this one through as it is
        nowhere.upload(b"", pre_sign=True)


def test_a_presigned_stat_holds_a_url_and_when_it_ends(main: lakefs.Branch, wire: Wire) -> None:
    stat = main.object("signed").upload(b"bytes").stat(pre_sign=True)
    assert stat.physical_address_expiry
    assert wire.plain("GET", stat.physical_address).expect(200).body == b"bytes"
    assert main.object("signed").stat().physical_address.startswith(f"local://{main.repo_id}/data/")


def test_objects_are_listed_with_and_without_folders(main: lakefs.Branch) -> None:
    written = ["a", "b/1", "b/2", "b/c/3", "d"]
    for path in written:
        main.object(path).upload(path)
    assert paths(main.objects()) == written
    assert paths(main.objects(prefix="b/", after="b/1")) == ["b/2", "b/c/3"]
    assert paths(main.objects(max_amount=2)) == ["a", "b/1"]
    assert paths(main.objects(amount=2)) == written  # pages of two
    folders = list(main.objects(delimiter="/"))
    assert [(type(item), item.path) for item in folders] == [(ObjectInfo, "a"), (CommonPrefix, "b/"), (ObjectInfo, "d")]
    assert paths(main.objects(delimiter="/", after="b/")) == ["d"]
    assert paths(main.objects(delimiter="/", amount=1)) == ["a", "b/", "d"]
    assert paths(main.objects(prefix="b/", delimiter="/")) == ["b/1", "b/2", "b/c/"]
    assert paths(lakefs.Reference(main.repo_id, "main@", client_of(main)).objects()) == []


def test_objects_are_deleted_one_by_one_and_together(main: lakefs.Branch) -> None:
    for path in "abcde":
        main.object(path).upload(path)
    main.commit("five")
    main.object("a").delete()
    main.delete_objects("b")
    main.delete_objects(["c", "never there"])
    main.delete_objects([main.object("d")])
    assert paths(main.objects()) == ["e"]
    assert {(change.type, change.path) for change in main.uncommitted()} == {("removed", path) for path in "abcd"}
    with pytest.raises(BadRequestException):
        main.delete_objects([str(number) for number in range(1001)])


def test_a_copy_keeps_everything_but_its_time(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    main.object("from").upload(b"bytes", content_type="text/csv", metadata={"k": "v"})
    main.commit("original")
    repo.branch("other").create("main")
    copied = repo.ref("main@").object("from").copy("other", "to")
    before, after = main.object("from").stat(), copied.stat()
    assert after.path == "to"
    for name in ("size_bytes", "checksum", "content_type", "metadata"):
        assert getattr(after, name) == getattr(before, name)
    assert copied.reader().read() == b"bytes"
    with pytest.raises(NotFoundException):
        main.object("none").copy("other", "to")


HARD_PATHS = [
    "a b/c+d/e%20f/g&h=i/j#k?l;m,n",
    "~tilde/^caret/@at/$dollar/'quote'/\"double\"/back\\slash",
    "日本/ürlaub/Ωmega/😀",
    "//double//slashes//",
    "..",
    "../outside",
    "/absolute/../path",
    "%2e%2e%2fencoded",
    "line\nbreak\ttab",
    "x" * 1024,
]


@pytest.mark.parametrize("path", HARD_PATHS, ids=[str(number) for number in range(len(HARD_PATHS))])
def test_any_path_comes_back_as_it_was_given(main: lakefs.Branch, path: str) -> None:
    data = path.encode()
    for pre_sign in (True, False):
        main.object(path).upload(data, mode="wb", pre_sign=pre_sign)
        assert main.object(path).stat().path == path
        assert main.object(path).reader(pre_sign=pre_sign).read() == data
        assert paths(main.objects(prefix=path)) == [path]
    main.object("source").upload(b"s")
    assert main.object("source").copy("main", path).reader().read() == b"s"
    assert path in paths(main.uncommitted())
    main.object(path).delete()
    main.delete_objects(["source"])
    assert paths(main.objects()) == []


@pytest.mark.parametrize("path", ["", "x" * 1025])
def test_what_cannot_be_a_path_is_a_bad_request(main: lakefs.Branch, path: str) -> None:
    with pytest.raises(BadRequestException):
        main.object(path).upload(b"", pre_sign=False)
    with pytest.raises(lakefs_sdk.exceptions.BadRequestException):
        main.object(path).upload(b"", pre_sign=True)


@pytest.mark.parametrize("tag", ["v1.0", "a+b", "per%cent", "with&amp", "hash#tag", "naïve-日本", "eq=ual"])
def test_any_tag_is_a_ref(repo: lakefs.Repository, main: lakefs.Branch, tag: str) -> None:
    main.object("o").upload(tag)
    made = main.commit("tagged")
    assert repo.tag(tag).create("main").id == tag
    assert repo.ref(tag).get_commit().id == made.id
    assert repo.ref(f"{tag}~1").get_commit().id == made.get_commit().parents[0]
    assert repo.ref(tag).object("o").reader("r").read() == tag
    assert [found.id for found in repo.tags()] == [tag]
    repo.tag(tag).delete()


# Commits, differences, merges


def test_a_commit_says_who_what_and_when(main: lakefs.Branch, repo: lakefs.Repository) -> None:
    main.object("a").upload("1")
    made = main.commit("message\nof two lines", metadata={"key": "value", "ключ": "значение"})
    commit = made.get_commit()
    assert (commit.message, commit.metadata) == ("message\nof two lines", {"key": "value", "ключ": "значение"})
    assert commit.committer
    assert list(main.uncommitted()) == []
    assert repo.commit(made.id).get_commit() == commit
    main.object("a").upload("2")
    assert main.commit("dated", date=1_000_000_000).get_commit().creation_date == 1_000_000_000


def test_nothing_to_commit_is_a_bad_request(main: lakefs.Branch) -> None:
    with pytest.raises(BadRequestException, match="no changes"):
        main.commit("nothing")
    main.object("a").upload("1")
    main.commit("something")
    main.object("a").upload("1")
    with pytest.raises(BadRequestException, match="no changes"):
        main.commit("the same again")
    assert main.commit("nothing on purpose", allow_empty=True).get_commit().message == "nothing on purpose"


def test_the_log_goes_back_page_by_page(main: lakefs.Branch) -> None:
    messages = []
    for number in range(5):
        main.object("o").upload(str(number))
        messages.append(main.commit(f"commit {number}").get_commit().message)
    expected = [*reversed(messages), "Repository created"]
    assert [commit.message for commit in main.log()] == expected
    assert [commit.message for commit in main.log(amount=2)] == expected
    assert [commit.message for commit in main.log(max_amount=2)] == expected[:2]
    assert [commit.message for commit in main.log(limit=True, amount=3)] == expected[:3]
    assert [commit.message for commit in main.log(objects=["other"])] == []
    assert len(list(main.log(first_parent=True))) == 6


def test_differences_of_two_and_three_dots(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    for path in ("same", "changed", "removed"):
        main.object(path).upload("1")
    main.commit("base")
    side = repo.branch("side").create("main")
    side.object("changed").upload("22")
    side.object("removed").delete()
    side.object("new/1").upload("1")
    side.object("new/2").upload("2")
    side.commit("side")
    main.object("on-main").upload("1")
    main.commit("main moves")
    three = {("changed", "changed"), ("removed", "removed"), ("added", "new/1"), ("added", "new/2")}
    assert {(change.type, change.path) for change in main.diff(side)} == three
    assert {(change.type, change.path) for change in main.diff(side, amount=1)} == three
    assert {(change.type, change.path) for change in main.diff(side, type="two_dot")} == {
        *three,
        ("removed", "on-main"),
    }
    assert paths(main.diff(side, prefix="new/", after="new/1")) == ["new/2"]
    rolled = [(change.path, change.path_type) for change in main.diff(side, delimiter="/", prefix="n")]
    assert rolled == [("new/", "common_prefix")]
    assert list(main.diff(main.id)) == []
    with pytest.raises(NotFoundException):
        list(main.diff("nowhere"))


def test_uncommitted_changes_are_shown_and_reset(main: lakefs.Branch) -> None:
    main.object("kept").upload("1")
    main.object("gone").upload("1")
    main.commit("base")

    def change() -> None:
        main.object("kept").upload("22")
        main.object("gone").delete()
        main.object("dir/new").upload("1")

    change()
    everything = [("added", "dir/new"), ("removed", "gone"), ("changed", "kept")]
    assert [(change.type, change.path) for change in main.uncommitted()] == everything
    assert paths(main.uncommitted(prefix="k")) == ["kept"]
    assert paths(main.uncommitted(after="dir/new", max_amount=1)) == ["gone"]
    assert [(item.path, item.path_type) for item in main.uncommitted(delimiter="/", max_amount=1)] == [
        ("dir/", "common_prefix")
    ]
    main.reset_changes("object", "kept")
    assert paths(main.uncommitted()) == ["dir/new", "gone"]
    main.reset_changes("common_prefix", "dir/")
    assert paths(main.uncommitted()) == ["gone"]
    change()
    main.reset_changes()
    assert list(main.uncommitted()) == []
    assert paths(main.objects()) == ["gone", "kept"]


def diverged(repo: lakefs.Repository) -> tuple[lakefs.Branch, lakefs.Branch]:
    """Two branches that changed the same object."""
    main, side = repo.branch("main"), repo.branch("side")
    main.object("o").upload("base")
    main.commit("base")
    side.create("main")
    for branch in (main, side):
        branch.object("o").upload(branch.id)
        branch.object(f"by-{branch.id}").upload("1")
        branch.commit(f"on {branch.id}")
    return main, side


def test_a_merge_has_both_as_parents(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    side = repo.branch("side").create("main")
    side.object("a").upload("1")
    made = side.commit("on side")
    before = main.head.id
    merged = repo.commit(side.merge_into(main, metadata={"k": "v"})).get_commit()
    assert merged.parents == [before, made.id]
    assert merged.message == "Merge 'side' into 'main'"
    assert merged.metadata is not None
    assert merged.metadata["k"] == "v"
    assert main.object("a").exists()
    with pytest.raises(BadRequestException, match="no changes"):
        side.merge_into(main)
    base = client_of(repo).sdk_client.refs_api.find_merge_base(repo.id, "side", "main")
    assert base.base_commit_id == made.id


def test_a_squashed_merge_has_one_parent(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    side = repo.branch("side").create("main")
    side.object("a").upload("1")
    side.commit("on side")
    before = main.head.id
    merged = side.merge_into("main", squash_merge=True, message="squashed")
    assert repo.commit(merged).get_commit().parents == [before]
    assert repo.commit(merged).get_commit().message == "squashed"


def test_a_conflict_changes_nothing(repo: lakefs.Repository) -> None:
    main, side = diverged(repo)
    before = main.head.id
    assert [(item.type, item.path) for item in main.diff(side)] == [("added", "by-side"), ("conflict", "o")]
    with pytest.raises(ConflictException, match="Conflict") as caught:
        side.merge_into(main)
    assert caught.value.body["reference"] == ""
    assert main.head.id == before


@pytest.mark.parametrize(("strategy", "winner"), [("source-wins", "side"), ("dest-wins", "main")])
def test_a_strategy_settles_conflicts(repo: lakefs.Repository, strategy: str, winner: str) -> None:
    main, side = diverged(repo)
    merged = repo.commit(side.merge_into(main, strategy=strategy)).get_commit()
    assert main.object("o").reader("r").read() == winner
    assert main.object("by-side").exists()
    assert merged.metadata is not None
    assert merged.metadata[".lakefs.merge.strategy"] == strategy


def test_a_dirty_branch_is_not_merged_into(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    side = repo.branch("side").create("main")
    side.object("a").upload("1")
    side.commit("on side")
    main.object("dirty").upload("1")
    with pytest.raises(BadRequestException, match=r"uncommitted changes \(dirty branch\)"):
        side.merge_into(main)


def test_a_commit_is_reverted_and_picked(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    main.object("a").upload("1")
    main.commit("base")
    main.object("a").upload("2")
    change = main.commit("change", metadata={"k": "v"})
    reverted = main.revert(change)
    assert reverted.message == f"Revert {change.id}"
    assert main.object("a").reader("r").read() == "1"
    with pytest.raises(BadRequestException, match="no changes"):
        main.revert(change)
    other = repo.branch("other").create("main")
    picked = other.cherry_pick(change.id)
    assert picked.message == "change"
    assert picked.metadata is not None
    assert picked.metadata["k"] == "v"
    assert picked.metadata["cherry-pick-origin"] == change.id
    assert other.object("a").reader("r").read() == "2"
    with pytest.raises(NotFoundException):
        main.revert(NO_COMMIT)


def test_a_merge_is_reverted_and_picked_against_a_parent(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    side = repo.branch("side").create("main")
    side.object("a").upload("1")
    side.commit("on side")
    merged = side.merge_into(main)
    fresh = repo.branch("fresh").create("main~1")
    with pytest.raises(ConflictException):
        main.revert(merged)
    with pytest.raises(BadRequestException):
        main.revert(merged, 3)
    with pytest.raises(BadRequestException):
        fresh.cherry_pick(merged)
    fresh.cherry_pick(merged, 1)
    assert fresh.object("a").exists()
    main.revert(merged, 1)
    assert not main.object("a").exists()


def test_a_revert_in_conflict_changes_nothing(main: lakefs.Branch) -> None:
    for number in range(3):
        main.object("o").upload(str(number))
        main.commit(f"commit {number}")
    with pytest.raises(ConflictException):
        main.revert("main~1")
    assert main.object("o").reader("r").read() == "2"


def test_tags_name_states_for_good(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    main.object("a").upload("1")
    first = main.commit("first")
    tag = repo.tag("v1").create(first)
    main.object("a").upload("2")
    main.commit("second")
    assert tag.get_commit().id == first.id
    assert tag.object("a").reader("r").read() == "1"
    with pytest.raises(ConflictException, match="tag already exists"):
        repo.tag("v1").create("main")
    repo.tag("v1").create("main", exist_ok=True)
    assert repo.tag("v1").get_commit().id == first.id
    with pytest.raises(NotFoundException):
        repo.tag("v2").create("nowhere")
    assert [found.id for found in repo.tags(prefix="v")] == ["v1"]
    tag.delete()
    with pytest.raises(NotFoundException):
        tag.delete()


# Transactions


def test_a_transaction_arrives_as_a_whole(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    main.object("old").upload("1")
    main.commit("base")
    with main.transact("all of it", commit_metadata={"k": "v"}, tag="done") as tx:
        tx.object("new").upload("2")
        tx.delete_objects("old")
        assert main.object("old").exists()
        assert [branch.id for branch in repo.branches()] == ["main"]
    assert paths(main.objects()) == ["new"]
    merged, inner = list(main.log(max_amount=2))
    assert inner.message == "all of it"
    assert inner.metadata == {"k": "v"}
    assert repo.tag("done").get_commit().id == merged.id
    assert [branch.id for branch in repo.branches(show_hidden=True)] == ["main"]


def test_a_transaction_that_fails_leaves_nothing(repo: lakefs.Repository, main: lakefs.Branch) -> None:
    with pytest.raises(RuntimeError), main.transact("never") as tx:  # noqa: PT012
        tx.object("new").upload("2")
        raise RuntimeError
    with pytest.raises(TransactionException, match="no changes"), main.transact("empty"):
        pass
    with pytest.raises(TransactionException, match="dirty branch"), main.transact("dirty") as tx:  # noqa: PT012
        tx.object("a").upload("1")
        main.object("meanwhile").upload("1")
    assert [branch.id for branch in repo.branches(show_hidden=True)] == ["main"]
    assert paths(main.objects()) == ["meanwhile"]


# Imports


def test_an_import_takes_over_what_lies_elsewhere(main: lakefs.Branch, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "dir").mkdir(parents=True)
    for name in ("a.csv", "dir/b.csv"):
        (source / name).write_text(name)
    (tmp_path / "single").write_text("single")
    main.object("in/old").upload("replaced")
    main.commit("base")
    job = main.import_data("imported", metadata={"k": "v"})
    job.prefix(f"file://{source}/", "in/").object(f"file://{tmp_path}/single", "one/file")
    status = job.run(poll_interval=timedelta(milliseconds=20))
    assert status.completed
    assert status.ingested_objects == 3
    assert status.commit is not None
    assert (status.commit.message, status.commit.metadata["k"]) == ("imported", "v")
    assert main.head.id == status.commit.id
    assert paths(main.objects()) == ["in/a.csv", "in/dir/b.csv", "one/file"]
    for pre_sign in (True, False):
        assert main.object("in/dir/b.csv").reader(pre_sign=pre_sign).read() == b"dir/b.csv"
    with pytest.raises(ConflictException):
        job.cancel()


def test_an_import_that_cannot_be_says_so(main: lakefs.Branch, tmp_path: Path) -> None:
    def import_from(address: str) -> Any:
        return main.import_data("imported").prefix(address, "in/").run(poll_interval=timedelta(milliseconds=20))

    with pytest.raises(BadRequestException):
        import_from(f"local://{main.repo_id}/data/")
    with pytest.raises(ForbiddenException, match="--import-source"):
        import_from("ftp://nowhere/")
    (tmp_path / "a").write_text("a")
    main.object("dirty").upload("1")
    with pytest.raises(ImportManagerException, match="uncommitted"):
        import_from(f"file://{tmp_path}/")
    with pytest.raises(NotFoundException):
        lakefs.Branch(main.repo_id, "nowhere", client=client_of(main)).import_data().prefix("file:///tmp/", "").start()


def test_an_import_without_sources_commits_nothing_else(main: lakefs.Branch) -> None:
    assert main.import_data("empty").run(poll_interval=timedelta(milliseconds=20)).completed


def test_a_cancelled_import_changes_nothing(main: lakefs.Branch, tmp_path: Path) -> None:
    for number in range(2_000):
        (tmp_path / f"{number:04}").touch()
    job = main.import_data("cancelled").prefix(f"file://{tmp_path}/", "in/")
    job.start()
    try:
        job.cancel()
    except ConflictException:  # it was faster
        assert job.status().completed
        return
    status = job.status()
    assert not status.completed
    assert status.error is not None
    assert "Canceled" in status.error.message
    assert paths(main.objects()) == []


# Libraries that read and write files


def test_libraries_write_and_read_files_through_it(main: lakefs.Branch) -> None:
    import csv

    with main.object("t.csv").writer("w") as file:
        csv.writer(file).writerows([["a", "b"], ["1", "2"]])
    with main.object("t.csv").reader("r") as file:
        assert list(csv.reader(file)) == [["a", "b"], ["1", "2"]]
    with main.object("t.json").writer("w") as file:
        json.dump({"k": [1, 2]}, file)
    with main.object("t.json").reader("r") as file:
        assert json.load(file) == {"k": [1, 2]}
    with main.object("t.bin").writer("wb") as file:
        file.write(io.BytesIO(b"bytes").getvalue())
    assert main.object("t.bin").stat().size_bytes == 5
