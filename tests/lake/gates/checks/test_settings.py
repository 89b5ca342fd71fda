"""The settings of checks: from a document or a file, whose permissions count."""

from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from graveler.errors import CheckSettingsError, GravelerError, InvalidError
from graveler.lake.gates.checks.check_settings import CheckSettings, settings_of_process
from tests.support.shell import Shell


def test_settings_are_a_document_or_a_file(tmp_path: Path) -> None:
    assert settings_of_process({}) == CheckSettings()
    document = settings_of_process({"GRAVELER_CHECKS": '{"lambdas": {"q": "arn"}}'})
    assert document == CheckSettings(lambdas={"q": "arn"})
    file = tmp_path / "checks.toml"
    file.write_text('private_hosts = ["x"]\n[commands]\nd = ["dbt", "test"]\n')
    file.chmod(0o644)
    settings = settings_of_process({"GRAVELER_CHECKS": str(file)})
    assert settings == CheckSettings(commands={"d": ("dbt", "test")}, private_hosts=("x",))
    assert settings.permits("x", 1)
    assert not settings.permits("y", 1)


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ('[commands]\nd = ["x"]\n', 0o666, "chmod go-w"),
        ('[secrets]\nh = "s"\n', 0o644, "chmod 600"),
        ("[commands\n", 0o600, "cannot be parsed"),
        ('[secrets]\nh = "hidden" oops\n', 0o600, "cannot be parsed"),
        ("[commands]\nd = []\n", 0o600, "command 'd' is empty"),
        ("[other]\n", 0o600, "unknown field `other`"),
    ],
)
def test_bad_files_are_refused_without_their_secrets(tmp_path: Path, text: str, mode: int, words: str) -> None:
    file = tmp_path / "checks.toml"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(CheckSettingsError) as refused:
        settings_of_process({"GRAVELER_CHECKS": str(file)})
    assert words in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(CheckSettingsError, match=r"GRAVELER_CHECKS: '/nowhere/checks\.toml' cannot be read"):
        settings_of_process({"GRAVELER_CHECKS": "/nowhere/checks.toml"})


@pytest.mark.ci  # moto takes a second to load
def test_a_secret_may_lie_in_secrets_manager(shell: Shell) -> None:
    shell.export_all({"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"})
    with mock_aws():
        client = boto3.client("secretsmanager", "eu-central-1")
        arns = [
            client.create_secret(Name="hooks", SecretString="s3cret")["ARN"],
            client.create_secret(Name="bytes", SecretBinary=b"\0")["ARN"],
        ]
        settings = CheckSettings(
            secrets={"plain": "a-secret", "stored": arns[0], "bytes": arns[1], "gone": arns[0] + "x"}
        )
        assert (settings.secret("plain"), settings.secret("stored")) == ("a-secret", "s3cret")
        with pytest.raises(InvalidError, match="has no text"):
            settings.secret("bytes")
        with pytest.raises(GravelerError, match="reading secret 'arn:aws:secretsmanager:eu-central-1:"):
            settings.secret("gone")
        with pytest.raises(InvalidError, match="have no secret 'other' any more"):
            settings.secret("other")
