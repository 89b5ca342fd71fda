"""Verbs on a branch with rules: commits pass as candidates, or are refused."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from graveler.errors import NoChangesError, RuleError
from graveler.lake.gates.candidates import Candidates
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.model import CandidateState, LakeRule, StatusState
from graveler.requests.setting_changes import SetRules
from tests.lake.faults.case import Case, Verb
from tests.lake.faults.cases.commits import import_listing
from tests.lake.faults.model import Model
from tests.lake.faults.scenes import Scene, client
from tests.lake.faults.story import main_of, merged, moved, stage
from tests.lake.gates.support import TESTED, post, set_rules
from tests.lake.support import NAME

Prepare = Callable[[Lake, Scene, Model], None]


def gated(
    verb: Verb, state: StatusState | None, *, is_open: bool = False, before: Prepare = lambda *_: None
) -> Prepare:
    """Set rules, have them refuse the verb once, and post this status of its candidate; that ends, unless it ``is_open``."""

    def prepare(lake: Lake, scene: Scene, model: Model) -> None:
        before(lake, scene, model)
        repository = lake.repository(NAME)
        set_rules(repository, TESTED)
        try:
            verb(lake, scene)
        except RuleError as error:
            if not error.candidate:
                return
            commit = repository.commit_of(error.candidate)
            candidates = Candidates(repository.tables, repository.repository.uid)
            row = candidates.find(error.candidate, repository.parts.commits)
            if not is_open:
                candidates.end(row, CandidateState.WITHDRAWN, "tried", repository.clock.now())
            if state is not None:
                post(repository, commit, state)

    return prepare


def refused(verb: Verb) -> Verb:
    """The verb, whose refusal is expected."""

    def run(lake: Lake, scene: Scene) -> None:
        with suppress(RuleError):
            verb(lake, scene)

    return run


def commit(lake: Lake, _: Scene) -> None:
    lake.repository(NAME).commit("main", "commit", request_id="r")


def merge(lake: Lake, _: Scene) -> None:
    lake.repository(NAME).merge("side", "main", message="merge")


def revert(lake: Lake, _: Scene) -> None:
    lake.repository(NAME).revert("main", "main", message="revert", request_id="r")


def hard_reset(lake: Lake, _: Scene) -> None:
    lake.repository(NAME).hard_reset("main", "v1")


def committed(model: Model) -> None:
    main_of(model).commit("commit")


def imported(model: Model) -> None:
    main_of(model).commit("import", {"p/i": "3", "p/x": "4", "p/y": None})


def reverted(model: Model) -> None:
    main_of(model).commit("revert", {"b": "1"})


def rules_of_the_tag(lake: Lake, _: Scene, __: Model) -> None:
    repository = lake.repository(NAME)
    set_rules(repository, TESTED)
    post(repository, repository.commit_of("v1"))


FROZEN = LakeRule(name="frozen", repositories=("*",), branches=("main",), frozen="audit")


def set_rules_of_main(lake: Lake, scene: Scene) -> None:
    """Set rules of a repository. They are in force when the call has returned."""
    lake.repository(NAME).run(SetRules(rules=(TESTED,)))
    assert is_stamped(client(scene).repository(NAME), 1)


def set_rules_of_lake(lake: Lake, scene: Scene) -> None:
    """Set rules of the lake. They are in force in all repositories when the call has returned."""
    lake.set_rules([FROZEN])
    assert all(map(is_frozen, repositories(scene)))


def repositories(scene: Scene) -> list[OpenRepository]:
    lake = client(scene)
    return [lake.repository(repository.name) for repository in lake.repositories().results]


def is_stamped(repository: OpenRepository, version: int) -> bool:
    """Return whether the repository's rules have this version, and branch ``main`` has its stamp."""
    stamp = repository.parts.branches.state("main").rules
    return stamp == version == repository.repository.settings.rules.version


def is_frozen(repository: OpenRepository) -> bool:
    try:
        repository.commit("main", "refused", allow_empty=True)
    except RuleError:
        return is_stamped(repository, 1)
    return False


def in_force(scene: Scene, _: Model, repeated: bool) -> None:
    """Rules that were set are judged by, and are in every branch that they guard, or in none."""
    repository = client(scene).repository(NAME)
    if repeated or repository.parts.branches.state("main").rules:
        assert is_stamped(repository, 1)


def in_force_everywhere(scene: Scene, _: Model, repeated: bool) -> None:
    """Rules of the lake that say that they are in force are. Afterwards all may go on."""
    lake = client(scene)
    rules = lake.rules()
    assert rules.rules == (FROZEN,) or not (repeated or rules.version)
    assert rules.in_force or not repeated
    if rules.version and rules.in_force:
        assert all(map(is_frozen, repositories(scene)))
    lake.set_rules([])
    assert not any(repository.rules().rules for repository in repositories(scene))


CASES: Final[tuple[Case, ...]] = (
    Case("commit under rules", commit, committed, gated(commit, StatusState.SUCCESS, before=stage)),
    Case(
        "merge under rules",
        merge,
        lambda model: merged(model, "merge"),
        gated(merge, StatusState.SUCCESS),
        again=(NoChangesError,),
    ),
)
"""Verbs whose commit passes."""

MORE: Final[tuple[Case, ...]] = (
    Case(
        "commit of an open candidate",
        commit,
        committed,
        gated(commit, StatusState.SUCCESS, is_open=True, before=stage),
    ),
    Case("commit that lacks a status", refused(commit), prepare=gated(commit, None, before=stage)),
    Case("commit with a failed status", refused(commit), prepare=gated(commit, StatusState.FAILURE, before=stage)),
    Case(
        "merge of an open candidate",
        merge,
        lambda model: merged(model, "merge"),
        gated(merge, StatusState.SUCCESS, is_open=True),
        again=(NoChangesError,),
    ),
    Case("merge that lacks a status", refused(merge), prepare=gated(merge, None)),
    Case(
        "merge of an open candidate with a failed status",
        refused(merge),
        prepare=gated(merge, StatusState.FAILURE, is_open=True),
    ),
    Case("import under rules", import_listing, imported, gated(import_listing, StatusState.SUCCESS)),
    Case(
        "import of an open candidate",
        import_listing,
        imported,
        gated(import_listing, StatusState.SUCCESS, is_open=True),
    ),
    Case("import that lacks a status", refused(import_listing), prepare=gated(import_listing, None)),
    Case("revert under rules", revert, reverted, gated(revert, StatusState.SUCCESS)),
    Case("hard reset under rules", hard_reset, moved, rules_of_the_tag),
    Case("hard reset to a commit that lacks a status", refused(hard_reset), prepare=gated(hard_reset, None)),
    Case("rules", set_rules_of_main, verify=in_force),
    Case("rules of the lake", set_rules_of_lake, verify=in_force_everywhere),
)
"""Other ways through the same code, and refusals."""
