"""Random schedules of clients on a branch with rules: the search of :mod:`tests.lake.interleaving`, with rules that change at any
moment, statuses that turn to failure, and candidates that end.

The table is looked at after every request. A schedule is bad if

- the branch moved, or a tag was made, at a commit that the rules in force do not let pass, with the statuses that its tree had;
- an end of a candidate changed, or two open candidates hold one token, or are of one request;
- a candidate is published and its commit never was on the branch;
- a candidate has no end although its time is over and the collector came, or changes are held by one whose time is over;
- or any of :mod:`tests.lake.interleaving`: a write is lost, or takes effect twice.
"""

from contextlib import suppress
from typing import Final

from graveler.errors import CandidateEndedError, GravelerError, NoChangesError, RuleError
from graveler.history.refs import Refs
from graveler.lake.gates.candidates import PULL_REQUEST_SECONDS, Candidates
from graveler.lake.gates.statuses import Statuses
from graveler.lake.opening.repositories import Repositories
from graveler.model import (
    Candidate,
    CandidateState,
    Commit,
    CommitID,
    MergeStrategy,
    RequiredStatus,
    Rule,
    Rules,
    StatusState,
)
from graveler.retention.ended_candidates import end_overdue_candidates
from tests.lake.gates.support import post, set_rules
from tests.lake.interleaving import Client, Scheduler, entry, final_problems
from tests.lake.support import NAME

BRANCHES: Final = ("main",)
TAGS: Final = ("v*",)
TESTED: Final = Rule(name="tested", branches=BRANCHES, tags=TAGS, statuses=(RequiredStatus("test", posters=("ci",)),))
OTHER: Final = Rule(name="other", branches=BRANCHES, tags=TAGS, statuses=(RequiredStatus("other", posters=("ci",)),))
FROZEN: Final = Rule(name="frozen", branches=BRANCHES, tags=TAGS, frozen="a release")
IN_PROGRESS: Final = (CandidateState.BUILDING, CandidateState.OPEN)
ATTEMPTS: Final = 3
LENGTH: Final = 5
REPEATED: Final = "a request of several clients"

CASTS: Final[list[tuple[str, ...]]] = [
    ("ruler", "merger"),
    ("ruler", "merger", "merger"),
    ("ruler", "ruler", "merger"),
    ("ruler", "committer", "writer"),
    ("ruler", "committer", "committer", "writer"),
    ("failer", "merger", "ruler"),
    ("failer", "failer", "merger"),
    ("failer", "committer", "writer"),
    ("failer", "committer", "committer", "writer"),
    ("committer", "committer", "writer", "writer"),
    ("committer", "committer", "resetter", "writer"),
    ("committer", "neighbour", "writer"),
    ("committer", "merger", "writer", "ruler"),
    ("collector", "committer", "merger", "writer"),
    ("collector", "failer", "merger", "ruler"),
    ("ruler", "mover", "merger"),
    ("failer", "mover", "mover", "merger"),
    ("twin", "twin", "failer"),
    ("twin", "twin", "committer", "ruler"),
    ("tagger", "failer", "merger"),
    ("tagger", "tagger", "ruler", "merger"),
]
"""The clients that meet; the seed picks a cast."""

OPERATIONS: Final = {
    "ruler": ("rule", "rule", "bless"),
    "failer": ("fail", "fail", "bless"),
    "merger": ("gated_merge",),
    "neighbour": ("gated_merge_beside",),
    "committer": ("gated_commit", "gated_commit", "put"),
    "writer": ("put", "put", "delete", "read", "bless"),
    "resetter": ("reset", "reset", "put"),
    "collector": ("collect", "bless"),
    "mover": ("reset_hard",),
    "twin": ("gated_merge", "repeated_merge", "repeated_merge"),
    "tagger": ("tag", "tag", "bless"),
}


class GatedScheduler(Scheduler):
    """Looks at branch, tags, rules and candidates after each request."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        uid = self.world.main.repository.uid
        self.refs = Refs(self.world.tables, uid)
        self.candidates = Candidates(self.world.tables, uid)
        self.statuses = Statuses(self.world.tables, uid)
        self.rules: dict[int, Rules] = {}
        self.returned = 0
        """The newest version of the rules whose call has returned."""
        self.states: dict[str, CandidateState] = {}
        self.head = CommitID("")
        self.tags: set[str] = set()

    def hand_over(self) -> None:
        self.look()
        super().hand_over()

    def look(self) -> None:
        """Judge the step that was just made."""
        rules = Repositories(self.world.tables).get(NAME).repository.settings.rules
        self.rules[rules.version] = rules
        self._look_at_refs()
        self._look_at_candidates()

    def _look_at_refs(self) -> None:
        state = self.refs.branch("main")
        assert state is not None
        tags = {tag.name: tag.commit_id for tag in self.refs.list_tags(amount=1000).results}
        changes = {name: commit_id for name, commit_id in tags.items() if name not in self.tags}
        if self.head and state.commit_id != self.head:
            changes["main"] = state.commit_id
        self.head = state.commit_id
        self.tags |= tags.keys()
        for name, commit_id in changes.items():
            commit = self.world.main.commit_of(commit_id)
            in_force = [rules for version, rules in self.rules.items() if version >= self.returned]
            if not any(self._passes(rules, commit) for rules in in_force):
                self.history.wrong.append(f"{name} names {commit.message}, which the rules in force do not let pass")

    def _look_at_candidates(self) -> None:
        wrong = self.history.wrong
        holders: dict[str, str] = {}
        repeated = 0
        for row in self.candidates.all():
            candidate = row.candidate
            earlier = self.states.get(candidate.id, candidate.state)
            if earlier not in (*IN_PROGRESS, candidate.state):
                wrong.append(f"candidate {candidate.message} was {earlier.value}, and is {candidate.state.value}")
            self.states[candidate.id] = candidate.state
            if candidate.state not in IN_PROGRESS:
                continue
            repeated += candidate.message == REPEATED
            state = self.refs.branch(candidate.destination)
            for token in set(candidate.tokens).intersection(() if state is None else state.sealed):
                if token in holders:
                    wrong.append(f"candidates {holders[token]} and {candidate.message} hold the same changes")
                holders[token] = candidate.message
        if repeated > 1:
            wrong.append("two open candidates are of one request")

    def _passes(self, rules: Rules, commit: Commit) -> bool:
        statuses = self.statuses.read(commit.metarange).statuses
        successes = {status.name for status in statuses if status.state is StatusState.SUCCESS}
        required = {status.name for rule in rules.rules for status in rule.statuses}
        return required <= successes and not any(rule.frozen for rule in rules.rules)


class GatedClient(Client):
    """A client of a branch with rules."""

    scheduler: GatedScheduler

    def gated_commit(self, message: str) -> None:
        began = self.scheduler.tick()
        self.unclear.add(message)
        for _ in range(ATTEMPTS):
            try:
                commit = self.repository.commit("main", message, request_id=message)
            except CandidateEndedError:
                continue
            except RuleError as error:
                if not self._bless(error):
                    return
                continue
            self.unclear.discard(message)
            self.commits.append((message, commit))
            self._judge(self.scheduler.world.repository(), commit.id, began)
            return

    def gated_merge(self, message: str, *, beside_uncommitted: bool = False) -> None:
        value = self.scheduler.fresh()
        key = self._key()
        write = self._note(key, value)  # if this fails halfway, a later merge may bring it
        self.repository.link("side", entry(key, value))
        self.repository.commit("side", f"{message} aside")
        self.unclear |= {message, f"{message} aside"}
        write.start = self.scheduler.tick()
        for _ in range(ATTEMPTS):
            try:
                self._merge_side(message, beside_uncommitted=beside_uncommitted)
            except CandidateEndedError:
                continue
            except RuleError as error:
                if not self._bless(error):
                    return
                continue
            write.end = self.scheduler.tick()
            return

    def gated_merge_beside(self, message: str) -> None:
        self.gated_merge(message, beside_uncommitted=True)

    def repeated_merge(self, _: str) -> None:
        """A request that other clients make too."""
        with suppress(CandidateEndedError, RuleError):
            self._merge_side(REPEATED, beside_uncommitted=False)

    def _merge_side(self, message: str, *, beside_uncommitted: bool) -> None:
        self.repository.merge(
            "side",
            "main",
            message=message,
            strategy=MergeStrategy.SOURCE_WINS,
            beside_uncommitted=beside_uncommitted,
        )

    def tag(self, message: str) -> None:
        if (candidate := self._any_candidate()) is not None:
            self.repository.create_tag(f"v{message}", candidate.commit_id)

    def reset_hard(self, message: str) -> None:
        if (candidate := self._any_candidate()) is not None:
            self.repository.hard_reset("main", candidate.commit_id, by=message)

    def bless(self, _: str) -> None:
        """Post success for a candidate."""
        self._post(StatusState.SUCCESS)

    def fail(self, _: str) -> None:
        """Post a failure for one."""
        self._post(StatusState.FAILURE)

    def rule(self, _: str) -> None:
        """Set rules; they are in force when the call has returned."""
        rules = self.scheduler.random.choice(((), (TESTED,), (TESTED,), (OTHER,), (FROZEN,)))
        version = set_rules(self.repository, *rules).version
        self.scheduler.returned = max(self.scheduler.returned, version)

    def collect(self, _: str) -> None:
        """End the candidates whose time is over, as the collector does first."""
        repository = self.repository
        candidates = Candidates(repository.tables, repository.repository.uid)
        end_overdue_candidates(candidates, repository.parts.refs, repository.clock.now(), repository.parts.leases)

    def _bless(self, error: RuleError) -> bool:
        """Post success for the candidate of a refusal; False if the client gives up."""
        if not error.candidate or self.scheduler.random.random() < 0.3:
            return False
        commit = self.repository.commit_of(error.candidate)
        for lack in error.lacks:
            if lack.name:
                post(self.repository, commit, name=lack.name)
        return True

    def _any_candidate(self) -> Candidate | None:
        rows = list(self.scheduler.candidates.all())
        return self.scheduler.random.choice(rows).candidate if rows else None

    def _post(self, state: StatusState) -> None:
        if (candidate := self._any_candidate()) is not None:
            commit = self.scheduler.world.repository().commit_of(candidate.commit_id)
            post(self.repository, commit, state, name=self.scheduler.random.choice(("test", "test", "other")))


def explore(seed: int, casts: list[tuple[str, ...]] = CASTS) -> GatedScheduler:
    """Run the schedule of a seed, which picks a cast. ``AssertionError`` with the seed for a bad one."""
    scheduler = GatedScheduler(seed)
    world = scheduler.world
    world.main.create_branch("side", "main")
    world.main.create_branch("aside", "main")
    if scheduler.random.random() < 0.7:
        scheduler.returned = set_rules(world.main, TESTED).version
    scheduler.look()
    cast = scheduler.random.choice(casts)
    for number, kind in enumerate(cast):
        operations = [scheduler.random.choice(OPERATIONS[kind]) for _ in range(LENGTH)]
        GatedClient(scheduler, f"{kind}{number}", operations)
    try:
        scheduler.run()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from None
    scheduler.look()
    problems = list(scheduler.history.wrong)
    set_rules(world.main)
    world.clock.time += PULL_REQUEST_SECONDS + 1
    # A hard reset takes values back, and twins say a message more than once.
    problems += last_problems(scheduler) if {"mover", "twin"} & {*cast} else final_problems(scheduler)
    problems += end_problems(scheduler)
    assert not problems, f"seed {seed}: " + "; ".join(dict.fromkeys(problems))
    return scheduler


def last_problems(scheduler: GatedScheduler) -> list[str]:
    """Somebody commits what is staged."""
    fresh = scheduler.world.repository()
    try:
        fresh.commit("main", "the end")
    except NoChangesError:
        pass
    except GravelerError as error:
        return [f"the last commit failed: {error}"]
    return ["sealed tokens are left"] if fresh.parts.branches.state("main").sealed else []


def end_problems(scheduler: GatedScheduler) -> list[str]:
    """The collector comes after all others."""
    world = scheduler.world
    fresh = world.repository()
    published = {row.new for row in fresh.reflog("main", 10_000)}
    end_overdue_candidates(scheduler.candidates, scheduler.refs, world.clock.time, fresh.parts.leases)
    rows = [row.candidate for row in scheduler.candidates.all()]
    problems = [f"candidate {candidate.message} has no end" for candidate in rows if candidate.state in IN_PROGRESS]
    problems += [
        f"candidate {candidate.message} is published, and its commit never was on the branch"
        for candidate in rows
        if candidate.state is CandidateState.PUBLISHED and candidate.commit_id not in published
    ]
    return problems
