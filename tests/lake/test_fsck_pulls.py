"""fsck of pull requests: what is damaged is named and repaired, and a healthy repository has no findings."""

from collections.abc import Mapping

import pytest

from graveler.lake.fsck.findings import Finding, FindingKind
from graveler.lake.pulls.pull_store import PullStore
from graveler.lake.repository import OpenRepository
from graveler.requests.pulls import PullState
from graveler.storage.tables.port import Item, Key
from tests.lake.support import NAME, World, put


class Proposals:
    """A world with three pull requests: 1 is merged, 2 is open and has a comment, 3 is closed."""

    def __init__(self) -> None:
        self.world = World()
        put(self.main, {"a": "1"})
        self.main.commit("main", "first")
        for number, name in enumerate(("merged", "open", "closed"), 1):
            self.main.create_branch(name, "main")
            put(self.main, {name: "1"}, name)
            self.main.commit(name, name)
            self.main.create_pull_request(name, name, "main", by="ada")
            assert self.main.pull_request(str(number)).source == name
        self.main.merge_pull_request("1")
        self.main.comment_on_pull_request("2", "good", by="cyd")
        self.main.update_pull_request("3", status="closed", by="ada")
        self.store = PullStore(self.world.tables, self.main.repository.uid)

    @property
    def main(self) -> OpenRepository:
        return self.world.main

    def findings(self, *, repair: bool = False) -> list[Finding]:
        return list(self.world.lake().fsck(NAME, repair=repair).findings)

    def change(self, key: Key, attributes: Mapping[str, object]) -> None:
        item: Item = {**(self.world.tables.get(key) or {}), **attributes}  # type: ignore[dict-item]
        self.world.tables.put(key, item)

    def expect_repaired(self, reason: str, subject: str) -> None:
        """Expect one finding, which a repair ends, so that pull requests can be listed and made again."""
        [finding] = self.findings()
        assert (finding.kind, finding.what, finding.repaired) == (FindingKind.PULL_REQUEST, subject, False)
        assert reason in finding.why
        assert "repair" in finding.remedy
        [repaired] = self.findings(repair=True)
        assert repaired.repaired
        assert self.findings() == []
        self.main.pull_requests("all")
        assert self.main.create_pull_request("new", "closed", "main", by="ada").number == 4
        assert self.findings() == []


@pytest.fixture
def proposals() -> Proposals:
    return Proposals()


def test_sound_pull_requests_are_no_findings(proposals: Proposals) -> None:
    assert proposals.findings() == []


@pytest.mark.parametrize("attributes", [{"pull": "{"}, {"pull": 5}, {"pull": '{"number": 7}'}])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_item_that_cannot_be_read(proposals: Proposals, number: int, attributes: Mapping[str, object]) -> None:
    proposals.change(proposals.store.key(number), attributes)
    proposals.expect_repaired("cannot be read", f"pull request {number}")


def test_an_item_with_another_version_than_its_document(proposals: Proposals) -> None:
    proposals.change(proposals.store.key(2), {"version": 99})
    proposals.expect_repaired("has version 99", "pull request 2")


def test_a_pull_request_that_is_listed_wrongly(proposals: Proposals) -> None:
    keys = proposals.store.index_keys(2)
    proposals.change(keys[PullState.MERGED], {"state": "merged"})
    proposals.expect_repaired("is open, and listed as merged and open", "pull request 2")


def test_a_pull_request_that_no_list_has(proposals: Proposals) -> None:
    proposals.world.tables.delete(proposals.store.index_keys(2)[PullState.OPEN])
    proposals.expect_repaired("is open, and listed as nothing", "pull request 2")
    assert [pull.number for pull in proposals.main.pull_requests("open").results] == [4, 2]


def test_a_pull_request_that_is_only_listed(proposals: Proposals) -> None:
    proposals.world.tables.delete(proposals.store.key(2))
    proposals.expect_repaired("is listed as open, and does not exist", "pull request 2")


@pytest.mark.parametrize("number", [None, 1, "3"])
def test_a_count_that_is_behind(proposals: Proposals, number: object) -> None:
    proposals.world.tables.delete(proposals.store.last_key)
    if number is not None:
        proposals.change(proposals.store.last_key, {"number": number})
    proposals.expect_repaired("is not at least 3", "the number of the newest pull request")


@pytest.mark.parametrize("attributes", [{"comment": "{"}, {"comment": '{"number": 9, "text": "x"}'}])
def test_a_comment_that_cannot_be_read(proposals: Proposals, attributes: Mapping[str, object]) -> None:
    proposals.change(proposals.store.comment_key(2, 1), attributes)
    proposals.expect_repaired("cannot be read", "comment 1 on pull request 2")
    assert proposals.main.pull_comments("2").results == ()


def test_an_open_pull_request_without_its_branch(proposals: Proposals) -> None:
    proposals.main.delete_branch("open")
    proposals.expect_repaired("its source, branch 'open', was deleted or renamed", "pull request 2")
    pull = proposals.main.pull_request("2")
    assert (pull.state, pull.reason) == (PullState.CLOSED, "its source, branch 'open', was deleted or renamed")


def test_a_merged_pull_request_whose_commit_never_was(proposals: Proposals) -> None:
    item = proposals.world.tables.get(proposals.store.key(1))
    assert item is not None
    commit = proposals.main.pull_request("1").merged_commit
    proposals.change(proposals.store.key(1), {"pull": str(item["pull"]).replace(commit, "0" * 64)})
    [finding] = proposals.findings(repair=True)
    assert (finding.kind, finding.what) == (FindingKind.PULL_REQUEST, "pull request 1")
    assert f"commit {'0' * 64}, which does not exist" in finding.why
    assert [ref.name for ref in finding.refs] == ["main"]


def test_a_merged_commit_that_the_branch_left_may_be_collected(proposals: Proposals) -> None:
    commit = proposals.main.commit_of("main")
    proposals.main.hard_reset("main", "main~1")
    proposals.world.tables.delete(proposals.main.parts.commits.key(commit.id))
    proposals.world.objects().delete(f"_graveler/commits/{commit.id}")
    assert {finding.kind for finding in proposals.findings()} == {FindingKind.REFLOG}
