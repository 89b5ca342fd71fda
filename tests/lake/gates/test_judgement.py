"""Judgement, against plain statements of what each requirement means."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from graveler.lake.gates.checks.definitions import check_digest
from graveler.lake.gates.judgement import Gate, Terms, gate_of, judge, observed
from graveler.lake.gates.statuses import GRAVELER, TreeStatuses
from graveler.lake.refs.hidden_branch import hidden_name
from graveler.model import (
    Actor,
    Commit,
    CommitID,
    Lack,
    MergeStrategies,
    MergeStrategy,
    MetarangeName,
    MovedHead,
    RequiredApprovals,
    RequiredStatus,
    Rule,
    Rules,
    Status,
    StatusState,
)

NOW = 1_000_000
TREE, BASE = MetarangeName("tree"), MetarangeName("base")
COMMIT = Commit(CommitID("c" * 64), (), TREE, "ann", "", NOW, 2, "operation")
SUCCESS, FAILURE, ERROR, PENDING = StatusState.SUCCESS, StatusState.FAILURE, StatusState.ERROR, StatusState.PENDING
KEYS = frozenset({"", "key-ann", "key-bot"})


class Approved(Struct, frozen=True):
    principal: str
    key_id: str = ""


def terms(*, touched: Sequence[str] = (), **changes: Any) -> Terms:
    """A merge by ann that changes something below each of ``touched``."""
    actor = Actor("ann", "ann", "key-ann", "writer")
    usual = Terms(
        kind="branch",
        name="main",
        verb="merge",
        actor=actor,
        now=NOW,
        commit=COMMIT,
        base=BASE,
        touched=lambda prefixes: any(prefix in touched for prefix in prefixes),
    )
    return replace(usual, **changes)


def lacks(rule: Rule, *statuses: Status, counting: frozenset[str] = KEYS, **changes: Any) -> tuple[Lack, ...]:
    tree = TreeStatuses(TREE, len(statuses), statuses)
    return judge(gate_of(Rules(1, (rule,)), "branch", "main"), terms(**changes), tree, counting)


def rule(**changes: Any) -> Rule:
    return Rule(name="r", branches=("main",), **changes)


QUALITY = RequiredStatus("quality", posters=("bot*",))
CHECK = RequiredStatus("rows", check={"kind": "sql"})
OF_TREE, OF_CHANGE = (check_digest({"kind": "sql"}, base) for base in (None, BASE))


# Which rules match


patterns = st.sampled_from(["main", "release-*", "*", "tx-*", "m?in", "[a-m]*", "MAIN"])
names = st.sampled_from(["main", "release-1", "Main", "tx-1", "x"])


@given(st.lists(patterns), st.lists(patterns), names)
def test_branches_and_tags_have_patterns_of_their_own(branches: list[str], tags: list[str], name: str) -> None:
    """A rule matches by the patterns of the kind, and by no others."""
    expected = {
        "main": {"main", "*", "m?in", "[a-m]*"},
        "release-1": {"release-*", "*"},
        "Main": {"*"},
        "tx-1": {"*", "tx-*"},
        "x": {"*"},
    }[name]
    rules = Rules(7, (Rule(name="r", branches=tuple(branches), tags=tuple(tags)),))
    assert bool(gate_of(rules, "branch", name)) == bool(expected.intersection(branches))
    assert bool(gate_of(rules, "tag", name)) == bool(expected.intersection(tags))
    assert gate_of(rules, "tag", name).version == 7


@given(st.uuids())
def test_only_names_of_transactions_match_nothing(uuid: UUID) -> None:
    rules = Rules(1, (Rule(name="r", branches=("*",), tags=("*",)),))
    assert gate_of(rules, "branch", f"tx-{uuid}") if uuid.version != 4 else True
    name = hidden_name()
    assert not gate_of(rules, "branch", name)
    assert gate_of(rules, "tag", name)
    for other in (f"{name}0", f"x{name}", name.upper(), name[:-1], f"{name}\n", f"tx-{uuid4().hex}"):
        assert gate_of(rules, "branch", other), other


def test_a_pattern_with_a_star_matches_slashes() -> None:
    assert gate_of(Rules(1, (Rule(name="r", tags=("v*",)),)), "tag", "v/1/2")


def test_a_repository_without_rules_has_no_gate() -> None:
    assert not gate_of(Rules(), "branch", "main")
    assert judge(Gate(), terms(), TreeStatuses(TREE), KEYS) == ()


# Statuses


statuses = st.lists(
    st.builds(
        Status,
        st.sampled_from(["quality", "rows", "other"]),
        st.sampled_from(StatusState),
        principal=st.sampled_from(["bot", "bot-2", "ann", GRAVELER, ""]),
        key_id=st.sampled_from(["", "key-bot", "key-revoked"]),
        created=st.just(NOW - 10),
        expires=st.sampled_from([0, NOW - 1, NOW, NOW + 1]),
        commit_id=st.sampled_from([CommitID(""), COMMIT.id, CommitID("d" * 64)]),
        check=st.sampled_from(["", OF_TREE, OF_CHANGE]),
    ),
    max_size=6,
)


@given(statuses)
def test_the_newest_status_that_counts_decides_unless_another_poster_says_failure(posted: list[Status]) -> None:
    """Of those of the right name, poster, commit and check, by a credential that counts, and not expired."""

    def counts(status: Status) -> bool:
        return (
            status.key_id != "key-revoked"
            and (status.expires == 0 or status.expires > NOW)
            and status.commit_id in ("", COMMIT.id)
        )

    quality = [s for s in posted if s.name == "quality" and s.principal.startswith("bot") and counts(s)]
    own = [s for s in posted if s.principal == GRAVELER and not s.key_id and counts(s)]
    rows = [s for s in own if s.name == "rows" and s.check == (OF_CHANGE if s.commit_id else OF_TREE)]
    for required, verdicts in ((QUALITY, quality), (CHECK, rows)):
        result = lacks(rule(statuses=(required,)), *posted)
        state = verdicts[-1].state if verdicts else None
        if FAILURE in {status.principal: status.state for status in verdicts}.values():
            state = FAILURE
        assert not result if state is SUCCESS else len(result) == 1
        for lack in result:
            assert (lack.rule, lack.requirement, lack.name) == ("r", "status", required.name)
            assert lack.state == ("" if state is None else state.value)
            assert lack.passing is (state is not FAILURE)
            assert required.name in lack.words


@given(statuses)
def test_a_success_that_does_not_count_says_why(posted: list[Status]) -> None:
    for lack in lacks(rule(statuses=(QUALITY,)), *posted):
        refused = [status for status in posted if status.name == "quality"]
        if refused and not lack.state:
            assert "(" in lack.words


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "status 'quality' is missing; bot* may post it"),
        (Status("quality", SUCCESS, principal="ann"), "'ann' posted one, and may not"),
        (Status("quality", SUCCESS, principal="bot", key_id="key-x"), "its key or rule was revoked"),
        (Status("quality", SUCCESS, principal="bot", expires=NOW), "expired on 1970-01-12 13:46:40 UTC"),
        (
            Status("quality", SUCCESS, principal="bot", commit_id=CommitID("d" * 64)),
            "about commit dddddddddddddddd, and not",
        ),
        (Status("quality", FAILURE, "7 rows are null", principal="bot"), "status 'quality' failed: 7 rows are null"),
        (Status("quality", PENDING, principal="bot"), "status 'quality' is pending"),
        (Status("quality", ERROR, "out of memory", principal="bot"), "could not be determined: out of memory"),
    ],
)
def test_words_of_a_status(status: Status | None, words: str) -> None:
    (lack,) = lacks(rule(statuses=(QUALITY,)), *([status] if status else []))
    assert words in lack.words


def test_the_url_of_a_failure_is_in_its_lack() -> None:
    (lack,) = lacks(rule(statuses=(QUALITY,)), Status("quality", FAILURE, url="https://ci/7", principal="bot"))
    assert lack.url == "https://ci/7"


def test_a_status_of_paths_counts_if_something_below_them_changed() -> None:
    required = replace(QUALITY, paths=("raw/", "gold/"))
    failed = Status("quality", FAILURE, principal="bot")
    assert not lacks(rule(statuses=(required,)), failed)
    assert lacks(rule(statuses=(required,)), failed, touched=("gold/",))


# Pull requests and approvals


@given(
    st.integers(1, 3),
    st.lists(st.builds(Approved, st.sampled_from("abcd"), st.sampled_from(["", "key-ann", "key-revoked"]))),
    st.sampled_from([(), ("a", "b"), ("[b-d]",)]),
)
def test_approvals_are_counted_by_people(number: int, approvals: list[Approved], by: tuple[str, ...]) -> None:
    people = {
        a.principal for a in approvals if a.key_id != "key-revoked" and (not by or a.principal in "ab" or by[0] != "a")
    }
    if by == ("[b-d]",):
        people.discard("a")
    elif by:
        people &= {"a", "b"}
    result = lacks(rule(approvals=(RequiredApprovals(number, by=by),)), approvals=approvals)
    assert bool(result) == (len(people) < number)
    for lack in result:
        assert (lack.requirement, lack.state, lack.passing) == ("approvals", f"{len(people)}/{number}", True)


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(
    "needs", [{"approvals": (RequiredApprovals(),)}, {"pull_requests_only": True}], ids=["approvals", "only"]
)
def test_a_change_without_a_pull_request_cannot_get_one(needs: dict[str, Any], direct: bool) -> None:
    (lack,) = lacks(rule(**needs), direct=direct)
    assert (lack.requirement, lack.passing) == ("pull-request", False)
    assert "propose it by a pull request" in lack.words
    assert not lacks(rule(**needs), approvals=[Approved("bob")])


def test_approvals_of_paths() -> None:
    needed = rule(approvals=(RequiredApprovals(2, paths=("gold/",)),))
    assert not lacks(needed)
    assert not lacks(needed, direct=True)
    assert lacks(needed, touched=("gold/",))[0].requirement == "pull-request"
    assert "below gold/" in lacks(needed, touched=("gold/",), approvals=[])[0].words


# Strategies, frozen names, removal


@given(
    st.lists(st.sampled_from(MergeStrategy), min_size=1),
    st.sampled_from(MergeStrategy),
    st.lists(st.tuples(st.sampled_from(["a/", "b/"]), st.sampled_from(MergeStrategy)), max_size=2),
)
def test_strategies(
    allowed: list[MergeStrategy], default: MergeStrategy, by_prefix: list[tuple[str, MergeStrategy]]
) -> None:
    needed = rule(strategies=tuple(allowed))
    used = {default, *(strategy for _, strategy in by_prefix)}
    result = lacks(needed, strategies=MergeStrategies(default, tuple(by_prefix)))
    assert len(result) == len(used.difference(allowed))
    assert all((lack.requirement, lack.passing) == ("strategy", False) for lack in result)
    assert not lacks(needed)
    assert not lacks(needed, direct=True, strategies=MergeStrategies(default))


@pytest.mark.parametrize("strategies", [(MergeStrategy.NONE,), tuple(MergeStrategy)])
def test_a_rule_with_strategies_keeps_the_isolation_levels_of_tables(strategies: tuple[MergeStrategy, ...]) -> None:
    (lack,) = lacks(rule(strategies=strategies), strategies=MergeStrategies(isolation="snapshot"))
    assert (lack.requirement, lack.name, lack.passing) == ("strategy", "snapshot", False)
    assert "isolation" in lack.words
    assert not lacks(rule(strategies=strategies), strategies=MergeStrategies(isolation="serializable"))
    assert not lacks(rule(), strategies=MergeStrategies(isolation="snapshot"))


def test_a_frozen_branch_gives_the_reason() -> None:
    (lack,) = lacks(rule(frozen="audit of Q3"))
    assert (lack.requirement, lack.passing) == ("frozen", False)
    assert "audit of Q3" in lack.words


@pytest.mark.parametrize("verb", ["delete", "rename"])
def test_only_an_admin_removes_a_name_with_rules(verb: str) -> None:
    (lack,) = lacks(rule(statuses=(QUALITY,)), removes=True, verb=verb)
    assert (lack.requirement, lack.passing) == ("permission", False)
    assert verb in lack.words
    assert not lacks(rule(statuses=(QUALITY,)), removes=True, actor=Actor(role="admin"))
    named = rule(bypass=("ann",), frozen="now")
    assert [lack.requirement for lack in lacks(named, removes=True, bypass="in a hurry")] == ["permission"]


# Any rule


ALL = rule(
    statuses=(QUALITY, CHECK),
    approvals=(RequiredApprovals(),),
    pull_requests_only=True,
    strategies=(MergeStrategy.NONE,),
    frozen="now",
)
some_rules = st.builds(
    lambda parts: replace(ALL, **{name: getattr(Rule(name="r"), name) for name in parts}),
    st.sets(st.sampled_from(["statuses", "approvals", "pull_requests_only", "strategies", "frozen"])),
)
some_terms = st.builds(
    lambda verb, approvals, strategy, rollback: terms(
        verb=verb, approvals=approvals, strategies=MergeStrategies(strategy), rollback=rollback
    ),
    st.sampled_from(["merge", "commit"]),
    st.sampled_from([None, [], [Approved("bob")]]),
    st.sampled_from(MergeStrategy),
    st.booleans(),
)


@given(some_rules, some_terms, statuses)
def test_observed_lacks_are_those_of_the_same_rule(needed: Rule, change: Terms, posted: list[Status]) -> None:
    tree = TreeStatuses(TREE, 1, tuple(posted))
    enforced, watched = Gate(1, (needed,)), Gate(1, (replace(needed, observe=True),))
    assert observed(watched, change, tree, KEYS) == judge(enforced, change, tree, KEYS)
    assert not judge(watched, change, tree, KEYS)
    assert not observed(enforced, change, tree, KEYS)


@given(some_rules, some_terms, statuses)
def test_an_admin_passes_by_no_rule(needed: Rule, change: Terms, posted: list[Status]) -> None:
    tree = TreeStatuses(TREE, 1, tuple(posted))
    as_admin = replace(change, actor=replace(change.actor, role="admin"))
    assert judge(Gate(1, (needed,)), as_admin, tree, KEYS) == judge(Gate(1, (needed,)), change, tree, KEYS)


@given(some_rules, some_terms, statuses)
def test_a_bypass_is_for_those_whom_the_rule_names(needed: Rule, change: Terms, posted: list[Status]) -> None:
    tree = TreeStatuses(TREE, 1, tuple(posted))
    plain = judge(Gate(1, (needed,)), change, tree, KEYS)
    named = Gate(1, (replace(needed, bypass=("a?n",)),))
    for reason in ("", " \n"):
        assert judge(named, replace(change, bypass=reason), tree, KEYS) == plain
    asking = replace(change, bypass="the pipeline is down")
    assert not judge(named, asking, tree, KEYS)
    refused = judge(Gate(1, (needed,)), asking, tree, KEYS)
    assert [lack.requirement for lack in refused] == ["permission"] * bool(plain) + [lack.requirement for lack in plain]


@given(some_rules, some_terms, statuses)
def test_a_rollback_needs_no_new_verdict(needed: Rule, change: Terms, posted: list[Status]) -> None:
    """Neither approvals nor statuses; but a failure, a frozen branch and a forbidden strategy stay what they are."""
    tree = TreeStatuses(TREE, 1, tuple(posted))
    plain = judge(Gate(1, (needed,)), change, tree, KEYS)
    named = Gate(1, (replace(needed, rollback=("ann",)),))
    left = [lack for lack in plain if not lack.passing and lack.requirement != "pull-request"]
    assert list(judge(named, replace(change, rollback=True), tree, KEYS)) == left
    assert judge(named, replace(change, rollback=False), tree, KEYS) == judge(
        Gate(1, (needed,)), replace(change, rollback=False), tree, KEYS
    )


def test_a_caller_without_a_name_matches_no_pattern() -> None:
    change = terms(actor=Actor(), bypass="reason")
    needed = rule(frozen="now", bypass=("*",))
    assert [lack.requirement for lack in judge(Gate(1, (needed,)), change, TreeStatuses(TREE), KEYS)] == [
        "permission",
        "frozen",
    ]


def test_each_rule_of_a_gate_counts() -> None:
    gate = Gate(1, (rule(statuses=(QUALITY,)), replace(rule(frozen="now"), name="s")))
    assert [lack.rule for lack in judge(gate, terms(), TreeStatuses(TREE), KEYS)] == ["r", "s"]


def test_a_gate_is_exact_if_a_rule_is() -> None:
    apart = rule(statuses=(CHECK,), moved_head=MovedHead.APART, hold=600)
    assert Gate(1, (apart,)).moved_head is MovedHead.APART
    assert Gate(1, (apart, rule())).moved_head is MovedHead.EXACT
    assert (Gate(1, (apart, rule())).hold, Gate(1, (rule(),)).hold) == (600, 0)


def test_before_the_commit_is_built_only_what_is_certain_is_refused() -> None:
    of_paths = replace(ALL, frozen="", pull_requests_only=False, approvals=(RequiredApprovals(paths=("gold/",)),))
    change = terms(commit=None, touched=("gold/",), strategies=MergeStrategies())
    assert not judge(Gate(1, (of_paths,)), change, TreeStatuses(TREE), KEYS)
    requirements = [lack.requirement for lack in judge(Gate(1, (ALL,)), change, TreeStatuses(TREE), KEYS)]
    assert requirements == ["frozen", "pull-request"]
