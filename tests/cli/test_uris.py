"""Parsing of URIs; nonsense gives InvalidError and nothing else."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.cli import uris
from graveler.cli.uris import ObjectURI, RefURI, Sides
from graveler.errors import InvalidError

PARSERS: list[Callable[[str], object]] = [
    uris.parse_repository,
    uris.parse_ref,
    uris.parse_branch,
    uris.parse_tag,
    uris.parse_object,
    uris.parse_prefix,
    lambda text: uris.parse_sides(text, None, None),
    lambda text: uris.parse_sides("lakefs://lake/main", text, None),
    lambda text: uris.parse_sides("lakefs://lake/main", "dev", text),
    lambda text: uris.parse_ref_of("lake", text),
]

pieces = st.sampled_from(
    ["lakefs://", "lake", "/", "//", "main", "..", "...", "~1", "^2", "@", "a b", "é", "\0", "\udc80", ""]
)
texts = st.one_of(st.text(), st.lists(pieces).map("".join), st.lists(pieces).map("".join).map("lakefs://".__add__))


@given(texts)
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in PARSERS:
        try:
            parse(text)
        except InvalidError:
            continue


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=200))
def test_any_path_is_taken_as_it_is(path: str) -> None:
    uri = uris.parse_object(f"lakefs://lake/main/{path}")
    assert uri == ObjectURI("lake", "main", path)
    assert uris.parse_object(str(uri)) == uri


def test_what_is_read() -> None:
    assert uris.parse_repository("lakefs://lake") == uris.parse_repository("lakefs://lake/") == "lake"
    assert uris.parse_repository("lake") == "lake"
    assert uris.parse_ref("lakefs://lake/v1/rc~2^2") == RefURI("lake", "v1/rc~2^2")
    assert uris.parse_branch("lakefs://lake/main/") == RefURI("lake", "main")
    assert uris.parse_prefix("lakefs://lake/main@/a//b/") == ObjectURI("lake", "main@", "a//b/")
    assert uris.parse_prefix("lakefs://lake/main") == ObjectURI("lake", "main", "")
    assert uris.parse_ref_of("lake", "lakefs://lake/dev~") == uris.parse_ref_of("lake", "dev~") == "dev~"


def test_two_refs_are_read_in_every_form() -> None:
    plain, from_base = Sides("lake", "main", "dev", False), Sides("lake", "main", "dev", True)
    assert uris.parse_sides("lakefs://lake/main..dev", None, None) == plain
    assert uris.parse_sides("lakefs://lake/main", "dev", None) == plain
    assert uris.parse_sides("lakefs://lake/main", "lakefs://lake/dev", None) == plain
    assert uris.parse_sides("lakefs://lake/main...dev", None, None) == from_base
    assert uris.parse_sides("lakefs://lake/main..dev", None, None, from_base=True) == from_base


def test_a_diff_of_a_path_is_read_in_every_form() -> None:
    below = Sides("lake", "main", "dev", False, "raw/a..b")
    assert uris.parse_sides("lakefs://lake/main..dev", "raw/a..b", None) == below
    assert uris.parse_sides("lakefs://lake/main", "dev", "raw/a..b") == below
    assert uris.parse_sides("lakefs://lake/main/raw/", None, None) == Sides("lake", "main", None, False, "raw/")


@pytest.mark.parametrize(
    ("parse", "text", "says"),
    [
        (uris.parse_ref, "main", "does not start with lakefs://"),
        (uris.parse_ref, "s3://lake/main", "does not start with lakefs://"),
        (uris.parse_ref, "lakefs://lake", "nothing follows the repository"),
        (uris.parse_ref, "lakefs://L/main", "is not a valid repository name"),
        (uris.parse_ref, "lakefs://lake/a b", "is not a valid ref expression"),
        (uris.parse_branch, "lakefs://lake/main~1", "is no branch: `graveler branch create"),
        (uris.parse_repository, "lakefs://lake/main", "only a repository is allowed here"),
        (uris.parse_object, "lakefs://lake/main", "a path is missing"),
        (uris.parse_object, "lakefs://lake/main/" + "x" * 1025, "at most 1024"),
        (lambda text: uris.parse_sides(text, None, None), "lakefs://lake/main/", "names one ref; name two"),
        (
            lambda text: uris.parse_sides("lakefs://lake/a..b", "raw/", text),
            "x",
            "names two refs, so only a path can follow",
        ),
        (
            lambda text: uris.parse_sides("lakefs://lake/a..b", text, None),
            "./raw",
            "is not a path in the repository; behind refs",
        ),
        (
            lambda text: uris.parse_sides("lakefs://lake/a", "b", text),
            "lakefs://lake/b/x",
            "write it without lakefs://REPO",
        ),
        (lambda text: uris.parse_sides(text, None, None), "../raw", "it looks like a path of this machine"),
        (lambda text: uris.parse_ref_of("lake", text), "lakefs://other/main", "must be in the same repository"),
    ],
)
def test_what_is_refused_is_told(parse: Callable[[str], object], text: str, says: str) -> None:
    with pytest.raises(InvalidError, match=says):
        parse(text)
