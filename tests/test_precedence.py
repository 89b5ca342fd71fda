"""Which source decides: options, variables, profiles, lakectl's file, the working folder. The table of docs/configuration.md."""

import os
import pickle
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

import pytest

import graveler
from graveler.errors import ForbiddenError, InvalidError, NotFoundError
from graveler.lake.opening.location import AwsLake, FolderLake
from graveler.location.configuration import CONFIG, PROFILE, LakeDefault, change_lake_default
from graveler.location.environment import (
    BY_USE,
    ENDPOINT,
    KEY_ID,
    LAKE,
    LOGIN,
    OBJECTS,
    REPO,
    SECRET,
    TABLES,
    TOKEN,
    DefaultPlace,
    Named,
    ServedLake,
    find_default,
    find_lake,
    find_location,
    lake_address,
    unbound_default,
)
from tests.support.shell import Shell

URL: Final = "https://lake.test"
SECRETS: Final = ("SECRET-of-the-variable", "SECRET-of-the-profile", "SECRET-of-lakectl")

Source = Callable[[], object]


@pytest.fixture(autouse=True)
def file(shell: Shell, tmp_path: Path) -> Path:
    """The configuration file, in an environment that says nothing else."""
    shell.name_nothing(tmp_path)
    shell.export(CONFIG, tmp_path / "config.toml")
    return tmp_path / "config.toml"


def written(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o600)


def a_lake_here(folder: Path) -> None:
    (folder / ".graveler").mkdir()
    (folder / ".graveler/graveler.json").touch()


def each_takes_the_place_of_the_one_before(
    sources: Iterable[tuple[Source, object]], found: Callable[[], object]
) -> None:
    """Add the sources, the weakest first: each then decides, whatever those before it say."""
    for add, value in sources:
        add()
        assert found() == value


def test_the_lake(shell: Shell, file: Path, tmp_path: Path) -> None:
    named = Named()

    def name(**fields: str) -> None:
        nonlocal named
        named = Named(**fields)  # type: ignore[arg-type]

    profiles = '[profiles.default]\nlake = "/default"\n'
    more = profiles + '[profiles.one]\nlake = "~/one"\n[profiles.two]\nlake = "/two"\n'
    with pytest.raises(NotFoundError, match="graveler init"):
        find_lake()
    (tmp_path / ".lakectl.yaml").write_text(f"server:\n  endpoint_url: {URL}\n")
    each_takes_the_place_of_the_one_before(
        (
            (lambda: a_lake_here(tmp_path), FolderLake(tmp_path / ".graveler")),
            (lambda: written(file, profiles), FolderLake(Path("/default"))),
            (lambda: written(file, more), FolderLake(Path("/default"))),
            (lambda: shell.export(PROFILE, "one"), FolderLake(tmp_path / "one")),
            (lambda: shell.export(LAKE, "/variable"), FolderLake(Path("/variable"))),
            (lambda: name(profile="two"), FolderLake(Path("/two"))),
            (lambda: name(profile="two", lake="/option"), FolderLake(Path("/option"))),
        ),
        lambda: find_lake(named),
    )


def test_the_objects_of_a_table(shell: Shell, file: Path) -> None:
    named = Named()

    def name(**fields: str) -> None:
        nonlocal named
        named = Named(**fields)  # type: ignore[arg-type]

    def objects() -> str:
        found = find_lake(named)
        assert isinstance(found, AwsLake)
        assert found.tables == "dynamodb://lake"
        return found.objects

    written(file, '[profiles.default]\nlake = "dynamodb://lake"\n')
    with pytest.raises(InvalidError, match=r"'lake' of profile 'default' needs 'objects': add objects = "):
        objects()
    each_takes_the_place_of_the_one_before(
        (
            (lambda: written(file, f"{file.read_text()}objects = 's3://profile'\n"), "s3://profile"),
            (lambda: shell.export(OBJECTS, "s3://variable"), "s3://variable"),
            (lambda: name(profile="default"), "s3://profile"),
            (lambda: name(profile="default", objects="s3://option"), "s3://option"),
        ),
        objects,
    )


def test_the_key_for_a_server(shell: Shell, file: Path, tmp_path: Path) -> None:
    named = Named(endpoint=URL)

    def name(**fields: object) -> None:
        nonlocal named
        named = Named(endpoint=URL, **fields)  # type: ignore[arg-type]

    def key() -> str:
        found = find_lake(named)
        assert isinstance(found, ServedLake)
        return "aws" if found.by_aws else found.token or found.key_id

    def lakectls_variables() -> None:
        shell.export("LAKECTL_SERVER_ENDPOINT_URL", URL)
        shell.export("LAKECTL_CREDENTIALS_ACCESS_KEY_ID", "lakectl-variable")
        shell.export("LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY", "s")

    def variables() -> None:
        shell.export(KEY_ID, "variable")
        shell.export(SECRET, "s")

    lakectl = f"server:\n  endpoint_url: {URL}/api/v1\ncredentials:\n  access_key_id: lakectl\n  secret_access_key: s\n"
    profile = f'[profiles.default]\nendpoint = "{URL}"\nkey_id = "profile"\nsecret_key = "s"\n'
    other = f'{profile}[profiles.other]\nendpoint = "{URL}/"\nkey_id = "other"\nsecret_key = "s"\n'
    with pytest.raises(ForbiddenError, match=r"there is no access key for it.*graveler login"):
        key()
    each_takes_the_place_of_the_one_before(
        (
            (lambda: (tmp_path / ".lakectl.yaml").write_text(lakectl), "lakectl"),
            (lambda: written(file, profile), "profile"),
            (lambda: written(file, other), "profile"),
            (lambda: shell.export(PROFILE, "other"), "other"),
            (lakectls_variables, "lakectl-variable"),
            (variables, "variable"),
            (lambda: shell.export(TOKEN, "token"), "token"),
            (lambda: shell.export(LOGIN, "aws"), "aws"),
            (lambda: name(profile="other"), "other"),
            (lambda: name(profile="other", key=("argument", "s")), "argument"),
            (lambda: name(profile="other", login="aws"), "aws"),
        ),
        key,
    )


def test_the_default_repository(shell: Shell, file: Path) -> None:
    named = Named()

    def name(**fields: str) -> None:
        nonlocal named
        named = Named(**fields)  # type: ignore[arg-type]

    with pytest.raises(NotFoundError, match="there is no lake in"):
        find_default()
    folder = Path.cwd()
    (folder / "graveler.json").touch()
    assert find_default() is None
    of_no_lake = '[profiles.default]\nrepository = "a"\nbranch = "main"\n'
    written(file, of_no_lake)
    assert find_default() is None
    assert unbound_default() == DefaultPlace("a", "main", "profile 'default'")
    assert find_default(Named(profile="default")) == unbound_default()
    assert unbound_default(Named(profile="default")) is None
    profiles = (
        f'[profiles.default]\nlake = "{folder}"\nrepository = "a"\nbranch = "main"\n'
        f'[profiles.one]\nlake = "{folder}"\nrepository = "b"\n'
    )
    chosen = LakeDefault("chosen", "dev")
    each_takes_the_place_of_the_one_before(
        (
            (lambda: change_lake_default(lake_address(), chosen), DefaultPlace("chosen", "dev", BY_USE)),
            (lambda: written(file, profiles), DefaultPlace("a", "main", "profile 'default'")),
            (lambda: shell.export(PROFILE, "one"), DefaultPlace("b", "", "profile 'one'")),
            (lambda: shell.export(REPO, "lakefs://c/dev/"), DefaultPlace("c", "dev", REPO)),
            (lambda: shell.export(REPO, "c"), DefaultPlace("c", "", REPO)),
            (lambda: name(profile="default"), DefaultPlace("a", "main", "profile 'default'")),
        ),
        lambda: find_default(named),
    )


def test_a_profiles_repository_is_one_of_its_lake(shell: Shell, file: Path) -> None:
    written(file, f'[profiles.default]\nendpoint = "{URL}"\nrepository = "sales"\n')
    assert find_default() is not None
    assert find_default(Named(endpoint=f"{URL}/api/v1")) is not None
    assert find_default(Named(lake="/other")) is None
    change_lake_default(lake_address(Named(lake="/other")), LakeDefault("theirs"))
    assert find_default(Named(lake="/other")) == DefaultPlace("theirs", "", BY_USE)
    assert find_default(Named(tables="dynamodb://t", objects="s3://b/p")) is None
    change_lake_default(lake_address(Named(tables="dynamodb://t", objects="s3://b/p/")), LakeDefault("aws"))
    assert find_default(Named(lake="dynamodb://t", objects="s3://b/p")) == DefaultPlace("aws", "", BY_USE)
    assert find_default(Named(lake="dynamodb://t", objects="s3://other/p")) is None
    shell.export(ENDPOINT, "https://other.test")
    assert find_default() is None
    assert find_default(Named(profile="default")) is not None
    shell.export(REPO, "mine")
    assert find_default(Named(lake="/other")) == DefaultPlace("mine", "", REPO)


@pytest.mark.parametrize("other", ["https://other.test", "http://lake.test", "https://lake.test:8443"])
def test_a_profiles_key_goes_to_no_other_server(shell: Shell, file: Path, other: str) -> None:
    written(file, f'[profiles.default]\nendpoint = "{URL}"\nkey_id = "k"\nsecret_key = "s"\n')
    for named in (Named(endpoint=other), Named(endpoint=other, profile="default")):
        with pytest.raises(ForbiddenError, match="there is no access key"):
            find_lake(named)
    shell.export(ENDPOINT, other)
    with pytest.raises(ForbiddenError, match="there is no access key"):
        find_lake()


def test_a_profile_may_log_in_with_aws(file: Path) -> None:
    written(file, f'[profiles.default]\nendpoint = "{URL}"\nlogin = "aws"\n')
    found = find_lake()
    assert isinstance(found, ServedLake)
    assert (found.by_aws, found.profile) == (True, "default")
    written(file, f'[profiles.default]\nendpoint = "{URL}"\nlogin = "password"\n')
    with pytest.raises(InvalidError, match="cannot log in with 'password'"):
        find_lake()


def test_a_broken_file_hinders_only_those_who_need_it(shell: Shell, file: Path) -> None:
    written(file, "no TOML")
    assert find_lake(Named(lake="/a")) == FolderLake(Path("/a"))
    shell.export(LAKE, "/b")
    assert find_lake() == FolderLake(Path("/b"))
    shell.unset(LAKE)
    with pytest.raises(InvalidError, match="line 1"):
        find_lake()


def test_a_server_where_the_lake_itself_is_needed(file: Path, tmp_path: Path) -> None:
    a_lake_here(tmp_path)
    written(file, f'[profiles.default]\nendpoint = "{URL}"\n')
    with pytest.raises(
        InvalidError, match=r"'endpoint' of profile 'default' '.*' names a server; .* with --lake and its"
    ):
        find_location(Named(by_options=True))
    assert find_location(Named(lake=".", by_options=True)) == FolderLake(Path(".graveler"))


def test_handles_hold_address_and_profile_and_never_a_secret(shell: Shell, file: Path) -> None:
    shell.export(KEY_ID, "variable")
    shell.export(SECRET, SECRETS[0])
    written(file, f'[profiles.prod]\nendpoint = "{URL}"\nkey_id = "KEYID"\nsecret_key = "{SECRETS[1]}"\n')
    with graveler.open(profile="prod") as lake:
        assert SECRETS[1] not in repr(lake) + repr(lake.verbs)
        pickled = pickle.dumps(lake.repository("demo").branch("main"))
    assert b"prod" in pickled
    assert not any(secret.encode() in pickled for secret in (*SECRETS, "KEYID"))


class Doorman(BaseHTTPRequestHandler):
    """Remembers whose key a request has, and lets nobody in."""

    server: "Door"

    def do_GET(self) -> None:
        key = b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        self.server.users.append(key.partition(":")[0])
        self.send_error(404)

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


class Door(ThreadingHTTPServer):
    """A server whose address is all that a handle needs."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Doorman)
        self.users: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def door() -> Iterator[Door]:
    with Door() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_handle_takes_the_key_of_its_profile_where_there_is_one(door: Door, shell: Shell, file: Path) -> None:
    def user_there() -> str:
        with pytest.raises(NotFoundError):
            list(pickle.loads(pickled).branches())
        return door.users[-1]

    written(file, f'[profiles.prod]\nendpoint = "{door.url}"\nkey_id = "profile"\nsecret_key = "s"\n')
    with graveler.open(profile="prod") as lake:
        pickled = pickle.dumps(lake.repository("demo"))
    shell.export(KEY_ID, "variable")
    shell.export(SECRET, "s")
    assert user_there() == "profile"
    file.unlink()  # as on a worker, which has only variables
    assert user_there() == "variable"
    shell.unset(KEY_ID)
    with pytest.raises(ForbiddenError, match="handles carry no credentials"):
        user_there()


def test_in_python_a_profile_names_the_lake(file: Path, tmp_path: Path) -> None:
    graveler.create(tmp_path / "data").close()
    written(file, f'[profiles.home]\nlake = "{tmp_path}/data"\n')
    with graveler.open(profile="home", user="ada") as lake:
        assert lake.own is not None
        copied = pickle.loads(pickle.dumps(lake))
        assert list(copied.repositories()) == []
    with pytest.raises(NotFoundError, match="the profile 'work' is not in"):
        graveler.open(profile="work")
    assert TABLES not in os.environ
