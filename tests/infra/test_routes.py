"""Every operation of the API has one route and one function, and there are no others."""

import json
from pathlib import Path
from typing import Any

from graveler.api import routing
from graveler.api.resources import GROUPS, unimplemented
from graveler.api.routing import Router
from infra.routes import BASE, CATCH_ALL, FALLBACK_PATH, FALLBACKS, FUNCTION_OF, JOINED, METHODS, api_routes
from tests.infra.tools import resources

HANDLERS = Path(__file__).resolve().parents[2] / "functions"


def test_every_operation_has_one_function() -> None:
    implemented = {route.operation for route in Router(GROUPS).routes if route.tag != unimplemented.routes.tag}
    assert set(FUNCTION_OF) == implemented


def test_every_function_is_there() -> None:
    assert {*FUNCTION_OF.values(), "maintain", "operate", "ingest", "setup"} == {
        path.parent.name for path in HANDLERS.glob("*/handler.py")
    }


def test_the_gateway_has_the_routes_of_the_api_and_a_catch_all(default: dict[str, dict[str, Any]]) -> None:
    api = default["api"]
    integrations = {
        name: resource["Properties"]["IntegrationUri"]["Fn::GetAtt"][0]
        for name, resource in resources(api, "AWS::ApiGatewayV2::Integration").items()
    }
    routed = {
        resource["Properties"]["RouteKey"]: integrations[resource["Properties"]["Target"]["Fn::Join"][1][1]["Ref"]]
        for resource in resources(api, "AWS::ApiGatewayV2::Route").values()
    }
    expected = {
        f"{route.method} {BASE}{route.template}": FUNCTION_OF[route.operation]
        for route in Router(GROUPS).routes
        if route.operation in FUNCTION_OF
    }
    fallbacks = {f"{method} {FALLBACK_PATH}": verb for method, verb in FALLBACKS.items()}
    assert {key: next(verb for verb in {*FUNCTION_OF.values()} if f"Functions{verb.capitalize()}" in function)
            for key, function in routed.items()} == {**expected, **fallbacks, "$default": CATCH_ALL}  # fmt: skip
    assert len(routed) <= 300  # API Gateway's limit


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
    assert {FUNCTION_OF[route.operation] for route in api_routes() if route.method in ("DELETE", "PUT")} == {"write"}
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
    opening = {verb: {"kms:Decrypt"} for verb in ("Read", "Write", "Commit", "Merge", "Diff")}
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
