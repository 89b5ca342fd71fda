"""Long operations handed over to a state machine, and the function that takes its steps."""

import json
import os
from typing import Any

import boto3
import msgspec
import pytest
from msgspec.structs import replace

from graveler.errors import BusyError, InvalidError, UnavailableError
from graveler.functions.deployed_lake import open_deployed_lake
from graveler.functions.deployment_settings import read_configuration
from graveler.functions.executions import ExecutionStarter, execution_name
from graveler.functions.maintenance import maintain_handler
from graveler.functions.operate_entry import Caught, give_up_reason, operate_handler
from graveler.functions.step_functions import StateMachine
from graveler.functions.traffic import Traffic
from graveler.functions.workers import dispatcher
from graveler.lake.lake import Lake
from graveler.lake.repository import OpenRepository
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.machine import Machine
from graveler.operations.pinned_requests import COMMIT
from graveler.operations.store import Operation, OperationState
from graveler.operations.sweeper import sweep
from infra.state_machine import definition
from tests.functions.conftest import Handler
from tests.functions.events import event
from tests.functions.test_maintenance import Context
from tests.support.pinned import pinned_commit
from tests.support.shell import Shell
from tests.support.waiting import skip_waits


@pytest.fixture
def lake(deployment: None) -> Lake:
    return open_deployed_lake(read_configuration(os.environ), Traffic())


@pytest.fixture
def machine(deployment: None, shell: Shell) -> str:
    """The state machine: executions of it begin, and nobody takes their steps."""
    role = "arn:aws:iam::123456789012:role/machine"
    described = json.dumps(definition("arn:aws:lambda:us-east-1:123456789012:function:operate", at_once=3))
    made = boto3.client("stepfunctions").create_state_machine(name="operations", definition=described, roleArn=role)
    arn: str = made["stateMachineArn"]
    shell.export("GRAVELER_OPERATIONS_MACHINE", arn)
    return arn


def begun(machine: str) -> list[dict[str, Any]]:
    """The inputs of all executions, and their names."""
    client = boto3.client("stepfunctions")
    found = client.list_executions(stateMachineArn=machine)["executions"]
    return [
        {"name": each["name"], **json.loads(client.describe_execution(executionArn=each["executionArn"])["input"])}
        for each in found
    ]


def staged(lake: Lake, name: str) -> OpenRepository:
    repository = lake.create_repository(name, f"s3://lake/{name}")
    for path in ("a", "b", "c"):
        repository.upload("main", path, path.encode())
    return repository


def test_an_attempt_is_one_execution_however_often_somebody_asks(machine: str, lake: Lake) -> None:
    repository = staged(lake, "once")
    operator = dispatcher(lake.tables, read_configuration(os.environ))
    asked = msgspec.json.encode(pinned_commit(branch="main", message="all"))
    operation = operator.start(repository, COMMIT, asked)
    assert operator.start(repository, COMMIT, asked, operation.id).id == operation.id
    name = f"{operation.id}-1"
    assert begun(machine) == [{"name": name, "repository": "once", "operation": operation.id, "attempt": 1, "round": 0}]


def test_names_that_somebody_chose_are_of_their_repository() -> None:
    made = Operation("0" * 32, COMMIT, b"", OperationState.RUNNING, 0, 0, attempt=3)
    assert execution_name("r", made) == "0" * 32 + "-3"
    chosen = replace(made, id="chosen by a client: ü")
    assert execution_name("r", chosen) != execution_name("s", chosen)
    assert execution_name("r", chosen).isascii()
    assert len(execution_name("r", chosen)) <= 80


def test_nobody_to_begin_is_said_and_the_clock_begins_it(
    machine: str, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = staged(lake, "later")
    operator = Dispatcher(lake.tables, {COMMIT: ExecutionStarter(StateMachine(machine + "-gone"))})
    asked = msgspec.json.encode(pinned_commit(branch="main", message="all"))
    with pytest.raises(UnavailableError, match="start later by itself"):
        operator.start(repository, COMMIT, asked, "f" * 32)
    assert begun(machine) == []
    working = dispatcher(lake.tables, read_configuration(os.environ))
    assert sweep(lake, working) == 0  # somebody may be about to begin
    skip_waits(monkeypatch)
    assert maintain_handler()({"source": "aws.events"}, Context())["operations"] == 1
    (execution,) = begun(machine)
    assert (execution["operation"], execution["attempt"]) == ("f" * 32, 2)


def test_a_function_that_is_told_of_nobody_starts_nothing_and_looks_at_what_others_do(
    machine: str, lake: Lake, write: Handler, authorization: str, shell: Shell
) -> None:
    repository = staged(lake, "looked-at")
    operation = dispatcher(lake.tables, read_configuration(os.environ)).start(
        repository, COMMIT, msgspec.json.encode(pinned_commit(branch="main", message="all"))
    )
    shell.unset("GRAVELER_OPERATIONS_MACHINE")
    from graveler.functions.entry import api_handler

    base = "/api/v1/repositories/looked-at"
    answer = api_handler("read")(event("GET", f"{base}/operations/{operation.id}", authorization=authorization), None)
    assert answer["statusCode"] == 200, answer["body"]
    assert json.loads(answer["body"])["id"] == operation.id


def test_the_steps_one_after_the_other(machine: str, lake: Lake) -> None:
    repository = staged(lake, "steps")
    operation = dispatcher(lake.tables, read_configuration(os.environ)).start(
        repository, COMMIT, msgspec.json.encode(pinned_commit(branch="main", message="all"))
    )
    handler = operate_handler()
    ids = {"repository": "steps", "operation": operation.id, "attempt": 1, "round": 0}
    planned = handler({"step": "plan", **ids}, Context())
    assert planned["state"] == "parts"
    for number in planned["numbers"]:
        assert handler({"step": "part", "number": number, **ids}, Context())["state"] == "publish"
    assert handler({"step": "publish", **ids}, Context()) == {"state": "ended", **ids}
    assert [entry.path for entry in repository.objects("main@")] == ["a", "b", "c"]
    # Late copies of a step do nothing.
    assert handler({"step": "publish", **ids}, Context())["state"] == "ended"
    assert handler({"step": "fail", "error": {"Error": "States.Timeout"}, **ids}, Context()) == {}
    assert len(repository.log("main").results) == 2


def test_what_may_pass_is_raised_by_its_name(machine: str, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise BusyError("too many at once")

    monkeypatch.setattr(Machine, "plan", busy)
    with pytest.raises(BusyError):  # which the runtime tells the state machine
        operate_handler()({"step": "plan", "repository": "r", "operation": "o", "attempt": 1}, Context())


def test_an_event_that_is_no_step_is_named(machine: str) -> None:
    with pytest.raises(InvalidError, match="not a step of an operation"):
        operate_handler()({"step": "dance"}, Context())


def test_giving_up_is_told_to_who_asked(machine: str, lake: Lake) -> None:
    repository = staged(lake, "given-up")
    operator = dispatcher(lake.tables, read_configuration(os.environ))
    operation = operator.start(repository, COMMIT, msgspec.json.encode(pinned_commit(branch="main", message="all")))
    caught = {"Error": "Sandbox.Timedout", "Cause": json.dumps({"errorMessage": "Task timed out after 900.00 seconds"})}
    ids = {"repository": "given-up", "operation": operation.id, "attempt": 1, "round": 0}
    operate_handler()({"step": "fail", "error": caught, **ids}, Context())
    failed = operator.look(repository, operation.id)
    assert failed.state is OperationState.FAILED
    assert "Sandbox.Timedout: Task timed out after 900.00 seconds" in failed.error


@pytest.mark.parametrize(
    ("caught", "said"),
    [
        (Caught("States.Timeout"), "finally with States.Timeout; nothing was changed"),
        (Caught("BusyError", "not json"), "finally with BusyError: not json; nothing"),
        (Caught("UnavailableError", '{"errorMessage": "why"}'), "finally with UnavailableError: why; nothing"),
        (Caught("AnswerLostError", '{"errorMessage": "why"}'), "finally with AnswerLostError: why; nothing"),
    ],
)
def test_a_failure_in_words(caught: Caught, said: str) -> None:
    assert said in give_up_reason(caught)
