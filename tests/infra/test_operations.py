"""Long operations as they are deployed: the state machine's own definition, run by an interpreter, with the real function, table
and objects.

``saboteur`` is the same function from the same layer, wrapped in a few lines that make it fail as a test requires, and a state
machine of the same definition calls it.
"""

import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import boto3
import lakefs
import msgspec
import pytest
import urllib3
from lakefs.client import Client

from graveler.errors import MergeConflictError
from graveler.functions.executions import ExecutionStarter
from graveler.functions.step_functions import StateMachine
from graveler.lake.clock import Clock
from graveler.lake.lake import Lake
from graveler.lake.opening.aws import open_lake
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry, SplitParameters
from graveler.operations.dispatcher import Dispatcher
from graveler.operations.operator import SILENT
from graveler.operations.pinned_requests import MERGE
from graveler.operations.store import Operation, Operations, OperationState
from graveler.storage.objects.memory import MemoryObjects
from graveler.storage.tables.memory import MemoryTables
from infra.state_machine import INLINE, definition
from tests.infra.conftest import Deployed
from tests.lake.support import FakeClock
from tests.support.pinned import pinned_merge
from tests.support.shell import Shell

pytestmark = pytest.mark.ci

SECONDS: Final = 300
"""How long an execution may take on a busy machine."""

FUNCTION_SECONDS: Final = 60
IMPATIENT_SECONDS: Final = 5

SMALL: Final = SplitParameters(min_size=300, max_size=2_400, raggedness=6)

SABOTEUR: Final = """
import json, os, signal, time
from pathlib import Path
from graveler.errors import BusyError
from graveler.functions.operate_entry import operate_handler
from sabotage_folder import FOLDER

take = operate_handler()

def handler(event, context):
    folder = Path(FOLDER) / event["operation"]
    folder.mkdir(exist_ok=True)
    name = event["step"] + (str(event["number"]) if event["step"] == "part" else "")
    with (folder / "calls").open("a") as calls:
        calls.write(f"{name} {event['attempt']} {event['round']}\\n")
    orders = folder / name
    act, _, left = orders.read_text().partition("\\n") if orders.exists() else ("", "", "")
    if act != "always":
        orders.write_text(left)
    if act == "busy":
        raise BusyError("somebody is in the way")
    if act in ("broken", "always"):
        raise RuntimeError("nobody knows why")
    if act == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "slow":
        time.sleep(600)
    if act == "wait":
        (folder / "waiting").touch()
        while not (folder / "go").exists():
            time.sleep(0.02)
    answer = take(event, context)
    if act == "late":
        os.kill(os.getpid(), signal.SIGKILL)
    return answer
"""


class Scene:
    """A repository with two branches to be merged, and what that comes to in one call, in a lake in memory."""

    def __init__(self, lake: Lake, bucket: str, name: str, objects: int = 150) -> None:
        self.name = f"{name}-{token_hex(3)}"
        self.repository = self._made(lake, bucket, self.name, objects)
        twin = self._made(Lake(MemoryTables(), cache(MemoryObjects)), bucket, self.name, objects)
        self.expected = twin.merge("dev", "main", message="together").metarange_id
        self.before = self.repository.branch("main").commit_id

    @staticmethod
    def _made(lake: Lake, bucket: str, name: str, objects: int) -> OpenRepository:
        repository = lake.create_repository(name, f"s3://{bucket}/{name}", split=SMALL)
        repository.link_many("main", [_entry(number, "base") for number in range(objects)])
        repository.commit("main", "base", created=1)
        repository.create_branch("dev", "main")
        for branch, first in (("main", 0), ("dev", 5)):
            repository.link_many(branch, [_entry(number, branch) for number in range(first, objects, 10)])
            repository.commit(branch, f"changes on {branch}", created=2)
        return repository

    def ask(self) -> bytes:
        source = self.repository.branch("dev").commit_id
        return msgspec.json.encode(
            pinned_merge(source="dev", source_id=source, destination="main", message="together", created=3)
        )

    def expect_merged(self) -> None:
        """One merge, and the very tree that one call makes."""
        newest, before, *_ = self.repository.log("main", first_parent=True).results
        assert newest.metarange_id == self.expected
        assert before.id == self.before

    def expect_untouched(self) -> None:
        assert self.repository.branch("main").commit_id == self.before


def _entry(number: int, version: str) -> ObjectEntry:
    return ObjectEntry(
        f"part={number:05}/data.parquet", f"s3://elsewhere/{version}/{number}", 1000, f"{number:032x}", 1
    )


@pytest.fixture
def aws(deployed: Deployed, shell: Shell) -> Iterator[Callable[[str], Any]]:
    """Clients of the emulator's services, by name. What else asks AWS in this process asks the emulator, too."""
    shell.export_all(deployed.emulator.environment)
    made: dict[str, Any] = {}

    def client(name: str) -> Any:
        if name not in made:
            made[name] = boto3.client(name)  # type: ignore[call-overload]
        return made[name]

    yield client
    for each in made.values():
        each.close()


@pytest.fixture
def lake(deployed: Deployed, aws: Callable[[str], Any], tmp_path: Path) -> Lake:
    table = f"dynamodb://{deployed.outputs['LakeTable']}"
    return open_lake(f"s3://{deployed.bucket}", table, cache=tmp_path / "cache")


class Sabotage:
    """A state machine whose steps fail as they are told to."""

    def __init__(self, client: Callable[[str], Any], function: str, machine: str, folder: Path) -> None:
        self._states = client("stepfunctions")
        self._functions = client("lambda")
        self._function = function
        self.machine = machine
        self._folder = folder

    def orders(self, operation: str, **acts: str) -> None:
        """What the calls of a step do, one after the other: see ``SABOTEUR``."""
        folder = self._folder / operation
        folder.mkdir(exist_ok=True)
        for step, words in acts.items():
            (folder / step).write_text("\n".join(words.split()))

    def hurry(self) -> None:
        """Functions are ended soon."""
        self._functions.update_function_configuration(FunctionName=self._function, Timeout=IMPATIENT_SECONDS)

    def calls(self, operation: str) -> list[str]:
        """Steps that were called, with attempt and round."""
        file = self._folder / operation / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def await_file(self, operation: str, name: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not (self._folder / operation / name).exists():
            assert time.monotonic() < deadline, self.calls(operation)
            time.sleep(0.02)

    def go(self, operation: str) -> None:
        (self._folder / operation / "go").touch()

    def end(self, operation: str, attempt: int = 1) -> dict[str, Any]:
        """The execution of an attempt, when it has ended."""
        arn = f"{self.machine.replace(':stateMachine:', ':execution:')}:{operation}-{attempt}"
        return ended(self._states, arn)


def ended(states: Any, arn: str) -> dict[str, Any]:
    deadline = time.monotonic() + SECONDS
    while True:
        execution: dict[str, Any] = states.describe_execution(executionArn=arn)
        if execution["status"] != "RUNNING":
            return execution
        assert time.monotonic() < deadline, execution
        time.sleep(0.05)


@pytest.fixture
def sabotage(deployed: Deployed, aws: Callable[[str], Any], tmp_path: Path) -> Sabotage:
    functions, states = aws("lambda"), aws("stepfunctions")
    own = next(f for f in functions.list_functions()["Functions"] if "FunctionsOperate" in f["FunctionName"])
    folder = tmp_path / "sabotage"
    folder.mkdir()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("saboteur.py", SABOTEUR)
        archive.writestr("sabotage_folder.py", f"FOLDER = {str(folder)!r}")
    name = f"saboteur-{token_hex(4)}"
    made = functions.create_function(
        FunctionName=name,
        Runtime=own["Runtime"],
        Role=own["Role"],
        Handler="saboteur.handler",
        Code={"ZipFile": packed.getvalue()},
        Layers=[layer["Arn"] for layer in own["Layers"]],
        Environment=own["Environment"],
        Architectures=own["Architectures"],
        MemorySize=own["MemorySize"],
        Timeout=FUNCTION_SECONDS,
    )
    described = definition(made["FunctionArn"], at_once=2)
    machine = states.create_state_machine(name=name, definition=json.dumps(described), roleArn=own["Role"])
    return Sabotage(aws, name, machine["stateMachineArn"], folder)


def started(lake: Lake, sabotage: Sabotage, scene: Scene, operation: str, **acts: str) -> Operation:
    sabotage.orders(operation, **acts)
    return operator(lake, sabotage).start(scene.repository, MERGE, scene.ask(), operation, branch="main")


def operator(lake: Lake, sabotage: Sabotage, clock: Clock | None = None) -> Dispatcher:
    return Dispatcher(lake.tables, {MERGE: ExecutionStarter(StateMachine(sabotage.machine))}, clock=clock)


def look(lake: Lake, scene: Scene, operation: str) -> Operation:
    return Operations(lake.tables, scene.repository.repository.uid).get(operation)


def test_a_long_merge_is_made_in_parts_and_is_the_same_as_in_one_call(
    deployed: Deployed, lake: Lake, aws: Callable[[str], Any]
) -> None:
    """More parts than the execution itself works on: each has an execution of its own."""
    scene = Scene(lake, deployed.bucket, "long-merge", objects=1200)
    place = f"{deployed.url}/api/v1/repositories/{scene.name}"
    headers = {
        **urllib3.make_headers(basic_auth=f"{deployed.key_id}:{deployed.secret}"),
        "Prefer": "respond-async",
        "Content-Type": "application/json",
    }
    with urllib3.PoolManager(timeout=60) as http:
        answer = http.request("POST", f"{place}/refs/dev/merge/main", body=b'{"message": "together"}', headers=headers)
        assert answer.status == 202, answer.data
        operation = answer.json()["id"]
        assert answer.headers["location"].endswith(f"/operations/{operation}")
        execution = ended(aws("stepfunctions"), _execution(deployed, operation))
        assert execution["status"] == "SUCCEEDED", execution
        told = http.request("GET", f"{place}/operations/{operation}", headers=headers).json()
    scene.expect_merged()
    assert told["commit_id"] == scene.repository.branch("main").commit_id
    assert told["progress"]["parts"] == told["progress"]["parts_done"] > INLINE
    (run,) = aws("stepfunctions").list_map_runs(executionArn=execution["executionArn"])["mapRuns"]
    counted = aws("stepfunctions").describe_map_run(mapRunArn=run["mapRunArn"])
    assert counted["executionCounts"]["succeeded"] == told["progress"]["parts"]
    history = aws("stepfunctions").get_execution_history(executionArn=execution["executionArn"], maxResults=1000)
    assert len(history["events"]) < 100
    assert max(len(json.dumps(event, default=str)) for event in history["events"]) < 256 * 1024


def _execution(deployed: Deployed, operation: str) -> str:
    return f"{deployed.outputs['OperationsMachine'].replace(':stateMachine:', ':execution:')}:{operation}-1"


def test_who_waits_gets_the_ordinary_answer(deployed: Deployed, client: Client, lake: Lake) -> None:
    """A commit, by the field's own client, of more than one call may read; its tree is that of one call."""
    name = f"long-commit-{token_hex(3)}"
    repo = lakefs.Repository(name, client=client).create(storage_namespace=f"s3://{deployed.bucket}/{name}")
    opened = lake.repository(name)
    opened.link_many("main", [_entry(number, "base") for number in range(100)])
    commit = repo.branch("main").commit(message="all")
    assert [entry.path for entry in opened.objects("main@")] == [_entry(number, "").path for number in range(100)]
    assert opened.branch("main").commit_id == commit.id


def test_what_fails_is_repeated_and_the_merge_is_one(deployed: Deployed, lake: Lake, sabotage: Sabotage) -> None:
    """Errors that are raised, processes killed by SIGKILL before and after their work."""
    acts = {
        "plan": "busy broken kill late",
        "part0": "busy",
        "part1": "broken",
        "part2": "kill",
        "part3": "late",
        "publish": "late kill broken busy",
    }
    scene = Scene(lake, deployed.bucket, "mended")
    operation = token_hex(16)
    started(lake, sabotage, scene, operation, **acts)
    execution = sabotage.end(operation)
    assert execution["status"] == "SUCCEEDED", execution
    scene.expect_merged()
    assert look(lake, scene, operation).state is OperationState.COMPLETED
    calls = sabotage.calls(operation)
    for step, words in acts.items():
        assert sum(call.split()[0] == step for call in calls) == len(words.split()) + 1, calls
    assert sum(call.startswith("part") for call in calls) > 8


def test_a_part_that_runs_out_of_time_is_repeated(deployed: Deployed, lake: Lake, sabotage: Sabotage) -> None:
    scene = Scene(lake, deployed.bucket, "slow")
    operation = token_hex(16)
    sabotage.hurry()
    started(lake, sabotage, scene, operation, part1="slow")
    assert sabotage.end(operation)["status"] == "SUCCEEDED"
    scene.expect_merged()
    assert sum(call.startswith("part1 ") for call in sabotage.calls(operation)) > 1


@pytest.mark.parametrize("step", ["plan", "part1", "publish"])
def test_what_never_succeeds_is_marked_as_failed_and_nothing_was_changed(
    deployed: Deployed, lake: Lake, sabotage: Sabotage, step: str
) -> None:
    scene = Scene(lake, deployed.bucket, f"failed-{step}")
    operation = token_hex(16)
    # Noting the failure fails as well, once.
    started(lake, sabotage, scene, operation, **{step: "always", **({"fail": "kill"} if step == "part1" else {})})
    execution = sabotage.end(operation)
    assert (execution["status"], execution.get("error")) == ("FAILED", "GivenUp"), execution
    found = look(lake, scene, operation)
    assert found.state is OperationState.FAILED
    assert "nobody knows why" in found.error
    scene.expect_untouched()
    assert sum(call.split()[0] == step for call in sabotage.calls(operation)) == 5  # and four times again
    scene.repository.merge("dev", "main", message="together")
    scene.expect_merged()


def test_what_ends_a_part_with_an_execution_of_its_own_is_told(
    deployed: Deployed, lake: Lake, sabotage: Sabotage
) -> None:
    """The map says only that some part failed."""
    scene = Scene(lake, deployed.bucket, "failed-apart", objects=1200)
    operation = token_hex(16)
    started(lake, sabotage, scene, operation, part7="always", note="kill")
    execution = sabotage.end(operation)
    assert (execution["status"], execution.get("error")) == ("FAILED", "GivenUp"), execution
    found = look(lake, scene, operation)
    assert found.state is OperationState.FAILED
    assert found.error.startswith("part 7: ")
    assert "nobody knows why" in found.error
    scene.expect_untouched()


def test_a_conflict_is_no_failure_of_the_machine(deployed: Deployed, lake: Lake, sabotage: Sabotage) -> None:
    scene = Scene(lake, deployed.bucket, "conflict")
    scene.repository.link("main", _entry(5, "otherwise"))
    scene.repository.commit("main", "against dev")
    head = scene.repository.branch("main").commit_id
    operation = token_hex(16)
    started(lake, sabotage, scene, operation)
    assert sabotage.end(operation)["status"] == "SUCCEEDED"
    found = look(lake, scene, operation)
    assert (found.state, found.error_kind) == (OperationState.FAILED, MergeConflictError.__name__)
    assert scene.repository.branch("main").commit_id == head


def test_a_cancelled_one_ends_and_nothing_was_changed(deployed: Deployed, lake: Lake, sabotage: Sabotage) -> None:
    scene = Scene(lake, deployed.bucket, "cancelled")
    operation = token_hex(16)
    started(lake, sabotage, scene, operation, part2="wait")
    sabotage.await_file(operation, "waiting")
    operator(lake, sabotage).cancel(scene.repository, operation)
    sabotage.go(operation)
    assert sabotage.end(operation)["status"] == "SUCCEEDED"
    assert look(lake, scene, operation).state is OperationState.CANCELLED
    scene.expect_untouched()


def test_a_branch_that_moves_a_little_is_followed_in_the_same_round(
    deployed: Deployed, lake: Lake, sabotage: Sabotage
) -> None:
    scene = Scene(lake, deployed.bucket, "moved")
    operation = token_hex(16)
    started(lake, sabotage, scene, operation, part2="wait")
    sabotage.await_file(operation, "waiting")
    scene.repository.link("main", _entry(0, "moved"))
    moved = scene.repository.commit("main", "meanwhile")
    sabotage.go(operation)
    assert sabotage.end(operation)["status"] == "SUCCEEDED"
    newest, before, *_ = scene.repository.log("main", first_parent=True).results
    assert before.id == moved.id
    assert newest.id == look(lake, scene, operation).result
    assert scene.repository.stat("main@", _entry(0, "").path).address.startswith("s3://elsewhere/moved/")
    assert scene.repository.stat("main@", _entry(5, "").path).address.startswith("s3://elsewhere/dev/")
    assert {call.split()[2] for call in sabotage.calls(operation)} == {"0"}
    assert len(sabotage.calls(operation)) == len(set(sabotage.calls(operation)))


def test_started_twice_it_is_one_and_an_attempt_that_was_replaced_ends(
    deployed: Deployed, lake: Lake, sabotage: Sabotage
) -> None:
    scene = Scene(lake, deployed.bucket, "twice")
    operation = token_hex(16)
    begun = started(lake, sabotage, scene, operation, part1="wait")
    assert operator(lake, sabotage).start(scene.repository, MERGE, scene.ask(), operation).attempt == begun.attempt
    sabotage.await_file(operation, "waiting")
    # It seems dead, and the sweep has another one begin, which finishes while the first still hangs.
    operations = Operations(lake.tables, scene.repository.repository.uid)
    operations.change(operation, lambda now: msgspec.structs.replace(now, seconds=0.0))
    clock = FakeClock()
    sweeper = operator(lake, sabotage, clock)
    assert sweeper.sweep(scene.repository) == 0
    clock.time += SILENT
    assert sweeper.sweep(scene.repository) == 1
    assert sabotage.end(operation, attempt=2)["status"] == "SUCCEEDED"
    scene.expect_merged()
    sabotage.go(operation)
    assert sabotage.end(operation, attempt=1)["status"] == "SUCCEEDED"
    scene.expect_merged()
    calls = sabotage.calls(operation)
    assert sum(call.startswith("plan 1") for call in calls) == 1
    assert sum(call.startswith("plan 2") for call in calls) == 1
