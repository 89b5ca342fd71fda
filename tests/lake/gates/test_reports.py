"""Reports of rules that only observe."""

import pytest

from graveler.errors import InvalidError
from graveler.lake.gates.reports import KEEP_SECONDS, report, reports
from graveler.model import Lack
from tests.lake.support import World


def test_reports_are_listed_from_the_newest_on() -> None:
    world = World()
    repository = world.main
    assert reports(repository.parts).results == ()
    commit = repository.commit_of("main")
    lacks = [Lack("b", "status", "q", words="missing"), Lack("a", "frozen", words="now"), Lack("b", "approvals")]
    for minute in range(3):
        world.clock.time += 60
        report(repository.parts, f"main-{minute}", commit, lacks)
    page = reports(repository.parts, amount=4)
    assert [result.ref for result in page.results] == ["main-2", "main-2", "main-1", "main-1"]
    by_rule = {result.rule: result for result in page.results}
    assert [lack.requirement for lack in by_rule["b"].lacks] == ["status", "approvals"]
    assert (by_rule["a"].commit_id, by_rule["a"].time, by_rule["a"].kind) == (
        commit.id,
        int(world.clock.time) - 60,
        "branch",
    )
    rest = reports(repository.parts, page.next_after or "", 4)
    assert ([result.ref for result in rest.results], rest.next_after) == (["main-0", "main-0"], None)
    for position in ("x", "ab", "é" * 32):
        with pytest.raises(InvalidError, match="is no position"):
            reports(repository.parts, position)


def test_reports_expire() -> None:
    world = World()
    repository = world.main
    report(repository.parts, "main", repository.commit_of("main"), [Lack("a", "frozen")])
    repository.parts.tables.remove_expired(world.clock.now() + KEEP_SECONDS)
    assert len(reports(repository.parts).results) == 1
    repository.parts.tables.remove_expired(world.clock.now() + KEEP_SECONDS + 2)
    assert reports(repository.parts).results == ()
