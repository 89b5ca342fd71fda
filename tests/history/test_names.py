"""Valid and invalid names."""

import shutil
import subprocess
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import InvalidError
from graveler.history.names import broken_tag_rule, check_branch, check_repository, check_tag, is_branch
from tests.support.campaigns import examples

TAG_LETTERS = "ab.@{}/-~^:?*[]\\ \t\x7flock\0é\n"

GOOD_TAGS = [
    "v1",
    "v1.0",
    "a/b",
    "a/b/c.d",
    "@a",
    "a@b",
    "{",
    "a{b}",
    "é",
    "日本",
    "a-",
    "x.lock.y",
    "_",
    "lock",
    ".".join("ab"),
]
BAD_TAGS = {
    "": "empty",
    "@": "'@'",
    "a@": "'@'",
    "-a": "'-'",
    "a b": "' '",
    "a~1": "'~'",
    "a^": "'^'",
    "a:b": "':'",
    "a?": "'?'",
    "a*": "'*'",
    "a[": "'['",
    "a\\b": "'\\\\'",
    "a\nb": "'\\n'",
    "a\x7f": "'\\x7f'",
    "a..b": "'..'",
    "a@{b": "'@{'",
    "/a": "'/'",
    "a/": "'/'",
    "a//b": "'//'",
    ".a": "'.'",
    "a/.b": "'.b'",
    "a.": "'.'",
    "a.lock": "'a.lock'",
    "a.lock/b": "'a.lock'",
    "a" * 256: "256 bytes",
    "é" * 128: "256 bytes",
    "\ud800": "UTF-8",
}


@pytest.mark.parametrize("name", [*GOOD_TAGS, "a" * 255, "é" * 127])
def test_a_good_tag_is_returned_as_it_is(name: str) -> None:
    assert check_tag(name) == name


@pytest.mark.parametrize(("name", "said"), BAD_TAGS.items())
def test_a_bad_tag_is_refused_with_the_rule_and_the_value(name: str, said: str) -> None:
    with pytest.raises(InvalidError) as refused:
        check_tag(name)
    assert said in str(refused.value)
    assert repr(name[:80]) in str(refused.value)


@pytest.mark.parametrize("name", ["main", "a", "_", "A-b_9", "9", "a" * 255, "x--", "00"])
def test_a_good_branch_is_returned_as_it_is(name: str) -> None:
    assert check_branch(name) == name
    assert is_branch(name)


@pytest.mark.parametrize("name", ["", "-a", "a.b", "a/b", "a b", "é", "a\n", "a" * 256, "\ud800", "a@", "٣", "main~1"])
def test_a_bad_branch_is_refused(name: str) -> None:
    with pytest.raises(InvalidError) as refused:
        check_branch(name)
    assert repr(name[:80]) in str(refused.value)
    assert not is_branch(name)


@pytest.mark.parametrize("name", ["abc", "0ab", "a-b", "a" * 63, "9--"])
def test_a_good_repository_is_returned_as_it_is(name: str) -> None:
    assert check_repository(name) == name


@pytest.mark.parametrize("name", ["", "ab", "a" * 64, "-ab", "Abc", "a_b", "a.b", "abc\n", "äbc", "a b"])
def test_a_bad_repository_is_refused(name: str) -> None:
    with pytest.raises(InvalidError) as refused:
        check_repository(name)
    assert repr(name[:80]) in str(refused.value)


@given(st.text(max_size=6) | st.text("abAB09-_.", max_size=6))
def test_checking_and_asking_agree_and_a_branch_could_be_a_tag(name: str) -> None:
    if is_branch(name):
        assert check_branch(name) == name
        assert broken_tag_rule(name) is None
    else:
        with pytest.raises(InvalidError):
            check_branch(name)


def test_tags_follow_git() -> None:
    """Against the real program, where there is one. Two rules are ours: no ``-`` first, no ``@`` last."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("no git here")
    allowed: Callable[[str], bool] = lambda name: (  # noqa: E731
        subprocess.run([git, "check-ref-format", "--allow-onelevel", name], check=False).returncode == 0
    )

    def same(name: str) -> None:
        ours = broken_tag_rule(name) is None
        assert ours == (allowed(name) and not name.startswith("-") and not name.endswith("@")), name

    for name in [*GOOD_TAGS, *BAD_TAGS]:
        if name != "\ud800" and len(name) < 100:
            same(name)
    settings(max_examples=examples(300), deadline=None)(
        given(st.text(TAG_LETTERS.replace("\0", ""), min_size=1, max_size=8))(same)
    )()
