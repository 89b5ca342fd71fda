"""A request with a large body that is refused whatever its body is refused by its head, with the same response."""

from collections.abc import Callable
from typing import Any

import pytest

from graveler.access.permissions import Role
from graveler.api.resources import GROUPS
from graveler.api.response import Response
from graveler.api.routing import BodyKind
from tests.api.support import BASE, World, as_answer, basic, make_event, make_world

UPLOAD = "/repositories/repo/branches/main/objects"


@pytest.fixture
def world() -> World:
    world = make_world()
    world.lake.create_repository("repo", "local://repo")
    return world


def refusal(world: World, event: dict[str, Any]) -> Response | None:
    refused = world.application.reject_without_body({**event, "body": None})
    return None if refused is None else refused[0]


def protected(world: World) -> None:
    world.lake.repository("repo").set_protection(["main"])


def read_only(world: World) -> None:
    world.lake.repository("repo").set_read_only(True)


def gone(world: World) -> None:
    world.lake.delete_repository("repo")


def unchanged(world: World) -> None:
    del world


@pytest.mark.parametrize(
    ("happens", "path", "query", "headers", "status"),
    [
        (protected, UPLOAD, {"path": "a"}, {}, 403),
        (read_only, UPLOAD, {"path": "a"}, {}, 403),
        (gone, UPLOAD, {"path": "a"}, {}, 404),
        (unchanged, UPLOAD.replace("main", "none"), {"path": "a"}, {}, 404),
        (unchanged, UPLOAD, {"path": "a" * 1025}, {}, 400),
        (unchanged, UPLOAD, {}, {}, 400),
        (unchanged, UPLOAD, {"path": "a"}, {"if-match": "x"}, 501),
    ],
)
def test_an_upload_is_refused_by_its_head(
    world: World,
    happens: Callable[[World], None],
    path: str,
    query: dict[str, str],
    headers: dict[str, str],
    status: int,
) -> None:
    happens(world)
    event = make_event("POST", BASE + path, query, b"bytes", {"authorization": world.admin, **headers})
    early = refusal(world, event)
    assert early is not None
    whole = as_answer(world.application(event))
    assert (early.status, early.event()["body"]) == (whole.status, whole.text)
    assert whole.status == status


def test_an_upload_that_is_not_refused_needs_its_body_and_has_no_effect_without_it(world: World) -> None:
    event = make_event("POST", BASE + UPLOAD, {"path": "a"}, b"", {"authorization": world.admin})
    assert refusal(world, event) is None
    assert [*world.lake.repository("repo").objects("main")] == []


@pytest.mark.parametrize("role", [Role.ADMIN, Role.READER])
def test_no_head_alone_changes_anything(world: World, role: Role) -> None:
    """For every route that may have a large body, and for those that need none."""
    key = basic(world.access.create_key("k", role))
    before = world.lake.tables.query("repositories").items
    for route in (route for group in GROUPS for route in group.routes):
        path = route.template.replace("{repository}", "repo").replace("{branch}", "main")
        event = make_event(route.method, BASE + path, {"path": "a", "ref": "main"}, b"", {"authorization": key})
        early = refusal(world, event)
        assert early is None or early.status >= 400, route.operation
        if route.body_kind is BodyKind.SMALL and route.permission is not None:
            assert early is None, route.operation
    assert world.lake.tables.query("repositories").items == before
    assert world.lake.repository("repo").branch("main").commit_id == world.lake.repository("repo").commit_of("main").id
