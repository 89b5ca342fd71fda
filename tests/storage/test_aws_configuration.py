"""Which hosts AWS's requests and presigned URLs go to: by region, bucket, environment and profile."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from graveler.storage.aws_configuration import region_of
from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.storage.tables import dynamodb as dynamodb_tables
from graveler.storage.tables.dynamodb import DynamoDBSettings
from tests.cli.support import run
from tests.storage.adapters import CREDENTIALS
from tests.support.servers import dynamodb_local
from tests.support.shell import Shell

HOSTS = {
    "us-east-1": "s3.us-east-1.amazonaws.com",
    "eu-west-1": "s3.eu-west-1.amazonaws.com",
    "eu-south-1": "s3.eu-south-1.amazonaws.com",
    "ap-east-1": "s3.ap-east-1.amazonaws.com",
    "us-gov-west-1": "s3.us-gov-west-1.amazonaws.com",
    "cn-north-1": "s3.cn-north-1.amazonaws.com.cn",
}
VENDORS = ("http://127.0.0.1:9000", "http://localhost:9000", "https://s3.eu-central-1.vendor.example")
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


@pytest.fixture(autouse=True)
def _environment(shell: Shell) -> None:
    shell.unset("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", *REGIONS)
    shell.export_all(CREDENTIALS)


def presigned(bucket: str, settings: S3Settings) -> list[tuple[str, str, str]]:
    """Scheme and host, path, and region of what is signed, of each kind of presigned URL."""
    store = S3Objects(bucket, "p", settings)
    urls = [store.presign("k", "GET", 60), store.presign("k", "PUT", 60), store.presign_part("k", "an-upload", 1, 60)]
    parts = [urlsplit(url) for url in urls]
    return [
        (f"{part.scheme}://{part.netloc}", part.path, parse_qs(part.query)["X-Amz-Credential"][0].split("/")[2])
        for part in parts
    ]


@pytest.mark.parametrize("region", HOSTS)
def test_a_presigned_url_names_the_region(region: str) -> None:
    assert presigned("a-bucket", S3Settings(region)) == [(f"https://a-bucket.{HOSTS[region]}", "/p/k", region)] * 3


@pytest.mark.parametrize("region", HOSTS)
@pytest.mark.parametrize("bucket", ["a.bucket", "a.b.c", "Old_Bucket"])
def test_a_bucket_that_no_certificate_covers_stands_in_the_path(region: str, bucket: str) -> None:
    assert presigned(bucket, S3Settings(region)) == [(f"https://{HOSTS[region]}", f"/{bucket}/p/k", region)] * 3


@pytest.mark.parametrize("region", HOSTS)
def test_path_style_by_setting_names_the_region_too(region: str) -> None:
    found = presigned("a-bucket", S3Settings(region, path_style=True))
    assert found == [(f"https://{HOSTS[region]}", "/a-bucket/p/k", region)] * 3


@pytest.mark.parametrize("url", VENDORS)
def test_other_servers_are_spoken_to_in_path_style(url: str) -> None:
    assert presigned("a-bucket", S3Settings("eu-west-1", url)) == [(url, "/a-bucket/p/k", "eu-west-1")] * 3
    host = url.partition("://")[2]
    virtual = presigned("a-bucket", S3Settings("eu-west-1", url, path_style=False))
    if "127.0.0.1" not in host:  # an address is no domain
        assert virtual[0][0].endswith(f"//a-bucket.{host}")


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
@pytest.mark.parametrize("url", VENDORS)
def test_so_are_those_that_the_environment_names(variable: str, url: str, shell: Shell) -> None:
    shell.export(variable, url)
    assert presigned("a-bucket", S3Settings("eu-west-1")) == [(url, "/a-bucket/p/k", "eu-west-1")] * 3
    shell.export("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert presigned("a-bucket", S3Settings("eu-west-1"))[0][0] == "https://a-bucket.s3.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    "profile",
    [
        "[profile other]\nendpoint_url = {}\n",
        "[profile other]\nservices = mine\n[services mine]\ns3 =\n  endpoint_url = {}\n",
    ],
)
def test_so_are_those_that_the_profile_names(profile: str, tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "config").write_text(profile.format(VENDORS[2]))
    shell.export("AWS_CONFIG_FILE", str(tmp_path / "config"))
    shell.export("AWS_PROFILE", "other")
    assert presigned("a-bucket", S3Settings("eu-west-1")) == [(VENDORS[2], "/a-bucket/p/k", "eu-west-1")] * 3


def test_a_profile_whose_services_are_not_there_is_told(tmp_path: Path, shell: Shell) -> None:
    from graveler.errors import UnavailableError

    (tmp_path / "config").write_text("[profile other]\nservices = gone\n")
    shell.export("AWS_CONFIG_FILE", str(tmp_path / "config"))
    shell.export("AWS_PROFILE", "other")
    with pytest.raises(UnavailableError, match="gone"):
        presigned("a-bucket", S3Settings("eu-west-1"))


@pytest.mark.parametrize("variable", REGIONS)
def test_either_variable_alone_names_the_region(variable: str, shell: Shell) -> None:
    shell.export(variable, "eu-south-1")
    host = "https://a-bucket.s3.eu-south-1.amazonaws.com"
    assert presigned("a-bucket", S3Settings()) == [(host, "/p/k", "eu-south-1")] * 3
    client = dynamodb_tables._CONNECTIONS.get(DynamoDBSettings("t")).client
    assert client.meta.endpoint_url == "https://dynamodb.eu-south-1.amazonaws.com"


def test_aws_region_counts_more_and_a_setting_most(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[default]\nregion = eu-west-3\n")
    shell.export("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert region_of(None) is None
    assert presigned("b-b", S3Settings())[0][2] == "eu-west-3"
    shell.export("AWS_DEFAULT_REGION", "eu-west-2")
    assert presigned("b-b", S3Settings())[0][2] == "eu-west-2"
    shell.export("AWS_REGION", "eu-west-1")
    assert presigned("b-b", S3Settings())[0][2] == "eu-west-1"
    assert presigned("b-b", S3Settings("us-gov-west-1"))[0][2] == "us-gov-west-1"


@pytest.mark.parametrize("variable", REGIONS)
def test_the_command_line_needs_only_one_of_them(variable: str, shell: Shell) -> None:
    shell.export(variable, "us-east-1")
    shell.export("AWS_ENDPOINT_URL_DYNAMODB", dynamodb_local())
    shell.export("GRAVELER_TABLES", "dynamodb://no-such-table")
    shell.export("GRAVELER_OBJECTS", "s3://a-bucket")
    refused = run("repo", "list")
    assert "there is no such table" in refused.err, refused
