"""Previews of merges in pages, against a three-way merge of plain dicts; and what a page opens and asks."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import InvalidError
from graveler.lake.merging.preview import MergeChange, PreviewedMerge
from graveler.lake.reading.summary import SummaryBounds, SummaryPart
from graveler.model import ChangeType, Conflict, MergeStrategy, Page, Totals
from tests.lake import oracles
from tests.lake.support import World, commit, put
from tests.lake.test_insight import (
    PREFIXES,
    after_changes,
    changes,
    pages_of_summary,
    states,
    summary_by_definition,
)
from tests.support.campaigns import examples

T = TypeVar("T")


def listed(page_after: Callable[[str], Page[T]], amount: int) -> list[T]:
    results: list[T] = []
    after: str | None = ""
    while after is not None:
        page = page_after(after)
        assert len(page.results) == amount or page.next_after is None
        results += page.results
        after = page.next_after
    return results


@settings(max_examples=examples(120), deadline=None)
@given(
    states,
    changes,
    changes,
    st.sampled_from(PREFIXES),
    st.sampled_from(["", "/"]),
    st.sampled_from(MergeStrategy),
    st.integers(1, 4),
)
def test_pages_of_a_preview_are_the_merge_together(
    base: dict[str, str],
    of_main: dict[str, str | None],
    of_dev: dict[str, str | None],
    prefix: str,
    delimiter: str,
    strategy: MergeStrategy,
    amount: int,
) -> None:
    repository = World().main
    put(repository, base)
    repository.commit("main", "base", allow_empty=True)
    repository.create_branch("dev", "main")
    put(repository, of_main)
    repository.commit("main", "main", allow_empty=True)
    put(repository, of_dev, "dev")
    repository.commit("dev", "dev", allow_empty=True)
    on_main, on_dev = after_changes(base, of_main), after_changes(base, of_dev)
    merged, conflicts = oracles.three_way(base, on_dev, on_main, strategy.value)
    conflicts = [path for path in conflicts if path.startswith(prefix)]
    kinds = oracles.differences(on_main, merged)
    merge = repository.previewed_merge("dev", "main", strategy)

    of_pages: list[Conflict] = listed(lambda after: merge.conflicts(prefix=prefix, after=after, amount=amount), amount)
    whole = merge.whole()
    assert of_pages == [conflict for conflict in whole.conflicts if conflict.path.startswith(prefix)]
    assert [conflict.path for conflict in of_pages] == conflicts
    assert (whole.source, whole.destination) == (merge.source.id, merge.destination.id)

    items: list[MergeChange] = listed(
        lambda after: merge.changes(prefix=prefix, after=after, delimiter=delimiter, amount=amount), amount
    )
    touched = {*conflicts, *(path for path in kinds if path.startswith(prefix))}
    places = oracles.rolled_up(touched, prefix, delimiter=delimiter)
    assert [item.change.path for item in items] == [path for path, _ in places]
    for item, (path, is_common) in zip(items, places, strict=True):
        if is_common:
            assert (item.change.type, item.in_conflict) == (ChangeType.PREFIX_CHANGED, False)
            continue
        assert item.in_conflict == (path in conflicts)
        before, after = on_main.get(path), on_dev.get(path)
        sides = [None if entry is None else entry.size for entry in (item.change.before, item.change.after)]
        assert sides == [None if text is None else len(text) for text in (before, after)]
        assert item.in_conflict or item.change.type.value == kinds[path]

    pages = pages_of_summary(
        lambda bounds: merge.summary(prefix=prefix, delimiter="/", bounds=bounds), SummaryBounds(amount=amount)
    )
    sums: dict[str, Totals] = {}
    for part in [part for page in pages for part in page.parts]:
        sums[part.path] = sums.get(part.path, Totals()) + part.totals
    expected = summary_by_definition(on_main, merged, prefix, "/")
    assert [SummaryPart(path, sums[path]) for path in sorted(sums, key=str.encode)] == list(expected.parts)
    bounded = merge.summary(prefix=prefix, bounds=SummaryBounds(most=amount))
    number = bounded.total.added + bounded.total.removed + bounded.total.changed
    in_prefix = [path for path in kinds if path.startswith(prefix)]
    assert (number, bounded.more) == (min(amount, len(in_prefix)), len(in_prefix) > amount)


def test_the_last_commit_of_each_side_is_that_which_changed_or_removed_the_object() -> None:
    repository = World().main
    commit(repository, {"a": "1", "b": "1", "c": "1"})
    repository.create_branch("dev", "main")
    removal = commit(repository, {"a": None, "b": "2"}, "dev")
    commit(repository, {"d": "1"}, "dev")
    first, second = commit(repository, {"a": "3"}), commit(repository, {"b": "3"})
    paths = [conflict.path for conflict in repository.preview_merge("dev", "main").conflicts]
    assert paths == ["a", "b"]
    heads = [repository.commit_of(branch).id for branch in ("dev", "main")]
    of_dev, of_main = (repository.last_changes_within(head, paths, 60) for head in heads)
    assert [found and found.id for found in of_dev] == [removal, removal]
    assert [found and found.id for found in of_main] == [first, second]
    assert repository.last_changes_within(heads[0], ["a", "d"], 0) == [None, repository.commit_of("dev")]
    assert repository.last_changes_within(heads[0], [], 60) == []


def test_a_page_of_a_preview_opens_only_what_it_shows() -> None:
    world = World()
    repository = world.main
    folders = [f"d{number:02}" for number in range(40)]
    commit(repository, {f"{folder}/k{number:03}": "1" for folder in folders for number in range(200)})
    repository.create_branch("dev", "main")
    commit(repository, {f"{folder}/k100": "dev" for folder in folders}, "dev")
    commit(repository, {f"{folder}/k100": "main" for folder in folders})
    counted = world.counted()
    counted.repository.previewed_merge("dev", "main").whole()
    of_all = counted.objects.requests
    counted = world.counted()
    merge = counted.repository.previewed_merge("dev", "main")
    tables, metaranges = counted.tables.requests, counted.objects.requests
    assert (tables, metaranges) == (5, 3)
    page = merge.conflicts(amount=2)
    assert [conflict.path for conflict in page.results] == ["d00/k100", "d01/k100"]
    assert counted.tables.requests == tables
    assert counted.objects.requests < of_all


def test_a_preview_says_what_is_wrong() -> None:
    repository = World().main
    commit(repository, {"a": "1"})
    merge: PreviewedMerge = repository.previewed_merge("main~1", "main")
    for call, words in (
        (lambda: merge.conflicts(amount=0), "amount"),
        (lambda: merge.changes(amount=0), "amount"),
        (lambda: merge.conflicts(prefix="\ud800"), "UTF-8"),
        (lambda: merge.summary(bounds=SummaryBounds(amount=3)), "give a delimiter"),
        (lambda: repository.last_changes_within(merge.source.id, [""], 1), "path"),
    ):
        with pytest.raises(InvalidError, match=words):
            call()
