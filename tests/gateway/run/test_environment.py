"""The variables that lead a program's clients to its gateway."""

import re
from pathlib import Path

import pytest

from graveler.gateway.control import REGION, KeyPair
from graveler.gateway.run.environment import REMOVALS, SETTINGS, leave_program, program_environment
from graveler.lake.opening.location import AwsLake, FolderLake
from graveler.location.environment import Network, ServedLake

KEYS = KeyPair("GRUN", "hush")
FOLDER = FolderLake(Path("/data/lake"))
PAGE = (Path(__file__).parents[3] / "docs" / "run.md").read_text(encoding="utf-8")


def test_each_variable_has_its_value() -> None:
    variables = program_environment({"PATH": "/bin", "DATABASE_PASSWORD": "p"}, 4711, KEYS, FOLDER, "sales/tx-1")
    assert variables["PATH"] == "/bin"
    assert variables["DATABASE_PASSWORD"] == "p"
    assert variables["AWS_ACCESS_KEY_ID"] == "GRUN"
    assert variables["AWS_SECRET_ACCESS_KEY"] == "hush"
    assert variables["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:4711"
    assert variables["DUCKDB_S3_ENDPOINT"] == "localhost:4711"
    assert variables["AWS_REGION"] == REGION
    assert variables["GRAVELER_LAKE"] == "/data/lake"
    assert variables["GRAVELER_REPO"] == "sales/tx-1"
    assert "AWS_ENDPOINT_URL" not in variables
    assert not [value for value in variables.values() if "{" in value]


def test_what_would_win_is_gone() -> None:
    inherited = {name: "x" for removal in REMOVALS for name in removal.names}
    variables = program_environment(inherited, 1, KEYS, FOLDER, "sales/tx-1")
    assert not inherited.keys() & variables.keys()


def test_a_program_that_keeps_its_keys_keeps_all_that_belongs_to_them() -> None:
    own = {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_SESSION_TOKEN": "t",
        "AWS_PROFILE": "prod",
        "AWS_REGION": "us-east-1",
        "AWS_ROLE_ARN": "arn:aws:iam::1:role/job",
    }
    variables = program_environment({**own, "AWS_SKIP_SIGNATURE": "true"}, 1, None, FOLDER, "sales/tx-1")
    assert variables.items() >= own.items()
    assert variables["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:1"
    assert "AWS_SKIP_SIGNATURE" not in variables


def test_a_gateway_among_the_programs_leaves_its_variables() -> None:
    variables = program_environment({"PATH": "/bin"}, 4711, KEYS, FOLDER, "sales/tx-1")
    variables["AWS_ACCESS_KEY_ID"] = "AKIA"  # the host's
    leave_program(variables, 4711, KEYS, REGION)
    assert variables["AWS_ACCESS_KEY_ID"] == "AKIA"
    assert not {"AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL_S3", "AWS_REGION"} & variables.keys()


@pytest.mark.parametrize(
    ("inherited", "complete"),
    [
        ("", "127.0.0.1,localhost,.localhost"),
        ("corp.example, localhost", "corp.example,localhost,127.0.0.1,.localhost"),
        ("*", "*"),
    ],
)
def test_no_proxy_stands_between(inherited: str, complete: str) -> None:
    variables = program_environment({"NO_PROXY": inherited, "no_proxy": inherited}, 1, KEYS, FOLDER, "sales/tx-1")
    assert variables["NO_PROXY"] == variables["no_proxy"] == complete


def test_options_of_spark_stay() -> None:
    variables = program_environment({"SPARK_SUBMIT_OPTS": "-Xmx1g"}, 1, KEYS, FOLDER, "sales/tx-1")
    assert variables["SPARK_SUBMIT_OPTS"].startswith("-Xmx1g -Dspark.hadoop.fs.s3a.endpoint=http://127.0.0.1:1 ")


def test_the_lake_is_named_once() -> None:
    inherited = {"GRAVELER_TABLES": "dynamodb://x", "GRAVELER_ENDPOINT": "https://x", "GRAVELER_LAKE": "/x"}
    aws = AwsLake(objects="s3://lake/sales", tables="dynamodb://lake", cache=Path("/c"))
    served = ServedLake(url="https://lake.example", key_id="k", secret="s", network=Network(), profile="prod")
    for location, expected in (
        (FOLDER, {"GRAVELER_LAKE": "/data/lake"}),
        (aws, {"GRAVELER_LAKE": "dynamodb://lake", "GRAVELER_OBJECTS": "s3://lake/sales"}),
        (served, {"GRAVELER_LAKE": "https://lake.example", "GRAVELER_PROFILE": "prod"}),
    ):
        variables = program_environment(inherited, 1, KEYS, location, "sales/tx-1")
        names = {"GRAVELER_LAKE", "GRAVELER_TABLES", "GRAVELER_ENDPOINT", "GRAVELER_OBJECTS", "GRAVELER_PROFILE"}
        assert {name: variables[name] for name in names & variables.keys()} == expected


def test_the_page_shows_each_variable() -> None:
    settings = set(re.findall(r"^\| `([A-Z0-9_]+)` \| `[^|]+` \|", PAGE, re.MULTILINE))
    assert settings == {setting.name for setting in SETTINGS}
    for setting in SETTINGS:
        assert f"| {setting.clients} |" in PAGE
    for removal in REMOVALS:
        assert f"| {', '.join(f'`{name}`' for name in removal.names)} | {removal.effect} |" in PAGE
