"""Builders for tests of gates: a world whose branch ``main`` has rules, and posts of statuses."""

from graveler.lake.context import Context
from graveler.lake.gates.candidates import Candidates
from graveler.lake.gates.statuses import Statuses
from graveler.lake.repository import OpenRepository
from graveler.lake.settings.rule_changes import replace_rules, stamp_branches
from graveler.model import Actor, Candidate, Commit, RequiredStatus, Rule, Rules, Status, StatusState
from tests.lake.support import World, put

ETL = Actor("etl", "etl", "", "writer")
TESTED = Rule(name="tested", branches=("main",), statuses=(RequiredStatus("test", posters=("ci",)),))
"""Branch main needs the status ``test`` of ``ci``."""


def guarded_world(*rules: Rule) -> World:
    """A world with the branches main and dev, of which main has these rules; one object on each, and one more on dev."""
    world = World()
    put(world.main, {"a": "1"})
    world.main.commit("main", "first")
    world.main.create_branch("dev", "main")
    put(world.main, {"b": "2"}, "dev")
    world.main.commit("dev", "second")
    set_rules(world.main, *(rules or (TESTED,)))
    return world


def set_rules(repository: OpenRepository, *rules: Rule) -> Rules:
    """Replace the rules, and return them; they are in force."""
    replaced = replace_rules(repository.parts, rules)
    stamp_branches(repository.parts, replaced, "admin")
    return replaced


def post(
    repository: OpenRepository,
    commit: Commit,
    state: StatusState = StatusState.SUCCESS,
    *,
    name: str = "test",
    principal: str = "ci",
) -> None:
    """Post a status of a commit's tree."""
    status = Status(name, state, by=principal, principal=principal, created=int(repository.clock.now()))
    Statuses(repository.tables, repository.repository.uid).post(commit.metarange, [status])


def candidates(repository: OpenRepository) -> list[Candidate]:
    """All candidates of the repository, by time."""
    rows = Candidates(repository.tables, repository.repository.uid).all()
    return sorted((row.candidate for row in rows), key=lambda candidate: candidate.created)


def by(actor: Actor = ETL) -> Context:
    return Context(by=actor.name, actor=actor)
