"""Addresses: what is written is read again, and has one meaning whatever refs there are."""

from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graveler.cli.uris import ObjectURI, parse_prefix, parse_ref, parse_sides
from graveler.errors import ParentNotFoundError, RefNotFoundError, UnavailableError
from graveler.filesystem.addresses import Place
from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.history.names import broken_tag_rule
from graveler.model import CommitID, Page, Tag
from graveler.values.addresses import Address, quote_ref, ref_address, tag_meant, unquote_ref, with_tag_meant

PIECES: Final = ("%", "%2", "%2F", "%2f", "%25", "%41", "/", "2F", "25", "a", "é", "+", "~1", ".", "@")
any_refs = st.one_of(st.text(max_size=20), st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
tags = any_refs.filter(lambda name: broken_tag_rule(name) is None)
paths = st.one_of(st.text(max_size=20), st.lists(st.sampled_from(PIECES), max_size=8).map("".join))


@given(any_refs)
@example("a%2Fb")
@example("%25252F")
def test_a_quoted_ref_is_one_segment_and_is_read_again(ref: str) -> None:
    assert "/" not in quote_ref(ref)
    assert unquote_ref(quote_ref(ref)) == ref


@given(st.text("ab%+é~", max_size=20))
def test_other_percent_signs_stand_for_themselves(segment: str) -> None:
    assert unquote_ref(segment) == segment


@given(any_refs, paths)
def test_what_is_printed_is_read_again(ref: str, path: str) -> None:
    address = Address("sales", ref, path)
    assert Address.of(str(address).removeprefix("lakefs://")) == address
    assert unquote_ref(ref_address("sales", ref).removeprefix("lakefs://sales/")) == ref


@given(tags, st.text(st.characters(codec="utf-8"), max_size=20))
def test_the_command_line_and_the_filesystem_read_what_they_print(tag: str, path: str) -> None:
    uri = ObjectURI("sales", tag, path)
    assert parse_prefix(str(uri)) == uri
    assert parse_ref(str(parse_ref(ref_address("sales", tag)))).ref == tag
    both = parse_sides(f"{ref_address('sales', tag)}..{quote_ref(tag)}", None, None)
    assert (both.old, both.new) == (tag, tag)
    assert Place.of(Place("sales", tag, path).name) == Place("sales", tag, path)


@given(any_refs, paths)
def test_a_path_has_one_spelling_in_the_filesystem(segment: str, path: str) -> None:
    name = GravelerFileSystem._strip_protocol(f"graveler://sales/{segment}/{path}")
    assert GravelerFileSystem._strip_protocol(name) == name
    assert Place.of(name).name.rstrip("/") == name


def test_without_a_scheme_and_where_no_path_can_follow_a_slash_needs_no_escape() -> None:
    assert parse_ref("lakefs://sales/nightly/2026-01-31~1").ref == "nightly/2026-01-31~1"
    assert parse_ref("lakefs://sales/nightly%2F2026-01-31~1").ref == "nightly/2026-01-31~1"
    assert parse_sides("lakefs://sales/x/y..a%2541", None, None).new == "a%41"
    assert parse_sides("lakefs://sales/main", "a%2Fb", None).new == "a%2Fb"


class _Tags:
    """The tags of a repository, and the listings of them."""

    def __init__(self, *names: str) -> None:
        self.names = sorted(names)
        self.listings: list[str] = []

    def __call__(self, prefix: str, after: str, amount: int) -> Page[Tag]:
        self.listings.append(prefix)
        fitting = [name for name in self.names if name.startswith(prefix) and name > after]
        return Page(tuple(Tag(name, CommitID("")) for name in fitting[:amount]))


@pytest.mark.parametrize(
    ("ref", "path", "name", "written"),
    [
        ("nightly", "2026-01-31/x", "nightly/2026-01-31", "lakefs://sales/nightly%2F2026-01-31/x"),
        ("nightly", "2026-01-31", "nightly/2026-01-31", "lakefs://sales/nightly%2F2026-01-31/"),
        ("nightly", "2026-01-31~1/x/y", "nightly/2026-01-31", "lakefs://sales/nightly%2F2026-01-31~1/x/y"),
        ("x", "y/z/part-*.csv", "x/y/z", "lakefs://sales/x%2Fy%2Fz/part-*.csv"),
        ("x", "y/w/z", "x/y", "lakefs://sales/x%2Fy/w/z"),
        ("x/y", "z/w", "x/y/z", "lakefs://sales/x%2Fy%2Fz/w"),
        ("a%", "b/c", "a%/b", "lakefs://sales/a%25%2Fb/c"),
    ],
)
def test_the_longest_tag_that_an_address_begins_with_is_named(ref: str, path: str, name: str, written: str) -> None:
    listed = _Tags("nightly/2026-01-31", "nightly/2026-01-310", "x/y", "x/y/z", "a%/b")
    error = RefNotFoundError(ref)
    meant = tag_meant(error, Address("sales", ref, path), listed)
    assert meant is not None
    assert (meant.name, str(meant.address)) == (name, written)
    assert len(listed.listings) == 1
    told = with_tag_meant(error, Address("sales", ref, path), listed)
    assert told.ref == ref
    assert str(told).endswith(f"no branch, tag or commit has this name; the tag {name!r} is written {written}")


@pytest.mark.parametrize(
    ("error", "ref", "path", "listings"),
    [
        (RefNotFoundError("nightly"), "nightly", "2026-02-01/x", 1),
        (RefNotFoundError("nightly"), "nightly", "2026-01-31:x", 1),
        (RefNotFoundError("nightly"), "nightly", "", 0),
        (RefNotFoundError("nightly"), "nightly", "*/x", 0),
        (RefNotFoundError("nightly~1"), "nightly~1", "2026-01-31/x", 0),
        (RefNotFoundError("nightly", kind="branch"), "nightly", "2026-01-31/x", 0),
        (RefNotFoundError("other"), "nightly", "2026-01-31/x", 0),
        (ParentNotFoundError("nightly"), "nightly", "2026-01-31/x", 0),
    ],
)
def test_where_no_tag_can_be_meant_none_is_named_or_looked_for(
    error: RefNotFoundError, ref: str, path: str, listings: int
) -> None:
    listed = _Tags("nightly/2026-01-31")
    assert with_tag_meant(error, Address("sales", ref, path), listed) is error
    assert len(listed.listings) == listings


def test_a_listing_that_fails_leaves_the_error_as_it_is() -> None:
    def fails(prefix: str, after: str, amount: int) -> Page[Tag]:
        raise UnavailableError("the table does not answer")

    error = RefNotFoundError("nightly")
    assert with_tag_meant(error, Address("sales", "nightly", "2026-01-31/x"), fails) is error
