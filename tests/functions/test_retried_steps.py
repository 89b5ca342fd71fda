"""Each way in which the state machine retries or gives up: its own definition, run by an interpreter, with the real handler,
for which DynamoDB and S3 refuse requests with their own errors."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from msgspec.structs import replace

from graveler.errors import CorruptError
from graveler.functions.deployed_lake import open_deployed_lake
from graveler.functions.deployment_settings import read_configuration
from graveler.functions.operate_entry import operate_handler
from graveler.functions.traffic import Traffic
from graveler.lake.lake import Lake
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.pinned_requests import COMMIT
from graveler.operations.store import Operation, Operations, OperationState, PartFailure
from graveler.storage.tables import dynamodb as dynamodb_tables
from infra.state_machine import definition
from tests.functions.test_maintenance import Context
from tests.support.pinned import pinned_commit
from tests.support.state_machine import TOO_LARGE, Execution, Refused

NAME: Final = "retried"
THROTTLED, BUSY, OTHER = "Lambda.TooManyRequestsException", "AnswerLostError", "States.ALL"
"""The first name of each rule for what is tried again."""


def refusal(code: str, status: int, operation: str) -> ClientError:
    """The service's own, as botocore makes it of an answer."""
    answer: Any = {"Error": {"Code": code, "Message": "slower"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, operation)


class Trouble:
    """What goes wrong: for each step, one after the other."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tables = self.objects = False
        dispatch, call = dynamodb_tables._dispatch, BaseClient._make_api_call  # type: ignore[attr-defined]

        def from_tables(connection: Any, name: str, request: dict[str, Any]) -> dict[str, Any]:
            if self.tables:
                raise refusal("ThrottlingException", 400, name)
            return dispatch(connection, name, request)

        def from_objects(client: Any, name: str, request: Any) -> Any:
            if self.objects and client.meta.service_model.service_name == "s3":
                raise refusal("SlowDown", 503, name)
            return call(client, name, request)

        monkeypatch.setattr(dynamodb_tables, "_dispatch", from_tables)
        monkeypatch.setattr(BaseClient, "_make_api_call", from_objects)
        monkeypatch.setattr("graveler.storage.aws_requests.time.sleep", lambda _: None)

    def taking(self, acts: Mapping[str, list[str]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """A function whose calls go wrong as ``acts`` say: by step, in order."""
        take, left = operate_handler(), {step: list(words) for step, words in acts.items()}

        def taken(event: dict[str, Any]) -> dict[str, Any]:
            words = left.get(event["step"], [])
            act = (words if words[:1] != ["always"] else words[1:2] * 2)[0] if words else ""
            if words and words[0] != "always":
                words.pop(0)
            if "." in act:
                raise Refused(act)
            self.tables, self.objects = act == "tables", act == "objects"
            try:
                return take(event, Context())
            finally:
                self.tables = self.objects = False

        return taken


@pytest.fixture
def lake(deployment: None) -> Lake:
    return open_deployed_lake(read_configuration(os.environ), Traffic())


def execution(take: Callable[[dict[str, Any]], dict[str, Any]]) -> Execution:
    return Execution(definition("operate", at_once=3), take)


class Nobody:
    """Begins nothing."""

    def begin(self, repository: str, operation: Operation) -> None: ...


def begun(lake: Lake) -> tuple[Dispatcher, Operation]:
    repository = lake.create_repository(NAME, f"s3://lake/{NAME}")
    for path in ("a", "b"):
        repository.upload("main", path, b"1")
    operator = Dispatcher(lake.tables, {COMMIT: Nobody()})
    request = msgspec.json.encode(pinned_commit(branch="main", message="all"))
    return operator, operator.start(repository, COMMIT, request, branch="main")


def first(operation: Operation) -> dict[str, Any]:
    return {"repository": NAME, "operation": operation.id, "attempt": 1, "round": 0}


def test_whatever_may_pass_is_tried_again_by_its_own_rule(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = Trouble(monkeypatch)
    operator, operation = begun(lake)
    ways = [THROTTLED, "tables", "objects", "Sandbox.Timedout", "Runtime.ExitError"]
    # No step but these reads objects of which it has no copy near; a plan writes one.
    machine = execution(trouble.taking({"plan": ways, "part": ways, "publish": ways}))
    assert machine.run(first(operation)) == "Ended"
    for step in ("Plan", "Part", "Publish"):
        told = {rule: count for (name, rule), count in machine.again.items() if name == step}
        assert told == {THROTTLED: 1, BUSY: 2, OTHER: 2}, (step, told)
    assert machine.caught == []
    done = operator.look(lake.repository(NAME), operation.id)
    assert (done.state, done.result) == (OperationState.COMPLETED, lake.repository(NAME).branch("main").commit_id)


@pytest.mark.ci
@pytest.mark.parametrize("step", ["plan", "part", "publish"])
@pytest.mark.parametrize(
    ("act", "rule", "times"),
    [("tables", BUSY, 12), ("objects", BUSY, 12), (THROTTLED, THROTTLED, 60), ("Sandbox.Timedout", OTHER, 4)],
)
def test_what_does_not_pass_is_noted_and_nothing_was_changed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, step: str, act: str, rule: str, times: int
) -> None:
    trouble = Trouble(monkeypatch)
    operator, operation = begun(lake)
    head = lake.repository(NAME).branch("main").commit_id
    machine = execution(trouble.taking({step: ["always", act], "fail": ["tables", "Runtime.ExitError", THROTTLED]}))
    assert machine.run(first(operation)) == "GivenUp"
    assert machine.again[step.title(), rule] == times
    assert machine.caught == ["Parts" if step == "part" else step.title()]
    assert {name for name, _ in machine.again} == {step.title(), "NoteFailure"}
    failed = operator.look(lake.repository(NAME), operation.id)
    assert failed.state is OperationState.FAILED
    assert "it was retried" in failed.error
    assert lake.repository(NAME).branch("main").commit_id == head
    lake.repository(NAME).commit("main", "by hand")  # what was sealed is free


@pytest.mark.parametrize("step", ["plan", "part", "publish"])
def test_a_payload_that_is_too_large_is_noted_and_not_tried_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    operator, operation = begun(lake)
    machine = execution(Trouble(monkeypatch).taking({step: ["always", TOO_LARGE]}))
    assert machine.run(first(operation)) == "GivenUp"
    assert not machine.again
    failed = operator.look(lake.repository(NAME), operation.id)
    assert failed.state is OperationState.FAILED
    assert TOO_LARGE in failed.error


def test_what_is_for_good_is_an_answer_and_nothing_is_tried_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, operation = begun(lake)

    def damaged(*_: object) -> None:
        raise CorruptError("a range is damaged")

    monkeypatch.setattr("graveler.operations.steps.Steps.run_part", damaged)
    machine = execution(Trouble(monkeypatch).taking({}))
    assert machine.run(first(operation)) == "Ended"
    assert (machine.again, machine.caught) == (Counter(), [])
    found = operator.look(lake.repository(NAME), operation.id)
    assert (found.state, found.error) == (OperationState.FAILED, "a range is damaged")


@pytest.mark.parametrize(
    ("act", "said"),
    [
        ("objects", "finally with BusyError: s3://"),
        ("Sandbox.Timedout", "finally with Sandbox.Timedout: "),
        ("Runtime.ExitError", "finally with Runtime.ExitError: "),
    ],
)
def test_what_ended_a_part_with_an_execution_of_its_own_is_told(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, act: str, said: str
) -> None:
    """The map itself tells only that some part failed."""
    monkeypatch.setattr("infra.state_machine.INLINE", 0)
    trouble = Trouble(monkeypatch)
    operator, operation = begun(lake)
    machine = execution(trouble.taking({"part": ["always", act], "note": ["tables", "Runtime.ExitError"]}))
    assert machine.run(first(operation)) == "GivenUp"
    assert machine.caught == ["PartApart", "PartsApart"]
    failed = operator.look(lake.repository(NAME), operation.id)
    assert failed.state is OperationState.FAILED
    assert said in failed.error
    assert failed.error.startswith("part 0: it was retried")
    assert failed.error.endswith("; nothing was changed"), "a part publishes nothing, whatever ended it"
    assert failed.error_kind == "UnavailableError"


def test_what_ended_a_part_of_an_earlier_attempt_is_not_told_of_this_one(lake: Lake) -> None:
    _, operation = begun(lake)
    repository = lake.repository(NAME)
    operations = Operations(lake.tables, repository.repository.uid)
    operations.note_failure(operation, PartFailure(3, "Sandbox.Timedout", "after 900 s"))
    assert operations.failure(operation) == PartFailure(3, "Sandbox.Timedout", "after 900 s")
    assert operations.failure(replace(operation, attempt=2)) is None
    assert operations.progress(replace(operation, parts=9, round=2**31)).parts == 0, "and counts as no part"
