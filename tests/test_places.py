"""Where a lake is: by options, the environment and the working folder; contradictions are refused."""

from pathlib import Path

import pytest

from graveler.errors import ForbiddenError, GravelerError, InvalidError, NotFoundError
from graveler.lake.opening.location import AwsLake, FolderLake
from graveler.location.environment import (
    ENDPOINT,
    KEY_ID,
    LAKE,
    OBJECTS,
    SECRET,
    TABLES,
    Named,
    Network,
    ServedLake,
    find_lake,
    find_location,
)
from tests.support.shell import Shell

S3 = "s3://bucket/lake"
TABLE = "dynamodb://lake"


@pytest.fixture(autouse=True)
def nothing_said(shell: Shell, tmp_path: Path) -> None:
    shell.name_nothing(tmp_path)
    shell.export("XDG_CACHE_HOME", "/caches")


def on_aws(**fields: str) -> AwsLake:
    found = find_location(Named(**{"tables": TABLE, "objects": S3} | fields))  # type: ignore[arg-type]
    assert isinstance(found, AwsLake)
    return found


def test_the_nearest_folder_upward_is_found(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / ".graveler").mkdir()
    (tmp_path / ".graveler/graveler.json").touch()
    (tmp_path / "a/b").mkdir(parents=True)
    shell.cd(tmp_path / "a/b")
    assert find_location() == FolderLake(tmp_path / ".graveler")
    assert find_location(Named(lake=str(tmp_path))) == FolderLake(tmp_path / ".graveler")
    assert find_location(Named(lake="elsewhere")) == FolderLake(Path("elsewhere"))


def test_without_any_it_is_said_what_to_do() -> None:
    with pytest.raises(NotFoundError, match="graveler init"):
        find_location()


@pytest.mark.parametrize(
    "environment", [{LAKE: TABLE, OBJECTS: S3}, {TABLES: TABLE, OBJECTS: S3}, {LAKE: "", TABLES: TABLE, OBJECTS: S3}]
)
def test_the_environment_names_a_lake_on_aws(environment: dict[str, str], shell: Shell) -> None:
    shell.export_all(environment)
    assert find_location() == on_aws()
    assert find_location(Named(lake="folder")) == FolderLake(Path("folder")), "options come first"
    assert find_location(Named(tables="dynamodb://other")) == on_aws(tables="dynamodb://other")
    assert find_location(Named(objects="s3://other", region="eu-west-1")) == on_aws(
        objects="s3://other", region="eu-west-1"
    )


def test_endpoints_are_taken_from_where_awss_own_tools_take_them(shell: Shell) -> None:
    shell.export("AWS_ENDPOINT_URL", "http://all")
    shell.export("AWS_ENDPOINT_URL_S3", "http://s3")
    assert (on_aws().s3_endpoint_url, on_aws().dynamodb_endpoint_url) == ("http://s3", "http://all")
    assert on_aws(s3_endpoint_url="http://mine").s3_endpoint_url == "http://mine"


@pytest.mark.parametrize(
    ("named", "environment", "told"),
    [
        ({"lake": "x", "tables": TABLE}, {}, "--lake 'x' and --tables 'dynamodb://lake' name two lakes"),
        ({}, {LAKE: "x", TABLES: TABLE}, "GRAVELER_LAKE 'x' and GRAVELER_TABLES 'dynamodb://lake' name two lakes"),
        ({"lake": TABLE}, {}, "--lake needs --objects"),
        ({"tables": TABLE}, {}, "--tables needs --objects"),
        ({}, {TABLES: TABLE}, "GRAVELER_TABLES needs --objects"),
        ({"objects": S3}, {}, "--objects needs --tables"),
        ({"lake": "x", "objects": S3}, {}, "--lake 'x' names another lake; name only one"),
        ({"lake": "x", "s3_endpoint_url": "http://s3"}, {}, "--s3-endpoint-url is only for a lake on AWS"),
        ({"region": "eu-west-1"}, {}, "--region is only for a lake on AWS"),
        ({"lake": "s3://bucket"}, {}, "--lake 's3://bucket' does not name a lake"),
        ({}, {LAKE: "file:///x"}, "GRAVELER_LAKE 'file:///x' does not name a lake"),
    ],
)
def test_two_places_or_half_of_one_are_refused(
    named: dict[str, str], environment: dict[str, str], told: str, shell: Shell
) -> None:
    shell.export_all(environment)
    with pytest.raises(InvalidError) as refused:
        find_location(Named(**named, by_options=True))  # type: ignore[arg-type]
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ({"lake": "x", "tables": TABLE}, "lake 'x' and tables 'dynamodb://lake' name two lakes"),
        (
            {"lake": TABLE},
            "lake needs objects: a lake on AWS needs tables='dynamodb://TABLE' and objects='s3://BUCKET/",
        ),
        ({"objects": S3}, "objects needs tables"),
        ({"s3_endpoint_url": "http://s3"}, "s3_endpoint_url is only for a lake on AWS"),
        ({"tables": TABLE, "endpoint": "http://x"}, "tables 'dynamodb://lake' and endpoint 'http://x' name two lakes"),
        ({"endpoint": "http://x"}, "this works only on the lake itself, but endpoint 'http://x' names a server"),
        ({"endpoint": "http://ada:word@x/y"}, "but endpoint 'http://…@x/y' names a server"),
        ({"lake": "ftp://ada:word@x"}, "lake 'ftp://…@x' does not name a lake"),
    ],
)
def test_in_python_errors_name_parameters(named: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidError) as refused:
        find_location(Named(**named))  # type: ignore[arg-type]
    assert told in str(refused.value)
    assert "--" not in str(refused.value)


def test_each_lake_on_aws_has_a_cache_of_its_own(shell: Shell) -> None:
    one = on_aws().cache
    assert one.parent == Path("/caches/graveler")
    assert one == on_aws(objects=f"{S3}/").cache
    assert one != on_aws(objects="s3://bucket/b").cache
    assert one != on_aws(tables="dynamodb://b").cache
    assert one != on_aws(s3_endpoint_url="http://localhost:1").cache
    shell.export("XDG_CACHE_HOME", "relative")
    shell.export("HOME", "/home/ann")
    assert on_aws().cache.is_relative_to("/home/ann/.cache/graveler")


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    def none() -> Path:
        raise RuntimeError

    shell.unset("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", none)
    with pytest.raises(GravelerError, match="XDG_CACHE_HOME"):
        on_aws()


URL = "https://lake.test"
LAKECTL = f"""# of lakectl
credentials:
    access_key_id: "file's"   # not quoted by everybody
    secret_access_key: file-secret
server:
    endpoint_url: {URL}/api/v1
"""


def served(named: Named | None = None) -> ServedLake:
    found = find_lake(named or Named(endpoint=URL))
    assert isinstance(found, ServedLake)
    return found


def test_a_server_is_named_by_options_before_the_environment(shell: Shell) -> None:
    shell.export(KEY_ID, "id")
    shell.export(SECRET, "secret")
    shell.export(ENDPOINT, "https://other.test")
    assert served(Named()).url == "https://other.test"
    assert served(Named(endpoint=URL)).url == served(Named(lake=URL)).url == URL
    shell.unset(ENDPOINT)
    shell.export("LAKECTL_SERVER_ENDPOINT_URL", URL)
    with pytest.raises(NotFoundError):  # lakectl's server is named to lakectl
        find_lake()


def test_keys_are_gravelers_then_lakectls_then_those_in_lakectls_file(shell: Shell, tmp_path: Path) -> None:
    def key() -> tuple[str, str]:
        found = served()
        return found.key_id, found.secret

    with pytest.raises(
        ForbiddenError, match=r"set GRAVELER_ACCESS_KEY_ID and GRAVELER_SECRET_ACCESS_KEY, or.*lakectl.yaml"
    ):
        key()
    (tmp_path / ".lakectl.yaml").write_text(LAKECTL)
    assert key() == ("file's", "file-secret")
    shell.export("LAKECTL_SERVER_ENDPOINT_URL", f"{URL}/")
    shell.export("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "variable")
    assert key()[0] == "file's", "half a key is none"
    shell.export("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", "variable-secret")
    assert key() == ("variable", "variable-secret")
    shell.export(KEY_ID, "own")
    shell.export(SECRET, "own-secret")
    assert key() == ("own", "own-secret")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LAKECTL + "  : [\n", ", line 7"),
        (LAKECTL.replace("file-secret", "*file-secret"), ", line 4"),
        ("\0", ""),
    ],
)
def test_a_broken_file_of_lakectls_is_named_with_its_line(shell: Shell, tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / ".lakectl.yaml").write_text(text)
    with pytest.raises(
        InvalidError, match=rf"~/.lakectl.yaml{line} is not valid YAML; .* GRAVELER_ACCESS_KEY_ID"
    ) as caught:
        served()
    assert "file-secret" not in str(caught.value)
    shell.export(KEY_ID, "own")
    shell.export(SECRET, "own-secret")
    assert served().key_id == "own", "nobody needs the file"


@pytest.mark.parametrize("text", ["", "[1, 2]", "credentials: none", "credentials:\n  access_key_id: [1]\n"])
def test_a_file_of_lakectls_without_a_key_is_no_error_of_its_own(tmp_path: Path, text: str) -> None:
    (tmp_path / ".lakectl.yaml").write_text(text)
    with pytest.raises(ForbiddenError, match="there is no access key for it"):
        served()


@pytest.mark.parametrize("other", ["https://other.test", "http://lake.test", "https://lake.test:8443", "nonsense"])
def test_lakectls_keys_go_to_no_other_server(shell: Shell, tmp_path: Path, other: str) -> None:
    (tmp_path / ".lakectl.yaml").write_text(LAKECTL.replace(URL, other))
    shell.export("LAKECTL_SERVER_ENDPOINT_URL", other)
    shell.export("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "variable")
    shell.export("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", "variable-secret")
    with pytest.raises(ForbiddenError):
        served()


def test_proxies_and_certificates_are_taken_from_where_other_tools_take_them(shell: Shell) -> None:
    shell.export(KEY_ID, "id")
    shell.export(SECRET, "secret")
    assert served().network == Network()
    shell.export("https_proxy", "http://lower:1")
    shell.export("ALL_PROXY", "http://all:1")
    shell.export("NO_PROXY", "lake.test,.local")
    shell.export("SSL_CERT_FILE", "/certificates.pem")
    wanted = Network(
        proxies={"http": "http://all:1", "https": "http://lower:1"},
        no_proxy="lake.test,.local",
        certificates="/certificates.pem",
    )
    assert served().network == wanted
    shell.export("AWS_CA_BUNDLE", "/aws.pem")
    assert served().network.certificates == "/aws.pem"
