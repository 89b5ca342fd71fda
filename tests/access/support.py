"""A clock that tests set, and credentials as clients write them."""

from base64 import b64encode

from graveler.access.keys import KeyWithSecret

HERE = "192.0.2.1"
THERE = "192.0.2.2"


class HandClock:
    """Stands still until it is moved."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def basic(key_id: str, secret: str) -> str:
    """The Authorization header of a key and its secret."""
    return "Basic " + b64encode(f"{key_id}:{secret}".encode()).decode()


def header_of(made: KeyWithSecret) -> str:
    """The Authorization header of a key."""
    return basic(made.key.key_id, made.secret)
