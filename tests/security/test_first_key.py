"""14: the first to reach a lake cannot create its key."""

from pathlib import Path

import pytest

from tests.cli.support import run
from tests.server.support import SECRET, running

STRANGERS = {"username": "eve", "key": {"access_key_id": "AKIAIAAAAAAAAAAAAAAQ", "secret_access_key": "y" * 40}}
SETUP = "/api/v1/setup_lakefs"


def test_a_server_makes_the_first_key_and_lets_nobody_else_make_it(tmp_path: Path) -> None:
    with running(tmp_path, workers=1, key=False) as server:
        state = server.ask("GET", SETUP, authorised=False).json()
        assert state["state"] == "initialized"
        for path in (SETUP, "/api/v1/setup_comm_prefs"):
            assert server.ask_json("POST", path, STRANGERS).status == 403
        login = {name: STRANGERS["key"][name] for name in ("access_key_id", "secret_access_key")}  # type: ignore[index]
        assert server.ask_json("POST", "/api/v1/auth/login", login).status == 401


def test_where_it_is_wanted_the_first_client_makes_the_key_and_no_other(tmp_path: Path) -> None:
    with running(tmp_path, "--open-setup", workers=1, key=False) as server:
        assert server.ask("GET", SETUP, authorised=False).json()["state"] == "not_initialized"
        assert server.ask_json("POST", SETUP, {"username": "ann"}).status == 200
        assert server.ask_json("POST", SETUP, STRANGERS).status == 409
        assert server.ask("GET", SETUP, authorised=False).json()["state"] == "initialized"


def test_a_key_that_is_given_is_made_also_where_setup_is_open(tmp_path: Path) -> None:
    with running(tmp_path, "--open-setup", workers=1) as server:
        assert server.ask("GET", "/api/v1/user").status == 200, SECRET
        assert server.ask_json("POST", SETUP, STRANGERS).status == 409


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "lake.example"])
def test_it_is_for_this_machines_own_address(tmp_path: Path, host: str) -> None:
    refused = run("--lake", tmp_path / "lake", "serve", "--open-setup", "--host", host, "--port", "0")
    assert refused.code == 2
    assert "--open-setup lets anyone" in refused.err
    assert not (tmp_path / "lake").exists()
