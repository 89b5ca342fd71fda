"""Where a lake is: what options, the environment and the working folder say, and what makes no sense."""

import os
from pathlib import Path

import pytest

from graveler.errors import GravelerError, InvalidError, NotFoundError
from graveler.lake.place import AwsLake, FolderLake
from graveler.places import LAKE, OBJECTS, TABLES, Named, find_place

S3 = "s3://bucket/lake"
TABLE = "dynamodb://lake"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("GRAVELER_", "AWS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.chdir(tmp_path)


def on_aws(**fields: str) -> AwsLake:
    found = find_place(Named(**{"tables": TABLE, "objects": S3} | fields))  # type: ignore[arg-type]
    assert isinstance(found, AwsLake)
    return found


def test_the_nearest_folder_upward_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".graveler").mkdir()
    (tmp_path / ".graveler/graveler.json").touch()
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a/b")
    assert find_place() == FolderLake(tmp_path / ".graveler")
    assert find_place(Named(lake=str(tmp_path))) == FolderLake(tmp_path / ".graveler")
    assert find_place(Named(lake="elsewhere")) == FolderLake(Path("elsewhere"))


def test_without_any_it_is_said_what_to_do() -> None:
    with pytest.raises(NotFoundError, match="graveler init"):
        find_place()


@pytest.mark.parametrize(
    "environment", [{LAKE: TABLE, OBJECTS: S3}, {TABLES: TABLE, OBJECTS: S3}, {LAKE: "", TABLES: TABLE, OBJECTS: S3}]
)
def test_the_environment_names_a_lake_on_aws(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert find_place() == on_aws()
    assert find_place(Named(lake="folder")) == FolderLake(Path("folder")), "options come first"
    assert find_place(Named(tables="dynamodb://other")) == on_aws(tables="dynamodb://other")
    assert find_place(Named(objects="s3://other", region="eu-west-1")) == on_aws(
        objects="s3://other", region="eu-west-1"
    )


def test_endpoints_are_taken_from_where_awss_own_tools_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://all")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3")
    assert (on_aws().s3_endpoint_url, on_aws().dynamodb_endpoint_url) == ("http://s3", "http://all")
    assert on_aws(s3_endpoint_url="http://mine").s3_endpoint_url == "http://mine"


@pytest.mark.parametrize(
    ("named", "environment", "told"),
    [
        ({"lake": "x", "tables": TABLE}, {}, "--lake 'x' and --tables 'dynamodb://lake' name two lakes"),
        ({}, {LAKE: "x", TABLES: TABLE}, "GRAVELER_LAKE 'x' and GRAVELER_TABLES 'dynamodb://lake' name two lakes"),
        ({"lake": TABLE}, {}, "--lake is given without --objects"),
        ({"tables": TABLE}, {}, "--tables is given without --objects"),
        ({}, {TABLES: TABLE}, "GRAVELER_TABLES is given without --objects"),
        ({"objects": S3}, {}, "--objects is given without --tables"),
        ({"lake": "x", "objects": S3}, {}, "--lake 'x' names another lake: name one of them"),
        ({"lake": "x", "s3_endpoint_url": "http://s3"}, {}, "--s3-endpoint-url is of a lake on AWS"),
        ({"region": "eu-west-1"}, {}, "--region is of a lake on AWS"),
        ({"lake": "s3://bucket"}, {}, "--lake 's3://bucket' names no lake"),
        ({}, {LAKE: "file:///x"}, "GRAVELER_LAKE 'file:///x' names no lake"),
    ],
)
def test_two_places_or_half_of_one_are_refused(
    named: dict[str, str], environment: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidError) as refused:
        find_place(Named(**named))  # type: ignore[arg-type]
    assert told in str(refused.value)


def test_each_lake_on_aws_has_a_cache_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    one = on_aws().cache
    assert one.parent == Path("/caches/graveler")
    assert one == on_aws(objects=f"{S3}/").cache
    assert one != on_aws(objects="s3://bucket/b").cache
    assert one != on_aws(tables="dynamodb://b").cache
    assert one != on_aws(s3_endpoint_url="http://localhost:1").cache
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/ann")
    assert on_aws().cache.is_relative_to("/home/ann/.cache/graveler")


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", none)
    with pytest.raises(GravelerError, match="XDG_CACHE_HOME"):
        on_aws()
