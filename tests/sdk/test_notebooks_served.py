"""The tests of test_notebooks, for a lake behind a server."""

from collections.abc import Iterator
from secrets import token_hex

import pytest

from graveler.sdk.lake import Lake, open_lake
from graveler.sdk.repository import Repository
from tests.sdk import test_notebooks
from tests.support.notebooks import html_of
from tests.support.retold import tell_again
from tests.support.shell import Shell

LEFT_OUT = {"test_who_shows_nothing_loads_nothing": "needs no lake"}
tell_again(globals(), test_notebooks, LEFT_OUT)


@pytest.fixture
def lake(served_lake: Lake) -> Lake:
    return served_lake


@pytest.fixture
def repo(lake: Lake) -> Iterator[Repository]:
    made = lake.repository("demo").create(f"{lake.verbs.home}demo-{token_hex(6)}")
    yield made
    made.delete()


def test_secrets_are_not_shown(endpoint: tuple[str, str, str], repo: Repository, shell: Shell) -> None:
    url, key_id, secret = endpoint
    with open_lake(url.replace("://", "://user:hidden@"), user="ada") as lake:
        handles = lake.repository(repo.id), lake.repository(repo.id).branch("main"), lake.repository("absent")
        listings = lake.repositories(), handles[1].objects(), handles[1].log()
        shown = "".join([repr(lake), *map(repr, handles + listings), *(html_of(each) for each in handles + listings)])
        assert f"RemoteLake('{url.replace('://', '://…@')}')" in shown
    shell.export("GRAVELER_SECRET_ACCESS_KEY", f"{secret}-wrong")
    with open_lake(url.replace("://", "://user:hidden@")) as lake:
        refused = html_of(lake.repository(repo.id))
        assert test_notebooks.Table(refused).notes[0].startswith("error authenticating request: ")
    assert not [word for word in ("hidden", secret, key_id) if word in shown + refused]
