"""Presigned URLs open one key, by one method, for a while, and nothing else."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graveler.errors import ForbiddenError, GravelerError, InvalidError, UnavailableError
from graveler.storage.folder_objects import FolderObjects
from graveler.storage.presigned import sign_url, verify_url

BASE = "http://127.0.0.1:8000/objects"
SECRET = b"secret"
STORE = FolderObjects(Path("/nowhere"), "file:///nowhere", BASE, SECRET)


@pytest.mark.parametrize("key", ["k", "a b/c%20d", "ä/?x=1&y#z", "+", "a;b", "x\ny"])
def test_a_url_names_its_key(key: str) -> None:
    url = STORE.presign(key, "PUT", 60)
    assert url.startswith(BASE + "/")
    assert url.isascii()
    assert STORE.verify_presigned(url, "PUT") == key
    assert STORE.verify_presigned(url.removeprefix("http://127.0.0.1:8000"), "PUT") == key


def test_it_allows_one_method_for_a_while() -> None:
    url = sign_url(BASE, SECRET, "n", "k", "GET", 1000)
    assert verify_url(url, BASE, SECRET, "n", "GET", 999.9) == "k"
    for method, now, namespace, secret in (
        ("PUT", 0, "n", SECRET),
        ("DELETE", 0, "n", SECRET),
        ("GET", 1000, "n", SECRET),
        ("GET", 0, "other", SECRET),
        ("GET", 0, "n", b"guess"),
    ):
        with pytest.raises(ForbiddenError, match="ask for a new one"):
            verify_url(url, BASE, secret, namespace, method, now)


@example(position=0, character="[")  # what urllib takes for the beginning of an IPv6 address
@given(position=st.integers(min_value=0), character=st.characters(min_codepoint=33, max_codepoint=126))
def test_whoever_changes_a_character_gets_nothing_else(position: int, character: str) -> None:
    url = sign_url(BASE, SECRET, "n", "data/key", "GET", 1000)
    begin = len("http://127.0.0.1:8000")
    place = begin + position % (len(url) - begin)
    forged = url[:place] + character + url[place + 1 :]
    try:
        assert verify_url(forged, BASE, SECRET, "n", "GET", 0) == "data/key"
    except ForbiddenError:
        assert forged != url


@given(path=st.text(max_size=20))
def test_any_text_is_refused_in_plain_words(path: str) -> None:
    with pytest.raises(GravelerError):
        STORE.verify_presigned(f"/objects/{path}", "GET")


def test_expiry_and_signature_are_given_once() -> None:
    url = sign_url(BASE, SECRET, "n", "k", "GET", 1000)
    with pytest.raises(ForbiddenError):
        verify_url(url + "&X-Graveler-Expires=99999", BASE, SECRET, "n", "GET", 0)
    with pytest.raises(ForbiddenError):
        verify_url(url.partition("&")[0], BASE, SECRET, "n", "GET", 0)
    with pytest.raises(ForbiddenError, match="below"):
        verify_url(url, BASE + "x", SECRET, "n", "GET", 0)


def test_the_hidden_folder_cannot_be_signed_for() -> None:
    with pytest.raises(InvalidError):
        STORE.presign(".graveler-tmp/writes/x", "GET", 60)


def test_a_folder_without_a_server_has_no_urls() -> None:
    for store in (FolderObjects(Path("/nowhere")), FolderObjects(Path("/nowhere"), base_url=BASE)):
        with pytest.raises(UnavailableError, match="graveler serve"):
            store.presign("k", "GET", 60)
        with pytest.raises(UnavailableError, match="graveler serve"):
            store.verify_presigned("/objects/k", "GET")
