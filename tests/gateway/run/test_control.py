"""The lines between ``graveler run`` and its gateway."""

import io
from pathlib import Path

import pytest

from graveler.errors import UnavailableError
from graveler.gateway.control import (
    Closing,
    KeyPair,
    LakePlace,
    Mount,
    Opening,
    Ready,
    S3Place,
    Tally,
    Volume,
    line_of,
    parse_line,
    read_document,
)
from graveler.lake.opening.location import AwsLake, FolderLake
from graveler.location.environment import Network, ServedLake

LOCATIONS = (
    FolderLake(Path("/data/lake")),
    AwsLake(objects="s3://lake/sales", tables="dynamodb://lake", cache=Path("/c"), sealing_key_file=Path("/k")),
    ServedLake(url="https://lake.example", key_id="AKIA", secret="s", network=Network(proxies={"https": "http://p"})),
)


@pytest.mark.parametrize("location", LOCATIONS, ids=lambda location: type(location).__name__)
def test_an_opening_crosses_whole(location: FolderLake | AwsLake | ServedLake) -> None:
    mount = Mount(bucket="sales", repository="sales", ref="tx-1", prefix="warehouse/", read_only=True)
    opening = Opening(
        lake=LakePlace.of(location),
        mounts=(mount,),
        keys=KeyPair("GK", "secret"),
        user="ada",
        also=(S3Place("raw", "in/"),),
    )
    line = line_of(opening)
    assert line.count(b"\n") == 1
    assert parse_line(line, Opening) == opening
    assert opening.lake.location == location


def test_a_folder_is_named_from_the_root() -> None:
    location = LakePlace.of(FolderLake(Path("lake"))).location
    assert isinstance(location, FolderLake)
    assert location.folder.is_absolute()


def test_secrets_are_not_shown() -> None:
    opening = Opening(lake=LakePlace.of(LOCATIONS[2]), mounts=(), keys=KeyPair("GK", "hush"))
    assert "hush" not in repr(opening)
    assert "'s'" not in repr(opening)


def test_documents_are_read_one_after_the_other() -> None:
    tally = Tally(read=Volume(objects=2, bytes=10), written=Volume(objects=1, bytes=5), deleted=1)
    stream = io.BytesIO(line_of(Ready(port=4711)) + line_of(Closing(close=10.0)) + line_of(tally) + b'{"po')
    assert read_document(stream, Ready) == Ready(port=4711)
    assert read_document(stream, Closing) == Closing(close=10.0)
    assert read_document(stream, Tally) == tally
    assert read_document(stream, Ready) is None  # half a line: the writer died


@pytest.mark.parametrize("line", [b"hello\n", b"{}\n", b'{"close": "soon"}\n'])
def test_another_line_is_refused(line: bytes) -> None:
    with pytest.raises(UnavailableError, match="do not understand each other"):
        parse_line(line, Closing)
