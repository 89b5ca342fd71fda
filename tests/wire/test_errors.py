"""Each exception crosses the wire as itself: its class, its fields and its sentence, whatever its names are made of."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graveler
from graveler import errors
from graveler.access import refusals as access
from graveler.access.permissions import Role
from graveler.api.errors import status_and_error
from graveler.errors import BusyError, CorruptError, GravelerError, UnavailableError
from graveler.lake.importing.listing_files import ListingError
from graveler.lake.lake import Lake
from graveler.model import Conflict
from graveler.remote.connection import Connection
from graveler.remote.lake import RemoteLake
from graveler.storage.objects.port import NotSyncedError
from graveler.values.error_codes import ELSEWHERE, code_of, fields_of, rebuild
from graveler.wire.error_documents import Error, document
from tests.api.over_http import HOST, Switch, serving
from tests.api.support import make_world
from tests.make_error_docs import PAGE, page
from tests.remote.conftest import QUICK
from tests.wire.examples import every_error

NAMES = [
    "a.csv",
    "it's.csv",
    'a "b"',
    "both ' and \"",
    "back\\slash",
    "line\nbreak",
    "100%",
    "%2F",
    "{name}",
    "ü \u200b",
]


def declared() -> dict[str, str]:
    """The code of each class of the package that declares one, by module and class, as its source says."""
    root = Path(graveler.__file__).parent
    found: dict[str, str] = {}
    for file in root.rglob("*.py"):
        module = ".".join(("graveler", *file.relative_to(root).with_suffix("").parts))
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                found |= {f"{module}.{node.name}": code for code in _codes(node)}
    return found


def _codes(node: ast.ClassDef) -> Iterator[str]:
    for line in node.body:
        match line:
            case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                yield code


def test_each_code_means_one_class_and_a_client_finds_it() -> None:
    found = declared()
    assert len(set(found.values())) == len(found)
    known = {f"graveler.errors.{name}" for name, kind in vars(errors).items() if isinstance(kind, type)}
    known |= {f"{module}.{name}" for module, names in ELSEWHERE.items() for name in names.split()}
    assert found.keys() <= known
    assert {code for error in every_error("x") if (code := code_of(error))} == set(found.values())


def test_an_error_of_a_room_crosses_as_its_nearest_public_ancestor() -> None:
    error = rebuild(code_of(NotSyncedError("x")), {}, "x")
    assert type(error) is errors.AnswerLostError


def crossed(error: GravelerError) -> GravelerError:
    said = msgspec.json.decode(msgspec.json.encode(document(error, "words of clients")), type=Error)
    told = rebuild(said.code, said.fields, said.sentence)
    assert told is not None
    return told


def expect_same(told: GravelerError, error: GravelerError) -> None:
    assert type(told) is type(error)
    assert str(told) == str(error)
    assert fields_of(told) == fields_of(error)
    for name in vars(error).keys() & vars(told).keys():
        assert getattr(told, name) == getattr(error, name)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_every_error_can_be_rebuilt_whatever_it_is_about(name: str) -> None:
    for error in every_error(name):
        expect_same(crossed(error), error)


def test_what_does_not_travel_is_there_and_empty() -> None:
    told = crossed(errors.MergeConflictError("dev", "main", [Conflict("x", None, None, None)]))
    assert isinstance(told, errors.MergeConflictError)
    assert (told.conflicts, told.count) == ((), 1)
    listing = crossed(ListingError(Path("listing.csv"), "is empty", value=object()))
    assert isinstance(listing, ListingError)
    assert (listing.file, listing.value) == (Path(), None)


@pytest.mark.parametrize("fields", [{}, {"records": "many", "limit": [], "operation": 7, "more": 1}])
def test_fields_that_are_missing_or_of_another_type_are_blank(fields: dict[str, Any]) -> None:
    told = rebuild("too_much_work", fields, "too much")
    assert isinstance(told, errors.TooMuchWorkError)
    assert (told.records, told.limit, told.operation, str(told)) == (0, None, "", "too much")
    sources = rebuild("import_source_empty", fields, "nothing")
    assert isinstance(sources, errors.EmptySourceError)
    assert sources.sources == ()


def test_a_code_of_a_later_version_is_none_of_ours() -> None:
    assert rebuild("of_a_later_version", {}, "x") is None


@pytest.fixture(scope="module")
def server() -> Iterator[Switch]:
    with serving() as switch:
        yield switch


@pytest.fixture
def remote(server: Switch) -> Iterator[RemoteLake]:
    """An empty lake behind the server, and a client that does not come again when it is told to."""
    world = make_world()
    server.application = world.application
    key = world.access.create_key("ada", Role.ADMIN)
    impatient = msgspec.structs.replace(QUICK, patience=0)
    connection = Connection(f"http://{HOST}:{server.port}", key.key.key_id, key.secret, retries=impatient)
    yield RemoteLake(connection)
    connection.close()


@pytest.mark.parametrize("name", NAMES)
def test_every_error_makes_the_round_trip_through_http(
    remote: RemoteLake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in every_error(name):

        def refuse(*_: object, error: GravelerError = error) -> None:
            raise error

        monkeypatch.setattr(Lake, "repository", refuse)
        with pytest.raises(GravelerError) as told:
            remote.repository("repo").commit_of("main@")
        if isinstance(error, access.AuthenticationError):
            assert str(told.value).startswith(str(error))
            continue
        assert status_and_error(error)[0] >= 400
        expect_same(told.value, error)


def test_clients_repeat_only_what_may_change() -> None:
    """Published clients repeat requests after 423, 429 and 5xx, except 501: for seconds, before anybody reads the sentence."""
    for error in every_error("a"):
        if type(error) is GravelerError:
            continue  # the root of the tree, which nothing raises
        status = status_and_error(error)[0]
        if status in (423, 429) or (status >= 500 and status != 501):
            assert isinstance(error, BusyError | UnavailableError | CorruptError), (status, error)


def test_the_page_lists_every_error_as_it_is() -> None:
    assert PAGE.read_text() == page(), "run `python -m tests.make_error_docs`"


OF_LIBRARIES = {
    "lake/gates/checks/sql_process.py",
    "location/configuration.py",
    "spark/jvm.py",
    "storage/tables/dynamodb.py",
    "storage/tables/sqlite_errors.py",
    "tree/sstable.py",
}
"""Where errors of others are told apart by their sentence, since they have nothing else."""


def test_no_program_reads_a_sentence() -> None:
    """Neither ``"words" in str(error)`` nor ``str(error).startswith("words")``, nor the same with a message or detail."""
    root = Path(graveler.__file__).parent
    reading = {
        str(file.relative_to(root)): node.lineno
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.expr) and _reads_a_sentence(node)
    }
    assert reading.keys() == OF_LIBRARIES, reading


def _reads_a_sentence(node: ast.expr) -> bool:
    match node:
        case ast.Compare(left=ast.Constant(value=bytes()), comparators=[ast.Attribute(attr="body")]):
            return True
        case ast.Compare(left=left, comparators=[right]):
            return (_is_sentence(left) and _is_constant(right)) or (_is_sentence(right) and _is_constant(left))
        case ast.Call(func=ast.Attribute(value=value, attr="startswith" | "endswith" | "partition" | "removeprefix")):
            return _is_sentence(value)
        case ast.Call(func=ast.Attribute(attr="match" | "search" | "fullmatch"), args=[*_, text]):
            return _is_sentence(text)
    return False


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def _is_sentence(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id="error" | "failure" | "refused" | "e")]):
            return True
        case ast.Attribute(value=ast.Name(id=name), attr="message" | "detail" | "sentence"):
            return name in ("error", "failure", "refused", "said", "e")
        case ast.Attribute(value=ast.Call(), attr="message" | "detail" | "sentence"):
            return True
    return False
