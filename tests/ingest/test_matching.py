"""Matching by the tree of folders gives the same rules as asking each one; and the counted cost of a batch of events."""

from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from graveler.ingest.events import EventKind, ObjectEvent
from graveler.ingest.ingester import CHUNK, Ingester
from graveler.ingest.results import Outcome
from graveler.ingest.rule_tree import RuleTree
from graveler.ingest.rules import CommitPolicy, RepositoryRules, Rule, RuleStore
from graveler.lake.lake import Lake
from graveler.model import RepositoryUID
from tests.ingest.support import BUCKET, RULE, Shore
from tests.lake.support import TINY
from tests.support.campaigns import examples
from tests.support.instruments import CountingTables

FOLDERS = st.lists(st.sampled_from(["a", "b", "", ".", "..", "a b"]), max_size=3).map(
    lambda names: "".join(f"{name}/" for name in names)
)


@given(
    st.lists(st.tuples(st.sampled_from(["s3://x", "s3://y", "file://"]), FOLDERS, st.sampled_from([(), (".csv",)]))),
    st.lists(st.tuples(FOLDERS, st.sampled_from(["f", "f.csv", "_DONE", ""])), min_size=1),
)
@settings(max_examples=examples(300), deadline=None)
def test_the_tree_finds_what_each_rule_takes(
    sources: list[tuple[str, str, tuple[str, ...]]], keys: list[tuple[str, str]]
) -> None:
    marked = CommitPolicy(marker="_DONE")
    owned = [
        RepositoryRules(
            f"repo-{number}",
            RepositoryUID(f"{number:032x}"),
            (Rule("r", f"{bucket}/{folder}", "main", suffixes=suffixes, commit=marked, id=f"{number}"),),
        )
        for number, (bucket, folder, suffixes) in enumerate(sources)
    ]
    tree = RuleTree(owned)
    for bucket in ("s3://x", "s3://y", "file://", "s3://z"):
        for folder, name in keys:
            key = folder + name
            wanted = {
                rules.uid
                for rules in owned
                for rule in rules.rules
                if rule.bucket == bucket and (rule.takes(key) or rule.is_marker(key))
            }
            found = [one.rules.uid for one in tree.taking(bucket, key)]
            assert (set(found), len(found)) == (wanted, len(wanted))
        about = {rules.uid for rules in owned for rule in rules.rules if rule.bucket == bucket}
        assert {rules.uid for rules in tree.about([bucket, bucket])} == about


def counted(shore: Shore) -> tuple[CountingTables, Ingester]:
    tables = CountingTables(shore.tables)
    return tables, Ingester(Lake(tables, shore.objects, clock=shore.clock), shore.clock)


@pytest.mark.parametrize(("repositories", "beside"), [(1, 0), (40, 0), (40, 400), (130, 0)])
def test_an_event_that_many_rules_take_is_two_requests_and_two_for_each_branch(repositories: int, beside: int) -> None:
    """``beside`` are rules of the same repositories that do not take it."""
    shore = Shore()
    lake = shore.lake()
    for number in range(repositories):
        name = f"repo-{number}"
        lake.create_repository(name, f"mem://{name}", split=TINY)
        repository = lake.repository(name).repository
        rules = [replace(RULE, id=f"{number}-0")]
        for other in range(beside // repositories):
            source = f"{BUCKET}/other-{other}/"
            rules.append(
                replace(RULE, name=f"o{other}", source=source, destination=f"{other}/", id=f"{number}-{other}")
            )
        RuleStore(shore.tables).change(repository, lambda _: tuple(rules))  # noqa: B023 - called at once
    event = shore.bucket.put("in/a")
    tables, ingester = counted(shore)
    assert ingester.process([event]).results[0].outcome is Outcome.STAGED
    assert tables.requests == 1 + ceil(repositories / 100) + 2 * repositories
    tables.reset()
    assert ingester.process([event]).results[0].outcome is Outcome.STALE
    assert tables.requests == 1 + ceil(repositories / 100) + repositories


@pytest.mark.parametrize("rules", [1, 2, 40])
def test_a_marker_of_many_rules_of_one_branch_is_four_requests(rules: int) -> None:
    shore = Shore()
    for number in range(rules):
        shore.add(
            replace(
                RULE,
                name=f"r{number}",
                suffixes=(f".{number}",),
                destination=f"{number}/",
                commit=CommitPolicy(marker="_SUCCESS"),
            )
        )
    shore.bucket.put("in/_SUCCESS")
    tables, ingester = counted(shore)
    ingester.committer.commit_if_due = lambda *_: []  # type: ignore[method-assign]
    assert ingester.process(shore.bucket.events).results[0].outcome is Outcome.STAGED
    assert tables.requests == 4


@pytest.mark.parametrize("events", [1, CHUNK, CHUNK + 1, 480])
@pytest.mark.parametrize("rules", [1, 4, 40])
def test_a_batch_costs_what_the_docs_say(events: int, rules: int) -> None:
    """Rules of one branch, each about a folder; events go to them by turns."""
    shore = Shore()
    for number in range(rules):
        folder = f"{number}/"
        shore.add(replace(RULE, name=f"r{number}", source=f"{BUCKET}/{folder}", destination=folder))
    for number in range(events):
        shore.bucket.put(f"{number % rules}/{number}")
    tables, ingester = counted(shore)
    batch = ingester.process(shore.bucket.events)
    assert {result.outcome for result in batch.results} == {Outcome.STAGED}
    concerned = min(rules, events)
    assert tables.calls["transact"] <= ceil((2 * events + concerned) / 95)
    assert tables.requests == 2 + 2 * tables.calls["transact"]
    if rules == 1:
        assert tables.calls["transact"] == ceil(events / CHUNK)
    if events == 480:
        assert tables.requests / events < 0.06


def test_rules_that_do_not_take_an_event_cost_it_nothing() -> None:
    """A thousand rules beside: an event asks those above its key."""
    asked: list[str] = []

    class Asked(Rule, frozen=True):
        def takes(self, key: str) -> bool:
            asked.append(self.name)
            return super().takes(key)

    owned = [
        RepositoryRules(f"r{number}", RepositoryUID(f"{number:032x}"), (Asked("r", f"s3://x/f{number}/", "main"),))
        for number in range(1000)
    ]
    tree = RuleTree(owned)
    for number in range(1000):
        assert len(list(tree.taking("s3://x", f"f{number}/deep/er/file"))) == 1
    assert len(asked) == 1000
    event = ObjectEvent("s3://x", "nobody/a", EventKind.CREATED, "1")
    assert list(tree.taking(event.bucket, event.key)) == []
    assert len(asked) == 1000
