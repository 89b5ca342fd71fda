"""Checks of an acceptance run that no emulator can run, on a platform that answers as AWS is documented to, and on others."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from infra.acceptance.account import THROTTLED
from infra.acceptance.checks import platform
from infra.acceptance.deployment import Answer, CheckError
from infra.routes import gateway_routes
from infra.settings import Settings

STARVED = Answer(
    500, {"content-type": "application/json", "apigw-requestid": "x="}, b'{"message":"Internal Server Error"}'
)
GRAVELERS = Answer(500, {"x-request-id": "1"}, b'{"message": "a bug"}')
NOT_FOUND = Answer(404, {"x-request-id": "1"}, b'{"message": "not found"}')


class Pages:
    """A client of AWS whose paginators return these pages."""

    def __init__(self, **pages: list[dict[str, Any]]) -> None:
        self._pages = pages
        self.calls: list[tuple[str, object]] = []

    def get_paginator(self, name: str) -> Any:
        return SimpleNamespace(paginate=lambda **_: self._pages[name])

    def get_function_configuration(self, **_: object) -> dict[str, Any]:
        return {"LoggingConfig": {"LogGroup": "log-of-diff"}}

    def put_function_concurrency(self, **parameters: object) -> None:
        self.calls.append(("put", parameters["ReservedConcurrentExecutions"]))

    def delete_function_concurrency(self, **parameters: object) -> None:
        self.calls.append(("delete", parameters["FunctionName"]))


class Fake:
    """A deployment whose API answers as ``answer`` says, and whose services are ``clients``."""

    name = "accepted"
    outputs: ClassVar = {
        "Endpoint": "https://abc123.execute-api.eu-central-1.amazonaws.com",
        "MergeFunction": "merge",
        "DiffFunction": "diff",
    }

    def __init__(self, answer: Callable[[], Answer], **clients: Pages) -> None:
        self._answer = answer
        self._clients = clients

    def aws(self, service: str) -> Pages:
        return self._clients[{"lambda": "functions"}.get(service, service)]

    def repository(self, purpose: str) -> Any:
        stored = SimpleNamespace(upload=lambda **_: None)
        branch = SimpleNamespace(object=lambda _: stored, commit=lambda **_: None)
        return SimpleNamespace(id=purpose, branch=lambda _: branch)

    def ask(self, *_: object, **__: object) -> Answer:
        return self._answer()

    def expect(self, status: int, *_: object, query: dict[str, str]) -> Answer:
        return Answer(200, {"content-length": query["path"].partition(".")[0]}, b"")

    def until(self, true: Callable[[], object], what: str, seconds: float) -> float:
        """At once, or never."""
        for _ in range(3):
            if true():
                return 0.0
        raise CheckError(f"{what}: not within {seconds:,.0f} s")


def run(check: Callable[[Any], str], deployment: Any) -> str:
    """What a check says of a fake."""
    return check(deployment)


def routed(keys: set[str]) -> Fake:
    """A deployment with these routes, made within nine seconds."""
    events = [
        {"ResourceType": kind, "Timestamp": datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC)}
        for kind, second in (("AWS::ApiGatewayV2::Route", 10), ("AWS::ApiGatewayV2::Route", 19), ("AWS::IAM::Role", 50))
    ]
    return Fake(
        lambda: NOT_FOUND,
        apigatewayv2=Pages(get_routes=[{"Items": [{"RouteKey": key} for key in keys]}]),
        cloudformation=Pages(describe_stack_events=[{"StackEvents": events}]),
    )


def wanted() -> set[str]:
    limits = Settings(throttles=(f"{THROTTLED}=1/1",)).throttled()
    return {"$default", *(f"{route.method} {route.path}" for route in gateway_routes(limits))}


def test_routes_are_counted_and_timed_and_a_missing_one_is_named() -> None:
    assert run(platform.deployed_routes, routed(wanted())) == f"{len(wanted())} routes, made within 9 s"
    with pytest.raises(CheckError, match=re.escape("or not these: $default, GET /planted")):
        run(platform.deployed_routes, routed(wanted() - {"$default"} | {"GET /planted"}))


def test_the_length_that_head_tells_is_reported_or_missed() -> None:
    assert "0, 1, 10000, 8388608" in run(platform.head, Fake(lambda: NOT_FOUND))
    silent: Any = Fake(lambda: NOT_FOUND)
    silent.expect = lambda *_, **__: Answer(200, {"content-length": "0"}, b"")
    with pytest.raises(CheckError, match="HEAD of 1 bytes has Content-Length 0"):
        run(platform.head, silent)


@pytest.mark.parametrize(
    ("refusal", "fault"),
    [
        (STARVED, ""),
        (Answer(429, {}, b'{"message":"Too Many Requests"}'), ""),
        (GRAVELERS, "graveler's client does not repeat 500"),
        (Answer(403, {}, b"Forbidden"), "graveler's client does not repeat 403"),
    ],
)
def test_what_a_throttled_function_answers_is_reported_and_has_to_be_repeated(refusal: Answer, fault: str) -> None:
    functions = Pages()

    def answer() -> Answer:
        """As long as no copy may run, the gateway's."""
        return refusal if functions.calls and functions.calls[-1] == ("put", 0) else NOT_FOUND

    deployment = Fake(answer, functions=functions)
    if fault:
        with pytest.raises(CheckError, match=fault):
            run(platform.throttled_function, deployment)
    else:
        report = run(platform.throttled_function, deployment)
        assert f"answers {refusal.status} {refusal.body!r}" in report
    assert functions.calls == [("put", 0), ("delete", "merge")], "the function may run again, whatever was seen"


def lines(*texts: str) -> Pages:
    return Pages(filter_log_events=[{"events": [{"message": text} for text in texts]}])


def test_restores_are_read_from_the_log_and_have_to_be_there() -> None:
    report = "RESTORE_REPORT Restore Duration: {} ms"
    fast: Iterator[Answer] = iter([Answer(200, {}, b"")] * 10)
    deployment = Fake(
        lambda: next(fast), functions=Pages(), logs=lines(report.format("213.40"), report.format("1040.1"))
    )
    assert run(platform.restored_function, deployment).startswith("2 restores in 213 to 1,040 ms; of 10 requests")
    deployment = Fake(lambda: Answer(200, {}, b""), functions=Pages(), logs=lines())
    with pytest.raises(CheckError, match="a restore in the function's log: not within"):
        run(platform.restored_function, deployment)
    with pytest.raises(CheckError, match="answers"):
        run(platform.restored_function, Fake(lambda: GRAVELERS, functions=Pages(), logs=lines()))
