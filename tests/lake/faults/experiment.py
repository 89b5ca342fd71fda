"""Running a case with faults, and looking at what is there afterwards."""

from collections.abc import KeysView, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from graveler.errors import GravelerError
from graveler.lake.gates.candidates import HOLDING_SECONDS, PULL_REQUEST_SECONDS, Candidates
from graveler.lake.lake import Lake
from graveler.lake.turns import TURN
from graveler.model import CandidateState
from graveler.retention.ended_candidates import end_overdue_candidates
from graveler.staging.tokens import LEASE
from tests.lake.faults.case import Case
from tests.lake.faults.kinds import (
    CLAIM,
    HANGS,
    KINDS,
    READ_KINDS,
    READS,
    SAME_PATH_KINDS,
    SAME_PATH_READ_KINDS,
    Faults,
    Kind,
    Way,
)
from tests.lake.faults.model import Model, public, seen, texts
from tests.lake.faults.scenes import Scene, client
from tests.lake.faults.story import main_of, story
from tests.lake.gates.support import set_rules
from tests.lake.support import NAME, Died
from tests.support.instruments import Boundaries


@dataclass
class Start:
    """A lake that is ready for a case, and its model."""

    scene: Scene
    model: Model


def start(case: Case, scene: Scene) -> Start:
    model: Model = {}
    lake = client(scene)
    story(lake, model)
    case.prepare(lake, scene, model)
    return Start(scene, model)


def boundaries(case: Case, begin: Start, folder: Path, *, short: bool = False) -> list[tuple[Kind, ...]]:
    """The kinds of fault of each request that the verb makes undisturbed; and it does what the model says. ``short``: fewer kinds
    where another case has them all."""
    scene = begin.scene.copy(folder)
    model = deepcopy(begin.model)
    count_ = Boundaries()
    case.run(client(scene, seen=count_), scene)
    case.effect(model)
    assert seen(client(scene)) == public(model)
    scene.close()
    reads, others = (SAME_PATH_READ_KINDS, SAME_PATH_KINDS) if short and case.like else (READ_KINDS, KINDS)
    return [reads if method in READS else others for method in count_.seen]


def experiment(case: Case, begin: Start, folder: Path, faults: Sequence[tuple[int, Kind]], way: Way) -> None:
    """Processes one after another run the verb, each with its fault; then a fresh one goes on. ``AssertionError`` if it finds
    what must not be."""
    scene = begin.scene.copy(folder)
    try:
        before = deepcopy(begin.model)
        after = deepcopy(begin.model)
        case.effect(after)
        state = before
        hanging: list[Boundaries] = []
        for ordinal, kind in faults:
            requests = Boundaries()
            schedule = Faults(ordinal, kind, scene.clock)
            acknowledged = attempt(case, client(scene, schedule, requests), scene, again=state is not before)
            if kind == "very_late":
                hanging.append(requests)
            else:
                requests.deliver()
            state = settled(case, scene, state, after, acknowledged=acknowledged and not schedule.dead)
            if case.once and state is not before:
                break
        repeated = way == "repeat" and not (case.once and state is not before)
        if repeated:
            scene.clock.time += CLAIM if case.name == "create repository" else HANGS
            assert attempt(case, client(scene), scene, again=True, must=True)
            state = settled(case, scene, state, after, acknowledged=True)
        case.verify(scene, state, repeated)
        reached = deepcopy(state)
        go_on(client(scene), scene, reached, "next", case.lease)
        if hanging:
            # What hung may have its effect even now, unless it has had it; never half, and never over what came since.
            for requests in hanging:
                requests.deliver()
            late = deepcopy(after)
            _tell(late, "next", state.keys())
            if seen(client(scene)) == public(late):
                reached = late
            go_on(client(scene), scene, reached, "last", case.lease)
        assert seen(client(scene)) == public(reached)
        _check_lines(scene)
        _check_candidates(scene)
        if not case.heals or repeated:
            for known in client(scene).repositories().results:
                assert client(scene).fsck(known.name).remaining == ()
    finally:
        scene.close()


def attempt(case: Case, lake: Lake, scene: Scene, *, again: bool, must: bool = False) -> bool:
    """Whether the verb was acknowledged. With ``must``, errors are failures, except those that say that it was done before."""
    try:
        case.run(lake, scene)
    except Died:
        return False
    except GravelerError as error:
        if again and isinstance(error, case.again):
            return True
        if must:
            raise AssertionError(f"repeated, it failed: {error!r}") from error
        return False
    return True


def settled(case: Case, scene: Scene, state: Model, after: Model, *, acknowledged: bool) -> Model:
    """The model of what is there: ``state`` or ``after``, or for verbs that work piece by piece something between."""
    found = seen(client(scene))
    if found == public(after):
        return after
    assert not acknowledged, f"acknowledged, but there is {found}"
    between = deepcopy(state)
    if case.pieces:
        main, target = main_of(between), main_of(after)
        now = texts(client(scene).repository(NAME), "main")
        for path in case.pieces:
            if now.get(path) == target.current.get(path):
                main.staged[path] = target.current.get(path)
    assert found == public(between), f"{found} is neither as before nor as after"
    return between if case.pieces else state


def go_on(lake: Lake, scene: Scene, model: Model, message: str, lease: float = LEASE) -> None:
    """Write and commit in each repository, in bounded time; and say so in the model."""
    for name in [known.name for known in lake.repositories().results]:
        repository = lake.repository(name)
        if model[name].read_only:
            repository.set_read_only(False)
            model[name].read_only = False
        if "main" in model[name].protected:
            model[name].protected = repository.unprotect(["main"])
        if repository.repository.settings.rules.rules:
            set_rules(repository)
            rows = Candidates(repository.tables, repository.repository.uid).all()
            if any(row.in_progress and not row.beat for row in rows):
                scene.clock.time += HOLDING_SECONDS + 1  # until then it may hold what is staged, and nobody works on it
        slept = scene.clock.slept
        repository.upload("main", message, b"7")
        repository.commit("main", message)
        # Of two that died, one may have had its turn, and the other one its changes.
        assert scene.clock.slept - slept < TURN + lease + 1, "nobody is waited for longer than a turn and a lease"
        assert repository.parts.branches.state("main").sealed == ()
    _tell(model, message, model.keys())


def _tell(model: Model, message: str, there: KeysView[str]) -> None:
    for name in there & model.keys() - {"was"}:
        model[name].branches["main"].commit(message, {message: "7"})


def _check_lines(scene: Scene) -> None:
    lake = client(scene)
    for known in lake.repositories().results:
        repository = lake.repository(known.name)
        for branch in repository.branches(show_hidden=True).results:
            rows = repository.reflog(branch.name, 1000)
            assert rows[0].new == branch.commit_id
            # (A restored branch begins anew, over the rows that the table still has.)
            assert all(newer.old in (None, older.new) for newer, older in pairwise(rows)), f"{branch.name}: {rows}"


def _check_candidates(scene: Scene) -> None:
    """A candidate is published if its commit is on its branch, and only then; and once its time is over, each has an end."""
    for known in client(scene).repositories().results:
        repository = client(scene).repository(known.name)
        candidates = Candidates(repository.tables, known.uid)
        rows = [row.candidate for row in candidates.all()]
        if not rows:
            continue
        for candidate in rows:
            log = {row.new for row in repository.reflog(candidate.destination, 1000)}
            assert (candidate.state is CandidateState.PUBLISHED) == (candidate.commit_id in log), candidate
        scene.clock.time += PULL_REQUEST_SECONDS + 1
        end_overdue_candidates(candidates, repository.parts.refs, scene.clock.now(), repository.parts.leases)
        assert not [row for row in candidates.all() if row.in_progress]
