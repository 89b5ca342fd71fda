"""Verbs that take longer than a request: waited for, answered 202 or 429, joined by the same request, and still with one
effect."""

import time
from collections.abc import Iterator
from threading import Event

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.api.application import Application
from graveler.api.settings import Settings
from graveler.lake.repository import OpenRepository
from graveler.model import SplitParameters
from graveler.operations.kinds import KINDS
from graveler.operations.one_process import do_in_parts
from graveler.operations.runner import Runner
from graveler.operations.work import Report
from tests.api.support import Answer, EventClient, World, basic, make_world
from tests.support.patience import PATIENCE

REPO = "/repositories/repo"
OPERATIONS = f"{REPO}/operations"
MERGE = f"{REPO}/refs/dev/merge/main"
COMMITS = f"{REPO}/branches/main/commits"
TINY = SplitParameters(min_size=100, max_size=800, raggedness=3)
ASYNC = {"Prefer": "respond-async, wait=10"}


class Held:
    """Work that begins when it is let go."""

    def __init__(self) -> None:
        self.let_go = Event()
        self.runs = 0

    def __call__(self, repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:
        self.runs += 1
        while not self.let_go.wait(0.005):
            report.check()
        return do_in_parts(repository, operation_id, request, report)


class Api:
    """A client of an application for which nearly everything is long work."""

    def __init__(self, *, request_seconds: float = PATIENCE, records: int = 20, held: Held | None = None) -> None:
        world = make_world()
        self.lake = world.lake
        settings = Settings(operation_records=records, request_seconds=request_seconds)
        kinds = {kind: held or work for kind, work in KINDS.items()}
        self.application = Application(
            world.lake, world.access, settings, Runner(world.lake.tables, kinds, heartbeat=0.02)
        )
        self.call = EventClient(World(world.lake, world.access, self.application, world.admin, world.reader))
        self.repository = self.lake.create_repository("repo", "local://repo", split=TINY)
        self.put("main", {f"{number:03}": "base" for number in range(100)})
        self.repository.commit("main", "base")
        self.repository.create_branch("dev", "main")

    def put(self, branch: str, files: dict[str, str]) -> None:
        for path, text in files.items():
            self.repository.upload(branch, path, text.encode())

    def diverge(self) -> None:
        """Both branches change objects all over, none the same."""
        for branch, begin in (("dev", 0), ("main", 1)):
            self.put(branch, {f"{number:03}": branch for number in range(begin, 100, 5)})
            self.repository.commit(branch, branch)

    def ended(self, operation: str) -> dict[str, object]:
        never = Event()
        deadline = time.monotonic() + PATIENCE
        while (found := self.call("GET", f"{OPERATIONS}/{operation}").json())["state"] == "running":
            assert time.monotonic() < deadline
            never.wait(0.01)
        assert isinstance(found, dict)
        return found

    def only(self) -> dict[str, object]:
        """The one operation that there is."""
        (found,) = self.call("GET", OPERATIONS).json()["results"]
        assert isinstance(found, dict)
        return found


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.application.close()


@pytest.fixture
def hasty() -> Iterator[Api]:
    """Nobody waits."""
    made = Api(request_seconds=0)
    yield made
    made.application.close()


@pytest.fixture
def held() -> Iterator[tuple[Api, Held]]:
    """Nobody waits, and nothing is done until it is let go."""
    work = Held()
    made = Api(request_seconds=0, held=work)
    yield made, work
    made.application.close()


def is_told_to_come_again(answer: Answer) -> bool:
    assert answer.status == 429, answer
    assert int(answer.headers["retry-after"]) > 0
    assert "send the same request again" in answer.message
    return True


def test_long_work_that_ends_in_time_has_the_ordinary_answer(api: Api) -> None:
    api.diverge()
    api.repository.create_branch("alone", "main")
    alone = api.repository.merge("dev", "alone")
    answer = api.call("POST", MERGE, (), {"message": "together"})
    assert answer.status == 200
    commit = api.repository.commit_of("main")
    assert answer.json()["reference"] == commit.id
    assert commit.metarange_id == alone.metarange_id
    found = api.only()
    assert (found["kind"], found["branch"], found["state"], found["commit_id"]) == (
        "merge",
        "main",
        "completed",
        commit.id,
    )
    progress = api.call("GET", f"{OPERATIONS}/{found['id']}").json()["progress"]
    assert progress["parts"] == progress["parts_done"] == 1
    assert progress["records"] == progress["records_done"] > 20


def test_little_work_is_no_operation(api: Api) -> None:
    api.put("dev", {"new": "1"})
    assert api.call("POST", f"{REPO}/branches/dev/commits", (), {"message": "m"}).status == 201
    assert api.call("POST", MERGE, (), {}).status == 200
    assert api.call("GET", OPERATIONS).json()["results"] == []


def test_commits_reverts_and_picks_become_operations_too(api: Api) -> None:
    api.diverge()
    api.put("main", {f"{number:03}": "again" for number in range(2, 100, 5)})
    made = api.call("POST", COMMITS, (), {"message": "m", "metadata": {"k": "v"}, "date": 1_600_000_000})
    assert made.status == 201, made
    assert (made.json()["message"], made.json()["creation_date"]) == ("m", 1_600_000_000)
    assert not api.repository.has_staged("main")
    picked = api.call("POST", f"{REPO}/branches/main/cherry-pick", (), {"ref": "dev"})
    assert (picked.status, picked.json()["message"]) == (201, "dev")
    body = {"ref": "main~1", "parent_number": 0}
    assert api.call("POST", f"{REPO}/branches/main/revert", (), body).status == 204
    assert api.repository.commit_of("main").message == "Revert main~1"
    kinds = [one["kind"] for one in api.call("GET", OPERATIONS).json()["results"]]
    assert sorted(kinds) == ["cherry-pick", "commit", "revert"]


def test_who_does_not_want_to_wait_is_told_where_to_ask(api: Api) -> None:
    api.diverge()
    answer = api.call("POST", MERGE, (), {}, ASYNC)
    assert answer.status == 202
    operation = answer.json()["id"]
    assert answer.headers["location"] == f"/api/v1{OPERATIONS}/{operation}"
    assert answer.headers["preference-applied"] == "respond-async"
    assert api.ended(operation)["commit_id"] == api.repository.branch("main").commit_id
    again = api.call("POST", MERGE, (), {}, ASYNC)
    assert (again.json()["id"], again.json()["state"]) == (operation, "completed"), "it is the answer, once"
    third = api.call("POST", MERGE, (), {}, ASYNC).json()["id"]
    assert third != operation
    assert "already has all commits" in str(api.ended(third)["error"])
    assert api.call("POST", f"{REPO}/refs/dev/merge/none", (), {}, ASYNC).status == 404
    assert api.call("POST", f"{REPO}/refs/none/merge/main", (), {}, ASYNC).status == 404
    little = api.call("POST", COMMITS, (), {"message": "m", "allow_empty": True}, ASYNC)
    assert api.ended(little.json()["id"])["state"] == "completed"


def test_when_the_time_is_over_the_same_request_gets_the_result_once(hasty: Api) -> None:
    hasty.diverge()
    assert is_told_to_come_again(hasty.call("POST", MERGE, (), {"message": "m"}))
    operation = hasty.only()["id"]
    assert hasty.ended(str(operation))["state"] == "completed"
    answer = hasty.call("POST", MERGE, (), {"message": "m"})
    assert (answer.status, answer.json()["reference"]) == (200, hasty.repository.branch("main").commit_id)
    after = hasty.call("POST", MERGE, (), {"message": "m"})
    assert (after.status, "already has all commits" in after.message) == (400, True)
    assert hasty.only()["id"] == operation


def test_the_same_request_joins_what_is_at_work_and_others_do_not(held: tuple[Api, Held]) -> None:
    api, work = held
    api.diverge()
    for _ in range(3):
        is_told_to_come_again(api.call("POST", MERGE, (), {"message": "m"}))
    assert api.only()["attempt"] == 1
    key = basic(api.call.world.access.create_key("other", Role.WRITER))
    is_told_to_come_again(api.call("POST", MERGE, (), {"message": "m"}, authorization=key))
    is_told_to_come_again(api.call("POST", MERGE, (), {"message": "another"}))
    assert len(api.call("GET", OPERATIONS).json()["results"]) == 3
    work.let_go.set()
    states = {one["id"]: api.ended(one["id"]) for one in api.call("GET", OPERATIONS).json()["results"]}
    assert sorted(str(one["state"]) for one in states.values()) == ["completed", "failed", "failed"]
    assert work.runs == 3


def test_a_merge_of_a_ref_that_has_moved_is_another_one(held: tuple[Api, Held]) -> None:
    api, work = held
    api.diverge()
    is_told_to_come_again(api.call("POST", MERGE, (), {}))
    api.put("dev", {"late": "dev"})
    api.repository.commit("dev", "late")
    is_told_to_come_again(api.call("POST", MERGE, (), {}))
    found = [one["id"] for one in api.call("GET", OPERATIONS).json()["results"]]
    assert len(found) == 2
    work.let_go.set()
    for operation in found:
        api.ended(operation)
    assert api.call("POST", MERGE, (), {}).status == 200
    assert api.repository.stat("main", "late").size == 3


def test_a_commit_of_what_was_staged_later_is_another_one(held: tuple[Api, Held]) -> None:
    api, work = held
    api.put("main", {f"{number:03}": "new" for number in range(0, 100, 5)})
    is_told_to_come_again(api.call("POST", COMMITS, (), {"message": "m"}))
    is_told_to_come_again(api.call("POST", COMMITS, (), {"message": "m"}))
    first = api.only()["id"]
    work.let_go.set()
    made = api.ended(str(first))["commit_id"]
    api.put("main", {"late": "1"})
    answer = api.call("POST", COMMITS, (), {"message": "m"})
    assert answer.status == 201
    assert answer.json()["parents"] == [made], "what was staged since is not lost in the old answer"


def test_a_request_with_a_key_is_one_whenever_it_comes(held: tuple[Api, Held]) -> None:
    api, work = held
    api.put("main", {f"{number:03}": "new" for number in range(0, 100, 5)})
    key = {"Idempotency-Key": "load-7"}
    is_told_to_come_again(api.call("POST", COMMITS, (), {"message": "m"}, key))
    api.put("main", {"late": "1"})
    is_told_to_come_again(api.call("POST", COMMITS, (), {"message": "m"}, key))
    work.let_go.set()
    made = api.ended(str(api.only()["id"]))["commit_id"]
    for _ in range(3):
        answer = api.call("POST", COMMITS, (), {"message": "m"}, key)
        assert (answer.status, answer.json()["id"]) == (201, made)
    assert api.repository.has_staged("main")


def test_a_result_is_not_kept_for_ever_for_who_does_not_come(hasty: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty.diverge()
    is_told_to_come_again(hasty.call("POST", MERGE, (), {}))
    hasty.ended(str(hasty.only()["id"]))
    monkeypatch.setattr("graveler.api.background.REMEMBERED", 0.0)
    assert hasty.call("POST", MERGE, (), {}).status == 400


def test_conflicts_and_refusals_are_those_of_the_verb(api: Api) -> None:
    api.diverge()
    api.put("main", {"000": "main", "050": "main"})
    api.repository.commit("main", "conflicts")
    head = api.repository.branch("main").commit_id
    answer = api.call("POST", MERGE, (), {})
    assert answer.status == 409
    assert answer.json()["reference"] == ""
    assert "2 conflicts ('000', '050')" in answer.json()["message"]
    assert api.repository.branch("main").commit_id == head
    assert api.call("POST", MERGE, (), {"strategy": "dest-wins"}).status == 200


def test_a_cancelled_operation_changes_nothing_and_says_so(held: tuple[Api, Held]) -> None:
    api, work = held
    api.diverge()
    head = api.repository.branch("main").commit_id
    is_told_to_come_again(api.call("POST", MERGE, (), {}))
    operation = api.only()["id"]
    assert api.call("DELETE", f"{OPERATIONS}/{operation}", authorization=api.call.world.reader).status == 401
    assert api.call("DELETE", f"{OPERATIONS}/{operation}").status == 204
    assert api.call("DELETE", f"{OPERATIONS}/{operation}").status == 204
    assert api.call("DELETE", f"{OPERATIONS}/none").status == 404
    answer = api.call("POST", MERGE, (), {})
    assert (answer.status, "was cancelled" in answer.message) == (412, True)
    work.let_go.set()
    is_told_to_come_again(api.call("POST", MERGE, (), {}))
    newest = next(one for one in api.call("GET", OPERATIONS).json()["results"] if one["id"] != operation)
    assert api.ended(str(newest["id"]))["state"] == "completed"
    assert api.repository.commit_of("main").parents[0] == head
    assert api.call("DELETE", f"{OPERATIONS}/{newest['id']}").status == 409


def test_a_key_for_some_branches_cancels_only_what_changes_these(held: tuple[Api, Held]) -> None:
    api, _ = held
    api.diverge()
    is_told_to_come_again(api.call("POST", MERGE, (), {}))
    operation = api.only()["id"]
    access: Access = api.call.world.access
    elsewhere = basic(access.create_key("a", Role.WRITER, branches=["dev*"]))
    here = basic(access.create_key("b", Role.WRITER, branches=["main"]))
    dump = api.call("POST", f"{REPO}/dump", (), {}).json()["id"]
    assert api.call("DELETE", f"{OPERATIONS}/{operation}", authorization=elsewhere).status == 401
    assert api.call("DELETE", f"{OPERATIONS}/{dump}", authorization=here).status == 401
    assert api.call("DELETE", f"{OPERATIONS}/{operation}", authorization=here).status == 204
    assert api.call("DELETE", f"{OPERATIONS}/{dump}").status in (204, 409)


class Lingering(Held):
    """Work that publishes, and does not end before it is let go."""

    def __call__(self, repository: OpenRepository, operation_id: str, request: bytes, report: Report) -> str:
        made = do_in_parts(repository, operation_id, request, report)
        self.runs += 1
        assert self.let_go.wait(PATIENCE)
        return made


def test_a_commit_is_told_as_soon_as_it_is_there_and_cannot_be_cancelled() -> None:
    held = Lingering()
    api = Api(held=held)
    api.diverge()
    before = api.repository.branch("main").commit_id
    operation = api.call("POST", MERGE, (), {"message": "together"}, ASYNC).json()
    assert operation["state"] == "running"
    never, deadline = Event(), time.monotonic() + PATIENCE
    while not held.runs:
        assert time.monotonic() < deadline
        never.wait(0.01)
    commit = api.repository.branch("main").commit_id
    assert commit != before
    assert operation["commit_id"] in ("", commit), "its worker may have been faster than the answer"
    found = api.call("GET", f"{OPERATIONS}/{operation['id']}").json()
    assert (found["state"], found["commit_id"], found["result"]) == ("running", commit, "")
    assert [one["commit_id"] for one in api.call("GET", OPERATIONS).json()["results"]] == [commit]
    refused = api.call("DELETE", f"{OPERATIONS}/{operation['id']}")
    assert (refused.status, commit in refused.json()["message"]) == (409, True)
    found = api.call("GET", f"{OPERATIONS}/{operation['id']}").json()
    assert (found["state"], found["commit_id"], found["result"]) == ("completed", commit, commit)
    held.let_go.set()
    api.application.close()
    assert api.ended(operation["id"]) == found


def test_operations_are_listed_in_pages(held: tuple[Api, Held]) -> None:
    api, _ = held
    api.diverge()
    for message in "abcde":
        is_told_to_come_again(api.call("POST", MERGE, (), {"message": message}))
    seen: list[str] = []
    after = ""
    while True:
        page = api.call("GET", OPERATIONS, {"amount": 2, "after": after}).json()
        seen += [one["id"] for one in page["results"]]
        if not page["pagination"]["has_more"]:
            break
        after = page["pagination"]["next_offset"]
    assert (len(seen), seen) == (5, sorted(set(seen)))


def test_an_import_is_found_among_operations(api: Api) -> None:
    body = {"paths": [], "commit": {"message": "nothing"}}
    started = api.call("POST", f"{REPO}/branches/main/import", (), body)
    assert started.status == 202
    found = api.ended(started.json()["id"])
    assert (found["kind"], found["branch"], found["state"]) == ("import", "main", "completed")
    assert api.repository.metadata()
