"""The places of a run's folders."""

from pathlib import Path

import pytest

from graveler.errors import InvalidError
from graveler.gateway.run.folders.places import FolderPlace, expect_apart, parse_folder
from graveler.lake.opening.location import FolderLake

LAKE = FolderLake(Path("/lakes/sales"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/data=tables/events", FolderPlace(folder=Path("/data"), prefix="tables/events/")),
        ("/data=/tables/events/", FolderPlace(folder=Path("/data"), prefix="tables/events/")),
        ("/data=year=2026:ro", FolderPlace(folder=Path("/data"), prefix="year=2026/", read_only=True)),
        ("/data=a:ro/", FolderPlace(folder=Path("/data"), prefix="a:ro/")),
        ("/data=/", FolderPlace(folder=Path("/data"), prefix="")),
        ("data=a", FolderPlace(folder=Path.cwd() / "data", prefix="a/")),
    ],
)
def test_a_place_is_a_folder_and_a_prefix(text: str, place: FolderPlace) -> None:
    assert parse_folder(text) == place


@pytest.mark.parametrize("text", ["", "data", "data=", "=a", "data=:ro", "da\0ta=a"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="--folder"):
        parse_folder(text)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (("/a=x", "/a=y"), "one folder"),
        (("/a=x", "/a/b=y"), "in one another"),
        (("/a=x", "/b=x"), "objects in common"),
        (("/a=x:ro", "/b=x/y"), "objects in common"),
        (("/a=/", "/b=x"), "objects in common"),
        (("/lakes/sales/data=x",), "in the lake"),
    ],
)
def test_places_that_are_in_the_way_of_one_another_are_refused(texts: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(InvalidError, match=sentence):
        expect_apart([parse_folder(text) for text in texts], LAKE)


def test_places_that_are_apart() -> None:
    expect_apart([parse_folder(text) for text in ("/a=x", "/b=y", "/c=xy", "/d=z:ro", "/e=z/z:ro")], LAKE)
