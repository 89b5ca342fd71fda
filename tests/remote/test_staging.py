"""Changes of uncommitted objects have the same effect on a local lake and behind a server."""

from collections.abc import Callable, Iterator

import pytest

from graveler.access.permissions import Role
from graveler.errors import GravelerError, InvalidError, ObjectNotFoundError
from graveler.lake.repository import OpenRepository
from graveler.model import ObjectEntry
from graveler.remote.any_repository import AnyRepository
from graveler.remote.connection import Connection
from graveler.remote.lake import RemoteLake
from graveler.remote.repository import RemoteRepository
from tests.api.over_http import HOST, Switch, serving
from tests.api.support import make_world
from tests.remote.conftest import QUICK

NAMES = ("a", "it's", "100%", "line\nbreak", "ü/ü", "p/1", "p/2")
MANY = 1001
"""More than one request may name."""


def entry(path: str, metadata: dict[str, str] | None = None) -> ObjectEntry:
    return ObjectEntry(
        path, f"s3://elsewhere/{path.encode().hex()}", 3, "0" * 32, 7, "text/plain", metadata or {"k": path}
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Switch]:
    with serving() as switch:
        yield switch


@pytest.fixture
def both(server: Switch) -> Iterator[tuple[OpenRepository, RemoteRepository]]:
    """A repository of this process, and one behind a server, both empty."""
    world, here = make_world(), make_world()
    server.application = world.application
    key = world.access.create_key("ada", Role.ADMIN)
    connection = Connection(f"http://{HOST}:{server.port}", key.key.key_id, key.secret, retries=QUICK)
    world.lake.create_repository("repo", "local://repo")
    yield here.lake.create_repository("repo", "local://repo"), RemoteLake(connection).repository("repo")
    connection.close()


def seen(repository: AnyRepository) -> list[tuple[object, ...]]:
    """The objects of the branch; the times of copies are those of their making."""
    fields = ("path", "address", "size", "checksum", "content_type", "metadata")
    return [tuple(getattr(each, name) for name in fields) for each in repository.objects("main")]


def outcome(verb: Callable[[AnyRepository], object], repository: AnyRepository) -> object:
    """What the branch has after a verb, and the class of the error that it raised."""
    error: type[GravelerError] | None = None
    try:
        verb(repository)
    except GravelerError as raised:
        error = type(raised)
    return error, seen(repository)


VERBS: list[Callable[[AnyRepository], object]] = [
    lambda r: r.link("main", entry("one")),
    lambda r: r.link("main", entry("a", {})),
    lambda r: r.link_many("main", [entry(f"many/{number}") for number in range(MANY)]),
    lambda r: r.link_many("main", []),
    lambda r: r.delete("main", [f"many/{number}" for number in range(1, MANY)]),
    lambda r: r.delete("main", ["a", "a", "never there"]),
    lambda r: r.copy("main", "it's", "100%/copy"),
    lambda r: r.copy("main", "gone", "x"),
    lambda r: [*r.copy_prefix("main", "p/", "q/")],
    lambda r: [*r.copy_prefix("main", "p/", "p/q/")],
    lambda r: r.move("main", "line\nbreak", "straight"),
    lambda r: r.move("main", "a", "a"),
    lambda r: [*r.move_prefix("main", "p/", "moved/")],
    lambda r: r.update_metadata("main", "ü/ü", {"new": "ü"}),
    lambda r: r.update_metadata("main", "gone", {}),
    lambda r: r.reset("main", path="a"),
    lambda r: r.reset("main", prefix="p/"),
    lambda r: r.reset("main", path="a", prefix="p/"),
    lambda r: r.reset("main"),
]


@pytest.mark.parametrize("verb", VERBS, ids=range(len(VERBS)))
def test_a_verb_does_the_same_here_and_behind_a_server(
    both: tuple[OpenRepository, RemoteRepository], verb: Callable[[AnyRepository], object]
) -> None:
    here, behind = both
    for repository in both:
        repository.link_many("main", [entry(name) for name in NAMES])
    for _ in range(2):  # the same once more
        assert outcome(verb, behind) == outcome(verb, here)


def test_what_a_server_does_not_do_is_refused_with_what_to_do(both: tuple[OpenRepository, RemoteRepository]) -> None:
    _, behind = both
    with pytest.raises(InvalidError, match="on the lake itself"):
        behind.duplicate("main", "a", "b")
    with pytest.raises(ObjectNotFoundError):
        behind.stat("main", "x")
