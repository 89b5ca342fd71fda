"""Functions of Lambda as checks, on moto's: it answers what it is told, whatever the function is."""

import json
from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

import requests
from graveler.lake.gates.checks.check_settings import CheckSettings
from graveler.model import Status
from tests.lake.gates.checks.support import ERROR, FAILURE, PENDING, SUCCESS, Checked
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.ci  # moto takes a second to load

ROLE = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "x"}}],
}


class Function:
    """A function, and the status of the check that calls it."""

    def __init__(self) -> None:
        role = boto3.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=json.dumps(ROLE))["Role"]["Arn"]
        created = boto3.client("lambda", "eu-central-1").create_function(
            FunctionName="quality", Runtime="python3.13", Role=role, Handler="m.h", Code={"ZipFile": b"PK"}
        )
        self.settings = CheckSettings(lambdas={"quality": created["FunctionArn"]})
        self.checked = Checked().commit({"a": b""})

    def status(self, *results: object) -> Status:
        texts = [result if isinstance(result, str) else json.dumps(result) for result in results]
        answers = {"results": texts, "region": "eu-central-1"}
        url = "http://motoapi.amazonaws.com/moto-api/static/lambda-simple/response"
        assert requests.post(url, json=answers, timeout=PATIENCE).status_code == 201
        return self.checked.status("lambda", name="quality", settings=self.settings)


@pytest.fixture(scope="module")
def function() -> Iterator[Function]:
    with mock_aws(config={"lambda": {"use_docker": False}}):
        yield Function()


def test_the_state_is_what_it_returns(function: Function) -> None:
    good = function.status({"state": "success", "description": "all rows fine", "url": "https://ci.example.org/1"})
    assert (good.state, good.description, good.url) == (SUCCESS, "all rows fine", "https://ci.example.org/1")
    assert good.commit_id == function.checked.candidate.id
    assert function.status({"state": "failure"}).state is FAILURE
    assert function.status({"state": "pending"}).state is PENDING


def test_any_other_response_is_an_error(function: Function) -> None:
    for result in ("not JSON", {"status": "success"}, {"state": "fine"}, {"state": "success", "url": "file:///etc"}):
        status = function.status(result)
        assert status.state is ERROR
        assert "is not that of a check" in status.description


def test_a_function_that_is_not_there_is_an_error(function: Function) -> None:
    settings = CheckSettings(lambdas={"quality": "arn:aws:lambda:eu-central-1:123456789012:function:gone"})
    status = function.checked.status("lambda", name="quality", settings=settings)
    assert status.state is ERROR
    assert "gone" in status.description
