"""Presigned URLs open one key, by one method, for a while, and nothing else."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graveler.errors import ForbiddenError, InvalidError, UnavailableError
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.presigned import Grant, UrlSigner

BASE = "http://127.0.0.1:8000/objects"
SIGNER = UrlSigner(BASE, b"secret")
STORE = FolderObjects(Path("/nowhere"), "file:///nowhere", SIGNER)


@pytest.mark.parametrize("key", ["k", "a b/c%20d", "ä/?x=1&y#z", "+", "a;b", "x\ny"])
def test_a_url_names_its_key(key: str) -> None:
    url = STORE.presign(key, "PUT", 60)
    assert url.startswith(BASE + "/")
    assert url.isascii()
    assert SIGNER.verify(url, "PUT") == Grant("file:///nowhere", key)
    assert SIGNER.verify(url.removeprefix("http://127.0.0.1:8000"), "PUT").key == key


def test_it_allows_one_method_for_a_while() -> None:
    url = SIGNER.sign(Grant("n", "k"), "GET", 60, 1000)
    assert SIGNER.verify(url, "GET", 1059.9) == Grant("n", "k")
    for signer, method, now in (
        (SIGNER, "PUT", 1000),
        (SIGNER, "DELETE", 1000),
        (SIGNER, "GET", 1060),
        (UrlSigner(BASE, b"guess"), "GET", 1000),
    ):
        with pytest.raises(ForbiddenError, match="request a new one"):
            signer.verify(url, method, now)


def test_a_part_is_no_object_and_no_other_part() -> None:
    url = SIGNER.sign(Grant("n", "k", "upload", 3), "PUT", 60, 1000)
    assert SIGNER.verify(url, "PUT", 1000) == Grant("n", "k", "upload", 3)
    without = url.replace("&partNumber=3&uploadId=upload", "")
    for forged in (
        without,
        url.replace("Number=3", "Number=4"),
        url.replace("Id=upload", "Id=other"),
        url + "&partNumber=4",
    ):
        assert forged != url
        with pytest.raises(ForbiddenError):
            SIGNER.verify(forged, "PUT", 1000)


@example(position=0, character="[")  # what urllib takes for the beginning of an IPv6 address
@given(position=st.integers(min_value=0), character=st.characters(min_codepoint=33, max_codepoint=126))
def test_whoever_changes_a_character_gets_nothing_else(position: int, character: str) -> None:
    url = SIGNER.sign(Grant("local://r", "data/key", "upload", 3), "PUT", 60, 1000)
    begin = len("http://127.0.0.1:8000")
    place = begin + position % (len(url) - begin)
    forged = url[:place] + character + url[place + 1 :]
    try:
        assert SIGNER.verify(forged, "PUT", 1000) == Grant("local://r", "data/key", "upload", 3)
    except ForbiddenError:
        assert forged != url


@given(path=st.text(max_size=20), query=st.text(max_size=20))
def test_any_text_is_refused_in_plain_words(path: str, query: str) -> None:
    with pytest.raises(ForbiddenError):
        SIGNER.verify(f"/objects/{path}?X-Graveler-Signature={query}", "GET")


def test_lifetime_and_signature_are_given_once() -> None:
    url = SIGNER.sign(Grant("n", "k"), "GET", 60, 1000)
    with pytest.raises(ForbiddenError):
        SIGNER.verify(url + "&X-Amz-Expires=99999", "GET", 1000)
    with pytest.raises(ForbiddenError):
        SIGNER.verify(url.rpartition("&")[0], "GET", 1000)
    with pytest.raises(ForbiddenError, match="below"):
        UrlSigner(BASE + "x", b"secret").verify(url, "GET", 1000)


def test_what_others_add_to_the_query_changes_nothing() -> None:
    url = SIGNER.sign(Grant("n", "k"), "GET", 60, 1000)
    assert SIGNER.verify(url + "&response-content-type=text/plain", "GET", 1000) == Grant("n", "k")


def test_the_hidden_folder_cannot_be_signed_for() -> None:
    with pytest.raises(InvalidError):
        STORE.presign(".graveler-tmp/writes/x", "GET", 60)


def test_a_secret_is_not_shown() -> None:
    assert "secret" not in repr(SIGNER)


def test_a_folder_without_a_server_has_no_urls() -> None:
    with pytest.raises(UnavailableError, match="graveler serve"):
        FolderObjects(Path("/nowhere")).presign("k", "GET", 60)
