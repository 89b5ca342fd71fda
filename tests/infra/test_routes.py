"""Every operation of the API has one function, and the gateway has the routes that lead there."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import urllib3
from hypothesis import given
from hypothesis import strategies as st

from graveler.api import routing
from graveler.api.errors import ApiError
from graveler.api.resources import GROUPS, unimplemented
from graveler.api.routing import Router
from graveler.functions.entry import raw_path
from infra.routes import (
    BASE,
    CATALOG,
    CATALOG_PATH,
    CATCH_ALL,
    FALLBACK_PATH,
    FALLBACKS,
    FUNCTION_OF,
    JOINED,
    METHODS,
    GatewayRoute,
    api_routes,
    gateway_routes,
)
from tests.infra.conftest import Deployed
from tests.infra.make_functions import FILE, functions_json
from tests.infra.tools import resources

HANDLERS = Path(__file__).resolve().parents[2] / "functions"


def test_every_operation_has_one_function() -> None:
    implemented = {route.operation for route in Router(GROUPS).routes if route.tag != unimplemented.routes.tag}
    assert set(FUNCTION_OF) == implemented


def test_the_functions_of_operations_are_those_of_their_routes() -> None:
    assert FILE.read_text() == functions_json(), "run `python -m tests.infra.make_functions`"


def test_every_function_is_there() -> None:
    assert {*FUNCTION_OF.values(), CATALOG, "check", "maintain", "operate", "ingest", "setup"} == {
        path.parent.name for path in HANDLERS.glob("*/handler.py")
    }


def test_the_gateway_has_a_route_for_each_method_and_others_only_for_other_functions(
    default: dict[str, dict[str, Any]],
) -> None:
    api = default["api"]
    integrations = {
        name: resource["Properties"]["IntegrationUri"]["Fn::GetAtt"][0]
        for name, resource in resources(api, "AWS::ApiGatewayV2::Integration").items()
    }
    routed = {
        resource["Properties"]["RouteKey"]: integrations[resource["Properties"]["Target"]["Fn::Join"][1][1]["Ref"]]
        for resource in resources(api, "AWS::ApiGatewayV2::Route").values()
    }
    other_routes = {
        f"{route.method} {BASE}{route.template}": FUNCTION_OF[route.operation]
        for route in Router(GROUPS).routes
        if route.operation in FUNCTION_OF and FUNCTION_OF[route.operation] != FALLBACKS[route.method]
    }
    fallbacks = {f"{method} {FALLBACK_PATH}": verb for method, verb in FALLBACKS.items()}
    further = {f"ANY {CATALOG_PATH}": CATALOG, "$default": CATCH_ALL}
    assert {key: next(verb for verb in {*FUNCTION_OF.values(), CATALOG} if f"Functions{verb.capitalize()}" in function)
            for key, function in routed.items()} == {**other_routes, **fallbacks, **further}  # fmt: skip
    # The control plane takes 10 requests a second of an account, for good:
    # https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html
    assert len(routed) <= 45


@cache
def pattern(path: str) -> re.Pattern[str]:
    """What the path of a route matches."""
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", path).replace("{proxy+}", ".+"))


def taken(routes: list[GatewayRoute], method: str, path: str) -> GatewayRoute | None:
    """The route that the gateway takes, or None for ``$default``: a full match, or else the longest greedy one."""

    def fits(route: GatewayRoute) -> bool:
        return route.method in (method, "ANY") and pattern(route.path).fullmatch(path) is not None

    return max(
        filter(fits, routes), key=lambda route: ("{proxy+}" not in route.path, route.path.count("/")), default=None
    )


OPERATIONS = {route.operation: route for route in api_routes()}
plain = st.sampled_from(["a", "main", "v1.0", "diff", "merge"])
slashed = st.sampled_from(["nightly/2026", "a/b/c"])
limits = st.dictionaries(
    st.sampled_from(sorted(OPERATIONS)), st.tuples(st.integers(1, 50), st.integers(1, 99)), max_size=6
)


@given(limits, st.data())
def test_limits_take_no_operation_to_another_function_and_hold_however_it_is_named(
    limits: dict[str, tuple[int, int]], data: st.DataObject
) -> None:
    routes = gateway_routes(limits)
    assert len({(route.method, route.path) for route in routes}) == len({route.name for route in routes}) == len(routes)
    for operation in OPERATIONS.values():
        path = re.sub(r"\{\w+\}", "x", operation.path)
        route = taken(routes, operation.method, path)
        assert route is not None
        assert (route.verb, route.limit) == (operation.verb, limits.get(operation.operation))
    operation = OPERATIONS[data.draw(st.sampled_from(sorted(limits) or sorted(OPERATIONS)))]
    path = re.sub(r"\{(\w+)\}", lambda name: data.draw(slashed if name[1] in JOINED else plain), operation.path)
    route = taken(routes, operation.method, path)
    assert route is not None
    assert route.verb in (operation.verb, FALLBACKS[operation.method])
    limit = limits.get(operation.operation)
    if limit is not None and operation.is_joined and route.path.endswith("{proxy+}"):
        assert route.limit is not None
        assert (route.limit[0] <= limit[0], route.limit[1] <= limit[1]) == (True, True)


WORDS = sorted(
    {word for route in OPERATIONS.values() for word in route.path.split("/")[3:] if not word.startswith("{")}
)
odd = st.sampled_from(["", ".", "..", "a/b", "a//b", "/", "a/", "%", "%2F", "a%2Fb", "%25", "+", "a b", "é", "?", "*"])
odd |= st.sampled_from(WORDS) | st.builds("{}/{}/{}".format, plain, st.sampled_from(WORDS), plain)
ROUTER = Router(GROUPS, BASE, joins=True)


@given(limits, st.data())
def test_whatever_a_function_makes_of_a_path_the_gateway_has_chosen_it_for_that(
    limits: dict[str, tuple[int, int]], data: st.DataObject
) -> None:
    """Odd names, and names that are words of other paths; what follows a path, and other methods."""
    routes = gateway_routes(limits)
    for _ in range(10):
        template = OPERATIONS[
            data.draw(st.sampled_from(sorted(limits) or sorted(OPERATIONS)) | st.sampled_from(sorted(OPERATIONS)))
        ]
        path = re.sub(r"\{(\w+)\}", lambda _: data.draw(plain | odd), template.path) + data.draw(
            st.sampled_from(["", "", "", "/", "//", "/x"])
        )
        method = data.draw(st.just(template.method) | st.sampled_from([*FALLBACKS, "OPTIONS"]))
        try:
            operation = ROUTER.find(method, raw_path(path))[0].operation
        except ApiError:
            continue  # whoever gets it answers the same
        if operation not in FUNCTION_OF:
            continue
        route = taken(routes, method, path)
        assert route is not None
        assert route.verb in (FUNCTION_OF[operation], FALLBACKS[method])
        limit = limits.get(operation)
        if limit is not None:
            assert route.limit is not None
            assert (route.limit[0] <= limit[0], route.limit[1] <= limit[1]) == (True, True)


def test_what_comes_by_a_fallback_may_run_there(default: dict[str, dict[str, Any]]) -> None:
    """A name with a slash takes a request past its own route: the function that gets it has all rights of the one that it missed,
    and it is one that clients ask."""
    assert routing.JOINED == JOINED
    joined = [route for route in api_routes() if route.is_joined]
    assert {route.operation for route in joined} >= {
        "getTag",
        "deleteTag",
        "mergeIntoBranch",
        "diffRefs",
        "statObjects",
    }
    for route in joined:
        fallback = FALLBACKS[route.method]
        assert actions_of(default["api"], route.verb.capitalize()) <= actions_of(default["api"], fallback.capitalize())
    assert {FALLBACKS[method] for method in ("GET", "HEAD")} == {"read"}  # which cannot write, whatever it is asked
    assert set(FALLBACKS) == {method.upper() for method in METHODS}


def test_what_only_reads_cannot_write(default: dict[str, dict[str, Any]]) -> None:
    """A route's function has the rights that its operation needs, and a GET of a function that reads has no others."""
    changing = {
        route.operation: FUNCTION_OF[route.operation] for route in api_routes() if route.method in ("DELETE", "PUT")
    }
    assert changing.pop("mergePullRequest") == "merge"
    assert set(changing.values()) == {"write"}
    for verb in ("Read", "Diff"):
        assert actions_of(default["api"], verb) == {
            "logs:CreateLogStream",
            "logs:PutLogEvents",
            "dynamodb:GetItem",
            "dynamodb:BatchGetItem",
            "dynamodb:Query",
            "s3:GetObject",
            "s3:ListBucket",
            "kms:Decrypt",
        }


def test_who_checks_tokens_may_unwrap_the_sealing_key_of_its_table_and_one_function_makes_it(
    default: dict[str, dict[str, Any]],
) -> None:
    template = default["api"]
    found = {}
    for name, policy in resources(template, "AWS::IAM::Policy").items():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            actions = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
            if any(action.startswith("kms:") for action in actions):
                (context,) = statement["Condition"]["StringEquals"].items()
                assert context[0] == "kms:EncryptionContext:graveler:table"
                assert "Tables" in json.dumps(context[1])
                assert "SealingKey" in json.dumps(statement["Resource"])
                found[name.removeprefix("Functions").partition("Policy")[0]] = set(actions)
    opening = {verb: {"kms:Decrypt"} for verb in ("Read", "Write", "Commit", "Merge", "Diff", "Catalog")}
    assert found == {**opening, "Setup": {"kms:Decrypt", "kms:GenerateDataKey"}}
    for name, function in resources(template, "AWS::Lambda::Function").items():
        assert ("GRAVELER_KMS_KEY" in function["Properties"]["Environment"]["Variables"]) is ("Maintain" not in name)
    for stack in ("operations", "ingest"):
        assert "kms:" not in json.dumps(resources(default[stack], "AWS::IAM::Policy"))
    (key,) = resources(default["stateful"], "AWS::KMS::Key").values()
    assert (key["DeletionPolicy"], key["Properties"]["EnableKeyRotation"]) == ("Retain", True)


def test_who_removes_unfinished_uploads_finds_them(default: dict[str, dict[str, Any]]) -> None:
    """A purge is a request of its own, and a collection an operation: without the right, the one fails, and the other passes
    them over."""
    assert FUNCTION_OF["purgeRepository"] == "write"
    for verb in ("Write", "Maintain"):
        wanted = {"s3:ListBucketMultipartUploads", "s3:AbortMultipartUpload", "s3:DeleteObject"}
        assert wanted <= actions_of(default["api"], verb)


def actions_of(template: dict[str, Any], verb: str) -> set[str]:
    """What the role of a function may do."""
    policy = next(p for name, p in resources(template, "AWS::IAM::Policy").items() if f"{verb}Policy" in name)
    return {
        action
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }


def test_each_name_reaches_its_operation_through_the_gateway(deployed: Deployed) -> None:
    """With and without slashes, by the function of the operation or by that of the method."""
    base = f"{deployed.url}/api/v1/repositories"
    basic = urllib3.make_headers(basic_auth=f"{deployed.key_id}:{deployed.secret}")
    tag = "nightly%2F2026"
    with urllib3.PoolManager(timeout=60, headers={**basic, "content-type": "application/json"}) as http:

        def asked(status: int, method: str, path: str, **document: object) -> urllib3.BaseHTTPResponse:
            body = json.dumps(document) if document else None
            answer = http.request(method, f"{base}{path}", body=body)
            assert answer.status == status, (method, path, answer.data)
            return answer

        asked(201, "POST", "", name="named", storage_namespace=f"s3://{deployed.bucket}/named")
        uploaded = http.request(
            "POST",
            f"{base}/named/branches/main/objects?path=a",
            body=b"a",
            headers={**basic, "content-type": "application/octet-stream"},
        )
        assert uploaded.status == 201
        asked(201, "POST", "/named/branches/main/commits", message="one")
        asked(201, "POST", "/named/tags", id="nightly/2026", ref="main")
        assert asked(200, "GET", f"/named/tags/{tag}").json()["id"] == "nightly/2026"
        for ref in ("main", tag):
            assert asked(200, "HEAD", f"/named/refs/{ref}/objects?path=a").data == b""
            assert asked(200, "GET", f"/named/refs/{ref}/objects?path=a").data == b"a"
            assert asked(200, "POST", f"/named/refs/{ref}/objects/stats", paths=["a"]).status == 200
            assert asked(200, "GET", f"/named/refs/{ref}/diff/main").json()["results"] == []
            asked(400, "POST", f"/named/refs/{ref}/merge/main", message="nothing to merge")
        asked(405, "PATCH", "/named/branches/main")
        asked(404, "GET", f"/named/{tag}")
        asked(204, "DELETE", f"/named/tags/{tag}")
