"""References, branches and tags."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import graveler
from graveler.errors import MovedError
from graveler.model import CommitID
from graveler.sdk.branch import Branch
from graveler.sdk.reference import Reference
from graveler.sdk.repository import Repository


@pytest.fixture
def main(repo: Repository) -> Branch:
    branch = repo.branch("main")
    put(branch, "a/1", "a/2", "b")
    branch.commit("first", {"source": "test"})
    return branch


def put(branch: Branch, *paths: str, data: str = "data") -> None:
    for path in paths:
        branch.object(path).upload(data)


def paths(branch: graveler.Reference, prefix: str = "", delimiter: str = "") -> list[str]:
    return [item.path for item in branch.objects(prefix=prefix, delimiter=delimiter)]


def test_objects_are_listed_by_path(repo: Repository, main: Branch) -> None:
    assert paths(main) == ["a/1", "a/2", "b"]
    assert paths(main, prefix="a/") == ["a/1", "a/2"]
    rolled = list(repo.ref("main").objects(delimiter="/"))
    assert rolled[0] == graveler.CommonPrefix("a/")
    assert isinstance(rolled[1], graveler.ObjectEntry)
    assert [item.path for item in main.objects(max_amount=1, after="a/1")] == ["a/2"]


def test_a_commit_is_a_reference(repo: Repository, main: Branch) -> None:
    put(main, "c")
    made = main.commit("second", {"k": "v"}, date=1_700_000_000)
    assert main.head.id == made.id == main.get_commit().id
    commit = made.get_commit()
    assert (commit.message, commit.metadata, commit.committer, commit.created) == (
        "second",
        {"k": "v"},
        "ada",
        1_700_000_000,
    )
    assert repo.commit(made.id[:12]).get_commit() == commit
    assert repo.ref("main~1").get_commit().message == "first"
    with pytest.raises(graveler.NoChangesError):
        main.commit("third")


def test_the_log_is_newest_first_and_can_be_narrowed(main: Branch) -> None:
    put(main, "c")
    second = main.commit("second")
    messages = ["second", "first", "Repository created"]
    assert [commit.message for commit in main.log()] == messages
    assert [commit.message for commit in main.log(max_amount=2)] == messages[:2]
    assert [commit.message for commit in main.log(after=second.id, first_parent=True)] == messages[1:]
    assert [commit.message for commit in main.log(objects=["b"])] == ["first"]
    assert [commit.message for commit in main.log(stop_at=second)] == ["second"]
    assert list(main.log(since=datetime.now(UTC) + timedelta(days=1))) == []
    assert main.blame("b").message == "first"
    assert main.usage("a/").objects == 2


def test_uncommitted_changes_are_shown_and_dropped(main: Branch) -> None:
    put(main, "c/1", "c/2", "d")
    main.delete_objects(["b", main.object("a/1"), main.object("a/2").stat()])
    shown = [(change.type.value, change.path) for change in main.uncommitted()]
    assert shown == [
        ("removed", "a/1"),
        ("removed", "a/2"),
        ("removed", "b"),
        ("added", "c/1"),
        ("added", "c/2"),
        ("added", "d"),
    ]
    main.reset_changes("object", "b")
    main.reset_changes("common_prefix", "c/")
    assert [change.path for change in main.uncommitted()] == ["a/1", "a/2", "d"]
    main.reset_changes()
    assert list(main.uncommitted()) == []
    with pytest.raises(graveler.InvalidError):
        main.reset_changes("object")
    with pytest.raises(graveler.InvalidError):
        main.reset_changes(path="a")


def test_one_path_can_be_deleted_alone(main: Branch) -> None:
    main.delete_objects("a/1")
    main.object("a/2").delete()
    assert paths(main) == ["b"]


def test_objects_are_copied_moved_and_annotated(repo: Repository, main: Branch) -> None:
    dev = repo.branch("dev").create(main)
    copied = repo.ref("main~0").object("b").copy("dev", "c/b")
    assert (repr(copied), copied.exists()) == ("WriteableObject('lakefs://demo/dev/c/b')", True)
    assert copied.update_metadata({"k": "v"}).metadata == copied.stat().metadata == {"k": "v"}
    assert dev.object("a/1").move("a/one").stat().size == 4
    assert paths(dev) == ["a/2", "a/one", "b", "c/b"]


def test_branches_are_made_listed_renamed_and_removed(repo: Repository, main: Branch) -> None:
    dev = repo.branch("dev").create("main")
    assert dev.create(main, exist_ok=True) is dev
    with pytest.raises(graveler.AlreadyExistsError):
        dev.create(main)
    repo.branch("secret").create(main.head, hidden=True)
    assert [branch.id for branch in repo.branches()] == ["dev", "main"]
    assert [branch.id for branch in repo.branches(show_hidden=True, prefix="s")] == ["secret"]
    new = dev.rename("devel")
    assert [branch.id for branch in repo.branches(max_amount=1)] == [new.id] == ["devel"]
    new.delete()
    with pytest.raises(graveler.RefNotFoundError):
        _ = new.head
    with pytest.raises(graveler.ForbiddenError):
        main.delete()


def test_tags_stay(repo: Repository, main: Branch) -> None:
    tag = repo.tag("v1").create(main.get_commit())
    put(main, "c")
    main.commit("second")
    assert tag.get_commit().message == "first"
    assert repo.tag("v1").create("main", exist_ok=True).get_commit().message == "first"
    with pytest.raises(graveler.AlreadyExistsError):
        tag.create(main)
    assert [found.id for found in repo.tags()] == ["v1"]
    tag.delete()
    assert list(repo.tags()) == []


def test_a_diff_has_two_or_three_dots(repo: Repository, main: Branch) -> None:
    dev = repo.branch("dev").create(main)
    put(dev, "new")
    dev.commit("on dev")
    put(main, "other")
    main.commit("on main")
    assert [(c.type, c.path) for c in main.diff(dev)] == [(graveler.ChangeType.ADDED, "new")]
    both = [(c.type.value, c.path) for c in main.diff("dev", type="two_dot")]
    assert both == [("added", "new"), ("removed", "other")]
    assert [c.path for c in main.diff(dev, type="two_dot", max_amount=1, after="new")] == ["other"]
    assert main.diff_summary(dev).total.added == 1
    assert main.diff_summary(dev, type="two_dot").total.removed == 1


def test_a_merge_brings_changes_or_lists_conflicts(repo: Repository, main: Branch) -> None:
    dev = repo.branch("dev").create(main)
    put(dev, "b", "new", data="dev")
    dev.commit("on dev")
    put(main, "b", data="main")
    main.commit("on main")
    preview = dev.preview_merge(main)
    assert [conflict.path for conflict in preview.conflicts] == ["b"]
    with pytest.raises(graveler.MergeConflictError) as caught:
        dev.merge_into(main)
    assert [conflict.path for conflict in caught.value.conflicts] == ["b"]
    with pytest.raises(graveler.InvalidError):
        dev.merge_into(main, strategy="mine")
    merged = dev.merge_into("main", strategy="source-wins", message="take dev", metadata={"k": "v"})
    assert (type(merged), merged.id) == (Reference, main.head.id)
    assert merged.get_commit().message == "take dev"
    assert main.get_commit().message == "take dev"
    assert len(main.get_commit().parents) == 2
    assert main.object("b").reader("r").read() == "dev"


def test_a_merge_brings_the_commit_that_was_checked(repo: Repository, main: Branch) -> None:
    dev = repo.branch("dev").create(main)
    put(dev, "new", data="1")
    checked, onto = dev.commit("checked"), main.head
    put(dev, "new", data="2")
    later = dev.commit("later")
    with pytest.raises(graveler.UnexpectedHeadError, match=f"'dev' is at commit {later.id[:16]} now") as told:
        dev.merge_into(main, expected_head=checked)
    assert (told.value.ref, told.value.wanted, told.value.found) == ("dev", checked.id, later.id)
    with pytest.raises(graveler.UnexpectedHeadError, match=f"'main' is at commit {onto.id[:16]} now"):
        dev.merge_into(main, expected_head=later.id, expected_destination=checked)
    with pytest.raises(graveler.InvalidError, match="'dev' is not a whole commit ID"):
        dev.merge_into(main, expected_head=dev)
    dev.merge_into(main, expected_head=later, expected_destination=onto)
    assert main.get_commit().parents == (onto.id, later.id)


def test_commits_are_taken_back_and_picked(repo: Repository, main: Branch) -> None:
    put(main, "c")
    second = main.commit("second")
    assert main.revert(second).message.startswith("Revert")
    assert not main.object("c").exists()
    dev = repo.branch("dev").create("main~2")
    assert dev.cherry_pick(second.id).message == "second"
    assert dev.object("c").exists()
    dev.object("c").upload("other")
    dev.commit("third")
    with pytest.raises(graveler.MergeConflictError):
        dev.revert("dev~1")
    assert dev.revert("dev~1", strategy="dest-wins", allow_empty=True).message == "Revert dev~1"
    dev.revert("dev~2", strategy=graveler.MergeStrategies(graveler.MergeStrategy.SOURCE_WINS))
    assert not dev.object("c").exists()
    with pytest.raises(graveler.InvalidError, match="strategy 'ours' is unknown"):
        dev.cherry_pick(second.id, strategy="ours")


def test_a_branch_is_moved_and_moved_back(main: Branch) -> None:
    head = main.head.id
    assert main.hard_reset("main~1").get_commit().message == "Repository created"
    assert main.undo().id == head


def test_an_import_takes_objects_over_where_they_lie(main: Branch, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.csv").write_text("x")
    (tmp_path / "in" / "y.csv").write_text("y")
    manager = main.import_data("take them", {"k": "v"})
    manager.prefix(tmp_path / "in", "a").object(tmp_path / "in" / "x.csv", "one")
    commit = manager.run()
    assert (commit.message, commit.metadata, commit.committer) == ("take them", {"k": "v"}, "ada")
    assert paths(main) == ["a/x.csv", "a/y.csv", "b", "one"]
    assert main.object("a/y.csv").reader().read() == b"y"
    assert main.object("one").stat().address == f"file://{tmp_path}/in/x.csv"
    again = main.import_data().prefix(f"file://{tmp_path}/in/", "b2/").run()
    assert main.head.id == again.id


def test_an_import_leaves_out_what_is_ignored(main: Branch, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, text in {
        ".gravelerignore": "*.tmp\n",
        "a.csv": "a",
        "b.csv": "b",
        "c.tmp": "c",
        ".env": "secret",
    }.items():
        (folder / name).write_text(text)
    job = main.import_data().prefix(folder, "in/")
    with pytest.warns(UserWarning, match="left out 1 files and folders of version control, secrets or tools"):
        changes = job.run(exclude=["b.*"]).changes
    assert (changes.added, changes.excluded, changes.left_out) == (1, 2, 1)
    assert [path for path in paths(main) if path.startswith("in/")] == ["in/a.csv"]
    changes = job.run(exclude=["b.*"], no_ignore=True).changes
    assert (changes.objects, changes.excluded, changes.left_out) == (4, 1, 0)


def test_an_import_says_what_it_changes_before_and_after(main: Branch, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "x.csv").write_text("x")
    (tmp_path / "none").mkdir()
    main.import_data().prefix(folder, "new/").run()
    (folder / "x.csv").write_text("xx")
    (folder / "y.csv").write_text("y")
    head = main.head.id
    planned = main.import_data().prefix(folder, "new/").run(dry_run=True)
    assert (planned.id, planned.parents, main.head.id) == ("", (head,), head)
    made = main.import_data().prefix(folder, "new/").run()
    assert made.changes == planned.changes
    assert (made.changes.added, made.changes.replaced, made.changes.removed, made.changes.unchanged) == (1, 1, 0, 0)
    assert (made.changes.objects, made.changes.bytes) == (2, 3)
    mistyped = main.import_data().prefix(tmp_path / "none", "new/").prefix(folder, "other/")
    for dry_run in (False, True):
        with pytest.raises(graveler.EmptySourceError, match=r"none/' lists no objects for 'new/'"):
            mistyped.run(dry_run=dry_run)
    assert main.head.id == made.id
    assert mistyped.run(allow_empty=True).changes.removed == 2
    listing = tmp_path / "listing.csv"
    listing.write_text("path,address,size,checksum\n")
    with pytest.raises(graveler.EmptySourceError, match="listing"):
        main.import_listing(listing)
    assert main.import_listing(listing, allow_empty=True, dry_run=True).changes.removed == 5
    assert len(paths(main)) == 5


def test_a_listing_is_taken_over(lake: graveler.Lake, main: Branch, tmp_path: Path) -> None:
    address = "s3://landing/x" if lake.verbs.home.startswith("s3://") else f"file://{tmp_path}/x"
    listing = tmp_path / "listing.csv"
    listing.write_text(f"path,address,size,checksum\nz,{address},1,{'0' * 32}\n")
    commit = main.import_listing(listing, commit_message="listed")
    assert (commit.message, paths(main)) == ("listed", ["z"])


def test_an_export_writes_the_files(repo: Repository, main: Branch, tmp_path: Path) -> None:
    main.export(tmp_path / "out", prefix="a/")
    found = sorted(path.name for path in (tmp_path / "out").rglob("[0-9]") if path.is_file())
    assert found == ["1", "2"]


def test_a_branch_may_be_deleted_only_where_it_is_expected(repo: Repository, main: Branch) -> None:
    before = main.head.id
    dev = repo.branch("dev").create(before)
    put(dev, "c")
    after = dev.commit("second").id
    with pytest.raises(
        MovedError, match=f"'dev' is at commit {after[:16]}, but this request is for commit {before[:16]}"
    ):
        repo.verbs.delete_branch("dev", at=CommitID(before))
    assert dev.head.id == after
    repo.verbs.delete_branch("dev", at=CommitID(after))
    assert [one.id for one in repo.branches()] == ["main"]


def test_who_asks_is_told_the_progress_of_uploads(main: Branch, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    file = tmp_path / "file"
    file.write_bytes(b"x" * 2_500_000)
    for data in ("text", b"bytes", file):
        main.object("c").upload(data, progress=lambda objects, size: told.append((objects, size)))
    assert (sum(objects for objects, _ in told), sum(size for _, size in told)) == (3, 2_500_009)
    main.commit("second", progress=lambda *_: None)
