"""Ref expressions: parsing, meaning, errors and cost."""

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graveler.errors import AmbiguousRefError, GravelerError, InvalidError, NotFoundError, RefNotFoundError
from graveler.history.expressions import RefExpression, Resolved, Step, parse, resolve
from graveler.model import Commit, CommitID
from graveler.storage.tables.port import Put
from tests.history.support import HISTORIES, World, build, random_shape
from tests.support.campaigns import examples


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main", RefExpression("main")),
        ("main@", RefExpression("main", committed=True)),
        ("main@~2", RefExpression("main", True, (Step("~", 2),))),
        ("v1.0/x", RefExpression("v1.0/x")),
        ("a@b", RefExpression("a@b")),
        ("main~", RefExpression("main", False, (Step("~", 1),))),
        ("main~0^0", RefExpression("main", False, (Step("~", 0), Step("^", 0)))),
        ("é^~3^^2", RefExpression("é", False, (Step("^", 1), Step("~", 3), Step("^", 1), Step("^", 2)))),
        ("abcd~000000002", RefExpression("abcd", False, (Step("~", 2),))),
    ],
)
def test_parse(text: str, expected: RefExpression) -> None:
    assert parse(text) == expected
    assert parse(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 1),
        ("@", 1),
        ("~1", 1),
        ("^", 1),
        ("-a", 1),
        ("a b", 1),
        ("main@@", 1),
        ("a..b", 1),
        ("\ud800", 1),
        ("v1.0@", 5),
        ("é@~1", 2),
        ("main~1@", 7),
        ("main~-1", 6),
        ("main~1x", 7),
        ("main^{commit}", 6),
        ("main~٣", 6),
        ("main~1234567890", 6),
        ("main^ ", 6),
    ],
)
def test_what_is_no_expression_is_refused_with_the_position(text: str, position: int) -> None:
    with pytest.raises(InvalidError, match=f"at character {position}:") as refused:
        parse(text)
    assert repr(text) in str(refused.value)


def by_definition(world: World, start: Commit, steps: list[tuple[str, int]]) -> Commit | None:
    """Step by step, one parent at a time."""
    commits = {commit.id: commit for commit in world.all}
    at = start
    for kind, number in steps:
        for parent in ([1] * number) if kind == "~" else [number] * (number > 0):
            if len(at.parents) < parent:
                return None
            at = commits[at.parents[parent - 1]]
    return at


def test_meaning_by_definition(seed: int) -> None:
    random = Random(seed)
    for _ in range(HISTORIES // 2):
        world = build(random_shape(random, random.randrange(1, 20)))
        start = random.choice(world.all)
        world.branch("b", start)
        world.tag("t.1", start)
        store = world.cold()
        for _ in range(6):
            steps = [(random.choice("~^"), random.choice((0, 1, 1, 2, 3))) for _ in range(random.randrange(5))]
            base = random.choice(("b", "b@", "t.1", start.id, start.id[:20]))
            text = base + "".join(
                kind + ("" if number == 1 and random.random() < 0.5 else str(number)) for kind, number in steps
            )
            expected = by_definition(world, start, steps)
            if expected is None:
                with pytest.raises(RefNotFoundError) as refused:
                    resolve(text, world.refs, store)
                assert repr(text) in str(refused.value)
            else:
                found = resolve(text, world.refs, store)
                assert found.commit_id == expected.id
                assert (found.branch is not None) == (text == "b")
                assert resolve(parse(text), world.refs, store) == found


def test_only_a_plain_branch_shows_its_uncommitted_changes() -> None:
    world = World()
    tip = world.line(2)[-1]
    state = world.branch("main", tip)
    assert resolve("main", world.refs, world.commits) == Resolved(tip.id, state)
    for text in ("main@", "main~0", "main^0", "main@~0", tip.id):
        assert resolve(text, world.refs, world.commits) == Resolved(tip.id)
    tag = world.tag("v1", tip)
    assert resolve("v1", world.refs, world.commits) == Resolved(tip.id, tag=tag)
    assert resolve("v1~0", world.refs, world.commits) == Resolved(tip.id)


def test_a_branch_comes_before_a_tag_before_a_commit_before_a_prefix() -> None:
    world = World()
    target, *others = world.line(4)
    for name in (target.id, target.id[:6]):
        assert resolve(name, world.refs, world.commits).commit_id == target.id
        world.tag(name, others[0])
        assert resolve(name, world.refs, world.commits).commit_id == others[0].id
        world.branch(name, others[1])
        assert resolve(name, world.refs, world.commits).commit_id == others[1].id


def test_a_prefix_must_be_long_enough_and_of_one_commit() -> None:
    world = World()
    commit = world.add()
    digits = commit.id
    assert resolve(digits[:4], world.refs, world.commits).commit_id == digits
    with pytest.raises(RefNotFoundError, match="at least 4 digits"):
        resolve(digits[:3], world.refs, world.commits)
    twin = CommitID(digits[:10] + ("0" if digits[10] != "0" else "1") + digits[11:])
    item = world.tables.get(world.commits.key(commit.id))
    assert item is not None
    world.tables.write_many([Put(world.commits.key(twin), item)])
    with pytest.raises(AmbiguousRefError) as refused:
        resolve(digits[:10] + "~1", world.refs, world.commits)
    assert sorted(refused.value.candidates) == sorted([digits, twin])
    assert resolve(digits[:11], world.refs, world.commits).commit_id == digits


def test_errors_say_what_is_missing() -> None:
    world = World()
    made = world.line(4)
    world.branch("main", made[-1])
    world.tag("v1", world.add(made[-1], made[0]))

    def said(text: str) -> str:
        with pytest.raises(RefNotFoundError) as refused:
            resolve(text, world.refs, world.cold())
        return str(refused.value)

    assert said("main~7") == "ref 'main~7' not found: the history of main has only 4 commits along first parents"
    assert said("main~3~") == "ref 'main~3~' not found: the history of main has only 4 commits along first parents"
    assert said("v1^2~") == "ref 'v1^2~' not found: the history of v1^2 has only 1 commit along first parents"
    assert said("main@~1^2") == f"ref 'main@~1^2' not found: main@~1 is commit {made[2].id[:16]}, which has 1 parent"
    assert said("v1^3") == f"ref 'v1^3' not found: v1 is commit {world.all[-1].id[:16]}, which has 2 parents"
    assert said("v1^2^2") == f"ref 'v1^2^2' not found: v1^2 is commit {made[0].id[:16]}, which has 0 parents"
    assert said("nothing") == "ref 'nothing' not found: no branch, tag or commit has this name"
    assert said("nothing~2") == "ref 'nothing~2' not found: no branch, tag or commit is called 'nothing'"
    assert "no branch is called 'v1'" in said("v1@")
    assert "no branch, tag or commit" in said("0" * 64)
    assert "no branch, tag or commit" in said("0" * 65)
    assert "no branch, tag or commit" in said("00000")


@settings(max_examples=examples(400), deadline=None)
@given(st.text(max_size=20) | st.text("mainv1.0~^@0123456789abcdef/-{}\\", max_size=20))
@example("main" + "~" * 5000)
@example("main^" * 3)
@example("f" * 300)
@example("main~" + "9" * 5000)
def test_garbage_never_raises_anything_but_our_errors(text: str) -> None:
    world = World()
    world.branch("main", world.line(3)[-1])
    world.tag("v1.0", world.all[1])
    try:
        found = resolve(text, world.refs, world.commits)
    except (InvalidError, NotFoundError) as error:
        assert isinstance(error, GravelerError)  # noqa: PT017
    else:
        assert found.commit_id in {commit.id for commit in world.all}


def test_requests() -> None:
    world = World()
    root = world.add()
    made = world.line(100, root)
    merge = world.add(made[-1], root)
    world.branch("main", merge)
    world.tag("v1", merge)
    cost = {
        "main": 1,
        "main@": 1,
        "v1": 1,
        merge.id: 1,
        merge.id[:8]: 2,
        "main~0": 1,
        "main^0^0~0": 1,
        "main~1": 2,
        "main^": 2,
        "main^~~~": 3,
        "main~33": 3,
        "main~34": 4,
        "main^2": 2,
        "main~3^1~2": 3,
        f"{merge.id}~1": 1,
        f"{merge.id}^2": 1,
    }
    counted = {}
    for text in cost:
        store = world.cold()
        resolve(text, world.refs, store)
        counted[text] = world.tables.requests
    assert counted == cost
    store = world.cold()
    resolve("main~40", world.refs, store)
    world.tables.reset()
    resolve("main~40", world.refs, store)
    assert world.tables.requests == 1, "commits are in memory, refs never are"
