"""A writer tries to have a branch of their own under a protected name."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.lake.opening.folder import create_folder_lake
from tests.server.support import Answered, running

Ask = Callable[..., Answered]
BRANCHES = "/api/v1/repositories/sales/branches"


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Requests of a writer, or of an ``admin``, to a server whose repository protects ``release-*``."""
    folder: Path = tmp_path_factory.mktemp("protected")
    with create_folder_lake(folder / "lake") as lake:
        lake.create_repository("sales", "local://sales").protect(["release-*"])
        made = Access(lake.tables).create_key("ann", Role.WRITER)
    word = "Basic " + b64encode(f"{made.key.key_id}:{made.secret}".encode()).decode()
    with running(folder, workers=1) as server:

        def asked(method: str, target: str, body: object = None, *, admin: bool = False) -> Answered:
            headers = {"content-type": "application/json"} | ({} if admin else {"authorization": word})
            return server.ask(method, BRANCHES + target, json.dumps(body or {}).encode(), headers, authorised=admin)

        yield asked


def test_a_protected_name_is_an_admins_to_give(ask: Ask) -> None:
    """Whoever could not create ``release-1`` made another branch, wrote there what they liked, and renamed it."""
    assert ask("POST", "", {"name": "release-1", "source": "main"}).status == 401
    assert ask("POST", "", {"name": "mine", "source": "main"}).status == 201
    for force in (False, True):
        refused = ask("POST", "/mine/rename", {"name": "release-1", "force": force})
        assert refused.status == 401, refused
    assert ask("POST", "/mine/rename", {"name": "yours"}).status == 200
    assert ask("POST", "/nobodys/rename", {"name": "release-1"}).status == 404
    assert ask("POST", "/yours/rename", {"name": "release-1"}, admin=True).status == 200
    assert ask("POST", "/release-1/rename", {"name": "mine"}).status == 403


def test_what_is_hidden_is_its_makers_under_any_name(ask: Ask) -> None:
    assert ask("POST", "", {"name": "release-tx", "source": "main", "hidden": True}).status == 201
    assert ask("POST", "/release-tx/rename", {"name": "release-tx-2"}).status == 200
