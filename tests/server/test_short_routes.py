"""The short routes on a real lake in a folder, in the event loop: a waiting request holds no lock, and delays no other."""

import asyncio
import gc
import json
import sqlite3
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Event, get_ident
from typing import Any
from urllib.parse import quote

import pytest

from graveler.access import audit
from graveler.access.authentication import Access
from graveler.access.sources import ImportSources
from graveler.api.application import Application
from graveler.api.response import Response
from graveler.api.settings import Settings
from graveler.lake.lake import Lake
from graveler.lake.opening.folder import create_folder_lake, open_folder_lake
from graveler.lake.opening.location import FolderLake
from graveler.model import ObjectEntry
from graveler.server.configuration import ServerSettings
from graveler.server.gateway import Gateway
from graveler.server.loop_requests import _Wait
from graveler.server.metrics import Metrics
from graveler.server.requests import Message
from graveler.server.threads import Threads
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.tables.sqlite import SqliteTables
from graveler.system import forks, pauses
from tests.server.support import KEY_ID, SECRET, arriving, basic
from tests.support.patience import PATIENCE

API = "/api/v1/repositories/rep"
STAGED = {"physical_address": "SOURCE/x", "checksum": "1" * 32, "size_bytes": 1}

Ask = Callable[..., Coroutine[Any, Any, tuple[int, bytes]]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with create_folder_lake(tmp_path / "lake") as lake:
        repository = lake.create_repository("rep", "local://rep")
        repository.link_many("main", [entry(f"there/{number:02}") for number in range(40)])
        repository.commit("main", "some")
        assert Access(lake.tables, lake.keyring).ensure_first_key(KEY_ID, SECRET) is not None
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "x").write_bytes(b"x")
    return tmp_path / "lake"


def entry(path: str) -> ObjectEntry:
    return ObjectEntry(path, "mem://o/1", 1, "1" * 32, 0)


@contextmanager
def served(folder: Path) -> Iterator[tuple[Lake, Gateway]]:
    """A worker of a server of the lake, in this process, and of the folder ``source`` beside it."""
    sources = (address(folder),)
    settings = ServerSettings(lake=FolderLake(folder), metrics=folder.parent, import_sources=sources)
    with ExitStack() as opened:
        lake = opened.enter_context(open_folder_lake(folder, base_url="http://here/objects", sources=sources))
        access = Access(lake.tables, lake.keyring)
        application = Application(lake, access, Settings(import_sources=ImportSources(sources)))
        opened.callback(application.close)
        metrics = opened.enter_context(closing(Metrics(folder.parent)))
        threads = opened.enter_context(closing(Threads("handler", 4)))
        assert isinstance(lake.tables, SqliteTables)
        lake.tables.write_together()
        yield lake, Gateway(application, None, metrics, settings, 0, threads, threads, threads, in_loop=True)


def address(folder: Path) -> str:
    """Where clients say that their objects are."""
    return f"file://{folder.parent}/source"


def asker(gateway: Gateway, folder: Path) -> Ask:
    async def ask(method: str, target: str, document: object = None) -> tuple[int, bytes]:
        body = b"" if document is None else json.dumps(document).replace("SOURCE", address(folder)).encode()
        path, _, query = target.partition("?")
        said: list[Message] = []

        async def send(message: Message) -> None:
            said.append(message)

        headers = [(b"authorization", basic().encode())]
        if body:
            headers.append((b"content-length", b"%d" % len(body)))
        head = {"method": method, "raw_path": path.encode(), "query_string": query.encode(), "http_version": "1.1"}
        await gateway({**head, "headers": headers, "client": None}, arriving(body), send)
        return said[0]["status"], b"".join(message.get("body", b"") for message in said[1:])

    return ask


def in_loop(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(asyncio.wait_for(work, PATIENCE))
    finally:
        pauses.install_waiter(None)


REQUESTS: list[tuple[str, str, object, tuple[int, int]]] = [
    ("PUT", "/branches/main/objects?path=new", STAGED, (201, 201)),
    ("DELETE", "/branches/main/objects?path=there/01", None, (204, 204)),
    ("GET", "/branches/main/staging/backing?path=new&presign=true", None, (200, 200)),
    (
        "PUT",
        "/branches/main/staging/backing?path=new",
        {"staging": {"physical_address": "SOURCE/x"}, "checksum": "1" * 32, "size_bytes": 1},
        (200, 200),
    ),
    ("POST", "/branches", {"name": "side", "source": "main"}, (201, 409)),
    ("POST", "/branches", {"name": "main", "source": "main"}, (409, 409)),
    ("PUT", "/branches/none/objects?path=new", STAGED, (404, 404)),
    ("PUT", "/branches/shut/objects?path=new", STAGED, (201, 403)),
    ("GET", "/refs/main/objects/stat?path=there/02", None, (200, 200)),
    ("HEAD", "/refs/main/objects?path=there/02", None, (200, 200)),
    ("GET", "/refs/main/objects/ls", None, (200, 200)),
    ("GET", "/branches/main", None, (200, 200)),
]
"""With what each is answered, the first time and the second."""


def test_no_lock_is_held_while_a_request_waits_in_the_loop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another request of the same thread that wants it would wait for ever. Everything is asked one after the other here, so a
    lock that is held is held by the one who waits."""
    waits: list[str] = []
    asked: list[str] = []
    real = _Wait.wait

    def wait(self: _Wait) -> None:
        waits.append(asked[-1])
        assert [lock for lock in locks() if lock.locked()] == []
        real(self)

    def locks() -> list[Any]:
        return list(forks.locks)

    monkeypatch.setattr(_Wait, "wait", wait)
    with served(folder) as (lake, gateway):

        async def work() -> None:
            ask = asker(gateway, folder)
            lake.repository("rep").create_branch("shut", "main")
            for turn in range(2):  # in the first one much is for a thread
                for method, target, document, expected in REQUESTS:
                    asked.append(f"{method} {target}")
                    status, said = await ask(method, API + target, document)
                    assert status == expected[turn], (target, said)
                with open_folder_lake(folder) as other:  # refused by what another process has made of the rules
                    other.repository("rep").protect(["shut"])

        in_loop(work())
        assert lake.repository("rep").stat("main", "new").address == f"{address(folder)}/x"
    assert {line.split("?")[0] for line in waits} >= {
        "PUT /branches/main/objects",
        "DELETE /branches/main/objects",
        "PUT /branches/main/staging/backing",
        "POST /branches",
        "PUT /branches/shut/objects",
    }


def test_a_store_that_does_not_answer_holds_no_other_request_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree of which nothing is in memory, and a disk that does not answer: who asks for it waits, and nobody else does."""
    go_on, blocked, loop = Event(), [], get_ident()
    real = FolderObjects.get

    def slow(self: FolderObjects, key: str) -> bytes:
        if "/ranges/" in key or "/metaranges/" in key:
            blocked.append(get_ident())
            assert get_ident() != loop, "it is read in the loop"
            assert go_on.wait(PATIENCE)
        return real(self, key)

    monkeypatch.setattr(FolderObjects, "get", slow)
    with served(folder) as (_, gateway):

        async def work() -> None:
            ask = asker(gateway, folder)
            cold = [
                asyncio.ensure_future(ask(method, API + target, document))
                for method, target, document in (
                    ("GET", "/refs/main/objects/stat?path=there/01", None),
                    ("GET", "/refs/main/objects/ls", None),
                )
            ]
            try:
                while not blocked:
                    await asyncio.sleep(0)
                for number in range(20):
                    assert (await ask("PUT", f"{API}/branches/main/objects?path=n/{number}", STAGED))[0] == 201
                    assert (await ask("GET", f"{API}/branches/main"))[0] == 200
                    assert (await ask("GET", f"{API}/refs/main/objects/stat?path=n/{number}"))[0] == 200
                assert not any(each.done() for each in cold)
            finally:
                go_on.set()
            assert [status for status, _ in await asyncio.gather(*cold)] == [200, 200]

        in_loop(work())
    assert loop not in blocked


@pytest.mark.parametrize(
    ("target", "in_loop_thread"),
    [
        ("/refs/main/objects/stat?path=there/02", True),
        ("/branches/main", True),
        ("/refs/main/objects/ls", True),
        ("/refs/main/objects/ls?user_metadata=false", False),
        ("/refs/main/objects/ls?delimiter=/", False),
        ("/refs/staged/objects/ls", False),
        ("/refs/main~1/objects/stat?path=there/02", False),
        ("/refs/main@{1}/objects/stat?path=there/02", False),
        ("/commits/main~1", False),
    ],
)
def test_what_has_no_bound_is_answered_by_a_thread(
    folder: Path, monkeypatch: pytest.MonkeyPatch, target: str, in_loop_thread: bool
) -> None:
    """A page with a delimiter may look into a thousand ranges; one of a branch on which
    something is staged may find a million tombstones, and a walk through history a million commits."""
    asked: list[int] = []
    respond = Application.respond

    def noted(self: Application, event: Mapping[str, Any]) -> tuple[Response, str]:
        answer = respond(self, event)
        asked.append(get_ident())
        return answer

    with served(folder) as (lake, gateway):

        async def work() -> None:
            ask = asker(gateway, folder)
            repository = lake.repository("rep")
            repository.create_branch("staged", "main")
            repository.delete("staged", ["there/03"])
            await ask("GET", f"{API}/refs/main/objects/stat?path=there/02")  # has the tree at hand
            monkeypatch.setattr(Application, "respond", noted)
            status, said = await ask("GET", API + target.replace("{", "%7B").replace("}", "%7D"))
            assert status in (200, 404), said
            assert [thread == get_ident() for thread in asked] == [in_loop_thread]

        in_loop(work())


def test_pages_are_the_same_while_they_are_rendered_and_afterwards(folder: Path) -> None:
    """In two workers, of which the second reads what the first has rendered."""
    written: list[str] = []

    def listed(lake: Lake, ref: str) -> list[dict[str, object]]:
        return [
            {
                "path_type": "object",
                "path": item.path,
                "physical_address": item.address,
                "size_bytes": item.size,
                "checksum": item.checksum,
                "mtime": item.mtime,
                "content_type": item.content_type,
                "metadata": item.metadata,
            }
            for item in lake.repository("rep").objects(ref)
        ]

    async def pages(ask: Ask, ref: str, amount: int) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        after, more = "", True
        while more:
            status, said = await ask("GET", f"{API}/refs/{ref}/objects/ls?amount={amount}&after={quote(after)}")
            assert status == 200, said
            page = json.loads(said)
            place = page["pagination"]
            assert place["results"] == len(page["results"]) <= amount
            assert place["max_per_page"] == 1000
            found += page["results"]
            after, more = place["next_offset"], place["has_more"]
        return found

    for again in (False, True):
        with served(folder) as (lake, gateway):

            async def work(lake: Lake, ask: Ask, again: bool) -> None:
                repository = lake.repository("rep")
                if not again:
                    repository.link_many("main", [entry(f'é/{number:04}"') for number in range(700)])
                    repository.commit("main", "many")
                    repository.create_branch("staged", "main")
                    repository.delete("staged", ['é/0003"', "there/07"])
                    repository.link_many("staged", [entry("a"), entry('é/0350"x'), entry("z")])
                for amount in (1000, 300, 73):
                    for ref in ("main", "staged"):
                        assert await pages(ask, ref, amount) == listed(lake, ref)

            in_loop(work(lake, asker(gateway, folder), again))
        rendered = [each.name for each in (folder / "cache").iterdir() if each.name.startswith("rendered-")]
        assert rendered
        assert sorted(rendered) == written or not again
        written = sorted(rendered)


def test_clients_that_go_away_while_their_write_waits_leave_a_write_that_counts(folder: Path) -> None:
    with served(folder) as (lake, gateway):
        other = sqlite3.connect(folder / "tables.sqlite", isolation_level=None)

        async def work() -> None:
            ask = asker(gateway, folder)
            assert (await ask("PUT", f"{API}/branches/main/objects?path=warm", STAGED))[0] == 201
            other.execute("BEGIN IMMEDIATE")
            waiting = [
                asyncio.ensure_future(ask("PUT", f"{API}/branches/main/objects?path=w/{number}", STAGED))
                for number in range(8)
            ]
            for _ in range(5):
                await asyncio.sleep(0)
            for each in waiting[::2]:
                each.cancel()
            for _ in range(5):  # others are answered meanwhile
                assert (await ask("GET", f"{API}/branches/main"))[0] == 200
            other.execute("COMMIT")
            statuses = await asyncio.gather(*waiting, return_exceptions=True)
            assert [status[0] for status in statuses[1::2] if isinstance(status, tuple)] == [201] * 4
            assert all(isinstance(status, asyncio.CancelledError) for status in statuses[::2])
            assert (await ask("PUT", f"{API}/branches/main/objects?path=after", STAGED))[0] == 201

        try:
            in_loop(work())
        finally:
            other.close()
        found = {item.path for item in lake.repository("rep").objects("main", "w/")}
        assert found >= {f"w/{number}" for number in range(1, 8, 2)}


def test_a_loop_that_ends_with_requests_waiting_leaves_a_writer_that_goes_on(folder: Path) -> None:
    with served(folder) as (lake, gateway):
        other = sqlite3.connect(folder / "tables.sqlite", isolation_level=None)

        async def work() -> None:
            ask = asker(gateway, folder)
            assert (await ask("PUT", f"{API}/branches/main/objects?path=warm", STAGED))[0] == 201
            other.execute("BEGIN IMMEDIATE")
            asyncio.ensure_future(ask("PUT", f"{API}/branches/main/objects?path=left", STAGED))  # noqa: RUF006
            for _ in range(5):
                await asyncio.sleep(0)

        in_loop(work())
        gc.collect()
        other.execute("COMMIT")
        other.close()
        assert isinstance(lake.tables, SqliteTables)
        writer = lake.tables.writes.group
        assert writer is not None
        while writer._thread.is_alive() and not writer._asleep:
            time.sleep(0.001)
        assert writer._thread.is_alive()
        lake.repository("rep").link("main", entry("after"))
        assert lake.repository("rep").stat("main", "after").path == "after"


def test_a_link_that_is_swapped_in_gives_nobody_what_is_behind_it(folder: Path, tmp_path: Path) -> None:
    """Linking and reading notice it at once."""
    inner, secret = tmp_path / "source" / "inner", tmp_path / "secret"
    for place in (inner, secret):
        place.mkdir()
        (place / "x").write_bytes(b"S")
    staged = {**STAGED, "physical_address": "SOURCE/inner/x", "checksum": "5dbc98dcc983a70728bd082d1a47546e"}
    with served(folder) as (_, gateway):

        async def work() -> None:
            ask = asker(gateway, folder)
            assert (await ask("PUT", f"{API}/branches/main/objects?path=before", staged))[0] == 201
            inner.rename(tmp_path / "moved")
            inner.symlink_to(secret)
            assert (await ask("PUT", f"{API}/branches/main/objects?path=after", staged))[0] == 403
            status, said = await ask("GET", f"{API}/refs/main/objects?path=before")
            assert status == 403, said
            inner.unlink()
            (tmp_path / "moved").rename(inner)
            (inner / "x").unlink()
            (inner / "x").symlink_to(secret / "x")  # the object itself is a link
            assert (await ask("PUT", f"{API}/branches/main/objects?path=link", staged))[0] == 403

        in_loop(work())


@pytest.mark.parametrize("change", ["sources", "deleted", "made again", "read-only", "protected", "branch deleted"])
def test_what_another_process_decided_holds_for_a_repository_that_is_kept(folder: Path, change: str) -> None:
    target = f"{API}/branches/main/objects?path=new"
    expected = {"sources": 403, "deleted": 404, "made again": 201, "read-only": 403, "protected": 403}.get(change, 404)
    with served(folder) as (_, gateway), open_folder_lake(folder) as other:

        def decide() -> None:
            repository = other.repository("rep")
            if change == "sources":
                repository.set_import_sources([])
            elif change == "protected":
                repository.protect(["main"])
            elif change == "read-only":
                repository.set_read_only(True)
            elif change == "branch deleted":
                repository.create_branch("side", "main")
                repository.delete_branch("side")
            else:
                other.delete_repository("rep")
                if change == "made again":
                    other.create_repository("rep", "local://again")

        async def work() -> None:
            ask = asker(gateway, folder)
            for _ in range(2):
                assert (await ask("PUT", f"{API}/branches/main/objects?path=warm", STAGED))[0] == 201
            await asyncio.to_thread(decide)
            asked = target.replace("main", "side") if change == "branch deleted" else target
            for _ in range(2):
                status, said = await ask("PUT", asked, STAGED)
                assert status == expected, said

        in_loop(work())
        if change != "deleted":
            there = {item.path for item in other.repository("rep").objects("main")}
            assert there == {"new"} if change == "made again" else "new" not in there


def test_a_change_is_told_although_the_audit_log_is_full(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with served(folder) as (_, gateway), Path("/dev/full").open("wb", buffering=0) as full:

        async def work() -> None:
            ask = asker(gateway, folder)
            assert (await ask("PUT", f"{API}/branches/main/objects?path=new", STAGED))[0] == 201
            assert (await ask("GET", f"{API}/refs/main/objects/stat?path=new"))[0] == 200

        audit.write_to(full.fileno())
        try:
            in_loop(work())
        finally:
            audit.write_to(None)
    assert [record for record in caplog.messages if "audit log cannot be written" in record and "stageObject" in record]
