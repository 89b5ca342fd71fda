"""Handles of the Python API in other processes: those that ``spawn`` starts, as PyTorch's loaders, Dask and Airflow do."""

import copy
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

import graveler
from graveler.sdk.lake import Lake
from tests.clients.support import Served, new_name
from tests.support.shell import Shell

Handle = graveler.Lake | graveler.Repository | graveler.Reference | graveler.StoredObject


@pytest.fixture(params=["folder", "server"])
def lake(request: pytest.FixtureRequest, served: Served, tmp_path: Path) -> Iterator[graveler.Lake]:
    """A lake in a folder, and one behind a server."""
    opened = graveler.create(tmp_path / "lake ü%27") if request.param == "folder" else graveler.open(served.url)
    with opened:
        yield opened


@pytest.fixture
def repository(lake: graveler.Lake) -> graveler.Repository:
    """A repository with a commit."""
    repository = lake.repository(new_name()).create(None)
    repository.branch("main").object("a").upload("hello")
    repository.branch("main").commit("first")
    return repository


def handles(lake: graveler.Lake, repository: graveler.Repository) -> dict[str, Handle]:
    branch = repository.branch("main")
    return {
        "lake": lake,
        "repository": repository,
        "branch": branch,
        "reference": repository.ref("main~0"),
        "tag": repository.tag("v1"),
        "object": branch.object("a"),
        "read": repository.ref("main").object("a"),
    }


def read_all(found: dict[str, Handle], name: str) -> list[str]:
    """What each handle reads, in whichever process."""
    lake, repository, branch, reference, _, written, read = found.values()
    assert isinstance(lake, graveler.Lake)
    assert isinstance(repository, graveler.Repository)
    assert isinstance(branch, graveler.Branch)
    assert isinstance(written, graveler.WriteableObject)
    assert isinstance(reference, graveler.Reference)
    assert isinstance(read, graveler.StoredObject)
    assert lake.verbs is repository.lake_verbs, "they share one open lake"
    objects = [
        lake.repository(name).branch("main").object("a"),
        repository.ref("main").object("a"),
        branch.object("a"),
        reference.object("a"),
        written,
        read,
    ]
    return [one.reader("r").read() for one in objects]


def upload(written: graveler.WriteableObject) -> str:
    written.upload("from afar")
    return written.stat().checksum


def apply(function: Callable[[object], object], data: bytes) -> object:
    return function(pickle.loads(data))


def test_handles_work_in_a_process_of_their_own(lake: graveler.Lake, repository: graveler.Repository) -> None:
    found = handles(lake, repository)
    here = pickle.loads(pickle.dumps(found))
    assert read_all(here, repository.id) == ["hello"] * 6
    here["lake"].close()
    assert read_all(pickle.loads(pickle.dumps(found)), repository.id) == ["hello"] * 6, "it is opened again"
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        assert list(pool.map(read_all, [found] * 4, [repository.id] * 4)) == [["hello"] * 6] * 4
        checksum = pool.submit(upload, repository.branch("main").object("b")).result()
    assert repository.branch("main").object("b").stat().checksum == checksum
    pickle.loads(pickle.dumps(lake)).close()


def test_a_pickle_holds_no_secret(served: Served, shell: Shell) -> None:
    shell.export("GRAVELER_SESSION_TOKEN", "a-token-of-a-session")
    shell.export("http_proxy", "http://me:a-password@127.0.0.1:1")
    shell.export("no_proxy", "127.0.0.1")
    with graveler.open(served.url) as by_token:
        data = pickle.dumps(by_token)
    assert b"a-token-of-a-session" not in data
    assert b"a-password" not in data
    shell.unset("GRAVELER_SESSION_TOKEN")
    with graveler.open(served.url) as opened:
        data = pickle.dumps(opened.repository("r").branch("main").object("x"))
        assert served.secret.encode() not in data
        assert served.url.encode() in data
    for name in served.environment:
        shell.unset(name)
    shell.export("HOME", "/nonexistent")
    there = pickle.loads(data)  # an error here would end the worker, and its pool would not tell it
    with pytest.raises(graveler.ForbiddenError, match="GRAVELER_ACCESS_KEY_ID"):
        there.stat()


def test_a_lake_that_is_gone_is_told(tmp_path: Path) -> None:
    with graveler.create(tmp_path / "lake") as lake:
        data = pickle.dumps(lake.repository("r"))
    (tmp_path / "lake").rename(tmp_path / "moved")
    there = pickle.loads(data)
    with pytest.raises(graveler.NotFoundError, match="lake"):
        list(there.branches())


def test_a_lake_without_a_location_says_that_it_cannot_be_pickled(lake: graveler.Lake) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Lake(lake.verbs))


def test_copies_share_the_lake(lake: graveler.Lake, repository: graveler.Repository) -> None:
    one = copy.copy(repository)
    assert one.branch("main").object("a").reader("r").read() == "hello"
    assert one.lake_verbs is lake.verbs
