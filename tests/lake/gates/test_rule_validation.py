"""Rules that are refused when they are set."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from graveler.errors import InvalidError
from graveler.history.names import check_branch, check_tag
from graveler.lake.gates.judgement import matches
from graveler.lake.gates.rule_validation import MAX_BYTES, MAX_RULES, check_rules
from graveler.model import MergeStrategy, RequiredApprovals, RequiredStatus, Rule

QUALITY = RequiredStatus("quality", posters=("bot",))
CHECK = {"kind": "no-deletes", "prefix": "gold/"}


def rule(**changes: Any) -> Rule:
    return replace(Rule(name="r", branches=("main",)), **changes)


WHOLE = rule(
    branches=("main", "release-*", "[a-c]?", "[!x]y"),
    statuses=(QUALITY, RequiredStatus("gold", posters=("ci-*",), paths=("gold/", "größe"))),
    approvals=(RequiredApprovals(2, by=("ann", "bob")), RequiredApprovals(3, by=("team-*",), paths=("gold/",))),
    pull_requests_only=True,
    strategies=(MergeStrategy.NONE,),
    frozen="audit of Q3",
    bypass=("ann",),
    rollback=("*",),
    observe=True,
    hold=1800,
)


def test_rules_that_can_be_are_returned_as_they_are() -> None:
    tags = Rule(name="tags", tags=("v*", "release/*", "münchen-[0-9]"), statuses=(QUALITY,))
    lake = Rule(name="lake", branches=("*",), of_lake=True)
    assert check_rules([WHOLE, tags, lake]) == (WHOLE, tags, lake)
    assert check_rules([]) == ()


def test_lists_become_tuples() -> None:
    as_lists: Any = rule(branches=["main"], statuses=[QUALITY])
    assert check_rules([as_lists]) == (rule(statuses=(QUALITY,)),)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"branches": ()}, "guards nothing"),
        ({"branches": ("main ",)}, "without spaces around it"),
        ({"branches": ("",)}, "1 to 255 bytes"),
        ({"branches": ("feature/*",)}, "no branch's name has '/'"),
        ({"branches": ("rel[ab",)}, "no branch's name has '['"),
        ({"tags": ("a b",)}, "no tag's name has ' '"),
        ({"branches": tuple(map(str, range(51)))}, "51 patterns"),
        ({"name": ""}, "the name in rule 1"),
        ({"name": "é" * 51}, "1 to 100 bytes"),
        ({"name": "a\nb"}, "printable"),
        ({"name": "\ud800"}, "cannot be"),
        ({"tags": ("v*",), "approvals": (RequiredApprovals(),)}, "no pull request makes a tag"),
        ({"tags": ("v*",), "pull_requests_only": True}, "no pull request makes a tag"),
        ({"statuses": (RequiredStatus("s"),)}, "nobody could post status 's'"),
        ({"statuses": (RequiredStatus("s", ("bot",), CHECK),)}, "omit the posters"),
        ({"statuses": (RequiredStatus("s", ("",)),)}, "a pattern of principals (posters of status 's')"),
        ({"statuses": (RequiredStatus("", ("bot",)),)}, "the name of a status"),
        ({"statuses": (QUALITY, QUALITY)}, "needs status 'quality' twice"),
        ({"statuses": tuple(replace(QUALITY, name=str(i)) for i in range(21))}, "at most 20"),
        ({"statuses": (replace(QUALITY, paths=("",)),)}, "a path is empty"),
        ({"statuses": (replace(QUALITY, paths=("gold/*",)),)}, "without wildcards"),
        ({"statuses": (replace(QUALITY, paths=("/gold",)),)}, "without a slash before it"),
        ({"statuses": (replace(QUALITY, paths=("x" * 1025,)),)}, "at most 1,024"),
        ({"approvals": (RequiredApprovals(0),)}, "it needs 0 approvals"),
        ({"approvals": (RequiredApprovals(21),)}, "1 to 20 can be asked for"),
        ({"approvals": (RequiredApprovals(2, by=("ann",)),)}, "only ann can give them"),
        ({"approvals": (RequiredApprovals(2, by=("ann", "ann")),)}, "name more people"),
        ({"strategies": ()}, "allows no merge strategy"),
        ({"strategies": ("theirs",)}, "the rules cannot be stored: Invalid enum value 'theirs'"),
        ({"frozen": " "}, "the reason why it is frozen"),
        ({"frozen": "x" * 1001}, "1 to 1,000 bytes"),
        ({"bypass": ("ann ",)}, "(bypass)"),
        ({"rollback": ("",)}, "(rollback)"),
        ({"hold": 0}, "0 seconds"),
        ({"hold": 1801}, "1 to 1,800"),
        ({"hold": "5"}, "Expected `int`"),
        ({"branches": "main"}, "Expected `array`"),
        ({"statuses": (RequiredStatus("s", check={"kind": "no such kind"}),)}, "check 's': "),
    ],
)
def test_a_rule_that_cannot_be_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidError) as caught:
        check_rules([rule(**changes)])
    assert reason in str(caught.value)


def test_names_of_rules_are_unique() -> None:
    with pytest.raises(InvalidError, match="two rules have the name 'r'"):
        check_rules([rule(), rule(branches=("dev",))])


@pytest.mark.parametrize("check", [None, {**CHECK, "prefix": ""}])
def test_a_status_has_one_meaning(check: dict[str, Any] | None) -> None:
    posters = () if check else ("bot",)
    with pytest.raises(InvalidError, match="status 's' is another one than in rule 'r'"):
        check_rules(
            [
                rule(statuses=(RequiredStatus("s", check=CHECK),)),
                rule(name="q", statuses=(RequiredStatus("s", posters, check),)),
            ]
        )


def test_the_size_of_all_rules() -> None:
    with pytest.raises(InvalidError, match="51 rules are too many"):
        check_rules([rule(name=str(index)) for index in range(MAX_RULES + 1)])
    large = [rule(name=str(index), frozen="x" * 1000) for index in range(40)]
    with pytest.raises(InvalidError, match=f"may have {MAX_BYTES:,}"):
        check_rules(large)


@given(st.text("ab-_/.[]!*?", min_size=1, max_size=6), st.text("ab-_/.", min_size=1, max_size=4))
def test_a_pattern_that_is_refused_for_a_character_matches_no_name(pattern: str, name: str) -> None:
    for kind, check in (("branches", check_branch), ("tags", check_tag)):
        try:
            check(name)
            check_rules([replace(Rule(name="r"), **{kind: (pattern,)})])
        except InvalidError as error:
            if "matches no" in str(error):
                assert not matches(name, [pattern])
