"""An operation's final state is true, whatever happens at any of its requests, for every kind, whoever works on it."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from graveler.operations.dumps import KIND as DUMP
from graveler.operations.listings import KIND as IMPORT_LISTING
from graveler.operations.pinned_requests import COMMIT, IMPORT, REQUESTS
from graveler.operations.store import COMMITTING, Operation, Operations, OperationState
from graveler.storage.tables.port import Check, Matches
from tests.lake.faults.scenes import MemoryScene, client
from tests.lake.support import NAME, NAMESPACE
from tests.operations.truth import CASES, OTHERS, RUNS, By, Trial, small_parts_in_turn
from tests.support.campaigns import share
from tests.support.instruments import Fault, fail_nth

CANCELLING: Final = 3
"""Requests of who cancels an operation: it, its request's commit, and the transaction."""

EACH: Final = pytest.mark.parametrize(("kind", "by"), RUNS)


@pytest.fixture(autouse=True)
def in_turn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with small_parts_in_turn(monkeypatch):
        yield


def prepared(kind: str, by: By, folder: Path) -> tuple[MemoryScene, range]:
    """An operation that waits, and the requests of an undisturbed run."""
    scene = CASES[kind].begun(folder)
    undisturbed = Trial(scene.copy(folder), by)
    undisturbed.run()
    undisturbed.check()
    assert undisturbed.landed
    return scene, range(len(undisturbed.seen.seen))


@EACH
def test_who_is_told_cancelled_gets_no_commit_and_who_gets_one_is_told_so(kind: str, by: By, tmp_path: Path) -> None:
    scene, requests = prepared(kind, by, tmp_path)
    ends = set()
    for at in [*share(requests, 3, f"cancel {kind} {by}"), requests[0], requests[-1]]:
        trial = Trial(scene.copy(tmp_path), by, at, Trial.cancel)
        trial.run()
        try:
            trial.check()
        except AssertionError as error:
            raise AssertionError(f"cancelled before request {at}: {error}") from error
        ends.add(trial.operations.get("op").state)
    assert ends == {OperationState.CANCELLED, OperationState.COMPLETED}


@EACH
def test_at_every_request_it_is_shown_whether_the_commit_is_there(kind: str, by: By, tmp_path: Path) -> None:
    scene, requests = prepared(kind, by, tmp_path)
    landed: list[bool] = []
    for at in [*share(requests, 4, f"shown {kind} {by}"), *requests[-4:]]:
        trial = Trial(scene.copy(tmp_path), by, at, lambda trial: landed.append(trial.check_shown()))
        trial.run()
        trial.check()
    assert set(landed) == {False, True}


@EACH
def test_work_that_goes_on_between_two_requests_of_who_cancels_makes_no_lie_of_it(
    kind: str, by: By, tmp_path: Path
) -> None:
    scene, requests = prepared(kind, by, tmp_path)
    points = [(at, first, first + more) for at in range(CANCELLING) for first in requests for more in (1, 2, 6)]
    for at, first, last in share(points, 20, f"between {kind} {by}"):
        trial = Trial(scene.copy(tmp_path), by)
        work = trial.run_with_pauses(first, last)
        next(work)

        def goes_on(_: str, number: int, at: int = at, work: Iterator[None] = work) -> Fault:
            if number == at:
                next(work, None)
            return None

        trial.cancel(goes_on)
        for _ in work:
            pass
        try:
            trial.check()
        except AssertionError as error:
            raise AssertionError(f"from request {first} to {last}, before {at} of who cancels: {error}") from error


@EACH
def test_an_answer_that_is_lost_to_who_cancels_does_not_make_it_a_lie(kind: str, by: By, tmp_path: Path) -> None:
    scene, requests = prepared(kind, by, tmp_path)
    faults: list[Fault] = ["fail_before", "fail_after", "repeat", "late"]
    points = [(at, number, fault) for at in requests for number in range(CANCELLING) for fault in faults]
    for at, number, fault in share(points, 20, f"lost {kind} {by}"):
        lost = fail_nth(number, fault)
        trial = Trial(scene.copy(tmp_path), by, at, partial(Trial.cancel, schedule=lost))
        trial.run()
        try:
            trial.check()
        except AssertionError as error:
            raise AssertionError(f"{fault} at request {number} of who cancels before request {at}: {error}") from error


Outage = tuple[int, int | None, Fault]
"""From which request on, how many requests fail (None: until the process is gone), and how the first of them does; the others do
not arrive."""


def failing(outage: Outage) -> Callable[[int], Fault]:
    """What happens to each request."""
    begin, amount, first = outage

    def fault(number: int) -> Fault:
        if number == begin:
            return first
        return "fail_before" if begin < number and (amount is None or number < begin + amount) else None

    return fault


@EACH
def test_an_outage_at_any_request_ends_in_a_commit_or_in_none_and_it_is_told_which(
    kind: str, by: By, tmp_path: Path
) -> None:
    scene, requests = prepared(kind, by, tmp_path)
    outages: list[Outage] = [
        (begin, amount, first)
        for begin in requests
        for amount in (2, 4, 8, None)
        for first in ("fail_before", "fail_after", "late")
    ]
    for outage in share(outages, 25, f"outage {kind} {by}"):
        trial = Trial(scene.copy(tmp_path), by, faults=failing(outage))
        trial.run()
        try:
            trial.recover()
            trial.check()
        except AssertionError as error:
            raise AssertionError(f"outage {outage}: {error}") from error


@EACH
def test_two_who_work_on_one_operation_at_once_make_one_commit(kind: str, by: By, tmp_path: Path) -> None:
    scene, requests = prepared(kind, by, tmp_path)
    for at in share(requests, 3, f"two {kind} {by}"):
        trial = Trial(scene.copy(tmp_path), by, at, Trial.run_another)
        trial.run()
        try:
            trial.check()
            assert trial.landed
        except AssertionError as error:
            raise AssertionError(f"another one before request {at}: {error}") from error


@pytest.mark.parametrize("by", ["machine", "runner"])
def test_an_import_into_a_repository_that_becomes_read_only_says_whether_it_is_committed(
    by: By, tmp_path: Path
) -> None:
    scene, requests = prepared(IMPORT, by, tmp_path)
    ends = set()
    for at in requests:
        trial = Trial(scene.copy(tmp_path), by, at, lambda trial: trial.main.set_read_only(True))
        trial.run()
        trial.check()
        ended = trial.operations.get("op")
        ends.add(ended.state)
        assert (ended.changes is not None) == trial.landed
    assert ends == {OperationState.FAILED, OperationState.COMPLETED}


@EACH
@pytest.mark.parametrize("older", ["who cancels", "who works"])
def test_beside_a_process_of_the_version_before_the_end_that_is_left_is_so(
    kind: str, by: By, older: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One cancels without looking, the other publishes without a condition: the state may be wrong for a moment."""
    scene, requests = prepared(kind, by, tmp_path)
    if older == "who works":
        conditional, completed = Operations.running, Operation.completed
        monkeypatch.setattr(Operations, "running", lambda self, name: Check(conditional(self, name).key, Matches({})))
        monkeypatch.setattr(Operation, "completed", lambda self, *made: completed(replace(self, certain=False), *made))
    for at in share(requests, 6, f"{older} {kind} {by}"):
        trial = Trial(scene.copy(tmp_path), by, at, Trial.cancel_as_before if older == "who cancels" else Trial.cancel)
        trial.run()
        trial.told.clear()  # as it was before
        trial.check()


@pytest.mark.parametrize("by", ["machine", "runner"])
def test_a_cancelled_commit_stays_cancelled_when_somebody_else_commits_its_changes(by: By, tmp_path: Path) -> None:
    scene, requests = prepared(COMMIT, by, tmp_path)
    taken = 0
    for at in requests:

        def cancels(trial: Trial) -> None:
            trial.cancel()
            if trial.told == ["cancelled"]:
                client(trial.scene).repository(NAME).commit("main", "by somebody else")

        trial = Trial(scene.copy(tmp_path), by, at, cancels)
        trial.run()
        ended = trial.operations.get("op")
        log = client(trial.scene).repository(NAME).log("main", first_parent=True).results
        assert log[1].id == trial.before, "one commit of these changes"
        if trial.told == ["cancelled"]:
            assert (ended.state, ended.result, log[0].message) == (OperationState.CANCELLED, "", "by somebody else")
            shown = trial.operations.commit(ended)
            assert shown in ("", log[0].id)
            taken += shown != ""
        else:
            assert (ended.state, ended.result) == (OperationState.COMPLETED, log[0].id)
    assert taken


@pytest.mark.parametrize("kind", OTHERS)
def test_what_makes_no_commit_is_completed_if_what_it_made_is_there(kind: str, tmp_path: Path) -> None:
    scene = OTHERS[kind].begun(tmp_path)
    undisturbed = Trial(scene.copy(tmp_path), "runner")
    undisturbed.run()
    requests = range(len(undisturbed.seen.seen))
    ends = set()
    for at in [*share(requests, 3, f"others {kind}"), requests[0]]:
        trial = Trial(scene.copy(tmp_path), "runner", at, Trial.cancel)
        trial.run()
        ended = trial.operations.get("op")
        ends.add(ended.state)
        made = set(trial.clean.dumps(NAMESPACE)) if kind == DUMP else reports(trial)
        assert made == ({ended.result} if ended.state is OperationState.COMPLETED else set())
        assert (ended.error == "") == (ended.state is OperationState.COMPLETED)
        assert trial.operations.commit(ended) == ""
    assert ends == {OperationState.CANCELLED, OperationState.COMPLETED}


def reports(trial: Trial) -> set[str]:
    """Checks whose report is there."""
    found = (stored.key.split("/") for stored in trial.main.namespace.list("_graveler/operations/"))
    return {folders[2] for folders in found if folders[3:] == ["report"]}


def test_every_kind_that_comes_to_one_commit_is_tried() -> None:
    assert COMMITTING == {*REQUESTS, IMPORT_LISTING} == set(CASES)
