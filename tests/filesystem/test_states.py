"""A listing shows one state, whatever others write between its requests."""

from collections.abc import Iterator
from typing import Any

import pytest

from graveler.errors import PreconditionError
from graveler.filesystem.filesystem import GravelerFileSystem
from graveler.lake.reading import view
from graveler.lake.reading.view import View
from graveler.remote.reading import RemoteReader
from tests.filesystem.conftest import new_repository


@pytest.fixture
def folder_fs(folder_options: dict[str, Any]) -> Iterator[GravelerFileSystem]:
    made = GravelerFileSystem(**folder_options, user="ada", skip_instance_cache=True)
    yield made
    made.opened.close()


def merging_between_pages(monkeypatch: pytest.MonkeyPatch, fs: GravelerFileSystem, repository: str) -> list[int]:
    """After each page of a listing, merge a commit that adds an object and removes another one. Pages have two objects."""
    merged: list[int] = []
    main, side = (fs.opened.repository(repository).branch(name) for name in ("main", "side"))
    side.create("main")

    def merge() -> None:
        merged.append(len(merged))
        side.object(f"d/{len(merged) + 1}").delete()
        side.object(f"z/{len(merged)}").upload("new")
        side.commit("One more, one less")
        side.merge_into(main)

    list_page, list_behind_a_server = View.list_objects, RemoteReader.list_in_state

    def list_objects(self: View, **arguments: Any) -> Any:
        page = list_page(self, **{**arguments, "amount": 2})
        merge()
        return page

    def list_in_state(self: RemoteReader, state: str, ref: str, query: Any) -> Any:
        page = list_behind_a_server(self, state, ref, {**query, "amount": 2})
        merge()
        return page

    monkeypatch.setattr(View, "list_objects", list_objects)
    monkeypatch.setattr(RemoteReader, "list_in_state", list_in_state)
    return merged


@pytest.mark.parametrize("how", ["find", "glob", "walk"])
@pytest.mark.parametrize("storage_options", ["folder", "served"], indirect=True)
def test_one_listing_is_of_one_state(
    monkeypatch: pytest.MonkeyPatch, fs: GravelerFileSystem, branch: str, how: str
) -> None:
    repository = branch.removesuffix("/main")
    names = [f"{branch}/d/{n}" for n in range(9)]
    fs.pipe(dict.fromkeys(names, b"1"))
    fs.opened.repository(repository).branch("main").commit("All")
    merged = merging_between_pages(monkeypatch, fs, repository)
    if how == "find":
        found = fs.find(branch)
    elif how == "glob":
        found = fs.glob(f"{branch}/*/*")
    else:
        found = [f"{top}/{name}" for top, _, files in fs.walk(branch) for name in files]
    assert found == names
    assert len(merged) >= 5
    monkeypatch.undo()
    assert fs.find(branch) != names


def test_a_state_of_a_branch_is_not_read_for_longer_than_it_is_kept(
    monkeypatch: pytest.MonkeyPatch, folder_fs: GravelerFileSystem, folder_options: dict[str, Any]
) -> None:
    repository = folder_fs.opened.verbs(new_repository({**folder_options, "user": "ada"}))
    repository.upload("main", "x", b"1")
    monkeypatch.setattr(view, "LONGEST", -1)
    late = repository.view("main")
    for read in (lambda: late.get("x"), late.list_objects, lambda: list(late.objects())):
        with pytest.raises(PreconditionError, match="read a commit or a tag instead"):
            read()
    assert repository.view("main@").get("x") is None
