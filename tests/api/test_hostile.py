"""No request of a client causes a server error, on any route, and every refusal is documented."""

import os
from contextlib import suppress
from secrets import token_hex
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graveler.api.resources import GROUPS
from graveler.api.routing import Route, Router
from tests.api.support import EventClient, World, make_world, segment

with suppress(ModuleNotFoundError):
    # It brings NumPy, which Hypothesis looks for: no operation's thread is to be in the midst of importing it then.
    import pyarrow.parquet  # noqa: F401

ROUTES = Router(GROUPS).routes
EXAMPLES = int(os.environ.get("GRAVELER_REQUESTS", "5"))
"""Requests to each route; more in `make soak`."""

NAMES = st.sampled_from(
    [
        "main",
        "repo",
        "dev",
        "v1",
        "main~1",
        "main^2",
        "main@",
        "main$",
        "~",
        "^",
        "@",
        "..",
        ".",
        "%2e%2e",
        "a/b",
        "\0",
        "é",
        "x" * 2000,
    ]
) | st.text(min_size=1, max_size=8)
TEXTS = st.sampled_from(
    [
        "",
        "a",
        "a/b",
        "../../etc/passwd",
        "/",
        "//",
        "\0",
        "é",
        "x" * 1100,
        "-1",
        "1001",
        "true",
        "2025-01-01T00:00:00Z",
        "main",
        "a/",
        "\n",
    ]
) | st.text(max_size=8)
SCALARS: st.SearchStrategy[Any] = (
    TEXTS | st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=4
)


def bodies(route: Route) -> st.SearchStrategy[Any]:
    """Bodies with the right names and values of the right kind, or any."""
    kind = route.body_type
    if kind is None:
        return st.none() | st.binary(max_size=20)
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return VALUES
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for found in msgspec.structs.fields(kind):
        likely: st.SearchStrategy[Any] = {
            str: TEXTS,
            int: st.integers(-3, 2**63),
            bool: st.booleans(),
            dict[str, str]: st.dictionaries(TEXTS, TEXTS, max_size=2),
            list[str]: st.lists(TEXTS, max_size=3),
        }.get(found.type, NAMES)
        fields[found.encode_name] = likely | VALUES
    return st.fixed_dictionaries({}, optional=fields) | st.fixed_dictionaries(fields)


def queries(route: Route) -> st.SearchStrategy[list[tuple[str, str]]]:
    if route.query is None:
        return st.just([])
    names = [found.encode_name for found in msgspec.structs.fields(route.query)]
    return st.lists(st.tuples(st.sampled_from([*names, "other"]), TEXTS), max_size=4)


def with_repository(world: World) -> None:
    """There is a repository with something in it, although an earlier request may have deleted it."""
    if any(repository.name == "repo" for repository in world.lake.repositories(prefix="repo").results):
        return
    opened = world.lake.create_repository("repo", f"local://{token_hex(8)}")
    opened.upload("main", "a", b"1")
    opened.commit("main", "m")
    opened.upload("main", "a/b", b"2")


# The thread of an operation that an earlier request began may wait, for a random time, while the next request is drawn.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_no_request_makes_a_server_error(route: Route) -> None:
    world = make_world()
    client = EventClient(world)

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def hammer(data: st.DataObject) -> None:
        with_repository(world)
        path = "/".join(
            segment(data.draw(NAMES) if part not in ("{repository}",) else data.draw(st.just("repo") | NAMES))
            if part[:1] == "{"
            else part
            for part in route.template.split("/")
        )
        answer = client(route.method, path, data.draw(queries(route)), data.draw(bodies(route)))
        assert answer.status != 500, answer
        assert answer.status not in (502, 504)

    hammer()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/repositories/repo/branches", r'{"name": "\ud800", "source": "main"}'),
        ("/repositories/repo/branches", r'{"name": "x", "source": "\udfff"}'),
        ("/repositories/repo/branches/main/commits", r'{"message": "\ud800", "allow_empty": true}'),
        ("/repositories/repo/metadata", r'{"metadata": {"\ud800": "x"}}'),
        ("/repositories", r'{"name": "abc", "storage_namespace": "local://\ud800"}'),
        ("/repositories", r'{"name": "abc", "storage_namespace": "local://../../x"}'),
    ],
)
def test_text_that_is_no_text_is_a_400(path: str, body: str) -> None:
    world = make_world()
    with_repository(world)
    assert EventClient(world)("POST", path, (), body).status in (201, 204, 400)
