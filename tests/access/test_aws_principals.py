"""Patterns of AWS principals: whom they match, and which are refused since they could match somebody else's."""

import pytest

from graveler.access.aws_principals import matches, principal_pattern, read_principal
from graveler.errors import InvalidError

ME = "123456789012"
STS, IAM = f"arn:aws:sts::{ME}:", f"arn:aws:iam::{ME}:"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (f"{IAM}role/etl-*", f"{STS}assumed-role/etl-*/*"),
        (f"{IAM}role/service-role/nightly", f"{STS}assumed-role/nightly/*"),
        (f"{STS}assumed-role/Dev", f"{STS}assumed-role/Dev/*"),
        (f"{STS}assumed-role/Dev/ann@example.org", f"{STS}assumed-role/Dev/ann@example.org"),
        (f"{IAM}user/team/*", f"{IAM}user/team/*"),
        (f"{STS}federated-user/ann", f"{STS}federated-user/ann"),
        (f"{IAM}root", f"{IAM}root"),
        (f"arn:aws-us-gov:iam::{ME}:role/x", f"arn:aws-us-gov:sts::{ME}:assumed-role/x/*"),
    ],
)
def test_a_role_as_iam_writes_it_means_its_sessions(said: str, kept: str) -> None:
    assert principal_pattern(said) == kept == principal_pattern(kept)


@pytest.mark.parametrize(
    "said",
    [
        "arn:aws:sts::*:assumed-role/admin/*",  # anybody's account has such a role
        "arn:aws:sts::12345678901?:assumed-role/admin/*",
        "arn:*:sts::123456789012:assumed-role/admin/*",
        "*",
        "",
        f"{STS}*/admin/*",
        f"{STS}assumed-role/a/b/c",
        f"{STS}assumed-role//*",
        f"{IAM}role/path/etl-*",  # sessions do not say the path
        f"{IAM}assumed-role/x/*",
        f"{STS}user/ann",
        f"{IAM}root/x",
        f"{IAM}user",
        f"{IAM}group/x",
        f"arn:aws:s3::{ME}:user/x",
        f"{IAM}user/a\nb",
        f"{IAM}user/{'a' * 2048}",
    ],
)
def test_a_pattern_that_could_be_somebody_elses_is_refused(said: str) -> None:
    with pytest.raises(InvalidError, match="principal"):
        principal_pattern(said)


@pytest.mark.parametrize(
    ("pattern", "arn", "fits"),
    [
        (f"{STS}assumed-role/etl-*/*", f"{STS}assumed-role/etl-nightly/i-1", True),
        (f"{STS}assumed-role/etl-*/*", f"{STS}assumed-role/other/etl-1", False),
        (f"{STS}assumed-role/*/admin", f"{STS}assumed-role/x/admin", True),
        (f"{STS}assumed-role/etl-*/*", "arn:aws:sts::999999999999:assumed-role/etl-nightly/i-1", False),
        (f"{STS}assumed-role/etl-*/*", f"arn:aws-cn:sts::{ME}:assumed-role/etl-nightly/i-1", False),
        (f"{IAM}user/*", f"{IAM}user/ann", True),
        (f"{IAM}user/*", f"{IAM}user/team/ann", False),
        (f"{IAM}user/team/*", f"{IAM}user/team/ann", True),
        (f"{IAM}user/ann", f"{IAM}user/Ann", False),
        (f"{IAM}root", f"{IAM}root", True),
    ],
)
def test_a_wildcard_stays_within_its_part(pattern: str, arn: str, fits: bool) -> None:
    assert matches(pattern, arn) is fits


def test_a_principal_has_a_name_and_perhaps_a_session() -> None:
    role, user = read_principal(f"{STS}assumed-role/etl/i-1"), read_principal(f"{IAM}user/team/ann")
    assert (role.name, role.session, user.name, user.session) == ("etl", "i-1", "ann", "")
    assert read_principal(f"{IAM}root").name == "root"


@pytest.mark.parametrize("arn", ["", "ann", f"{STS}assumed-role/etl", f"{IAM}user/", f"{IAM}user/a\0", f"{IAM}role/x"])
def test_what_sts_never_says_is_no_principal(arn: str) -> None:
    with pytest.raises(InvalidError, match="not the ARN of an AWS principal"):
        read_principal(arn)
