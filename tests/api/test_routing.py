"""The choice of a route, decoding, and refusals before a handler runs."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.api.application import BASE
from graveler.api.errors import ApiError
from graveler.api.pages import page_outside
from graveler.api.response import Response, no_content
from graveler.api.routing import Router, Routes
from graveler.requests.base import Permission
from graveler.wire.errors import Error
from tests.api.support import Client, as_answer, make_event, segment
from tests.support.campaigns import examples


def router(*declared: tuple[str, str]) -> Router:
    routes = Routes("test")
    for method, template in declared:

        def handler() -> Response:
            return no_content()

        routes.route(method, template, f"{method} {template}", Permission.READ, responses={204: None})(handler)
    return Router([routes])


def test_literals_win_over_parameters_and_give_way_where_they_lead_nowhere() -> None:
    found = router(("PUT", "/refs/dump"), ("GET", "/refs/{ref}/log"), ("GET", "/refs/{ref}"))
    assert found.find("PUT", "/refs/dump")[0].operation == "PUT /refs/dump"
    assert found.find("GET", "/refs/dump/log")[1] == {"ref": "dump"}
    assert found.find("GET", "/refs/dump")[1] == {"ref": "dump"}


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


def test_the_application_alone_says_where_its_api_is_described() -> None:
    """As on Lambda; with `graveler serve` Swagger UI is in front."""
    assert "/openapi.json" in str(page_outside("/docs").body)


def test_every_answer_names_its_request(call: Client) -> None:
    assert call("GET", "/repositories").headers["x-request-id"]
    assert call("GET", "/nothing").headers["x-request-id"]
