"""Handles in other processes: pickles hold the lake's address, never a secret, and reopen it there."""

import copy
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import graveler
from graveler.errors import GravelerError
from graveler.files.shared_lake import address_of
from graveler.lake.opening.location import AwsLake
from graveler.location.environment import Network, ServedLake
from graveler.remote.opening import open_served
from graveler.sdk.lake import Lake, open_lake
from graveler.sdk.repository import Repository
from tests.sdk.conftest import CountedLake
from tests.support.shell import Shell
from tests.wire.examples import every_error

ODD = "it's 100% „odd“ <b>.txt"


def _read(handle: object) -> list[str]:
    """Use a handle of any kind in a process of its own."""
    if isinstance(handle, graveler.Lake):
        return [repository.id for repository in handle.repositories()]
    if isinstance(handle, graveler.Repository):
        return [branch.id for branch in handle.branches()]
    if isinstance(handle, graveler.StoredObject):
        return [handle.reader().read().decode(), str(os.getpid())]
    assert isinstance(handle, graveler.Reference)
    return [handle.get_commit().message]


def _write(branch: graveler.Branch) -> str:
    branch.object("from/the worker").upload("w")
    return branch.commit("in a worker").get_commit().committer


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def _filled(repository: Repository) -> Repository:
    main = repository.branch("main")
    main.object(ODD).upload("text")
    main.commit("first")
    repository.tag("v1").create("main")
    return repository


def _every_handle_works(lake: Lake, repository: Repository) -> None:
    main = repository.branch("main")
    with _pool() as pool:
        assert repository.id in pool.submit(_read, lake).result()
        assert pool.submit(_read, repository).result() == ["main"]
        for ref in (main, repository.tag("v1"), repository.ref("main~0"), main.head):
            assert pool.submit(_read, ref).result() == ["first"]
        text, process = pool.submit(_read, main.object(ODD)).result()
        assert text == "text"
        assert process != str(os.getpid())
        assert pool.submit(_write, main).result() == "ada"
    assert main.get_commit().message == "in a worker"


def test_handles_of_a_folder_work_in_a_spawned_process(tmp_path: Path) -> None:
    with graveler.create(tmp_path / "it's 100% „odd“", user="ada") as lake:
        _every_handle_works(lake, _filled(lake.repository("demo").create()))


def test_handles_behind_a_server_work_in_a_spawned_process(served_lake: Lake) -> None:
    repository = _filled(served_lake.repository("pickled").create())
    _every_handle_works(served_lake, repository)
    repository.delete()


def test_a_folder_named_relatively_is_the_same_one_elsewhere(tmp_path: Path, shell: Shell) -> None:
    shell.cd(tmp_path)
    with graveler.create("lake") as lake:
        _filled(lake.repository("demo").create())
        pickled = pickle.dumps(lake.repository("demo"))
    (tmp_path / "elsewhere").mkdir()
    shell.cd(tmp_path / "elsewhere")
    assert _read(pickle.loads(pickled)) == ["main"]


SECRETS = ("SECRET-of-the-key", "SECRET-of-a-token", "SECRET-of-a-proxy", "SECRET-of-AWS")


def test_a_pickle_holds_no_secret_of_the_environment(shell: Shell, tmp_path: Path) -> None:
    shell.export("GRAVELER_ACCESS_KEY_ID", "KEYID")
    shell.export("GRAVELER_SECRET_ACCESS_KEY", SECRETS[0])
    shell.export("HTTPS_PROXY", f"http://user:{SECRETS[2]}@proxy.example.org")
    shell.export("AWS_SECRET_ACCESS_KEY", SECRETS[3])
    by_key = open_lake("https://lake.example.org", user="ada")
    shell.export("GRAVELER_SESSION_TOKEN", SECRETS[1])
    by_token = open_lake("https://lake.example.org", user="ada")
    folder = graveler.create(tmp_path / "lake")
    for lake in (by_key, by_token, folder):
        repository = lake.repository("demo")
        for handle in (lake, repository, repository.branch("main"), repository.branch("main").object("a")):
            pickled = pickle.dumps(handle)
            assert not any(secret.encode() in pickled for secret in (*SECRETS, "KEYID"))
        lake.close()


def test_a_pickle_holds_no_secret_given_by_arguments(shell: Shell) -> None:
    location = ServedLake(
        url="https://lake.example.org",
        key_id="KEYID",
        secret=SECRETS[0],
        network=Network(proxies={"https": f"http://user:{SECRETS[2]}@proxy.example.org"}),
    )
    with Lake(open_served(location), "ada", address_of(location)) as lake:
        pickled = pickle.dumps(lake.repository("demo"))
    assert not any(secret.encode() in pickled for secret in (*SECRETS, "KEYID"))
    shell.unset("GRAVELER_ACCESS_KEY_ID")
    shell.export("HOME", "/nowhere")
    handle = pickle.loads(pickled)  # a worker must survive this, and can report what its first verb raises
    with pytest.raises(graveler.ForbiddenError, match=r"handles carry no credentials.*GRAVELER_ACCESS_KEY_ID"):
        list(handle.branches())
    shell.export("GRAVELER_ACCESS_KEY_ID", "OTHER")
    shell.export("GRAVELER_SECRET_ACCESS_KEY", "other")
    assert handle.verbs is not None
    assert handle.user == "ada"


@pytest.mark.parametrize("url", ["https://user:pass@lake.example.org", "https://token@lake.example.org"])
def test_an_address_with_a_password_is_not_kept(url: str) -> None:
    assert address_of(ServedLake(url=url)) is None
    given = AwsLake(objects="s3://b/p", tables="dynamodb://t", cache=Path("/cache"), s3_endpoint_url=url)
    assert address_of(given) is None


def test_a_lake_in_memory_says_that_it_cannot_be_pickled(lake: CountedLake) -> None:
    with pytest.raises(TypeError, match="cannot be pickled: another process could not open that lake"):
        pickle.dumps(lake.repository("demo").branch("main"))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_are_handles_on_the_same_open_lake(
    lake: CountedLake, repo: Repository, copied: Callable[[Repository], Repository]
) -> None:
    again = copied(repo)
    assert again is not repo
    again.user = "grace"
    assert repo.user == "ada"
    again.branch("main").object("a").upload("a")
    assert repo.branch("main").object("a").exists()


def test_a_process_opens_a_lake_once(tmp_path: Path) -> None:
    with graveler.create(tmp_path / "lake", user="ada") as lake:
        repository = lake.repository("demo").create()
        handles = [repository, repository.branch("main"), lake]
        one, other, third = (pickle.loads(pickle.dumps(handle)) for handle in handles)
    assert one.lake_verbs is other._access.lake is third.verbs
    assert one.lake_verbs is not lake.verbs
    third.close()
    assert one.branch("main").get_commit().message == "Repository created"


def test_threads_open_a_lake_once(tmp_path: Path) -> None:
    with graveler.create(tmp_path / "lake") as lake:
        pickled = pickle.dumps(lake)
    together, opened = threading.Barrier(8), []

    def use() -> None:
        handle = pickle.loads(pickled)
        together.wait()
        opened.append(handle.verbs)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(verbs) for verbs in opened}) == 1


def test_a_lake_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    with graveler.create(tmp_path / "lake") as lake:
        lake.repository("old").create()
        pickled = pickle.dumps(lake)
    assert _read(pickle.loads(pickled)) == ["old"]
    (tmp_path / "lake").rename(tmp_path / "moved")
    with pytest.raises(graveler.NotFoundError, match="there is no lake in"):
        _read(pickle.loads(pickled))
    with graveler.create(tmp_path / "lake") as lake:
        lake.repository("new").create()
    assert _read(pickle.loads(pickled)) == ["new"]


def test_a_handle_works_after_a_fork(tmp_path: Path) -> None:
    with graveler.create(tmp_path / "lake") as lake:
        repository = pickle.loads(pickle.dumps(_filled(lake.repository("demo").create())))
        assert _read(repository) == ["main"]
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
            assert pool.submit(_read, repository.branch("main")).result() == ["first"]


@pytest.mark.parametrize("error", every_error(ODD), ids=lambda error: type(error).__name__)
def test_errors_come_back_from_other_processes(error: GravelerError) -> None:
    """An error that cannot be unpickled breaks the pool, and hides the message."""
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)


def test_opening_is_not_needed_to_unpickle(tmp_path: Path) -> None:
    with graveler.create(tmp_path / "lake") as lake:
        handle = pickle.loads(pickle.dumps(lake))
    assert repr(handle) == f"Lake({str(tmp_path / 'lake')!r}, user={handle.user!r})"
    handle.close()
