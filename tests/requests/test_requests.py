"""The declarations of each request are true, and its function returns the declared result."""

import inspect
import re
from collections.abc import Callable
from types import CodeType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from graveler.api.resources import GROUPS
from graveler.api.routing import Route
from graveler.lake.context import Context
from graveler.lake.methods import RequestMethods
from graveler.lake.parts import RepositoryParts
from graveler.lake.repository import function_of
from graveler.operations.pinned_requests import KINDS, LongRequest
from graveler.remote.repository import _RUNS as BEHIND_A_SERVER
from graveler.requests.base import Permission, Repetition, Request
from graveler.requests.refs import CreateTag, DeleteTag
from graveler.requests.staging import Duplicate
from tests.make_request_docs import PAGE, every_request, operations, page

NO_BRANCH: set[type[Request[Any]]] = {CreateTag, DeleteTag}
"""Requests that change the repository, and no branch of it."""


@pytest.mark.parametrize("request_type", every_request(), ids=lambda request: request.__name__)
def test_a_request_declares_fields_that_it_has(request_type: type[Request[Any]]) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(request_type)}
    assert isinstance(request_type.permission, Permission)
    named = {*request_type.changes, *request_type.paths, *request_type.refs}
    assert named <= fields.keys()
    assert all(fields[name].type is str and fields[name].required for name in named)
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
    ((result,),) = {get_args(base) for base in bases if get_origin(base) is Request}
    return result


def test_every_request_is_done_here_and_behind_a_server() -> None:
    assert set(every_request()) - set(BEHIND_A_SERVER) == {Duplicate}


@pytest.mark.parametrize("request_type", every_request(), ids=lambda request: request.__name__)
def test_a_method_with_keywords_has_the_fields_of_its_request(request_type: type[Request[Any]]) -> None:
    """Those of the commit's info by themselves; what a caller cannot say in one value has another name."""
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", request_type.__name__).lower()
    parameters = set(inspect.signature(getattr(RequestMethods, name)).parameters) - {
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


BY_REQUEST_ID = {"commit_info", "request_id", "once"}
"""What a handler calls to hand the lake the ID of a repeated request; or it keeps its response."""


@pytest.mark.parametrize(
    "route", [each for group in GROUPS for each in group.routes], ids=lambda route: route.operation
)
def test_a_route_treats_a_repeated_request_as_the_request_declares(route: Route) -> None:
    declared = {kind.repetition for kind in route.requests} - {Repetition.HARMLESS}
    called = _names(route.handler)
    if Repetition.RESPONSE in declared:
        assert "once" in called
    elif Repetition.RESULT in declared:
        assert called & BY_REQUEST_ID
    elif route.requests:
        assert not called & BY_REQUEST_ID, "declare what a repeated request does"


@pytest.mark.parametrize("request_type", every_request(), ids=lambda request: request.__name__)
def test_the_lake_knows_results_by_the_request_id_alone(request_type: type[Request[Any]]) -> None:
    fields = {field.name for field in msgspec.structs.fields(request_type)}
    assert (request_type.repetition is Repetition.RESULT) == bool(fields & {"info", "request_id"})


def _names(function: Callable[..., Any]) -> set[str]:
    """The names that a function uses, or a function of its module that it calls."""
    found: set[str] = set()
    module = vars(inspect.getmodule(function))
    waiting = [function.__code__]
    while waiting:
        code = waiting.pop()
        inner = [each for each in code.co_consts if isinstance(each, CodeType)]
        called = [module[name].__code__ for name in set(code.co_names) - found if inspect.isfunction(module.get(name))]
        found |= {*code.co_names, *code.co_freevars}
        waiting += inner + [each for each in called if each.co_filename == code.co_filename]
    return found


UNCHANGED_BY_BRANCH: set[str] = {"createBranch"}
"""Operations whose branch is in the body: their handlers require the permission themselves."""

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
        changes = {name for kind in route.requests for name in kind.changes}
        assert bool(changes) == bool(route.branch_parameter or route.branch_in_body) or not route.requests
        assert route.branch_in_body == (route.operation in UNCHANGED_BY_BRANCH) or not route.requests
        if route.requests:
            assert route.changes == (route.permission is not Permission.READ)


def test_the_page_about_requests_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.make_request_docs`"
