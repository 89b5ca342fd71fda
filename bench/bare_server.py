"""The yardstick of ``bench.load``: an HTTP server that does the work of ours, and has no application around it.

It can stage, link, create a branch, get one, stat and list. That is a route, a caller's name, JSON in and out, one table of
SQLite, and the keys in a list. What it writes is on disk before it is answered, as with ours: all that waits in a worker is
written in one transaction, and the workers take turns by ``flock``. ``DB`` names the table's file, ``KEYS`` a file of keys::

    granian --interface rsgi --workers 2 --no-ws --factory bench.bare_server:create
"""

import asyncio
import fcntl
import os
import sqlite3
import threading
import time
from base64 import b64decode
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol, TypeAlias
from urllib.parse import unquote, unquote_plus

import msgspec

GET = "SELECT body FROM items WHERE partition = ? AND sort = ?"
PUT = "INSERT INTO items VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body"
REPOSITORY = "r"
STAGED = "r/staged/t1/0"
TOLD_SECONDS = 5
"""So long a caller's name is taken from his header without looking again."""

pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder().decode
encode = msgspec.json.Encoder().encode

Key: TypeAlias = tuple[str, bytes]
"""Partition and sort key."""


class Caller(Protocol):
    """granian's side of a request: await it for the body."""

    def __call__(self) -> Awaitable[bytes]: ...

    def response_empty(self, status: int, headers: list[tuple[str, str]], /) -> None: ...

    def response_bytes(self, status: int, headers: list[tuple[str, str]], body: bytes, /) -> None: ...


Handler: TypeAlias = Callable[[list[str], dict[str, str], Caller], Awaitable[None]]
"""Takes the names in the path, the query, and who asks."""

BRANCH = pack({"commit": "a" * 64, "token": "t1"})
HEADERS = [("content-type", "application/json"), ("x-content-type-options", "nosniff")]


class StageBody(msgspec.Struct):
    physical_address: str
    checksum: str
    size_bytes: int
    mtime: int | None = None
    content_type: str | None = None


class Location(msgspec.Struct):
    physical_address: str


class LinkBody(msgspec.Struct):
    staging: Location
    checksum: str
    size_bytes: int
    mtime: int | None = None
    content_type: str | None = None


class Stat(msgspec.Struct):
    path: str
    path_type: str
    physical_address: str
    checksum: str
    size_bytes: int
    mtime: int
    content_type: str | None = None


class Ref(msgspec.Struct):
    id: str
    commit_id: str


class NewBranch(msgspec.Struct):
    name: str
    source: str


class Write(msgspec.Struct):
    """A row to be put if that of ``check`` is there; if ``new``, only where none is."""

    check: Key
    key: Key
    body: bytes
    new: bool = False


stage_body = msgspec.json.Decoder(StageBody).decode
link_body = msgspec.json.Decoder(LinkBody).decode
branch_body = msgspec.json.Decoder(NewBranch).decode


def connect() -> sqlite3.Connection:
    """The table; a commit has synced when it returns."""
    connection = sqlite3.connect(
        os.environ["DB"], isolation_level=None, check_same_thread=False, timeout=30, cached_statements=64
    )
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS items (partition TEXT NOT NULL, sort BLOB NOT NULL, body BLOB NOT NULL, "
        "PRIMARY KEY (partition, sort)) WITHOUT ROWID"
    )
    return connection


class Writer:
    """A thread that takes all that waits, writes it in one transaction, and wakes the loop once; workers take turns at a lock."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Write, asyncio.Future[bool]]] = deque()
        self._wake = threading.Semaphore(0)
        self._asleep = False
        self._loop = asyncio.get_running_loop()
        self._connection = connect()
        self._turn = os.open(os.environ["DB"] + ".turn", os.O_CREAT | os.O_RDWR)
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, write: Write) -> asyncio.Future[bool]:
        """Whether it was written, when it is on disk."""
        future = self._loop.create_future()
        self._waiting.append((write, future))
        if self._asleep:
            self._asleep = False
            self._wake.release()
        return future

    def _run(self) -> None:
        waiting = self._waiting
        while True:
            if not waiting:
                self._asleep = True
                if not waiting:
                    self._wake.acquire()
            fcntl.flock(self._turn, fcntl.LOCK_EX)
            batch = []
            while waiting:
                batch.append(waiting.popleft())
            if batch:
                self._connection.execute("BEGIN IMMEDIATE")
                written = self._apply([write for write, _ in batch])
                self._connection.execute("COMMIT")
            fcntl.flock(self._turn, fcntl.LOCK_UN)
            if batch:
                self._loop.call_soon_threadsafe(_tell, [future for _, future in batch], written)

    def _apply(self, writes: list[Write]) -> list[bool]:
        """Put the rows whose conditions hold; whether each of them did."""
        seen: dict[Key, Any] = {}
        written = []
        rows = []
        for write in writes:
            if write.check not in seen:
                seen[write.check] = self._connection.execute(GET, write.check).fetchone()
            if seen[write.check] is None:
                written.append(False)
                continue
            if write.new:
                if write.key in seen or self._connection.execute(GET, write.key).fetchone():
                    written.append(False)
                    continue
                seen[write.key] = (write.body,)
            rows.append((*write.key, write.body))
            written.append(True)
        if rows:
            self._connection.executemany(PUT, rows)
        return written


def _tell(futures: list[asyncio.Future[bool]], written: list[bool]) -> None:
    for future, ok in zip(futures, written, strict=True):
        if not future.cancelled():
            future.set_result(ok)


class Server:
    """An RSGI application."""

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = keys
        self._records = [
            pack(
                [
                    f"file:///x/data/bench/{token_hex(16)}",
                    token_hex(16),
                    1234,
                    1_700_000_000,
                    "application/octet-stream",
                ]
            )
            for _ in keys
        ]
        self._known: dict[str, tuple[str, float]] = {}
        self._routes: dict[str, Any] = {}
        """By segment, ``*`` for a name; the handlers of a path by method."""
        self._route("repositories/*/branches", "POST", self._create_branch)
        self._route("repositories/*/branches/*", "GET", self._get_branch)
        self._route("repositories/*/branches/*/objects", "PUT", self._stage)
        self._route("repositories/*/branches/*/staging/backing", "GET", self._get_address)
        self._route("repositories/*/branches/*/staging/backing", "PUT", self._link)
        self._route("repositories/*/refs/*/objects/stat", "GET", self._stat)
        self._route("repositories/*/refs/*/objects/ls", "GET", self._list)

    def _route(self, template: str, method: str, handler: Handler) -> None:
        node = self._routes
        for segment in template.split("/"):
            node = node.setdefault(segment, {})
        node[method] = handler

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._table = connect()
        loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._writer = Writer()

    async def __rsgi__(self, scope: Any, caller: Caller) -> None:
        node = self._routes
        names = []
        for segment in scope.path[8:].split("/"):  # after "/api/v1/"
            below = node.get(segment)
            if below is None:
                below = node.get("*")
                if below is None:
                    return caller.response_empty(404, [])
                names.append(unquote(segment) if "%" in segment else segment)
            node = below
        handler = node.get(scope.method)
        if handler is None:
            return caller.response_empty(405, [])
        header = scope.headers.get("authorization")
        known = self._known.get(header)
        if known is None or known[1] < time.time():
            if not header or not header.startswith("Basic "):
                return caller.response_empty(401, [])
            name = b64decode(header[6:]).decode().partition(":")[0]
            self._known[header] = (name, time.time() + TOLD_SECONDS)
        query = {}
        if scope.query_string:
            for pair in scope.query_string.split("&"):
                name, _, value = pair.partition("=")
                query[name] = unquote_plus(value) if "%" in value or "+" in value else value
        await handler(names, query, caller)
        return None

    def _branch(self, name: str) -> bytes | None:
        row: tuple[bytes] | None = self._table.execute(GET, (REPOSITORY, b"branch/" + name.encode())).fetchone()
        return None if row is None else row[0]

    async def _stage(self, names: list[str], query: dict[str, str], caller: Caller) -> None:
        body = stage_body(await caller())
        stat = Stat(
            query["path"],
            "object",
            body.physical_address,
            body.checksum,
            body.size_bytes,
            body.mtime or int(time.time()),
            body.content_type,
        )
        await self._put(names[1], stat, 201, caller)

    async def _get_address(self, names: list[str], query: dict[str, str], caller: Caller) -> None:
        if self._branch(names[1]) is None:
            return caller.response_empty(404, [])
        return caller.response_bytes(200, HEADERS, encode(Location("local://rep1/data/" + token_hex(24))))

    async def _link(self, names: list[str], query: dict[str, str], caller: Caller) -> None:
        body = link_body(await caller())
        stat = Stat(
            query["path"],
            "object",
            body.staging.physical_address,
            body.checksum,
            body.size_bytes,
            body.mtime or int(time.time()),
            body.content_type,
        )
        await self._put(names[1], stat, 200, caller)

    async def _put(self, branch: str, stat: Stat, status: int, caller: Caller) -> None:
        record = pack([stat.physical_address, stat.checksum, stat.size_bytes, stat.mtime, stat.content_type])
        check = (REPOSITORY, b"branch/" + branch.encode())
        if not await self._writer.submit(Write(check, (STAGED, stat.path.encode()), record)):
            return caller.response_empty(404, [])
        return caller.response_bytes(status, HEADERS, encode(stat))

    async def _create_branch(self, names: list[str], query: dict[str, str], caller: Caller) -> None:
        body = branch_body(await caller())
        source, key = b"branch/" + body.source.encode(), b"branch/" + body.name.encode()
        if not await self._writer.submit(Write((REPOSITORY, source), (REPOSITORY, key), BRANCH, True)):
            return caller.response_empty(409, [])
        return caller.response_bytes(201, HEADERS, ("a" * 64).encode())

    async def _get_branch(self, names: list[str], query: dict[str, str], caller: Caller) -> None:
        branch = self._branch(names[1])
        if branch is None:
            return caller.response_empty(404, [])
        return caller.response_bytes(200, HEADERS, encode(Ref(names[1], unpack(branch)["commit"])))

    async def _stat(self, names: list[str], query: dict[str, str], caller: Caller) -> None:
        branch = self._branch(names[1])
        if branch is None:
            return caller.response_empty(404, [])
        key = query["path"].encode()
        row = self._table.execute(GET, (REPOSITORY + "/staged/" + unpack(branch)["token"] + "/0", key)).fetchone()
        if row is not None:
            return caller.response_bytes(200, HEADERS, encode(_document(key, row[0])))
        at = bisect_left(self._keys, key)
        if at == len(self._keys) or self._keys[at] != key:
            return caller.response_empty(404, [])
        return caller.response_bytes(200, HEADERS, encode(_document(key, self._records[at])))

    async def _list(self, names: list[str], query: dict[str, str], caller: Caller) -> None:
        if self._branch(names[1]) is None:
            return caller.response_empty(404, [])
        count = int(query.get("amount", "100"))
        at = bisect_left(self._keys, query.get("after", "").encode())
        page = zip(self._keys[at : at + count], self._records[at : at + count], strict=True)
        document = {
            "pagination": {"has_more": True, "next_offset": "x", "results": count, "max_per_page": 1000},
            "results": [_document(key, record) for key, record in page],
        }
        return caller.response_bytes(200, HEADERS, encode(document))


def _document(key: bytes, record: bytes) -> Stat:
    address, checksum, size, mtime, content_type = unpack(record)
    return Stat(key.decode(), "object", address, checksum, size, mtime, content_type)


def create() -> Server:
    """The application, with a branch ``main``."""
    table = connect()
    table.execute(PUT, (REPOSITORY, b"branch/main", BRANCH))
    table.close()
    return Server(sorted(set(Path(os.environ["KEYS"]).read_bytes().split(b"\n")) - {b""}))
