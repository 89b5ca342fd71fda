"""Pages of differences, put together, are the whole of them: for any trees, prefixes, places to begin, and sizes of pages."""

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.lake.reading.differences import change, outline, page_of_differences
from graveler.model import Change, ChangeOutline, ChangeType
from graveler.tree.diff import diff
from tests.support.campaigns import examples
from tests.support.trees import CODEC, build_tree, new_store, packed

LAW = settings(deadline=None)
UNIVERSE = sorted(
    [f"{folder}{name:02}" for folder in ("", "a/", "a/b/", "a/b", "ä/", "z/y/x/") for name in range(9)]
    + ["a", "a/", "a/b", "//"]
)
some_contents = st.dictionaries(st.sampled_from(UNIVERSE), st.integers(0, 2))
some_prefix = st.sampled_from(["", "a", "a/", "a/b", "a/b/0", "z/y", "ä", "nothing"])
some_after = st.sampled_from(["", "~", "a/b/", *UNIVERSE[::5]])


def expected(
    one: dict[str, int], other: dict[str, int], prefix: str, after: str, delimiter: str
) -> list[tuple[str, str]]:
    """Type and path of each, by the words of the API."""
    found: dict[str, str] = {}
    for path in sorted({*one, *other}, key=str.encode):
        if not path.startswith(prefix) or one.get(path) == other.get(path):
            continue
        at = path.find(delimiter, len(prefix)) if delimiter else -1
        if at >= 0:
            found[path[: at + len(delimiter)]] = "prefix_changed"
        else:
            found[path] = "added" if path not in one else "removed" if path not in other else "changed"
    return [(kind, path) for path, kind in found.items() if path.encode() > after.encode()]


@settings(LAW, max_examples=examples(150))
@given(some_contents, some_contents, some_prefix, some_after, st.sampled_from(["", "/", "b/"]), st.integers(1, 30))
def test_pages_put_together_are_all_differences(
    one: dict[str, int], other: dict[str, int], prefix: str, after: str, delimiter: str, amount: int
) -> None:
    store = new_store()
    left, right = (build_tree(store, {path.encode(): value for path, value in each.items()}) for each in (one, other))
    shown: list[Change] = []
    outlines: list[ChangeOutline] = []
    place: str | None = after
    while place is not None:
        asked = {"prefix": prefix, "after": place, "delimiter": delimiter}
        differences = partial(diff, left, right, most=amount + 1)
        page = page_of_differences(
            differences, partial(change, CODEC), partial(Change, ChangeType.PREFIX_CHANGED), **asked, amount=amount
        )
        outlined = page_of_differences(
            differences, outline, partial(ChangeOutline, ChangeType.PREFIX_CHANGED), **asked, amount=amount
        )
        assert outlined.next_after == page.next_after
        assert len(page.results) == len(outlined.results)
        assert len(page.results) == amount or page.next_after is None
        assert page.next_after in (None, page.results[-1].path if page.results else None)
        shown += page.results
        outlines += outlined.results
        place = page.next_after
    assert [(each.type.value, each.path) for each in shown] == expected(one, other, prefix, after, delimiter)
    for each, outlined_one in zip(shown, outlines, strict=True):
        before, now = each.before, each.after
        assert outlined_one == ChangeOutline(
            each.type, each.path, None if before is None else before.size, None if now is None else now.size
        )
        for entry, contents in ((before, one), (now, other)):
            assert entry is None or CODEC.encode(entry) == packed(contents[each.path])
