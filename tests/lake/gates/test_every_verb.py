"""Every verb that moves, makes or removes a branch or tag, before each kind of name: a branch that rules guard, a name that they
will guard, a hidden branch, a tag. A new request without a row fails."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Struct

from graveler.errors import RefNotFoundError, RuleError
from graveler.lake.context import Context
from graveler.lake.iceberg.catalog_reader import CatalogReader
from graveler.lake.repository import OpenRepository
from graveler.model import Commit, RequiredStatus, Rule, SplitParameters
from graveler.requests import committing, iceberg, importing, merging, pulls, refs, staging, statuses
from graveler.requests.base import CommitInfo, Gated, Permission, Request
from graveler.requests.iceberg import Identifier
from tests.lake.gates.support import ETL, candidates, post, set_rules
from tests.lake.support import World, put
from tests.make_request_docs import every_request

GUARDED: Final = Rule(
    name="guarded",
    branches=("guarded*",),
    tags=("guarded*",),
    statuses=(RequiredStatus("test", posters=("ci",)),),
)
INFO: Final = CommitInfo("message")
SPLIT: Final = SplitParameters(1 << 10, 2 << 10, 2)

Make = Callable[[OpenRepository, str], Request[Any]]
"""Returns the request that changes a name."""


class Row(Struct, frozen=True):
    """A verb: the request of each kind of name that it can change. Those for ``moves`` move an existing branch, ``makes`` make a
    name that is not there, and ``removes`` remove one."""

    moves: Make | None = None
    makes: Mapping[str, Make] = {}
    removes: Mapping[str, Make] = {}


def imported(repository: OpenRepository, name: str) -> Request[Any]:
    """An import of a listing, whose objects are not read."""
    return importing.ImportAddresses(branch=name, sources=(), info=INFO)


def folder_of(name: str) -> Path:
    """A folder with a file."""
    return Path(__file__).parent / name


ORDERS: Final = Identifier(("shop",), "orders")
RECENT: Final = Identifier(("shop",), "recent")
NEW: Final = Identifier(("shop",), "new")
SCHEMA: Final = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
VIEW: Final = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    "default-namespace": ["shop"],
}
PROPERTY: Final = {"action": "set-properties", "updates": {"a": "b"}}


def make_tables(repository: OpenRepository) -> None:
    """Make two namespaces, a table and a view on main."""
    for namespace in ("shop", "empty"):
        repository.create_namespace("main", namespace=(namespace,))
    repository.create_table("main", table=ORDERS, definition={"schema": SCHEMA})
    repository.create_view("main", view=RECENT, definition={"schema": SCHEMA, "view-version": VIEW, "properties": {}})


def registered(repository: OpenRepository, name: str) -> Request[Any]:
    """The registration of a table that exists under another name, too."""
    location = CatalogReader(repository.parts, "main").load(ORDERS).location
    return iceberg.RegisterTable(branch=name, table=NEW, location=location)


def registered_view(repository: OpenRepository, name: str) -> Request[Any]:
    """The registration of a view that exists under another name, too."""
    location = CatalogReader(repository.parts, "main").load(RECENT, "view").location
    return iceberg.RegisterView(branch=name, view=NEW, location=location)


VERBS: Final[Mapping[type[Request[Any]], Row]] = {
    iceberg.CreateNamespace: Row(lambda _, name: iceberg.CreateNamespace(branch=name, namespace=("new",))),
    iceberg.DropNamespace: Row(lambda _, name: iceberg.DropNamespace(branch=name, namespace=("empty",))),
    iceberg.SetNamespaceProperties: Row(
        lambda _, name: iceberg.SetNamespaceProperties(branch=name, namespace=("shop",), updates={"a": "b"})
    ),
    iceberg.CreateTable: Row(
        lambda _, name: iceberg.CreateTable(branch=name, table=NEW, definition={"schema": SCHEMA})
    ),
    iceberg.RegisterTable: Row(registered),
    iceberg.CommitTables: Row(
        lambda _, name: iceberg.CommitTables(branch=name, tables=(iceberg.TableChange(ORDERS, updates=(PROPERTY,)),))
    ),
    iceberg.DropRelation: Row(lambda _, name: iceberg.DropRelation(branch=name, relation=ORDERS)),
    iceberg.RenameRelation: Row(lambda _, name: iceberg.RenameRelation(branch=name, relation=ORDERS, destination=NEW)),
    iceberg.RegisterView: Row(registered_view),
    iceberg.CreateView: Row(
        lambda _, name: iceberg.CreateView(
            branch=name, view=NEW, definition={"schema": SCHEMA, "view-version": VIEW, "properties": {}}
        )
    ),
    iceberg.ReplaceView: Row(lambda _, name: iceberg.ReplaceView(branch=name, view=RECENT, updates=(PROPERTY,))),
    committing.Commit: Row(lambda _, name: committing.Commit(branch=name, info=INFO)),
    committing.CommitMetarange: Row(
        lambda repository, name: committing.CommitMetarange(
            branch=name, metarange=repository.commit_of("dev").metarange, info=INFO
        )
    ),
    committing.Rewrite: Row(lambda _, name: committing.Rewrite(branch=name, split=SPLIT, info=INFO)),
    merging.Merge: Row(lambda _, name: merging.Merge(source="dev", destination=name)),
    merging.Revert: Row(lambda _, name: merging.Revert(branch=name, ref=name)),
    merging.CherryPick: Row(lambda _, name: merging.CherryPick(branch=name, ref="dev")),
    importing.ImportAddresses: Row(imported),
    importing.ImportFolder: Row(
        lambda _, name: importing.ImportFolder(branch=name, folder=folder_of("checks"), destination="in/", info=INFO)
    ),
    importing.ImportListing: Row(
        lambda _, name: importing.ImportListing(
            branch=name,
            listing=(folder_of("listing.csv"),),
            options=importing.ListingOptions(
                destination="in/", columns=("Bucket", "Key", "Size", "ETag", "LastModified")
            ),
            info=INFO,
        )
    ),
    refs.HardReset: Row(lambda _, name: refs.HardReset(branch=name, ref="dev")),
    refs.Undo: Row(lambda _, name: refs.Undo(branch=name)),
    refs.CreateBranch: Row(
        makes={
            "branch": lambda _, name: refs.CreateBranch(name=name, source="dev"),
            "hidden": lambda _, name: refs.CreateBranch(name=name, source="dev", hidden=True),
        }
    ),
    refs.RenameBranch: Row(
        makes={"branch": lambda _, name: refs.RenameBranch(old="dev", new=name)},
        removes={
            "branch": lambda _, name: refs.RenameBranch(old=name, new="free"),
            "hidden": lambda _, name: refs.RenameBranch(old=name, new="free"),
        },
    ),
    refs.DeleteBranch: Row(
        removes={
            "branch": lambda _, name: refs.DeleteBranch(name=name),
            "hidden": lambda _, name: refs.DeleteBranch(name=name),
        }
    ),
    refs.CreateTag: Row(makes={"tag": lambda _, name: refs.CreateTag(name=name, ref="dev")}),
    refs.DeleteTag: Row(removes={"tag": lambda _, name: refs.DeleteTag(name=name)}),
}

ELSEWHERE: Final[frozenset[type[Request[Any]]]] = frozenset({pulls.MergePullRequest, committing.PublishCandidate})
"""Requests that move a branch as another request does, with tests of their own (tests/lake/pulls, test_candidate_verbs)."""

NO_REF: Final = {
    kind
    for kind in every_request()
    if kind.__module__ in (staging.__name__, pulls.__name__)
    or kind in (refs.RenewBranch, refs.ReleaseBranch, committing.WithdrawCandidate, statuses.RunChecks)
} - ELSEWHERE
"""Requests of writers that move no ref: they change what is staged, a lease, a candidate or a pull request, or try checks."""

MOVING: Final = {kind: row.moves for kind, row in VERBS.items() if row.moves is not None}
MAKING: Final = {(kind, sort): make for kind, row in VERBS.items() for sort, make in row.makes.items()}
REMOVING: Final = {(kind, sort): make for kind, row in VERBS.items() for sort, make in row.removes.items()}


def guarded_names() -> World:
    """A world with a branch dev, and names that rules guard: a branch, a hidden branch and a tag, at the commit before dev's."""
    world = World()
    make_tables(world.main)
    for number in range(3):
        put(world.main, {str(number): "1"}, "main")
        world.main.commit("main", str(number))
    world.main.create_branch("dev", "main")
    put(world.main, {"dev": "1"}, "dev")
    world.main.commit("dev", "dev")
    for name, hidden in (("guarded", False), ("guarded-hidden", True)):
        world.main.create_branch(name, "main", hidden=hidden)
        world.main.hard_reset(name, "main~1")
    world.main.create_tag("guarded-tag", "main")
    set_rules(world.main, GUARDED)
    return world


def refused(world: World, request: Request[Any]) -> RuleError:
    with pytest.raises(RuleError) as error:
        world.repository().run(request, Context(by="etl", actor=ETL))
    return error.value


def approve(world: World, error: RuleError, fallback: str) -> Commit:
    """Post the status of the commit that was refused."""
    commit = world.main.commit_of(error.candidate or fallback)
    post(world.main, commit)
    return commit


def test_every_request_has_a_row() -> None:
    writing = {kind for kind in every_request() if kind.permission is Permission.WRITE}
    assert writing - NO_REF == VERBS.keys() | ELSEWHERE
    assert {kind for kind in every_request() if issubclass(kind, Gated)} == VERBS.keys() | ELSEWHERE


@pytest.mark.parametrize("name", ["guarded", "guarded-hidden"])
@pytest.mark.parametrize("kind", MOVING, ids=lambda kind: kind.__name__)
def test_a_verb_moves_a_guarded_branch_only_to_a_tree_that_passes(kind: type[Request[Any]], name: str) -> None:
    world = guarded_names()
    put(world.main, {"staged": "1"}, name) if kind is committing.Commit else None
    before = world.main.branch(name).commit_id
    request = MOVING[kind](world.main, name)
    error = refused(world, request)
    assert world.main.branch(name).commit_id == before
    approve(world, error, "main" if kind is refs.Undo else "dev")
    world.repository().run(request, Context(by="etl", actor=ETL))
    assert world.main.branch(name).commit_id != before
    assert all(candidate.state.value == "published" for candidate in candidates(world.main))


@pytest.mark.parametrize(("kind", "sort"), MAKING, ids=str)
def test_a_verb_makes_a_guarded_name_only_at_a_commit_that_passes(kind: type[Request[Any]], sort: str) -> None:
    world = guarded_names()
    request = MAKING[kind, sort](world.main, "guarded-new")
    refused(world, request)
    with pytest.raises(RefNotFoundError):
        world.main.commit_of("guarded-new")
    expected = world.main.commit_of("dev")
    post(world.main, expected)
    world.repository().run(request, Context(by="etl", actor=ETL))
    assert world.main.commit_of("guarded-new") == expected


@pytest.mark.parametrize(("kind", "sort"), REMOVING, ids=str)
def test_only_an_admin_removes_a_guarded_name(kind: type[Request[Any]], sort: str) -> None:
    world = guarded_names()
    name = {"branch": "guarded", "hidden": "guarded-hidden", "tag": "guarded-tag"}[sort]
    request = REMOVING[kind, sort](world.main, name)
    assert "admin" in str(refused(world, request))
    world.main.commit_of(name)
    world.repository().run(request, Context(by="root"))
    with pytest.raises(RefNotFoundError):
        world.main.commit_of(name)
