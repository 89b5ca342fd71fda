"""An operation's final state is true even if its branch or repository changes before any of its requests."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from graveler.errors import DirtyBranchError, NotFoundError
from graveler.lake.repository import OpenRepository
from graveler.operations.pinned_requests import COMMIT
from graveler.operations.store import OperationState
from tests.lake.faults.scenes import MemoryScene, client
from tests.lake.support import NAME, NAMESPACE, TINY, put
from tests.operations.truth import CASES, OP, RUNS, By, Trial, small_parts_in_turn
from tests.support.campaigns import share


@pytest.fixture(autouse=True)
def in_turn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with small_parts_in_turn(monkeypatch):
        yield


def delete(trial: Trial) -> None:
    trial.main.delete_branch("main")


def recreate(trial: Trial) -> None:
    """Of the commit that it had."""
    trial.main.delete_branch("main")
    trial.main.create_branch("main", trial.before)


def recreate_of_another(trial: Trial) -> None:
    trial.main.delete_branch("main")
    trial.main.create_branch("main", "dev")


def reset(trial: Trial) -> None:
    with suppress(DirtyBranchError):  # those that are being committed
        trial.main.hard_reset("main", f"{trial.before}~1")


def become_read_only(trial: Trial) -> None:
    trial.main.set_read_only(True)


def protect(trial: Trial) -> None:
    trial.main.protect(["main"])


def commit(trial: Trial) -> None:
    put(trial.main, {"other": "new"})
    trial.main.commit("main", "by somebody else")


def delete_the_source(trial: Trial) -> None:
    trial.main.delete_branch("dev")


CHANGES: Final = (delete, recreate, recreate_of_another, reset, become_read_only, protect, commit, delete_the_source)


def prepared(kind: str, by: By, folder: Path) -> tuple[MemoryScene, range]:
    """An operation that waits, on a branch that may be deleted, and the requests of an undisturbed run."""
    scene = CASES[kind].begun(folder, "trunk")
    undisturbed = Trial(scene.copy(folder), by)
    undisturbed.run()
    return scene, range(len(undisturbed.seen.seen))


def log(trial: Trial) -> list[str]:
    """The commits of the branch, the newest first; none if there is no branch."""
    try:
        found = client(trial.scene).repository(NAME).log("main", first_parent=True)
    except NotFoundError:
        return []
    return [commit.id for commit in found.results]


def noting(change: Callable[[Trial], None], logs: list[list[str]], trial: Trial) -> None:
    """Make the change, and note the branch's commits before and after it."""
    logs.append(log(trial))
    change(trial)
    logs.append(log(trial))


def check(trial: Trial, kind: str, before: list[str], after: list[str]) -> None:
    """The operation has ended by itself, and its commit, if there is one, was made once, before or after the change."""
    ended = trial.operations.get(OP)
    trial.seen.deliver()
    assert ended.is_finished
    assert trial.operations.get(OP) == ended
    new = [one for one in log(trial) if one not in after]
    made = [one for one in before if one not in at_first(trial)] + new
    if ended.state is not OperationState.COMPLETED:
        assert (made, ended.result, trial.operations.commit(ended)) == ([], "", "")
        assert ended.error
    elif kind == COMMIT and not made:
        assert ended.result == after[0], "who committed on the branch took its changes"
    else:
        assert made == [ended.result]


def at_first(trial: Trial) -> list[str]:
    """The commits of the branch when the operation was asked for."""
    return [one.id for one in client(trial.scene).repository(NAME).log(trial.before, first_parent=True).results]


def check_free(trial: Trial) -> None:
    """The branch takes a commit, and nobody has to wait for it."""
    repository = client(trial.scene).repository(NAME)
    repository.set_read_only(False)
    with suppress(NotFoundError):
        repository.unprotect(["main"])
    began = trial.scene.clock.time
    if not log(trial):
        repository.create_branch("main", "trunk")
    put(repository, {"after": "1"})
    assert log(trial)[0] != repository.commit("main", "afterwards").id == log(trial)[0]
    assert trial.scene.clock.time - began < 1, "no turn and no claim is left"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("kind", "by"), RUNS)
def test_a_branch_that_changes_under_an_operation(
    kind: str, by: By, change: Callable[[Trial], None], tmp_path: Path
) -> None:
    scene, requests = prepared(kind, by, tmp_path)
    for at in share(requests, 20, f"changed {kind} {by} {change.__name__}"):
        logs: list[list[str]] = []
        trial = Trial(scene.copy(tmp_path), by, at, partial(noting, change, logs))
        trial.run()
        try:
            check(trial, kind, *logs)
            check_free(trial)
        except AssertionError as error:
            raise AssertionError(f"{change.__name__} before request {at}: {error}") from error


def again(trial: Trial) -> None:
    """The repository goes, and another one has its name."""
    trial.clean.delete_repository(NAME)
    made: OpenRepository = trial.clean.create_repository(NAME, f"{NAMESPACE}-again", split=TINY)
    made.create_branch("dev", "main")
    put(made, {"staged": "1"})


@pytest.mark.parametrize(("kind", "by"), RUNS)
def test_nothing_lands_in_another_repository_of_the_name(kind: str, by: By, tmp_path: Path) -> None:
    scene, requests = prepared(kind, by, tmp_path)
    for at in share(requests, 10, f"again {kind} {by}"):
        logs: list[list[str]] = []
        trial = Trial(scene.copy(tmp_path), by, at, partial(noting, again, logs))
        trial.run()
        made = client(trial.scene).repository(NAME)
        try:
            assert log(trial) == logs[1]
            assert [entry.path for entry in made.uncommitted("main").results] == ["staged"]
            assert not list(type(trial.operations)(trial.scene.tables, made.repository.uid).all())
            assert made.commit("main", "afterwards").parents == (logs[1][0],)
        except AssertionError as error:
            raise AssertionError(f"before request {at}: {error}") from error
