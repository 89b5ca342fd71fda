"""Behind a firewall, functions answer only requests that CloudFront passed on, with its secret."""

import json
import logging
import re
from typing import Any

import pytest

from graveler.functions.deployment_settings import read_configuration
from graveler.functions.entry import Event, api_handler
from graveler.functions.front_door import HEADER, FrontDoor
from tests.functions.conftest import Handler
from tests.functions.events import event
from tests.infra.tools import ROOT
from tests.support.shell import Shell

NOW, BEFORE = "n" * 64, "b" * 64


@pytest.fixture
def read(deployment: None, shell: Shell) -> Handler:
    shell.export("GRAVELER_FRONT_DOOR", f"{NOW},{BEFORE}")
    return api_handler("read")


def asked(secret: str | None, path: str = "/api/v1/healthcheck", authorization: str = "") -> Event:
    made = event("GET", path, authorization=authorization)
    headers = made["headers"] if secret is None else {**made["headers"], HEADER: secret}
    return {**made, "headers": headers}


@pytest.mark.parametrize("secret", [NOW, BEFORE])
def test_what_came_by_cloudfront_is_answered_also_while_its_secret_changes(read: Handler, secret: str) -> None:
    assert read(asked(secret), None)["statusCode"] == 204


@pytest.mark.parametrize("path", ["/api/v1/healthcheck", "/api/v1/repositories", "/", "/nowhere"])
def test_nothing_else_is_whatever_it_asks_and_whoever_asks_it(read: Handler, authorization: str, path: str) -> None:
    for secret in (None, "", "wrong", NOW[:-1], f"{NOW}x", f"{NOW},{BEFORE}", "\ud800", "é"):
        answer = read(asked(secret, path, authorization), None)
        assert answer["statusCode"] == 403, secret
        assert "domain" in json.loads(answer["body"])["message"]
        assert answer["headers"] == {
            "x-request-id": "request",
            "content-type": "application/json",
            "cache-control": "no-store",
        }


def test_a_request_that_is_not_let_in_costs_no_request(read: Handler, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    read(asked("wrong", "/api/v1/repositories"), None)
    (figures,) = (
        line for said in capsys.readouterr().out.splitlines() if "TableRequests" in (line := json.loads(said))
    )
    assert figures["TableRequests"] == figures["ObjectRequests"] == [0.0]
    assert figures["status"] == 403


def test_without_a_firewall_there_is_no_door(deployment: None) -> None:
    assert api_handler("read")(asked(None), None)["statusCode"] == 204


def test_the_secret_goes_no_further(
    read: Handler, authorization: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    passed = FrontDoor((NOW,)).let_in(asked(NOW, authorization=authorization))
    assert passed is not None
    assert set(passed["headers"]) == {"authorization"}
    with caplog.at_level(logging.DEBUG):
        for secret in (NOW, "wrong"):
            answer = read(asked(secret, "/api/v1/repositories", authorization), None)
            assert NOW not in json.dumps(answer)
    said: Any = capsys.readouterr()
    assert NOW not in said.out + said.err + caplog.text
    configuration = read_configuration(
        {"GRAVELER_OBJECTS": "s3://lake", "GRAVELER_TABLES": "dynamodb://lake", "GRAVELER_FRONT_DOOR": NOW}
    )
    assert configuration.front_door == (NOW,)
    assert NOW not in repr(configuration)


def test_cloudfront_and_the_functions_mean_the_same_header() -> None:
    # The CDK is in an environment of its own.
    sent = re.search(r'^HEADER: Final = "(.*)"$', (ROOT / "infra" / "front_door.py").read_text(), re.MULTILINE)
    assert sent is not None
    assert sent[1].lower() == HEADER
