"""Requests: their contents, their repetition, and the errors made of refusals."""

import socket
from base64 import b64encode

import msgspec
import pytest

from graveler.access.refusals import AuthenticationError
from graveler.errors import (
    AlreadyExistsError,
    AnswerLostError,
    BusyError,
    ConflictError,
    ForbiddenError,
    GoneError,
    GravelerError,
    InvalidError,
    NotFoundError,
    PreconditionError,
    RefNotFoundError,
    UnavailableError,
)
from graveler.remote.connection import Connection, Query
from graveler.wire.error_documents import document
from tests.remote.conftest import QUICK
from tests.remote.scripted import Reply, Scripted

OK = Reply(200, b"{}")
LOST = Reply(0)
THROTTLED = Reply(500, b'{"message":"Internal Server Error"}', {"Apigw-Requestid": "r"})
"""As API Gateway answers for a function of which Lambda starts no copy, or whose copy broke down."""


def said(message: str, code: str = "", **fields: object) -> bytes:
    return msgspec.json.encode({"message": message, "code": code, "fields": fields})


def test_a_request_names_its_path_its_parameters_and_the_key(script: Scripted, connection: Connection) -> None:
    script.will(OK)
    query: Query = {
        "path": "a b/ü&c",
        "amount": 3,
        "presign": True,
        "after": "",
        "stop_at": None,
        "objects": ["x", "y"],
    }
    connection.call("GET", ("repositories", "r", "refs", "v1/rc~1", "objects"), query)
    (asked,) = script.asked
    path, _, shown = asked.target.partition("?")
    assert path == "/api/v1/repositories/r/refs/v1%2Frc~1/objects"
    assert shown == "path=a%20b%2F%C3%BC%26c&amount=3&presign=true&objects=x&objects=y"
    assert asked.headers["authorization"] == f"Basic {b64encode(b'key:secret').decode()}"
    assert "idempotency-key" not in asked.headers


def test_the_base_path_may_be_in_the_url_and_the_host_may_be_another(script: Scripted) -> None:
    connection = Connection(f"{script.url}/api/v1", "key", "secret", host="abc.execute-api.localhost", retries=QUICK)
    script.will(OK)
    connection.call("GET", ("config",))
    connection.close()
    assert script.asked[0].target == "/api/v1/config"
    assert script.asked[0].headers["host"] == "abc.execute-api.localhost"


@pytest.mark.parametrize("url", ["", "host", "ftp://host", "https://", "http://host?x=1"])
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidError, match="not the URL of a server"):
        Connection(url, "key", "secret")


@pytest.mark.parametrize("trouble", [LOST, Reply(503), Reply(502, b"<html>"), Reply(504), Reply(429), THROTTLED])
def test_the_same_request_is_sent_again(script: Scripted, connection: Connection, trouble: Reply) -> None:
    script.will(trouble, trouble, OK)
    connection.call("POST", ("repositories",), None, {"name": "r"})
    assert len(script.asked) == 3
    assert len({(asked.body, asked.headers["idempotency-key"]) for asked in script.asked}) == 1, "and does it once"


def test_each_request_that_creates_something_has_a_key_of_its_own(script: Scripted, connection: Connection) -> None:
    script.will(OK, OK, OK)
    for key in ("", "", "mine"):
        connection.call("POST", ("repositories",), None, {}, key=key)
    keys = [asked.headers["idempotency-key"] for asked in script.asked]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


def test_who_is_told_to_come_later_does_so_however_often(script: Scripted, connection: Connection) -> None:
    later = Reply(429, said("too many tries: still worked on"), {"Retry-After": "0"})
    script.will(*[later] * 10, OK)
    connection.call("POST", ("repositories", "r", "refs", "a", "merge", "b"), None, {})
    assert len({asked.headers["idempotency-key"] for asked in script.asked}) == 1
    assert len(script.asked) == 11


def test_a_wait_beyond_patience_ends_as_busy(script: Scripted, connection: Connection) -> None:
    script.will(*[Reply(429, said("still worked on", "busy"), {"Retry-After": "9999"})] * 3)
    impatient = Connection(script.url, "key", "secret", retries=msgspec.structs.replace(QUICK, patience=1))
    with pytest.raises(BusyError, match=r"^still worked on$"):
        impatient.call("GET", ("repositories",))
    impatient.close()


def test_in_the_end_it_is_told_that_there_is_no_answer(script: Scripted, connection: Connection) -> None:
    script.will(LOST, LOST, LOST)
    with pytest.raises(AnswerLostError, match="may or may not have happened"):
        connection.call("PUT", ("repositories", "r"), None, {})
    assert len(script.asked) == 3
    with pytest.raises(UnavailableError, match="nothing was changed") as refused:
        Connection("http://127.0.0.1:9", "key", "secret", retries=QUICK).call("PUT", ("repositories",), None, {})
    assert not isinstance(refused.value, AnswerLostError)


def test_what_the_server_or_a_gateway_does_not_know_is_unknown(script: Scripted, connection: Connection) -> None:
    unknown = msgspec.json.encode(document(AnswerLostError("the table may be there or not"), "the outcome is unknown"))
    for replies, text in (
        ([Reply(503, unknown)] * 3, "^the table may be there or not$"),
        ([THROTTLED] * 3, r"^Internal Server Error \(status 500\); it may or may not have happened"),
        ([Reply(504, b"")] * 3, "it may or may not have happened"),
        ([LOST, LOST, Reply(503, said("the disk is full"))], "^the disk is full; it may or may not have happened"),
    ):
        script.will(*replies)
        with pytest.raises(AnswerLostError, match=text):
            connection.call("PUT", ("repositories", "r"), None, {})
    script.will(*[Reply(504, b"")] * 3)
    with pytest.raises(UnavailableError) as refused:
        connection.call("GET", ("repositories", "r"))
    assert not isinstance(refused.value, AnswerLostError)


def test_after_a_lost_answer_what_is_gone_was_deleted(script: Scripted, connection: Connection) -> None:
    script.will(LOST, Reply(404, said("branch not found", "ref_not_found", ref="b")))
    assert connection.call("DELETE", ("repositories", "r", "branches", "b")).status == 404
    script.will(Reply(404, said("branch not found", "ref_not_found", ref="b")))
    with pytest.raises(RefNotFoundError):
        connection.call("DELETE", ("repositories", "r", "branches", "b"))


def test_after_a_lost_answer_a_condition_that_fails_says_nothing(script: Scripted, connection: Connection) -> None:
    taken = Reply(412, said("path already exists", "already_exists", kind="object", name="a"))
    script.will(LOST, taken)
    with pytest.raises(UnavailableError, match="a response was lost"):
        connection.call("PUT", ("x",), None, {})
    script.will(taken)
    with pytest.raises(AlreadyExistsError):
        connection.call("PUT", ("x",), None, {})


def test_an_answer_of_something_else_is_told(script: Scripted, connection: Connection) -> None:
    script.will(Reply(200, b"<html>a portal</html>"))
    with pytest.raises(UnavailableError, match="check the endpoint"):
        connection.get(("repositories",), dict[str, str])


BY_STATUS: list[tuple[int, type[GravelerError]]] = [
    (400, InvalidError),
    (401, ForbiddenError),
    (403, ForbiddenError),
    (404, NotFoundError),
    (409, ConflictError),
    (410, GoneError),
    (412, PreconditionError),
    (416, InvalidError),
    (500, UnavailableError),
    (501, InvalidError),
]


@pytest.mark.parametrize(("status", "kind"), BY_STATUS)
@pytest.mark.parametrize("code", ["", "of_a_later_version"])
def test_without_a_code_that_is_known_a_refusal_goes_by_its_status(
    script: Scripted, connection: Connection, status: int, kind: type[GravelerError], code: str
) -> None:
    """Whatever its words are: a sentence that names another error says nothing to a program."""
    sentence = "object 'a' does not exist in 'b'"
    script.will(Reply(status, said(sentence, code), {"X-Request-Id": "r"}))
    with pytest.raises(kind, match=f"^{sentence}") as refused:
        connection.call("GET", ("repositories",))
    assert type(refused.value) is kind


def test_a_refusal_that_says_nothing_is_told_with_its_status(script: Scripted, connection: Connection) -> None:
    script.will(Reply(416, b""))
    with pytest.raises(InvalidError, match="the server responded with status 416"):
        connection.call("GET", ("repositories",))


@pytest.mark.parametrize("status", [414, 431])
def test_an_address_that_is_too_long_is_told_with_what_to_do(
    script: Scripted, connection: Connection, status: int
) -> None:
    script.will(Reply(status, b'{"message":"Request Header Fields Too Large"}'))
    with pytest.raises(InvalidError, match="longer than the server takes; name fewer paths or prefixes at once"):
        connection.call("GET", ("repositories", "r", "refs", "main", "commits"), {"objects": ["a" * 1_000] * 12})


def test_who_is_not_known_is_told_which_variables_to_set(script: Scripted, connection: Connection) -> None:
    script.will(Reply(401, msgspec.json.encode(document(AuthenticationError()))))
    with pytest.raises(AuthenticationError, match="GRAVELER_SECRET_ACCESS_KEY to a valid key"):
        connection.call("GET", ("repositories",))


def test_a_server_that_says_nothing_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connection = Connection(f"http://127.0.0.1:{silent.getsockname()[1]}", "key", "secret", retries=QUICK)
        with pytest.raises(UnavailableError, match="no response"):
            connection.call("GET", ("repositories",), seconds=0.05)
        connection.close()
