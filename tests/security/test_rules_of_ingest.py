"""An admin of some repositories tries to take another one's data by a rule of ingest."""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graveler.access.authentication import Access
from graveler.access.permissions import Role
from graveler.errors import InvalidError
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.opening.nesting import Neighbours
from tests.server.support import Answered, Running, running

RULES = "/repositories/team-data/ingest/rules"


class Scene:
    """A server with a source, in which ``hr-private`` lies, and an admin's key for ``team-*`` alone."""

    def __init__(self, server: Running, folder: Path, authorization: str) -> None:
        self.server, self.folder, self.authorization = server, folder, authorization

    def source(self, below: str) -> str:
        return f"file://{self.folder}/data/{below}"

    def ask(self, method: str, path: str, body: object = None, *, every: bool = False) -> Answered:
        headers = {"content-type": "application/json"} | ({} if every else {"authorization": self.authorization})
        sent = None if body is None else json.dumps(body).encode()
        return self.server.ask(method, f"/api/v1{path}", sent, headers, authorised=every)


@contextmanager
def serving(folder: Path, authorization: str) -> Iterator[Scene]:
    with running(folder, "--import-source", f"file://{folder}/data/", workers=1) as server:
        yield Scene(server, folder, authorization)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("ingest")
    (folder / "data").mkdir()
    with create_folder_lake(folder / "lake") as lake:
        lake.create_repository("team-data", "local://team-data")
        lake.create_repository("hr-private", f"file://{folder}/data/ext").upload("main", "salaries", b"secret")
        made = Access(lake.tables).create_key("ann", Role.ADMIN, ("team-*",), ())
    word = b64encode(f"{made.key.key_id}:{made.secret}".encode()).decode()
    with serving(folder, f"Basic {word}") as started:
        yield started


@pytest.mark.parametrize("below", ["", "ext/", "ext/data/"])
def test_a_rule_around_anothers_namespace_is_refused_without_its_name(scene: Scene, below: str) -> None:
    rule = {"name": "r", "source": scene.source(below), "branch": "main"}
    for refused in (scene.ask("POST", RULES, rule), scene.ask("PUT", f"{RULES}/r", rule)):
        assert refused.status == 403, refused
        assert "hr-private" not in refused.body.decode(), "a key that sees no others learns no names"


def test_no_repository_is_made_where_another_one_ingests_from(scene: Scene) -> None:
    """A rule that was there first took all that was then written in a namespace within its source."""
    rule = {"name": "early", "source": scene.source("early/"), "branch": "main", "destination": "early/"}
    assert scene.ask("POST", RULES, rule).status == 201
    with open_folder_lake(scene.folder / "lake") as lake:
        for below in ("early", "early/in"):
            with pytest.raises(InvalidError, match="ingests"):
                lake.create_repository("hr-late", scene.source(below))
        lake.create_repository("hr-beside", scene.source("early-2"))
        lake.create_repository("team-gone", "local://team-gone")
    gone = {"name": "gone", "source": scene.source("gone/"), "branch": "main"}
    assert scene.ask("POST", RULES.replace("team-data", "team-gone"), gone).status == 201
    assert scene.ask("DELETE", "/repositories/team-gone").status == 204
    with open_folder_lake(scene.folder / "lake") as lake:
        lake.create_repository("hr-after", scene.source("gone/in"))


def test_a_rule_of_before_takes_nothing_of_anothers_for_a_limited_key(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = {"name": "before", "source": scene.source("before/"), "branch": "main", "destination": "before/"}
    assert scene.ask("POST", RULES, rule).status == 201
    with monkeypatch.context() as patch, open_folder_lake(scene.folder / "lake") as lake:
        patch.setattr(Neighbours, "_refuse_ingested", lambda *_: None)  # as earlier versions
        lake.create_repository("hr-nested", scene.source("before/in")).upload("main", "salaries", b"secret")
    with serving(scene.folder, scene.authorization) as again:  # one that has not believed anything yet
        assert again.ask("POST", "/repositories/team-data/ingest/reconciliations", {"rule": "before"}).status == 403
        assert again.ask("POST", "/repositories/team-data/ingest/replay", {"messages": []}).status == 403
        assert again.ask("DELETE", f"{RULES}/before").status == 204
        assert again.ask("POST", "/repositories/team-data/ingest/replay", {"messages": []}).status == 200
