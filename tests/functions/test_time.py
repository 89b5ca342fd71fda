"""A function knows how much of its time is left: when half of it is used, an operation continues the work."""

import json
import os

import boto3

from graveler.functions.deployed_lake import open_deployed_lake
from graveler.functions.deployment_settings import read_configuration
from graveler.functions.entry import seconds_left
from graveler.functions.maintenance import maintain_handler
from graveler.functions.traffic import Traffic
from graveler.model import ObjectEntry, SplitParameters
from tests.functions.conftest import Handler
from tests.functions.events import event
from tests.functions.test_maintenance import Context, records
from tests.support.shell import Shell

COMMITS = "/api/v1/repositories/long/branches/main/commits"
OPERATIONS = "/api/v1/repositories/long/operations"


def test_a_commit_that_has_used_its_time_goes_on_in_another_function(
    deployment: None, write: Handler, authorization: str, shell: Shell
) -> None:
    queue = boto3.client("sqs").create_queue(QueueName="operations")["QueueUrl"]
    shell.export("GRAVELER_OPERATIONS_QUEUE", queue)
    lake = open_deployed_lake(read_configuration(os.environ), Traffic())
    repository = lake.create_repository("long", "s3://lake/long", split=SplitParameters(100, 800, 3))
    repository.link_many(
        "main", [ObjectEntry(f"{number:03}", f"s3://raw/{number}", number, f"{number:032x}", 1) for number in range(40)]
    )
    request = event("POST", COMMITS, body={"message": "m"}, authorization=authorization)
    hurried = Context(3)
    assert seconds_left(hurried) == 0
    answer = write(request, hurried)
    assert answer["statusCode"] == 429, answer["body"]
    assert not list(repository.objects("main@"))
    (operation,) = json.loads(write(event("GET", OPERATIONS, authorization=authorization), None)["body"])["results"]
    assert (operation["kind"], operation["state"]) == ("commit", "running")

    maintain_handler()({"Records": records(queue)}, Context())
    answer = write(request, Context(29))
    assert answer["statusCode"] == 201, answer["body"]
    assert json.loads(answer["body"])["id"] == repository.commit_of("main").id
    assert len(list(repository.objects("main@"))) == 40


def test_with_time_left_or_nobody_to_hand_over_to_a_commit_is_made_in_the_request(
    deployment: None, write: Handler, authorization: str
) -> None:
    lake = open_deployed_lake(read_configuration(os.environ), Traffic())
    repository = lake.create_repository("long", "s3://lake/long", split=SplitParameters(100, 800, 3))
    for number in (1, 2):
        entries = [ObjectEntry(f"{at:03}", f"s3://raw/{number}", number, f"{number:032x}", 1) for at in range(40)]
        repository.link_many("main", entries)
        request = event("POST", COMMITS, body={"message": f"{number}"}, authorization=authorization)
        answer = write(request, Context(3))
        assert answer["statusCode"] == 201, answer["body"]
    assert json.loads(write(event("GET", OPERATIONS, authorization=authorization), None)["body"])["results"] == []
