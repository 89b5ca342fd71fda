"""Settings of a repository: none is lost to a race or a lost answer; every verb refuses what they forbid, without a request."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import (
    ForbiddenError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    ProtectedBranchError,
    ReadOnlyRepositoryError,
    UnavailableError,
)
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry, RetentionRules, Settings
from graveler.storage.tables.port import Key
from tests.lake.support import NAME, NAMESPACE, Before, World, changes, commit, paths, put, texts, write_files
from tests.support.campaigns import examples

Verb = Callable[[OpenRepository, bool], object]


def external(path: str) -> ObjectEntry:
    return ObjectEntry(path, f"mem://o/{path}", 1, "00" * 16, 0)


DIRECT: dict[str, Verb] = {
    "upload": lambda r, f: r.upload("main", "x", b"1", force=f),
    "upload-if-absent": lambda r, f: r.upload("main", "x", b"1", if_absent=True, force=f),
    "link": lambda r, f: r.link("main", external("x"), force=f),
    "link-if-absent": lambda r, f: r.link("main", external("x"), if_absent=True, force=f),
    "link-if-match": lambda r, f: r.link("main", external("a"), if_match="*", force=f),
    "delete-if-match": lambda r, f: r.delete("main", ["a"], if_match="*", force=f),
    "address": lambda r, f: r.new_address("main", "x", force=f),
    "delete": lambda r, f: r.delete("main", ["a"], force=f),
    "copy": lambda r, f: r.copy("main", "a", "x", force=f),
    "move": lambda r, f: r.move("main", "a", "x", force=f),
    "copy-prefix": lambda r, f: list(r.copy_prefix("main", "a", "x", force=f)),
    "move-prefix": lambda r, f: list(r.move_prefix("main", "a", "x", force=f)),
    "object-metadata": lambda r, f: r.update_metadata("main", "a", {"k": "v"}, force=f),
    "reset": lambda r, f: r.reset("main", force=f),
    "reset-path": lambda r, f: r.reset("main", path="a", force=f),
    "commit": lambda r, f: r.commit("main", "m", allow_empty=True, force=f),
    "commit-metarange": lambda r, f: r.commit_metarange(
        "main", r.commit_of("main").metarange, "m", allow_empty=True, force=f
    ),
    "import": lambda r, f: r.import_sources("main", [], "m", force=f),
    "hard-reset": lambda r, f: r.hard_reset("main", "main~", force=f),
    "undo": lambda r, f: r.undo("main", force=f),
}
BRINGING: dict[str, Verb] = {
    "merge": lambda r, f: r.merge("side", "main", force=f),
    "revert": lambda r, f: r.revert("main", "main", force=f),
    "cherry-pick": lambda r, f: r.cherry_pick("main", "side", force=f),
    "branch": lambda r, f: r.create_branch("new", "main", force=f),
    "tag": lambda r, f: r.create_tag("new", "main", force=f),
    "delete-tag": lambda r, f: r.delete_tag("old", force=f),
    "delete-branch": lambda r, f: r.delete_branch("side", force=f),
    "rename-branch": lambda r, f: r.rename_branch("side", "other", force=f),
}


@pytest.fixture
def world() -> World:
    made = World()
    commit(made.main, {"a": "1", "b": "1"})
    made.main.create_branch("side", "main")
    commit(made.main, {"c": "1"}, "side")
    made.main.create_tag("old", "main")
    return made


@pytest.mark.parametrize("name", [*DIRECT, *BRINGING])
def test_a_read_only_repository_refuses_every_change_that_is_not_forced(world: World, name: str) -> None:
    verb = (DIRECT | BRINGING)[name]
    warm = world.repository()
    warm.upload("side", "warm", b"1")
    warm.reset("side")
    world.main.set_read_only(True)
    before = (world.main.branches().results, world.main.tags().results, texts(world.main), changes(world.main))
    for repository in (world.main, world.repository(), warm):
        with pytest.raises(ReadOnlyRepositoryError, match=NAME):
            verb(repository, False)
    assert before == (world.main.branches().results, world.main.tags().results, texts(world.main), changes(world.main))
    verb(world.repository(), True)
    world.main.set_read_only(False)


@pytest.mark.parametrize("name", DIRECT)
def test_a_protected_branch_refuses_what_is_done_to_it_directly(world: World, name: str) -> None:
    world.main.set_protection(["ma*"])
    for force in (False, True):
        with pytest.raises(ProtectedBranchError, match=r"'main' is protected by the pattern 'ma\*'"):
            DIRECT[name](world.repository(), force)
    world.main.set_protection(["?ain-1", "mai"])
    DIRECT[name](world.repository(), False)


@pytest.mark.parametrize("name", BRINGING)
def test_a_protected_branch_allows_what_brings_commits(world: World, name: str) -> None:
    world.main.set_protection(["main"])
    BRINGING[name](world.repository(), False)


def test_a_hidden_branch_is_not_protected_by_patterns(world: World) -> None:
    warm = world.repository()
    warm.create_branch("tx", "main", hidden=True)
    warm.upload("tx", "before", b"1")
    world.main.protect(["*"])
    warm.upload("tx", "after", b"1")
    assert changes(world.repository(), "tx") == {"before": "added", "after": "added"}
    warm.commit("tx", "m")
    warm.upload("tx", "dropped", b"1")
    warm.reset("tx")
    for branch in ("main", "side"):
        with pytest.raises(ProtectedBranchError):
            warm.upload(branch, "x", b"1")
    warm.merge("tx", "main")
    assert texts(warm) == {"a": "1", "b": "1", "before": "1", "after": "1"}


def test_a_hidden_branch_of_a_read_only_repository_is_not_changed(world: World) -> None:
    world.main.create_branch("tx", "main", hidden=True)
    world.main.set_read_only(True)
    with pytest.raises(ReadOnlyRepositoryError):
        world.main.upload("tx", "x", b"1")


def test_a_protected_branch_keeps_its_name_and_stays(world: World) -> None:
    world.main.set_protection(["side"])
    head = world.main.branch("side")
    for verb in ("rename-branch", "delete-branch"):
        for force in (False, True):
            with pytest.raises(ProtectedBranchError):
                BRINGING[verb](world.repository(), force)
    assert world.main.branch("side") == head
    world.main.unprotect(["side"])
    world.main.delete_branch("side")


@pytest.mark.parametrize("rule", ["protect", "read-only"])
def test_a_writer_that_remembers_the_branch_stages_nothing_that_is_seen_after_a_rule(world: World, rule: str) -> None:
    warm = world.repository()
    for branch in ("main", "side"):
        warm.upload(branch, "early", b"1")
        warm.commit(branch, "early")
        warm.delete(branch, ["never was"])
    world.main.reset("main")
    world.main.reset("side")
    if rule == "protect":
        world.main.protect(["*"])
    else:
        world.main.set_read_only(True)
    for branch in ("main", "side"):
        with pytest.raises(ForbiddenError):
            warm.upload(branch, "late", b"1")
        with pytest.raises(ForbiddenError):
            warm.delete(branch, ["early"])
        assert paths(world.main, branch).count("late") == 0
        assert changes(world.main, branch) == {}
    world.main.set_read_only(False)
    world.main.set_protection([])
    assert "early" in paths(world.main, "main")
    with pytest.raises(PreconditionError):
        world.main.commit("main", "nothing is left")


def test_what_was_staged_before_a_rule_stays(world: World) -> None:
    put(world.main, {"x": "1"})
    world.main.set_protection(["main"])
    world.main.set_read_only(True)
    assert changes(world.main) == {"x": "added"}
    world.main.set_read_only(False)
    world.main.set_protection([])
    world.main.commit("main", "m")
    assert texts(world.main)["x"] == "1"


def test_what_is_staged_while_a_rule_comes_and_was_acknowledged_stays(world: World) -> None:
    """The rule's owner dies before it looks at the branch; somebody lifts the rule, and stages; the first one goes on."""
    acknowledged: list[str] = []

    def lift_and_stage() -> None:
        other = world.repository()
        other.set_protection([])
        other.upload("main", "x", b"1")
        acknowledged.append("x")

    for request, number in (("tables.query", 17), ("tables.transact", 1), ("tables.query", 18), ("tables.transact", 2)):
        schedule = Before(request, number, lift_and_stage)
        world.repository(schedule).set_protection(["main"])
        assert schedule.reached
        assert changes(world.main) == {"x": "added"}
        world.main.set_protection([])
        world.main.reset("main")


def test_a_repeated_commit_is_answered_though_the_branch_is_protected_by_now(world: World) -> None:
    put(world.main, {"x": "1"})
    made = world.main.commit("main", "m", request_id="r")
    world.main.set_protection(["main"])
    assert world.repository().commit("main", "m", request_id="r") == made


# Settings themselves


def test_metadata_is_merged_and_keys_are_removed() -> None:
    world = World()
    assert world.main.metadata() == {}
    assert world.main.set_metadata({"a": "1", "b": "2"}) == {"a": "1", "b": "2"}
    assert world.main.set_metadata({"b": "3", "é": ""}) == {"a": "1", "b": "3", "é": ""}
    assert world.main.delete_metadata(["a", "none"]) == {"b": "3", "é": ""}
    assert world.repository().metadata() == {"b": "3", "é": ""}
    assert world.repository().repository.settings == Settings(metadata={"b": "3", "é": ""})


Step = tuple[str, str]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.sampled_from("abc")),
        st.tuples(st.just("delete"), st.sampled_from("abc")),
        st.tuples(st.just("protect"), st.sampled_from(["x", "y*"])),
    ),
    max_size=4,
)


def apply(repository: OpenRepository, step: Step) -> None:
    kind, what = step
    if kind == "set":
        repository.set_metadata({what: what})
    elif kind == "delete":
        repository.delete_metadata([what])
    else:
        repository.protect([what])


@settings(max_examples=examples(40), deadline=None)
@given(STEPS, STEPS, st.booleans())
def test_changes_at_once_lose_nothing(mine: list[Step], others: list[Step], lost: bool) -> None:
    """Just before each of my writes somebody else changes settings; when my answer gets lost, I repeat what failed."""
    world, ordered = World(), World()
    remaining = list(others)

    def interfere() -> None:
        if remaining:
            step = remaining.pop(0)
            apply(world.main, step)
            apply(ordered.main, step)

    for step in mine:
        client = world.repository(Before("tables.put", 1, interfere, "fail_after" if lost else None))
        try:
            apply(client, step)
        except UnavailableError:
            apply(client, step)
        apply(ordered.main, step)
    got, wanted = world.repository().repository.settings, ordered.repository().repository.settings
    assert got.metadata == wanted.metadata
    assert set(got.protected) == set(wanted.protected)


def test_protection_is_compared_by_its_etag() -> None:
    world = World()
    assert world.main.protection() == ((), "")
    first = world.main.set_protection(["main", "v*", "main"], if_match="")
    assert world.main.protection() == (("main", "v*"), first)
    with pytest.raises(PreconditionError, match="changed by someone else"):
        world.main.set_protection(["x"], if_match="")
    second = world.main.set_protection(["x"], if_match=first)
    assert second not in ("", first)
    assert world.main.protect(["y"]) == ("x", "y")
    assert world.main.unprotect(["x"]) == ("y",)
    with pytest.raises(NotFoundError, match="'x'"):
        world.main.unprotect(["x"])


def test_protection_with_an_etag_succeeds_though_its_answer_was_lost() -> None:
    world = World()
    client = world.repository(Before("tables.put", 1, None, "fail_after"))
    client.set_protection(["main"], if_match="")
    assert world.main.protection()[0] == ("main",)


@pytest.mark.parametrize("pattern", ["", "a b", "a/b", "[ab]", "x" * 256, "é"])
def test_what_matches_no_branch_is_no_pattern(pattern: str) -> None:
    with pytest.raises(InvalidError, match="pattern"):
        World().main.set_protection([pattern])


def test_retention_is_kept() -> None:
    world = World()
    assert world.main.retention() is None
    rules = RetentionRules(30, {"main": 365})
    world.main.set_retention(rules)
    assert world.repository().retention() == rules
    world.main.delete_retention()
    assert world.main.retention() is None
    with pytest.raises(InvalidError, match="at least 1"):
        world.main.set_retention(RetentionRules(0))


def test_settings_of_a_read_only_repository_are_changed_by_force_alone() -> None:
    world = World()
    world.main.set_read_only(True)
    for change in (
        lambda force: world.main.set_metadata({"a": "1"}, force=force),
        lambda force: world.main.set_protection(["x"], force=force),
        lambda force: world.main.set_retention(RetentionRules(1), force=force),
    ):
        with pytest.raises(ReadOnlyRepositoryError):
            change(False)
        change(True)
    with pytest.raises(ReadOnlyRepositoryError):
        world.lake().delete_repository(NAME)
    world.lake().delete_repository(NAME, force=True)


def test_a_repository_may_begin_with_settings() -> None:
    world = World()
    made = world.lake().create_repository("other", "mem://other", read_only=True, metadata={"k": "v"})
    assert made.repository.settings == Settings(True, {"k": "v"})
    assert [r.settings.read_only for r in world.lake().repositories().results] == [True, False]
    with pytest.raises(ReadOnlyRepositoryError):
        made.upload("main", "x", b"1")


def test_an_item_without_settings_has_the_format_of_before() -> None:
    world = World()
    key = Key("repositories", NAME.encode())
    before = world.tables.get(key)
    assert before is not None
    assert not {"read_only", "metadata", "protected", "retention"} & set(before)
    world.main.set_metadata({"a": "1"})
    world.main.delete_metadata(["a"])
    assert world.tables.get(key) == before


def test_attributes_of_newer_versions_survive_a_change() -> None:
    world = World()
    key = Key("repositories", NAME.encode())
    world.tables.put(key, {**(world.tables.get(key) or {}), "later": 1})
    world.main.set_metadata({"a": "1"})
    assert (world.tables.get(key) or {}).get("later") == 1


def test_a_dump_carries_the_settings_and_fsck_finds_nothing_wrong() -> None:
    world = World()
    world.main.set_metadata({"a": "1"})
    world.main.protect(["main"])
    world.main.set_retention(RetentionRules(7, {"main": 9}))
    world.main.set_read_only(True)
    lake = world.lake()
    wanted = lake.repository(NAME).repository.settings
    dumped = lake.dump(NAME)
    assert lake.fsck(NAME).findings == ()
    lake.delete_repository(NAME, force=True)
    lake.restore(NAMESPACE, dumped.id, "again")
    assert lake.repository("again").repository.settings == wanted


# One process, many requests


def test_a_lake_keeps_repositories_open_and_shows_them_fresh() -> None:
    world = World()
    lake = world.lake()
    first = lake.repository(NAME)
    world.main.set_metadata({"a": "1"})
    assert lake.repository(NAME) is first
    assert first.repository.settings.metadata == {"a": "1"}


def test_a_repository_made_again_under_its_name_is_another_one() -> None:
    world = World()
    lake = world.lake()
    first = lake.repository(NAME)
    world.lake().delete_repository(NAME)
    world.lake().create_repository(NAME, "mem://again")
    second = lake.repository(NAME)
    assert second is not first
    assert second.repository.namespace == "mem://again"


# Guards cost nothing


def test_a_refusal_is_one_read_and_writes_no_byte(world: World, tmp_path: Path) -> None:
    world.main.set_protection(["main"])
    counted = world.counted()
    folder = write_files(tmp_path, {"f": "x"})
    verbs: list[Callable[[OpenRepository], object]] = [
        lambda r: r.upload("main", "x", b"1"),
        lambda r: r.link("main", external("x")),
        lambda r: r.commit("main", "m"),
        lambda r: r.import_folder("main", folder),
    ]
    for verb in verbs:
        counted.reset()
        with pytest.raises(ProtectedBranchError):
            verb(counted.repository)
        assert counted.tables.calls == {"get_many": 1}
        assert counted.objects.requests == 0
