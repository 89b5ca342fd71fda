"""What only AWS can tell: how long its gateway takes for the routes, how it answers for functions that do not start, how long a
restored copy of a function takes."""

import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from graveler.remote.connection import Response
from infra.acceptance.account import RESTORED, THROTTLED
from infra.acceptance.deployment import Deployment, expect
from infra.routes import gateway_routes
from infra.settings import Settings

_API: Final = "/api/v1"
_ROUTE: Final = "AWS::ApiGatewayV2::Route"
_STARVED: Final = "merge"
_COPIES: Final = 10
_LOG_SECONDS: Final = 180
_EFFECT_SECONDS: Final = 60
_RESTORE: Final = re.compile(r"Restore Duration: ([\d.]+) ms")
_REPEATED: Final = frozenset((429, 503))


def head(deployment: Deployment) -> str:
    """HEAD has no body, and yet the length of the one that GET has: gateways and clients have changed it to 0 elsewhere."""
    repo = deployment.repository("head")
    path = f"{_API}/repositories/{repo.id}/refs/main/objects"
    lengths = (0, 1, 10_000, 8 << 20)
    for length in lengths:
        repo.branch("main").object(f"{length}.bin").upload(data=bytes(length), pre_sign=True)
        answer = deployment.expect(200, "HEAD", path, query={"path": f"{length}.bin"})
        header = answer.headers.get("content-length")
        expect(header == str(length), f"HEAD of {length} bytes has Content-Length {header}; {dict(answer.headers)}")
        expect(not answer.body, f"HEAD has a body of {len(answer.body)} bytes")
    return f"Content-Length is {', '.join(map(str, lengths))} for objects of as many bytes"


def deployed_routes(deployment: Deployment) -> str:
    """All routes are there, and their number and time are reported: API Gateway allows ten changes a second in an account."""
    limits = Settings(throttles=(f"{THROTTLED}=1/1",)).throttled()
    expected_keys = {"$default", *(f"{route.method} {route.path}" for route in gateway_routes(limits))}
    gateway = deployment.aws("apigatewayv2")
    pages = gateway.get_paginator("get_routes").paginate(ApiId=_api_id(deployment))
    deployed_keys = {route["RouteKey"] for page in pages for route in page["Items"]}
    wrong = sorted(expected_keys ^ deployed_keys)
    expect(not wrong, f"the API has {len(deployed_keys)} routes; others, or not these: {', '.join(wrong)}")
    times = [event["Timestamp"].timestamp() for event in _events(deployment) if event["ResourceType"] == _ROUTE]
    expect(times, "CloudFormation tells no events of routes")
    return f"{len(deployed_keys)} routes, made within {max(times) - min(times):.0f} s"


def _api_id(deployment: Deployment) -> str:
    """Of the API, from its own address."""
    return deployment.outputs["Endpoint"].partition("://")[2].partition(".")[0]


def _events(deployment: Deployment) -> Iterator[Mapping[str, Any]]:
    pages = deployment.aws("cloudformation").get_paginator("describe_stack_events")
    for page in pages.paginate(StackName=f"{deployment.name}-api"):
        yield from page["StackEvents"]


def restored_function(deployment: Deployment) -> str:
    """Copies of a function that starts from a snapshot answer as any, and its log tells how long Lambda restored them."""
    repo = deployment.repository("snapshot")
    repo.branch("main").object("a").upload(data=b"a", pre_sign=True)
    repo.branch("main").commit(message="one")
    path = f"{_API}/repositories/{repo.id}/refs/main~1/diff/main"
    began = time.time()

    def timed_answer(_: int) -> tuple[int, float]:
        started = time.monotonic()
        return deployment.ask("GET", path).status, time.monotonic() - started

    with ThreadPoolExecutor(_COPIES) as threads:
        answers = list(threads.map(timed_answer, range(_COPIES)))
    expect({status for status, _ in answers} == {200}, f"answers {sorted(status for status, _ in answers)}")
    group = _configuration(deployment, RESTORED)["LoggingConfig"]["LogGroup"]
    restores: list[float] = []

    def is_logged() -> bool:
        paginator = deployment.aws("logs").get_paginator("filter_log_events")
        pages = paginator.paginate(
            logGroupName=group, startTime=int((began - 3600) * 1000), filterPattern='"Restore Duration"'
        )
        restores[:] = [
            float(duration)
            for page in pages
            for event in page["events"]
            for duration in _RESTORE.findall(event["message"])
        ]
        return bool(restores)

    deployment.until(is_logged, "a restore in the function's log", _LOG_SECONDS)
    slowest = max(seconds for _, seconds in answers)
    return (
        f"{len(restores)} restores in {min(restores):,.0f} to {max(restores):,.0f} ms; of {_COPIES} requests at once the "
        f"slowest took {slowest:.2f} s"
    )


def throttled_function(deployment: Deployment) -> str:
    """What a client gets while Lambda starts no copy of a function, and that graveler's client takes it for what may pass."""
    functions, name = deployment.aws("lambda"), deployment.outputs[f"{_STARVED.capitalize()}Function"]
    repo = deployment.repository("starved")
    path = f"{_API}/repositories/{repo.id}/refs/nothing/merge/main"

    def answer() -> Response:
        """A refusal of graveler's own, while the function runs."""
        response = deployment.ask("POST", path, {"message": "of what is not there"})
        return Response(response.status, response.headers, response.body)

    answers = [answer()]
    expect(
        answers[0].status == 404,
        f"a merge of what is not there is answered {answers[0].status} {answers[0].body[:200]!r}",
    )

    def is_starved() -> bool:
        answers.append(answer())
        return answers[-1].status != 404

    functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    try:
        deployment.until(is_starved, "an answer of the throttled function", _EFFECT_SECONDS)
    finally:
        functions.delete_function_concurrency(FunctionName=name)
    refused = answers[-1]
    summary = f"{refused.status} {refused.body[:200]!r}, with the headers {', '.join(sorted(refused.headers))}"
    expect(refused.status in _REPEATED or refused.is_of_gateway, f"graveler's client does not repeat {summary}")
    deployment.until(lambda: answer().status == 404, "an answer after the throttle", _EFFECT_SECONDS)
    return f"a throttled function answers {summary}"


def _configuration(deployment: Deployment, function: str) -> Mapping[str, Any]:
    configuration: Mapping[str, Any] = deployment.aws("lambda").get_function_configuration(
        FunctionName=deployment.outputs[f"{function.capitalize()}Function"]
    )
    return configuration
