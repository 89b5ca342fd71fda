"""The role for tables comes from the environment of a server, and from that of a function."""

from pathlib import Path

from graveler.functions.deployment_settings import read_configuration
from graveler.lake.opening.location import AwsLake, FolderLake
from graveler.server.configuration import ServerSettings
from graveler.server.worker import api_settings
from tests.cli.support import run
from tests.support.role_sessions import ROLE
from tests.support.shell import Shell


def test_a_deployment_names_the_role() -> None:
    environment = {"GRAVELER_OBJECTS": "s3://lake", "GRAVELER_TABLES": "dynamodb://lake"}
    assert read_configuration(environment).api_settings().table_role == ""
    assert read_configuration({**environment, "GRAVELER_TABLE_ROLE": ROLE}).api_settings().table_role == ROLE


def test_a_server_uses_the_role_on_aws_alone(tmp_path: Path) -> None:
    aws = AwsLake(objects="s3://lake", tables="dynamodb://lake", cache=tmp_path)
    for lake, role in ((aws, ROLE), (FolderLake(tmp_path), "")):
        assert api_settings(ServerSettings(lake=lake, metrics=tmp_path, table_role=ROLE)).table_role == role


def test_a_server_does_not_start_with_what_is_no_role(shell: Shell, tmp_path: Path) -> None:
    shell.export("GRAVELER_TABLE_ROLE", "tables")
    refused = run("serve", "--lake", tmp_path / "lake")
    assert refused.code == 2
    assert "GRAVELER_TABLE_ROLE is 'tables'" in refused.err
    assert not (tmp_path / "lake").exists()
