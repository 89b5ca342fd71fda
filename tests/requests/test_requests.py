"""The declarations of each request are true, and its function returns the declared result."""

import inspect
import re
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from graveler.api.idempotency import PARTITION
from graveler.api.resources import GROUPS
from graveler.lake.context import Context
from graveler.lake.keyword_methods import KeywordMethods
from graveler.lake.parts import RepositoryParts
from graveler.lake.repository import function_of
from graveler.model import CommitID, SplitParameters, StatusState
from graveler.operations.pinned_requests import KINDS, LongRequest
from graveler.remote.repository import runs_remotely
from graveler.requests import committing, iceberg, merging, pulls, refs, setting_changes, staging, statuses
from graveler.requests.base import CommitInfo, Gated, Permission, Repetition, Request, T_co
from graveler.requests.committing import PublishCandidate, WithdrawCandidate
from graveler.requests.fields import fields_of
from graveler.requests.refs import CreateTag, DeleteTag
from graveler.requests.staging import Duplicate
from graveler.wire.request_shapes import shape_of
from tests.api.support import Answer, EventClient, World, make_world
from tests.make_request_docs import PAGE, every_request, operations, page

OF_PULL_REQUESTS: set[type[Request[Any]]] = {
    pulls.CreatePullRequest,
    pulls.UpdatePullRequest,
    pulls.ApprovePullRequest,
    pulls.WithdrawApproval,
    pulls.CommentOnPullRequest,
    pulls.MergePullRequest,
}
"""Requests about a pull request, which names the branches that a caller needs."""
OF_CANDIDATES: set[type[Request[Any]]] = {PublishCandidate, WithdrawCandidate}
"""Requests about a candidate, which names the branch that a caller needs."""
OF_TABLES = {kind for kind in every_request() if kind.__module__ == iceberg.__name__}
"""Requests that clients send by Iceberg's own protocol."""
NO_BRANCH: set[type[Request[Any]]] = {CreateTag, DeleteTag, statuses.RunChecks, *OF_PULL_REQUESTS, *OF_CANDIDATES}
"""Requests that change the repository, and no branch of it that they name."""


@pytest.mark.parametrize("request_type", every_request(), ids=lambda request: request.__name__)
def test_a_request_declares_fields_that_it_has(request_type: type[Request[Any]]) -> None:
    fields = fields_of(request_type)
    assert isinstance(request_type.permission, Permission)
    named = {*request_type.changes, *request_type.paths, *request_type.refs}
    assert named <= fields.keys()
    assert all(fields[name].type is str and fields[name].is_required for name in named)
    changes_branches = request_type.permission is Permission.WRITE and request_type not in NO_BRANCH
    assert bool(request_type.changes) == changes_branches
    assert request_type.can_be_long == (request_type in KINDS) == (request_type in get_args(LongRequest))
    if request_type.can_be_long:
        assert len(request_type.changes) == 1, "the branch that the operation is for"
    assert (request_type.__doc__ or "").strip()


@pytest.mark.parametrize("request_type", every_request(), ids=lambda request: request.__name__)
def test_who_does_a_request_takes_it_and_returns_its_result(request_type: type[Request[Any]]) -> None:
    function = function_of(request_type)
    hints = get_type_hints(function)
    result = _result(request_type)
    taken = [hints[name] for name in list(inspect.signature(function).parameters)]
    assert taken == [RepositoryParts, request_type, Context]
    assert hints["return"] == result


def _result(request_type: type[Request[Any]]) -> Any:
    bases = (base for kind in request_type.__mro__ for base in getattr(kind, "__orig_bases__", ()))
    ((result,),) = {get_args(base) for base in bases if get_origin(base) in (Request, Gated)} - {(T_co,)}
    return result


def test_every_request_is_done_here_and_behind_a_server() -> None:
    assert {kind for kind in every_request() if not runs_remotely(kind)} == {Duplicate, *OF_TABLES} - {
        iceberg.CommitTables
    }


@pytest.mark.parametrize("request_type", every_request(), ids=lambda request: request.__name__)
def test_a_method_with_keywords_has_the_fields_of_its_request(request_type: type[Request[Any]]) -> None:
    """Those of the commit's info by themselves; what a caller cannot say in one value has another name."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", request_type.__name__).lower()
    parameters = set(inspect.signature(getattr(KeywordMethods, name)).parameters) - {
        "self",
        "by",
        "progress",
        "data",
        "accept",
    }
    fields = {field.name for field in msgspec.structs.fields(request_type)}
    if "info" in fields:
        fields = (fields - {"info"}) | {"message", "committer", "metadata", "created", "request_id"}
    renamed = {"strategy": "strategies", "untouched": "unchanged_prefixes", "addresses": "sources", "paths": "objects"}
    assert {renamed.get(parameter, parameter) for parameter in parameters} == fields


KEYED: list[Request[Any]] = [
    PublishCandidate(candidate="0" * 32),
    WithdrawCandidate(candidate="0" * 32),
    refs.CreateBranch(name="new", source="main"),
    refs.RenameBranch(old="dev", new="renamed"),
    refs.HardReset(branch="dev", ref="dev~1"),
    refs.Undo(branch="dev"),
    refs.CreateTag(name="new", ref="dev"),
    refs.DeleteBranch(name="dev"),
    refs.DeleteTag(name="tag"),
    refs.RenewBranch(name="dev", owner="owner"),
    refs.ReleaseBranch(name="dev", owner="owner"),
    committing.Commit(branch="dev", info=CommitInfo("again"), allow_empty=True),
    committing.Rewrite(branch="dev", split=SplitParameters(1 << 20, 2 << 20, 4)),
    merging.Merge(source="dev", destination="main"),
    merging.Revert(branch="dev", ref="dev"),
    merging.CherryPick(branch="main", ref="dev~1"),
    setting_changes.SetMetadata(metadata={"k": "v"}),
    setting_changes.DeleteMetadata(keys=("k",)),
    setting_changes.DeleteRetention(),
    setting_changes.SetReadOnly(read_only=False),
    staging.UpdateMetadata(branch="dev", path="a", metadata={"k": "v"}),
    pulls.CreatePullRequest(title="second", source="dev", destination="main"),
    pulls.UpdatePullRequest(pull="1", title="renamed"),
    pulls.ApprovePullRequest(pull="1", source_commit=CommitID("f" * 64)),
    pulls.WithdrawApproval(pull="1"),
    pulls.CommentOnPullRequest(pull="1", text="good"),
    pulls.MergePullRequest(pull="1"),
    statuses.PostStatus(commit="dev", name="dbt", state=StatusState.SUCCESS, expires=60, of="commit"),
    statuses.RunChecks(ref="dev", branch="main", definitions={"kept": {"kind": "no-deletes"}}),
]


@pytest.mark.parametrize("request_", KEYED, ids=lambda request: type(request).__name__)
def test_a_request_that_is_repeated_under_its_key_has_the_effect_that_it_declares(request_: Request[Any]) -> None:
    world = make_world()
    opened = world.lake.create_repository("repo", "mem://repo")
    opened.create_branch("dev", "main")
    for number in range(2):
        opened.upload("dev", "a", str(number).encode())
        opened.commit("dev", str(number))
    opened.create_tag("tag", "main")
    opened.create_pull_request("first", "dev", "main", by="ada")
    before = keys_of(world)
    shape = shape_of(type(request_))
    path = shape.endpoint.template.format(repository="repo", **shape.path_of(request_))
    query = {name: value for name, value in shape.query_of(request_).items() if value not in (None, False)}
    call = EventClient(world)

    def send() -> Answer:
        document = msgspec.to_builtins(shape.document_of(request_))
        return call(shape.endpoint.method, path, query, document, {"Idempotency-Key": "one"})

    first = send()
    state = opened.branches(show_hidden=True).results, opened.tags().results
    again = send()
    if request_.repetition is Repetition.HARMLESS:
        assert keys_of(world) == before, "declare what a repeated request does"
    else:
        assert first.status in (200, 201, 204), first
        assert (again.status, again.body) == (first.status, first.body)
        assert len(keys_of(world)) > len(before)
    assert (opened.branches(show_hidden=True).results, opened.tags().results) == state


def keys_of(world: World) -> list[Any]:
    """What the table holds for requests with a key."""
    return list(world.lake.tables.query(PARTITION).items)


def test_every_operation_that_is_made_from_a_request_is_repeated_here() -> None:
    """CommitMetarange needs a file: :mod:`tests.api.test_commits` has it."""
    assert {type(request) for request in KEYED} == {kind for kind in every_request() if kind.endpoint is not None} - {
        committing.CommitMetarange
    }


@pytest.mark.parametrize("request_type", every_request(), ids=lambda request: request.__name__)
def test_the_lake_knows_results_by_the_request_id_alone(request_type: type[Request[Any]]) -> None:
    fields = {field.name for field in msgspec.structs.fields(request_type)}
    assert (request_type.repetition is Repetition.RESULT) == bool(fields & {"info", "request_id"})


UNCHANGED_BY_BRANCH: set[str] = {
    "createBranch",
    "runChecks",
    *(kind.endpoint.operation for kind in OF_PULL_REQUESTS | OF_CANDIDATES if kind.endpoint is not None),
}
"""Operations whose branch is in the body, a pull request or a candidate: their handlers require the permission themselves."""

NOT_OVER_HTTP: set[str] = {
    "CopyPrefix",
    "Export",
    "ImportFolder",
    "Move",
    "MovePrefix",
    "Protect",
    "Unprotect",
}
"""Requests that are several operations for a client, or of a machine's own files."""


def test_every_request_is_offered_over_http_or_deliberately_not() -> None:
    offered = operations()
    assert {kind.__name__ for kind in every_request() if kind not in offered} == NOT_OVER_HTTP


def test_a_route_knows_the_branch_that_its_requests_change() -> None:
    """Limits of keys to branches are judged by it, and so is the audit."""
    for route in (route for group in GROUPS for route in group.routes):
        named = {name for kind in route.requests for name in kind.changes}
        changes = named or (OF_PULL_REQUESTS | OF_CANDIDATES | {statuses.RunChecks}) & {*route.requests}
        assert bool(changes) == bool(route.branch_parameter or route.branch_in_body) or not route.requests
        assert route.branch_in_body == (route.operation in UNCHANGED_BY_BRANCH) or not route.requests
        if route.requests:
            assert route.changes == (route.permission is not Permission.READ)


def test_the_page_about_requests_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.make_request_docs`"
