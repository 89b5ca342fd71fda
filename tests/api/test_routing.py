"""The choice of a route, decoding, and refusals before a handler runs."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.api.application import BASE
from graveler.api.errors import ApiError
from graveler.api.resources import GROUPS
from graveler.api.response import Response, no_content
from graveler.api.routing import JOINED, Route, Router, Routes
from graveler.requests.base import Permission
from graveler.wire.error_documents import Error
from tests.api.support import Client, as_answer, make_event, segment
from tests.support.campaigns import examples


def router(*declared: tuple[str, str]) -> Router:
    return Router([routes_of(*declared)])


def routes_of(*declared: tuple[str, str]) -> Routes:
    routes = Routes("test")
    for method, template in declared:

        def handler() -> Response:
            return no_content()

        routes.route(method, template, f"{method} {template}", Permission.READ, responses={204: None})(handler)
    return routes


def test_literals_win_over_parameters_and_give_way_where_they_lead_nowhere() -> None:
    found = router(("PUT", "/refs/dump"), ("GET", "/refs/{ref}/log"), ("GET", "/refs/{ref}"))
    assert found.find("PUT", "/refs/dump")[0].operation == "PUT /refs/dump"
    assert found.find("GET", "/refs/dump/log")[1] == {"ref": "dump"}
    assert found.find("GET", "/refs/dump")[1] == {"ref": "dump"}


REFS = (
    ("GET", "/r/{repository}/refs/{ref}"),
    ("GET", "/r/{repository}/refs/{ref}/commits"),
    ("GET", "/r/{repository}/refs/{ref}/objects"),
    ("HEAD", "/r/{repository}/refs/{ref}/objects"),
    ("GET", "/r/{repository}/refs/{ref}/objects/ls"),
    ("POST", "/r/{repository}/refs/{ref}/objects/stats"),
    ("GET", "/r/{repository}/refs/{left}/diff/{right}"),
    ("GET", "/r/{repository}/refs/{left}/diff/{right}/summary"),
    ("GET", "/r/{repository}/refs/{source}/merge/{destination}"),
    ("POST", "/r/{repository}/refs/{source}/merge/{destination}"),
    ("DELETE", "/r/{repository}/tags/{tag}"),
    ("PUT", "/r/{repository}/branches/{branch}/lease"),
)


ALL_JOINED = Router(GROUPS, joins=True)


def names_in(route: Route) -> list[str]:
    """The parameters of a route's path."""
    return [part[1:-1] for part in route.template.split("/") if part[:1] == "{"]


def joining() -> Router:
    """A router of paths that arrive decoded."""
    return Router([routes_of(*REFS)], joins=True)


@pytest.mark.parametrize(
    ("method", "path", "operation", "parameters"),
    [
        ("DELETE", "/tags/nightly/2026-01-31", "/tags/{tag}", {"tag": "nightly/2026-01-31"}),
        ("GET", "/refs/nightly/2026-01-31", "/refs/{ref}", {"ref": "nightly/2026-01-31"}),
        ("GET", "/refs/x/y/z~1/objects/ls", "/refs/{ref}/objects/ls", {"ref": "x/y/z~1"}),
        ("GET", "/refs/x/objects/commits", "/refs/{ref}/commits", {"ref": "x/objects"}),
        ("HEAD", "/refs/x/objects/objects", "/refs/{ref}/objects", {"ref": "x/objects"}),
        ("POST", "/refs/x/y/objects/stats", "/refs/{ref}/objects/stats", {"ref": "x/y"}),
        ("GET", "/refs/a/b/diff/c/d", "/refs/{left}/diff/{right}", {"left": "a/b", "right": "c/d"}),
        ("GET", "/refs/a/b/diff/c/d/summary", "/refs/{left}/diff/{right}/summary", {"left": "a/b", "right": "c/d"}),
        (
            "POST",
            "/refs/a/b/merge/main",
            "/refs/{source}/merge/{destination}",
            {"source": "a/b", "destination": "main"},
        ),
        # What cannot be told apart in a decoded path, as design record 15 has it.
        ("GET", "/refs/a/diff/b/diff/c", "/refs/{left}/diff/{right}", {"left": "a", "right": "b/diff/c"}),
        ("GET", "/refs/a/diff/b/summary", "/refs/{left}/diff/{right}/summary", {"left": "a", "right": "b"}),
        ("GET", "/refs/x/diff/commits", "/refs/{left}/diff/{right}", {"left": "x", "right": "commits"}),
        ("GET", "/refs/x/diff/y/commits", "/refs/{left}/diff/{right}", {"left": "x", "right": "y/commits"}),
        ("GET", "/refs/x/commits", "/refs/{ref}/commits", {"ref": "x"}),
        ("GET", "/refs/x/objects/nonsense", "/refs/{ref}", {"ref": "x/objects/nonsense"}),
        (
            "GET",
            "/refs/x/merge/commits",
            "/refs/{source}/merge/{destination}",
            {"source": "x", "destination": "commits"},
        ),
    ],
)
def test_names_of_several_segments_are_joined(
    method: str, path: str, operation: str, parameters: dict[str, str]
) -> None:
    route, decoded = joining().find(method, f"/r/repo{path}")
    assert route.operation == f"{method} /r/{{repository}}{operation}"
    assert decoded == {"repository": "repo", **parameters}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/r/repo/branches/a/b/lease", 404),  # permissions are for branches and repositories
        ("DELETE", "/r/a/b/tags/c", 404),
        ("POST", "/r/repo/refs/a/merge/b/c", 405),  # only GET takes a ref alone
        ("DELETE", "/r/repo/tags/a//b", 400),
        ("DELETE", "/r/repo/tags/a/b/", 404),
        ("GET", "/r/repo/tags/a/b", 405),
        ("DELETE", f"/r/repo/tags{'/a' * 256}", 404),
    ],
)
def test_repositories_and_branches_are_never_joined(method: str, path: str, status: int) -> None:
    with pytest.raises(ApiError) as refused:
        joining().find(method, path)
    assert refused.value.status == status


segments = st.sampled_from(["a", "b", "main", "diff", "merge", "objects", "ls", "stats", "commits", "summary", "tags"])


@given(st.sampled_from(["GET", "HEAD", "POST", "DELETE", "PUT"]), st.lists(segments, max_size=9))
@settings(max_examples=examples(200))
def test_joining_changes_nothing_that_matches_segment_by_segment(method: str, parts: list[str]) -> None:
    """And what it finds spells the path that was asked for."""
    path = "/".join(["/r/repo", *parts])
    found = None
    with suppress(ApiError):
        found = router(*REFS).find(method, path)
    try:
        route, parameters = joining().find(method, path)
    except ApiError:
        assert found is None
        return
    spelled = route.template
    for name, value in parameters.items():
        spelled = spelled.replace(f"{{{name}}}", value)
    assert spelled == path
    if found is not None:
        assert (route.operation, parameters) == (found[0].operation, found[1])


def clear_names(*confused: str) -> st.SearchStrategy[str]:
    """Names with words of routes in them, but not the ``confused`` ones."""
    words = {part for route in Router(GROUPS).routes for part in route.template.split("/") if part and part[0] != "{"}
    segments = st.sampled_from([*sorted(words - set(confused)), "nightly", "a"])
    return st.lists(segments, min_size=1, max_size=5).map("/".join)


def words_after(parameter: str) -> set[str]:
    """The words of routes behind a parameter of their paths."""
    return {part for route in Router(GROUPS).routes for part in route.template.partition(parameter)[2].split("/")[1:]}


NAMES = {"user": clear_names(*words_after("/users/{user}"))}
REFS_OF_ALL_KINDS = clear_names("diff", "merge", "summary")
REFS_ALONE = clear_names(*words_after("/refs/{ref}"), "diff", "merge")


@given(st.data(), st.sampled_from([route for route in Router(GROUPS).routes if not JOINED.isdisjoint(names_in(route))]))
@settings(max_examples=examples(300))
def test_a_decoded_path_names_what_was_sent_unless_the_record_says_otherwise(data: st.DataObject, route: Route) -> None:
    """Design record 15 lists the words that names must not have."""
    refs = REFS_ALONE if route.template.endswith("/refs/{ref}") else REFS_OF_ALL_KINDS
    sent = {name: data.draw(NAMES.get(name, refs)) if name in JOINED else "main" for name in names_in(route)}
    path = route.template
    for name, value in sent.items():
        path = path.replace(f"{{{name}}}", value)
    found, parameters = ALL_JOINED.find(route.method, path)
    assert (found.operation, parameters) == (route.operation, sent)


def test_parameters_in_one_place_are_joined_together_or_not_at_all() -> None:
    places: dict[tuple[str, ...], set[bool]] = {}
    for route in Router(GROUPS).routes:
        parts = ["{}" if part[:1] == "{" else part for part in route.template.split("/")]
        for number, part in enumerate(route.template.split("/")):
            if part[:1] == "{":
                places.setdefault(tuple(parts[:number]), set()).add(part[1:-1] in JOINED)
    assert all(len(kinds) == 1 for kinds in places.values())
    assert JOINED.isdisjoint(("repository", "branch", "destination"))


def test_the_first_of_two_equal_routes_counts() -> None:
    one, other = Routes("one"), Routes("other")
    for routes in (one, other):
        routes.get("/x/{y}", routes.tag, Permission.READ, responses={404: Error})(no_content)
    both = Router([one, other])
    assert both.find("GET", "/x/1")[0].operation == "one"
    assert [route.operation for route in both.routes] == ["one"]


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
@settings(max_examples=examples(200), deadline=None)
def test_any_name_comes_back_as_it_was_sent(first: str, second: str) -> None:
    found = router(("GET", "/a/{first}/b/{second}"))
    _, parameters = found.find("GET", f"/a/{segment(first)}/b/{segment(second)}")
    assert parameters == {"first": first, "second": second}


@given(st.text(max_size=40))
@settings(max_examples=examples(200), deadline=None)
def test_any_path_is_found_or_refused(path: str) -> None:
    found = router(("GET", "/a/{first}/b/{second}"), ("GET", "/a"))
    with suppress(ApiError):
        found.find("GET", "/" + path)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/repositories//branches", 400),
        ("//repositories", 400),
        ("/repositories/repo/branches/", 404),
        ("/repositories/repo/nothing", 404),
        ("/Repositories", 404),
        ("", 404),
        ("/", 404),
        ("/repositories/repo/branches/%ff", 400),
    ],
)
def test_what_is_no_route_says_so_in_json(call: Client, path: str, status: int) -> None:
    answer = call("GET", "!" + BASE + path)
    assert answer.status == status
    assert answer.message


def test_an_unknown_route_has_the_text_that_clients_match(call: Client) -> None:
    assert call("GET", "/nothing/here").message == "invalid API endpoint"


def test_an_encoded_slash_is_part_of_a_name(call: Client) -> None:
    call.world.lake.repository("repo").create_tag("v1/rc", "main")
    assert call("GET", "/repositories/repo/tags/v1%2Frc").json()["id"] == "v1/rc"


def test_the_stage_of_an_api_gateway_is_no_part_of_the_path(call: Client) -> None:
    event = make_event("GET", f"/prod{BASE}/repositories/repo", (), None, {"authorization": call.world.admin})
    event["requestContext"]["stage"] = "prod"
    assert as_answer(call.world.application(event)).json()["id"] == "repo"
    event["rawPath"] = f"{BASE}/repositories/repo"
    event["requestContext"]["stage"] = "$default"
    assert as_answer(call.world.application(event)).status == 200


def test_a_wrong_method_names_the_right_ones(call: Client) -> None:
    answer = call("PATCH", "/repositories/repo/branches")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, POST")
    assert answer.message


@pytest.mark.parametrize("path", ["!/api/v11/config", "!/api", "!/api/v2/repositories", "!/favicon.ico", "!/api/v1x"])
def test_outside_the_base_path_nothing_is_json(call: Client, path: str) -> None:
    answer = call("GET", path, authorization=None)
    assert answer.status == 404
    assert answer.headers["content-type"].startswith("text/plain")


def test_there_are_pages_for_people(call: Client) -> None:
    for path in ("!/", "!/docs"):
        answer = call("GET", path, authorization=None)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert "http://" not in answer.text
        assert "https://" not in answer.text


def test_every_answer_names_its_request(call: Client) -> None:
    assert call("GET", "/repositories").headers["x-request-id"]
    assert call("GET", "/nothing").headers["x-request-id"]
