"""Runs on a lake on S3 and DynamoDB: the gateway has the rights of the runner, and the program has none of them."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import graveler
from graveler.sdk.lake import open_lake
from tests.gateway.run.support import JOINING, Place, is_alive, program
from tests.storage.adapters import CREDENTIALS
from tests.support.lakes_on_aws import new_lake_on_aws
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.ci


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[tuple[Place, "graveler.Branch"]]:
    """How runs are started there, and the branch main of its repository ``sales``, which has the object ``seed``."""
    variables, location = new_lake_on_aws("run", tmp_path / "cache")
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in variables.items():
            patch.setenv(variable, value)
        with open_lake(user="bob", **location) as lake:
            main = lake.repository("sales").create().branch("main")
            main.object("seed").upload("1")
            main.commit("Seed")
            yield (
                Place(
                    location["location"],
                    {
                        "GRAVELER_OBJECTS": location["objects"],
                        "AWS_REGION": location["region"],
                        "AWS_ENDPOINT_URL_S3": location["s3_endpoint_url"],
                        "AWS_ENDPOINT_URL_DYNAMODB": location["dynamodb_endpoint_url"],
                        "AWS_SESSION_TOKEN": "",
                    },
                ),
                main,
            )


LARGE = """
put("a", get("seed"))
s3.upload_fileobj(__import__("io").BytesIO(bytes(9 << 20)), "sales", "large")
print(os.environ["AWS_ACCESS_KEY_ID"][:4], s3.head_object(Bucket="sales", Key="large")["ContentLength"])
"""


def test_a_run_is_published(aws: "tuple[Place, graveler.Branch]") -> None:
    place, main = aws
    end = place.run("sales/main", "--", *program(LARGE))
    assert (end.code, end.out) == (0, f"GRUN {9 << 20}\n"), end.err
    assert {path: main.object(path).stat().size for path in ("a", "large")} == {"a": 1, "large": 9 << 20}


def test_a_run_that_fails_is_not(aws: "tuple[Place, graveler.Branch]") -> None:
    place, main = aws
    end = place.run("sales/main", "--", *program(LARGE + "sys.exit(3)"))
    assert end.code == 3
    assert [entry.path for entry in main.objects()] == ["seed"]


def test_a_folder_is_filled_and_staged(aws: "tuple[Place, graveler.Branch]", tmp_path: Path) -> None:
    place, main = aws
    for number in range(20):
        main.object(f"tables/{number}").upload(str(number))
    main.commit("Tables")
    data = tmp_path / "data"
    program = f"cat {data}/7; rm {data}/8; touch {data}/9; echo new > {data}/7"
    end = place.run("sales/main", "--folder", f"{data}=tables", "--", "sh", "-c", program)
    assert (end.code, end.out) == (0, "7"), end.err
    assert main.object("tables/7").reader().read() == b"new\n"
    assert len(list(main.objects(prefix="tables/"))) == 19
    assert main.get_commit().metadata["graveler.run.written_objects"] == "1"
    assert not data.exists()


def test_a_gateway_that_joins_writes_into_the_same_run(aws: "tuple[Place, graveler.Branch]") -> None:
    place, main = aws
    variables = {**place.environment, "OTHER_HOST": json.dumps(CREDENTIALS)}
    end = replace(place, environment=variables).run("sales/main", "--", *program(JOINING))
    assert end.code == 0, end.err
    paths = [entry.path for entry in main.objects()]
    assert paths == ["a", "b", "large-False", "large-True", "seed"]
    (pids, *_) = json.loads(end.out.splitlines()[-1])
    waited = time.monotonic() + PATIENCE
    while any(map(is_alive, pids)):
        assert time.monotonic() < waited
        time.sleep(0.1)
