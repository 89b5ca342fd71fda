"""Parameters and bodies as clients send them, and their meaning."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.api.queries import PageQuery, Query, read_query, split_query
from tests.api.support import Client, raw_query
from tests.support.campaigns import examples

BRANCHES = "/repositories/repo/branches"


class Everything(Query, frozen=True, kw_only=True):
    text: str = ""
    number: int = 7
    flag: bool = False
    many: tuple[str, ...] = ()


@given(text=st.text(), many=st.lists(st.text(min_size=1)), number=st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=examples(200), deadline=None)
def test_any_text_comes_back_as_it_was_sent(text: str, many: list[str], number: int) -> None:
    sent = raw_query([("text", text), ("number", number), *(("many", one) for one in many)])
    read = read_query(Everything, split_query(sent))
    assert (read.text, read.many, read.number) == (text, tuple(many), number)


@pytest.mark.parametrize("spelled", ["1", "t", "T", "TRUE", "true", "True"])
def test_true_in_every_spelling(spelled: str) -> None:
    assert read_query(Everything, [("flag", spelled)]).flag


@pytest.mark.parametrize("spelled", ["0", "f", "F", "FALSE", "false", "False"])
def test_false_in_every_spelling(spelled: str) -> None:
    assert not read_query(Everything, [("flag", spelled)]).flag


def test_empty_means_absent_and_unknown_is_ignored() -> None:
    assert read_query(Everything, split_query("text=&number=&flag=&many=&other=1&&=&a")) == Everything()


def test_a_plus_is_a_space_and_commas_stay() -> None:
    assert read_query(Everything, split_query("text=a+b%2Bc&many=x,y&many=z")).many == ("x,y", "z")
    assert read_query(Everything, split_query("text=a+b%2Bc")).text == "a b+c"


@pytest.mark.parametrize(("asked", "given_"), [(None, 100), ("-1", 100), ("0", 100), ("1", 1), ("1000", 1000)])
def test_amounts_that_mean_the_default(asked: str | None, given_: int) -> None:
    assert read_query(PageQuery, [] if asked is None else [("amount", asked)]).limit == given_


@pytest.mark.parametrize("amount", ["-2", "1001", "99999999999999999999999", "x", "1.5", "0x10", "%00"])
def test_amounts_out_of_range_are_refused(call: Client, amount: str) -> None:
    answer = call("GET", BRANCHES, f"amount={amount}")
    assert answer.status == 400
    assert "amount" in answer.message


@pytest.mark.parametrize(
    "query", ["show_hidden=maybe", "prefix=%ff%fe", "%ff=1", "after=%C3%28"], ids=["boolean", "value", "name", "after"]
)
def test_bad_queries_are_refused(call: Client, query: str) -> None:
    answer = call("GET", BRANCHES, query)
    assert answer.status == 400
    assert answer.message


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "null",
        "[]",
        '"text"',
        '{"name": 1, "source": "main"}',
        '{"name": "x"}',
        '{"name": "x", "source": null}',
        '{"name": "x", "source": "main", "hidden": "true"}',
        b'{"name": "\xff", "source": "main"}',
        "[" * 100_000,
    ],
    ids=["empty", "cut", "null", "list", "text", "number", "missing", "null field", "boolean", "not UTF-8", "deep"],
)
def test_bad_bodies_are_refused_and_nothing_changes(call: Client, body: str | bytes) -> None:
    answer = call("POST", BRANCHES, (), body)
    assert answer.status == 400
    assert answer.message.startswith("request body: ")
    assert len(call("GET", BRANCHES).json()["results"]) == 1


def test_unknown_fields_of_a_body_are_ignored(call: Client) -> None:
    assert call("POST", BRANCHES, (), {"name": "x", "source": "main", "colour": "green"}).status == 201


def test_a_base64_body_that_is_none_is_refused(call: Client) -> None:
    from tests.api.support import as_answer, make_event

    event = make_event("POST", "/api/v1" + BRANCHES, (), "!!", {"authorization": call.world.admin})
    event["isBase64Encoded"] = True
    assert as_answer(call.world.application(event)).status == 400


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
@settings(max_examples=examples(60), deadline=None)
def test_no_body_makes_a_server_error(body: object) -> None:
    from tests.api.support import EventClient, make_world

    world = make_world()
    client = EventClient(world)
    for method, path in (
        ("POST", "/repositories"),
        ("POST", "/repositories/r/branches"),
        ("PUT", "/repositories/r/settings/gc_rules"),
    ):
        assert client(method, path, (), json.dumps(body)).status in (400, 404)
