"""log by paths, blame, annotate, summaries and du, against their definitions on plain dicts; and what they open."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graveler.errors import InvalidError, NotCommittedError, ObjectNotFoundError, RefNotFoundError
from graveler.lake.reading.annotation_position import AnnotationPosition
from graveler.lake.reading.refs_at_commits import refs_at_commits
from graveler.lake.reading.summary import MOST_SORTED, Summary, SummaryBounds, SummaryPart, Usage, UsagePart
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, CommitID, CommonPrefix, MergeStrategy, Page, SplitParameters, Totals
from tests.lake import oracles
from tests.lake.support import Counted, World, commit, put
from tests.support.campaigns import examples

PATHS = ["a", "a/1", "a/2", "b/1", "b/2", "b/x/1", "c", "data/k"]
PREFIXES = ["", "a", "a/", "b/", "b/x/", "data/", "zz"]
BRANCHES = ["main", "dev", "other"]

Steps = list[tuple[str, int, str, str]]
"""What to do (put, delete or merge), on which branch, which path, which text."""

steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "delete", "merge"]),
        st.integers(0, 2),
        st.sampled_from(PATHS),
        st.sampled_from(["", "1", "22"]),
    ),
    min_size=1,
    max_size=14,
)


@dataclass
class History:
    """A repository of a few branches, and what each of its commits holds."""

    repository: OpenRepository
    states: dict[str, dict[str, str]] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)

    def note(self, made: Commit) -> None:
        entries = self.repository.objects(made.id)
        self.states[made.id] = {entry.path: self.repository.read(made.id, entry.path).decode() for entry in entries}
        self.commits[made.id] = made

    def parents(self, cid: str, first_parent: bool = False) -> Sequence[CommitID]:
        return self.commits[cid].parents[: 1 if first_parent else None]

    def below(self, cid: str, paths: Sequence[str], prefixes: Sequence[str]) -> dict[str, str]:
        return {
            path: text for path, text in self.states[cid].items() if path in paths or path.startswith(tuple(prefixes))
        }

    def touched(self, cid: str, paths: Sequence[str], prefixes: Sequence[str], first_parent: bool) -> bool:
        here = self.below(cid, paths, prefixes)
        parents = self.parents(cid, first_parent)
        return all(self.below(parent, paths, prefixes) != here for parent in parents) if parents else bool(here)

    def origin(self, cid: str, path: str = "", prefix: str | None = None) -> str:
        """From ``cid`` to the first parent with the same there, until none has."""
        asked: tuple[list[str], list[str]] = ([path], []) if prefix is None else ([], [prefix])
        here = self.below(cid, *asked)
        for parent in self.parents(cid):
            if self.below(parent, *asked) == here:
                return self.origin(parent, path, prefix)
        return cid


def make_history(plan: Steps) -> History:
    world = World()
    history = History(world.main)
    history.note(world.main.commit_of("main"))
    for name in BRANCHES[1:]:
        world.main.create_branch(name, "main")
    for kind, number, path, text in plan:
        branch = BRANCHES[number]
        world.clock.time += 1
        if kind == "merge":
            other = BRANCHES[(number + 1) % 3]
            if world.main.merge_base(other, branch) == world.main.commit_of(other):
                continue
            history.note(world.main.merge(other, branch, strategy=MergeStrategy.SOURCE_WINS))
        else:
            put(world.main, {path: text if kind == "put" else None}, branch)
            history.note(world.main.commit(branch, kind, allow_empty=True))
    return history


def all_pages(history: History, ref: str, amount: int, **filters: object) -> list[Commit]:
    found: list[Commit] = []
    after: str | None = None
    while True:
        page: Page[Commit] = history.repository.log(
            ref,
            after=None if after is None else CommitID(after),
            amount=amount,
            **filters,  # type: ignore[arg-type]
        )
        found += page.results
        if page.next_after is None:
            return found
        assert len(page.results) == amount
        after = page.next_after


@settings(max_examples=examples(60), deadline=None)
@given(steps, st.lists(st.sampled_from(PATHS), max_size=2), st.lists(st.sampled_from(PREFIXES), max_size=2), st.data())
def test_a_log_of_paths_is_the_log_without_the_commits_that_did_not_touch_them(
    plan: Steps, paths: list[str], prefixes: list[str], data: st.DataObject
) -> None:
    history = make_history(plan)
    ref = data.draw(st.sampled_from(BRANCHES))
    first_parent = data.draw(st.booleans())
    times = sorted({made.created for made in history.commits.values()})
    since = data.draw(st.sampled_from([None, *times]))
    stop_at = data.draw(st.sampled_from([None, *history.commits]))
    whole = history.repository.log(ref, amount=1000, first_parent=first_parent, since=since, stop_at=stop_at).results
    expected = [
        made for made in whole if not (paths or prefixes) or history.touched(made.id, paths, prefixes, first_parent)
    ]
    filters = {
        "first_parent": first_parent,
        "since": since,
        "stop_at": stop_at,
        "paths": paths,
        "prefixes": prefixes,
    }
    assert all_pages(history, ref, data.draw(st.integers(1, 4)), **filters) == expected
    limited = history.repository.log(ref, amount=2, limit=True, **filters)  # type: ignore[arg-type]
    assert (list(limited.results), limited.next_after) == (expected[:2], None)
    if whole:  # any commit of the log is a position in it, shown or not
        at = data.draw(st.integers(0, len(whole) - 1))
        rest = history.repository.log(ref, after=whole[at].id, amount=1000, **filters)  # type: ignore[arg-type]
        assert list(rest.results) == [made for made in expected if made in whole[at + 1 :]]


@settings(max_examples=examples(60), deadline=None)
@given(
    steps,
    st.sampled_from(["", "somebody", "else"]),
    st.sampled_from(["", "PUT", "merge '", "ß", "nothing"]),
    st.lists(st.sampled_from(PREFIXES), max_size=1),
    st.integers(1, 4),
)
def test_a_log_of_an_author_and_a_text_is_the_log_without_the_other_commits(
    plan: Steps, author: str, text: str, prefixes: list[str], amount: int
) -> None:
    history = make_history(plan)
    put(history.repository, {"last": "1"})
    history.note(history.repository.commit("main", "PUT it in STRASSE", committer="else"))
    unnarrowed = history.repository.log("main", amount=1000, prefixes=prefixes).results
    expected = [
        commit
        for commit in unnarrowed
        if author in ("", commit.committer) and text.casefold() in commit.message.casefold()
    ]
    filters: dict[str, object] = {"author": author, "text": text, "prefixes": prefixes}
    assert all_pages(history, "main", amount, **filters) == expected
    ended_early: list[Commit] = []
    after: CommitID | None = None
    while True:
        page = history.repository.log("main", after=after, amount=amount, within=0, **filters)  # type: ignore[arg-type]
        assert len(page.results) <= 1
        ended_early += page.results
        if page.next_after is None:
            break
        after = CommitID(page.next_after)
    assert ended_early == expected


@settings(max_examples=examples(60), deadline=None)
@given(steps, st.sampled_from(BRANCHES), st.sampled_from(PREFIXES), st.sampled_from(["", "/"]), st.integers(1, 5))
def test_blame_follows_the_parents_that_have_the_same(
    plan: Steps, branch: str, prefix: str, delimiter: str, amount: int
) -> None:
    history = make_history(plan)
    head = history.repository.commit_of(branch).id
    for path in PATHS:
        if path in history.states[head]:
            assert history.repository.blame(branch, path).id == history.origin(head, path)
        else:
            with pytest.raises(ObjectNotFoundError):
                history.repository.blame(branch, path)
    found: list[tuple[str, bool, str]] = []
    after: str | None = ""
    while after is not None:
        page = history.repository.annotate(branch, prefix=prefix, after=after, delimiter=delimiter, amount=amount)
        found += [(item.path, isinstance(item, CommonPrefix), made.id) for item, made in page.results]
        after = page.next_after
    assert found == [
        (path, common, history.origin(head, path, path if common else None))
        for path, common in oracles.rolled_up(history.states[head], prefix, "", delimiter)
    ]


@settings(max_examples=examples(60), deadline=None)
@given(steps, st.sampled_from(BRANCHES), st.sampled_from(PREFIXES), st.sampled_from(["", "/"]), st.integers(1, 5))
def test_last_changes_that_take_longer_go_on_where_they_were(
    plan: Steps, branch: str, prefix: str, delimiter: str, amount: int
) -> None:
    repository = make_history(plan).repository
    whole = repository.annotate(branch, prefix=prefix, delimiter=delimiter, amount=amount)
    page = {"prefix": prefix, "delimiter": delimiter, "amount": amount}
    annotations = repository.annotate_within(branch, 0, **page)  # type: ignore[arg-type]
    assert [entry for entry, _ in annotations.page.results] == [entry for entry, _ in whole.results]
    assert annotations.page.next_after == whole.next_after
    commits = {entry.path: commit for entry, commit in annotations.page.results}
    while annotations.position:
        missing = [path for path, commit in commits.items() if commit is None]
        put(repository, {"later": "x"}, branch)  # what is staged meanwhile changes nothing
        annotations = repository.annotate_within(branch, 0, **page, position=annotations.position)  # type: ignore[arg-type]
        assert [entry.path for entry, _ in annotations.page.results] == missing
        commits.update((entry.path, commit) for entry, commit in annotations.page.results)
    assert commits == {entry.path: commit for entry, commit in whole.results}
    assert not repository.annotate_within(branch, 60, **page).position  # type: ignore[arg-type]


@pytest.mark.parametrize("position", ["x", "AAAA", "k8QA", "é", "lMQgAAAA", "=" * 9])
def test_a_position_that_no_page_returned_is_refused(position: str) -> None:
    repository = make_history([]).repository
    with pytest.raises(InvalidError, match="not the position"):
        repository.annotate_within("main", 1, position=position)


def test_a_position_of_another_page_is_refused() -> None:
    repository = make_history([]).repository
    put(repository, {"x": "1", "y": "1", "z": "1"})
    repository.commit("main", "three", committer="ada")
    position = str(AnnotationPosition.of(repository.commit_of("main").id, 2, {repository.commit_of("main").id: [0]}))
    with pytest.raises(InvalidError, match="of another page"):
        repository.annotate_within("main", 1, position=position)


def location_of(path: str, prefix: str, delimiter: str) -> str:
    at = path.find(delimiter, len(prefix))
    return prefix if at < 0 else path[: at + len(delimiter)]


def summary_by_definition(left: Mapping[str, str], right: Mapping[str, str], prefix: str, delimiter: str) -> Summary:
    def totals(chosen: Sequence[str]) -> Totals:
        kinds = [(left.get(path), right.get(path)) for path in chosen]
        added = [len(b) for a, b in kinds if a is None and b is not None]
        removed = [len(a) for a, b in kinds if b is None and a is not None]
        both = [(len(a), len(b)) for a, b in kinds if a is not None and b is not None]
        before, after = sum(a for a, _ in both), sum(b for _, b in both)
        return Totals(len(added), sum(added), len(removed), sum(removed), len(both), before, after)

    paths = [path for path in oracles.differences(left, right) if path.startswith(prefix)]
    places = sorted({location_of(path, prefix, delimiter) for path in paths}, key=str.encode) if delimiter else []
    parts = [
        SummaryPart(place, totals([path for path in paths if location_of(path, prefix, delimiter) == place]))
        for place in places
    ]
    return Summary(totals(paths), tuple(parts))


states = st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["", "1", "22"]))
changes = st.dictionaries(st.sampled_from(PATHS), st.sampled_from([None, "", "1", "22"]))


def after_changes(state: Mapping[str, str], changed: Mapping[str, str | None]) -> dict[str, str]:
    return {path: text for path, text in {**state, **changed}.items() if text is not None}


def pages_of_summary(sum_up: Callable[[SummaryBounds], Summary], bounds: SummaryBounds) -> list[Summary]:
    pages = [sum_up(bounds)]
    while (after := pages[-1].next_after) is not None:
        pages.append(sum_up(replace(bounds, after=after)))
    return pages


@settings(max_examples=examples(80), deadline=None)
@given(states, changes, st.sampled_from(PREFIXES), st.sampled_from(["/", "1"]), st.integers(1, 3), st.integers(1, 9))
def test_pages_and_bounds_of_a_summary_are_parts_of_the_whole(
    first: dict[str, str],
    second: dict[str, str | None],
    prefix: str,
    delimiter: str,
    amount: int,
    most: int,
) -> None:
    repository = World().main
    put(repository, first)
    base = repository.commit("main", "first", allow_empty=True).id
    put(repository, second)
    after = after_changes(first, second)
    whole = summary_by_definition(first, after, prefix, delimiter)
    changed = sorted((p for p in oracles.differences(first, after) if p.startswith(prefix)), key=str.encode)

    def check(sum_up: Callable[[SummaryBounds], Summary], looked_at: Sequence[str]) -> None:
        pages = pages_of_summary(sum_up, SummaryBounds(amount=amount))
        sums: dict[str, Totals] = {}
        for page in pages:
            assert page.total == sum((part.totals for part in page.parts), Totals())
            assert sum(part.path != prefix for part in page.parts) <= amount
            for part in page.parts:
                assert part.path == prefix or part.path not in sums  # what is in no common prefix is summed up by page
                sums[part.path] = sums.get(part.path, Totals()) + part.totals
        assert [SummaryPart(path, sums[path]) for path in sorted(sums, key=str.encode)] == list(whole.parts)
        assert all(page.parts for page in pages[1:])

        by_bytes = pages_of_summary(sum_up, SummaryBounds(amount=amount, by_bytes=True))
        parts = [part for page in by_bytes for part in page.parts if part.path != prefix]
        assert [part.path for part in parts] == [
            part.path
            for part in sorted(whole.parts, key=lambda part: (-moved(part.totals), part.path.encode()))
            if part.path != prefix
        ]
        assert sum((page.total for page in by_bytes), Totals()) == whole.total
        assert all(page.by_bytes for page in by_bytes)

        bounded = sum_up(SummaryBounds(most=most))
        changed_paths = [path for path in looked_at[:most] if path in changed]
        chosen_before = {path: text for path, text in first.items() if path in changed_paths}
        chosen_after = {path: text for path, text in after.items() if path in changed_paths}
        expected = summary_by_definition(chosen_before, chosen_after, prefix, delimiter)
        assert bounded == replace(expected, more=len(looked_at) > most)

    staged = sorted((path for path in second if path.startswith(prefix)), key=str.encode)
    check(lambda b: repository.uncommitted_summary("main", prefix=prefix, delimiter=delimiter, bounds=b), staged)
    repository.commit("main", "second", allow_empty=True)
    if first:  # else the ranges of the new tree count as a whole
        check(lambda b: repository.diff_summary(base, "main", prefix=prefix, delimiter=delimiter, bounds=b), changed)


def moved(totals: Totals) -> int:
    return totals.added_bytes + totals.removed_bytes + totals.changed_bytes_before + totals.changed_bytes_after


@pytest.mark.parametrize(
    ("delimiter", "bounds", "words"),
    [
        ("", SummaryBounds(amount=5), "give a delimiter"),
        ("/", SummaryBounds(after="a"), "give an amount"),
        ("/", SummaryBounds(by_bytes=True), "give an amount"),
        ("/", SummaryBounds(amount=5, most=5), "leave out one"),
        ("/", SummaryBounds(amount=0), "amount is 0"),
        ("", SummaryBounds(most=-1), "most is -1"),
        ("/", SummaryBounds(amount=5, by_bytes=True, after="nothing/"), "no common prefix of this summary"),
        ("/", SummaryBounds(amount=5, after="\ud800"), "UTF-8"),
    ],
)
def test_a_summary_says_what_is_wrong_with_its_bounds(delimiter: str, bounds: SummaryBounds, words: str) -> None:
    repository = World().main
    commit(repository, {"a": "1"})
    for sum_up in (repository.diff_summary, repository.compare_summary):
        with pytest.raises(InvalidError, match=words):
            sum_up("main~1", "main", delimiter=delimiter, bounds=bounds)
    with pytest.raises(InvalidError, match=words):
        repository.uncommitted_summary("main", delimiter=delimiter, bounds=bounds)


def test_too_many_common_prefixes_come_in_the_order_of_their_paths() -> None:
    repository = World().main
    commit(repository, {f"{number:05}/a": "x" * (number % 7) for number in range(MOST_SORTED)})
    bounds = SummaryBounds(amount=2, by_bytes=True)
    page = repository.diff_summary("main~1", "main", delimiter="/", bounds=bounds)
    assert ([part.path for part in page.parts], page.by_bytes) == (["00006/", "00013/"], True)
    commit(repository, {"one/more": "x"})
    page = repository.diff_summary("main~2", "main", delimiter="/", bounds=bounds)
    assert ([part.path for part in page.parts], page.by_bytes) == (["00000/", "00001/"], False)
    page = repository.diff_summary("main~2", "main", delimiter="/", bounds=replace(bounds, after="09999/"))
    assert ([part.path for part in page.parts], page.next_after) == (["one/"], None)


@settings(max_examples=examples(80), deadline=None)
@given(states, changes, changes, st.sampled_from(PREFIXES), st.sampled_from(["", "/", "1"]))
def test_a_summary_counts_what_the_listing_of_differences_shows(
    first: dict[str, str],
    second: dict[str, str | None],
    third: dict[str, str | None],
    prefix: str,
    delimiter: str,
) -> None:
    repository = World().main
    put(repository, first)
    base = repository.commit("main", "first", allow_empty=True).id
    repository.create_branch("dev", base)
    put(repository, second)
    main = repository.commit("main", "second", allow_empty=True).id
    put(repository, third, "dev")
    on_main, on_dev = after_changes(first, second), after_changes(first, third)
    staged = repository.uncommitted_summary("dev", prefix=prefix, delimiter=delimiter)
    assert staged == summary_by_definition(first, on_dev, prefix, delimiter)
    used = repository.du("dev", prefix, delimiter)
    repository.commit("dev", "third", allow_empty=True)
    assert repository.diff_summary("main", "dev", prefix=prefix, delimiter=delimiter) == summary_by_definition(
        on_main, on_dev, prefix, delimiter
    )
    assert repository.compare_summary(main, "dev", prefix=prefix, delimiter=delimiter) == summary_by_definition(
        first, on_dev, prefix, delimiter
    )
    held = summary_by_definition({}, on_dev, prefix, delimiter)
    parts = tuple(UsagePart(part.path, part.totals.added, part.totals.added_bytes) for part in held.parts)
    assert used == Usage(held.total.added, held.total.added_bytes, parts)
    assert repository.du("dev@", prefix, delimiter) == used


def test_blame_says_of_what_is_only_staged_that_it_is_not_committed() -> None:
    repository = World().main
    made = commit(repository, {"a": "1"})
    put(repository, {"a": "2", "new": "1"})
    assert repository.blame("main", "a").id == made
    with pytest.raises(NotCommittedError, match="'new' is an uncommitted change of 'main'"):
        repository.blame("main", "new")
    for ref in ("main@", made):
        with pytest.raises(ObjectNotFoundError, match="'new' does not exist in"):
            repository.blame(ref, "new")


def test_what_makes_no_sense_is_refused() -> None:
    repository = World().main
    with pytest.raises(InvalidError):
        repository.log("main", paths=[""])
    with pytest.raises(InvalidError):
        repository.log("main", prefixes=["\ud800"])
    with pytest.raises(RefNotFoundError):
        repository.log("main", stop_at="nowhere")
    with pytest.raises(InvalidError):
        repository.log("main", amount=0)
    for verb in (repository.du, repository.annotate):
        with pytest.raises(RefNotFoundError):
            verb("nowhere")


# What they cost

MANY = SplitParameters(min_size=200, max_size=1600, raggedness=4)
FILES = [f"d{number // 50:02}/k{number:04}" for number in range(1000)]


@pytest.fixture(scope="module")
def large() -> World:
    """Twenty folders in many ranges; then forty commits, each of which changes one object of d00 or (every tenth) of d19."""
    world = World(MANY)
    commit(world.main, dict.fromkeys(FILES, "1"))
    random = Random(7)
    for number in range(40):
        world.clock.time += 1
        path = FILES[-1 - random.randrange(50)] if number % 10 == 0 else FILES[random.randrange(50)]
        commit(world.main, {path: f"version {number}"}, message=path)
    assert len(world.main.tree("main")) > 60
    return world


def ranges_of(world: World, prefix: str) -> set[str]:
    """Files of all ranges of the history that hold something below a prefix."""
    found = set()
    for made in world.main.log("main", amount=100).results:
        tree = world.main.tree(made.id)
        for info in map(tree.info, range(len(tree))):
            if info.first < (prefix + "\x7f").encode() and info.last >= prefix.encode():
                found.add(info.name)
    return found


def opened(counted: Counted) -> list[str]:
    return [key.rpartition("/")[2] for method, key in counted.objects.keys if "/ranges/" in key and method == "get"]


def test_a_log_of_a_path_opens_only_ranges_that_differ_there(large: World) -> None:
    counted = large.counted()
    shown = counted.repository.log("main", amount=100, prefixes=["d19/"]).results
    assert [made.message[:4] for made in shown] == ["d19/"] * 4 + ["m"]
    assert set(opened(counted)) <= ranges_of(large, "d19/")
    assert len(opened(counted)) <= 2 * 4 + 2  # those that a commit replaced, and those it wrote; at the first, any
    reads = counted.tables.calls["get"] + counted.tables.calls["get_many"]
    assert reads <= 4  # the branch, and 32 commits at a time
    counted = large.counted()
    assert counted.repository.log("main", amount=100, paths=["d10/none"]).results == ()
    assert len(opened(counted)) <= 1  # of the first commit, where the path would lie


def test_a_limited_log_stops_where_it_is_full(large: World) -> None:
    counted = large.counted()
    (made,) = counted.repository.log("main", amount=1, prefixes=["d00/"], limit=True).results
    assert made == large.main.commit_of("main")
    assert counted.metaranges_read() == 2
    unlimited = large.counted()
    unlimited.repository.log("main", amount=1, prefixes=["d10/"])
    assert unlimited.metaranges_read() == 41  # all of the history, to find that nothing follows


def test_a_page_goes_on_where_the_one_before_stopped_looking(large: World) -> None:
    counted = large.counted()
    page = counted.repository.log("main", amount=1, prefixes=["d19/"])
    assert page.next_after is not None
    counted.reset()
    following = counted.repository.log("main", after=CommitID(page.next_after), amount=1, prefixes=["d19/"])
    assert following.results[0].message.startswith("d19/")
    assert counted.metaranges_read() <= 11  # ten commits further


def test_blame_reads_commits_by_the_dozen_and_opens_what_differs_at_the_path(large: World) -> None:
    counted = large.counted()
    assert counted.repository.blame("main", "d10/k0500").message == "m"
    assert len(opened(counted)) <= 1  # to see that the object is there
    assert counted.tables.calls["get"] + counted.tables.calls["get_many"] <= 4
    counted = large.counted()
    changed = large.main.commit_of("main").message
    assert counted.repository.blame("main", changed) == large.main.commit_of("main")
    assert (counted.metaranges_read(), len(opened(counted))) == (2, 2)


def test_a_log_of_an_author_reads_commits_only_and_ends_with_its_time(large: World) -> None:
    counted = large.counted()
    assert counted.repository.log("main", author="nobody").results == ()
    assert (counted.metaranges_read(), opened(counted)) == (0, [])
    whole = counted.tables.calls["get"] + counted.tables.calls["get_many"]
    assert whole <= 4
    counted = large.counted()
    page = counted.repository.log("main", author="nobody", within=0)
    assert (page.results, page.next_after is None) == ((), False)
    assert counted.tables.calls["get"] + counted.tables.calls["get_many"] < whole


def test_refs_at_commits_are_one_listing_of_each_kind(large: World) -> None:
    repository = large.main
    head, before = repository.commit_of("main").id, repository.commit_of("main~1").id
    repository.create_branch("refs-dev", "main")
    repository.create_tag("refs-v1", "main~1")
    repository.create_branch("refs-hidden", "main", hidden=True)
    counted = large.counted()
    refs = refs_at_commits(counted.repository)
    names = {commit_id: [ref.name for ref in refs.by_commit[commit_id]] for commit_id in (head, before)}
    assert ("refs-dev" in names[head], "refs-hidden" in names[head], names[before]) == (True, False, ["refs-v1"])
    assert not refs.more
    assert (counted.tables.requests, counted.objects.requests) == (32, 0)


def test_annotating_a_page_is_one_walk(large: World) -> None:
    counted = large.counted()
    page = counted.repository.annotate("main@", prefix="d10/", amount=100)
    assert {made.message for _, made in page.results} == {"m"}
    assert len(page.results) == 50
    assert counted.metaranges_read() == 41
    assert set(opened(counted)) <= ranges_of(large, "d10/")
    assert counted.tables.calls["get"] + counted.tables.calls["get_many"] <= 4


def test_a_summary_opens_nothing_that_the_metaranges_tell(large: World) -> None:
    repository = large.main
    repository.create_branch("more", "main")
    commit(repository, {f"e00/k{number:04}": "12" for number in range(500)}, "more")
    counted = large.counted()
    totals = counted.repository.diff_summary("main", "more").total
    assert (totals.added, totals.added_bytes, totals.removed, totals.changed) == (500, 1000, 0, 0)
    assert len(opened(counted)) <= 4  # the seam
    counted = large.counted()
    assert counted.repository.diff_summary("main", "main").total == Totals()
    assert opened(counted) == []


def test_a_page_of_a_summary_opens_only_what_its_common_prefixes_need(large: World) -> None:
    repository = large.main
    repository.create_branch("everywhere", "main")
    commit(repository, {f"d{number:02}/k0500": "other" for number in range(20)}, "everywhere")
    counted = large.counted()
    whole = counted.repository.diff_summary("main", "everywhere", delimiter="/")
    opened_by_all = len(opened(counted))
    counted = large.counted()
    page = counted.repository.diff_summary("main", "everywhere", delimiter="/", bounds=SummaryBounds(amount=2))
    assert (page.parts, page.next_after) == (whole.parts[:2], whole.parts[1].path)
    assert len(opened(counted)) <= 8 < opened_by_all


def test_a_bounded_count_of_uncommitted_changes_does_not_read_all() -> None:
    world = World()
    put(world.main, {f"k{number:05}": "1" for number in range(5000)})
    counted = world.counted()
    whole = counted.repository.uncommitted_summary("main")
    assert (whole.total.added, whole.more) == (5000, False)
    of_all = counted.tables.requests
    counted = world.counted()
    bounded = counted.repository.uncommitted_summary("main", bounds=SummaryBounds(most=1000))
    assert (bounded.total.added, bounded.more) == (1000, True)
    assert counted.tables.requests == of_all - 3  # one more read tells that there is more
    exactly = counted.repository.uncommitted_summary("main", bounds=SummaryBounds(most=5000))
    assert (exactly.total.added, exactly.more) == (5000, False)


def test_du_of_all_opens_nothing_and_by_folder_only_what_two_of_them_share(large: World) -> None:
    counted = large.counted()
    assert counted.repository.du("main@").objects == len(FILES)
    assert opened(counted) == []
    counted = large.counted()
    usage = counted.repository.du("main@", delimiter="/")
    assert [(part.path, part.objects) for part in usage.parts] == [(f"d{number:02}/", 50) for number in range(20)]
    assert len(opened(counted)) <= 19
    counted = large.counted()
    assert counted.repository.du("main", "d05/").objects == 50
    assert len(opened(counted)) <= 2
