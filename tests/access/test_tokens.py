"""A token verifies as it was written, and in no other spelling."""

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from graveler.access.tokens import LIFETIME, Tokens
from graveler.storage.secrets.keyring import TOKEN_SECRET, SharedSecret
from graveler.storage.tables.memory import MemoryTables
from graveler.storage.tables.port import Absent, Condition, Item, Key, Tables
from tests.support.instruments import CountingTables
from tests.support.keyrings import keyring

NOW = 1_700_000_000.0


def tokens(tables: Tables) -> Tokens:
    return Tokens(tables, SharedSecret(keyring(tables), TOKEN_SECRET, lambda: NOW))


TABLES = MemoryTables()
TOKENS = tokens(TABLES)
TOKEN = TOKENS.issue("AKIAIAAAAAAAAAAAAAAQ", now=NOW).token
SECRET = keyring(TABLES).shared(TOKEN_SECRET).secret


def test_a_token_says_whose_it_is_until_it_expires() -> None:
    claims = TOKENS.verify(TOKEN, now=NOW)
    assert claims is not None
    assert (claims.sub, claims.iat, claims.exp) == ("AKIAIAAAAAAAAAAAAAAQ", NOW, NOW + LIFETIME)
    assert TOKENS.verify(TOKEN, now=NOW + LIFETIME - 1) == claims
    assert TOKENS.verify(TOKEN, now=NOW + LIFETIME) is None


def test_no_single_bit_may_flip() -> None:
    whole = TOKEN.encode()
    for at in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[at] ^= 1 << bit
            assert TOKENS.verify(flipped.decode("latin-1"), now=NOW) is None


@given(st.text(max_size=80), st.integers(0, len(TOKEN)), st.integers(0, len(TOKEN)))
def test_no_other_text_verifies(text: str, begin: int, end: int) -> None:
    changed = TOKEN[:begin] + text + TOKEN[end:]
    assert (TOKENS.verify(changed, now=NOW) is not None) == (changed == TOKEN)


def forge(header: str, payload: bytes, algorithm: str = "HS256") -> str:
    """A token signed with the right secret, but not by us."""
    head = urlsafe_b64encode(header.encode()).rstrip(b"=").decode()
    signed = head + "." + urlsafe_b64encode(payload).rstrip(b"=").decode()
    signature = b"" if algorithm == "none" else hmac.digest(SECRET, signed.encode(), sha256)
    return signed + "." + urlsafe_b64encode(signature).rstrip(b"=").decode()


GOOD = b'{"sub":"AKIAIAAAAAAAAAAAAAAQ","iat":1,"exp":9999999999}'
HEADER = '{"alg":"HS256","typ":"JWT"}'


def test_the_header_chooses_nothing() -> None:
    assert TOKENS.verify(forge(HEADER, GOOD), now=NOW) is not None
    for header in (
        '{"alg":"none","typ":"JWT"}',
        '{"alg":"None"}',
        '{"alg":"RS256","typ":"JWT"}',
        '{"alg":"HS512","typ":"JWT"}',
        '{"typ":"JWT","alg":"HS256"}',
        "{}",
    ):
        for algorithm in ("HS256", "none"):
            assert TOKENS.verify(forge(header, GOOD, algorithm), now=NOW) is None
    assert TOKENS.verify(forge(HEADER, GOOD, "none"), now=NOW) is None


def test_a_payload_that_says_something_else_is_refused() -> None:
    for payload in (b"", b"{}", b"[]", b"\xff", GOOD.replace(b"1,", b'"1",'), GOOD.replace(b"}", b',"role":"admin"}')):
        assert TOKENS.verify(forge(HEADER, payload), now=NOW) is None


def test_tokens_of_another_lake_are_refused() -> None:
    assert tokens(MemoryTables()).verify(TOKEN, now=NOW) is None


def test_the_secret_is_made_once_and_read_once() -> None:
    tables = CountingTables(MemoryTables())
    first = tokens(tables)
    token = first.issue("AKIA", now=NOW).token
    assert tables.calls == {"get_many": 2, "put": 2}
    assert first.verify(token, now=NOW) is not None
    assert tokens(tables).verify(token, now=NOW) is not None
    assert tables.calls == {"get_many": 3, "put": 2}


class _Outrun(MemoryTables):
    """Somebody else writes just before each conditional put."""

    def put(self, key: Key, item: Item, condition: Condition | None = None) -> None:
        if key == TOKEN_SECRET and condition == Absent():
            super().put(key, {"secret": b"x" * 32})
        super().put(key, item, condition)


def test_who_comes_second_takes_the_secret_of_the_first() -> None:
    assert keyring(_Outrun()).shared(TOKEN_SECRET).secret == b"x" * 32


def test_the_token_is_not_shown_by_accident() -> None:
    made = TOKENS.issue("AKIA", now=NOW)
    assert made.token not in repr(made)
    assert msgspec.json.decode(msgspec.json.encode(made)) == {"token": made.token, "expires": made.expires}
