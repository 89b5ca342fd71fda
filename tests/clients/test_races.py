"""Many clients at once, over HTTP, on a server of several worker processes."""

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import md5
from threading import Barrier
from typing import TypeVar
from urllib.parse import quote, urlsplit

import lakefs
import pytest

from tests.clients.support import Reply, Served, Wire
from tests.support.lakefs_clients import client_of
from tests.support.patience import PATIENCE

CLIENTS = 8
T = TypeVar("T")


def at_once(served: Served, work: Sequence[Callable[[Wire], T]]) -> list[T]:
    """What each of some pieces of work gives; as many as there are clients are done at a time, and begun together."""
    barrier = Barrier(min(CLIENTS, len(work)))

    def of_client(begin: int) -> list[tuple[int, T]]:
        wire = Wire(served)
        try:
            wire("GET", "/config").expect(200)  # connected
            barrier.wait(PATIENCE)
            return [(at, work[at](wire)) for at in range(begin, len(work), CLIENTS)]
        finally:
            wire.close()

    with ThreadPoolExecutor(CLIENTS) as pool:
        done = pool.map(of_client, range(min(CLIENTS, len(work))))
        return [given for _, given in sorted((pair for pairs in done for pair in pairs), key=lambda pair: pair[0])]


def uploading(branch: str, path: str, data: bytes, **headers: str) -> Callable[[Wire], Reply]:
    return lambda wire: wire("POST", f"{branch}/objects", {"path": path}, data, headers)


def committing(branch: str, message: str) -> Callable[[Wire], Reply]:
    return lambda wire: wire("POST", f"{branch}/commits", "", {"message": message})


@pytest.fixture
def branch(repo: lakefs.Repository) -> str:
    return f"/repositories/{repo.id}/branches/main"


def test_of_those_who_create_a_path_one_wins(served: Served, branch: str, main: lakefs.Branch) -> None:
    for round_ in range(3):
        path = f"path-{round_}"
        work = [uploading(branch, path, str(n).encode(), **{"If-None-Match": "*"}) for n in range(2 * CLIENTS)]
        statuses = [reply.status for reply in at_once(served, work)]
        assert statuses.count(201) == 1
        assert set(statuses) == {201, 412}
        assert main.object(path).reader().read() == str(statuses.index(201)).encode()


def test_of_those_who_link_a_path_under_a_condition_one_wins(served: Served, branch: str, main: lakefs.Branch) -> None:
    def linking(number: int) -> Callable[[Wire], Reply]:
        def link(wire: Wire) -> Reply:
            query = {"path": "linked", "presign": "true"}
            where = wire("GET", f"{branch}/staging/backing", query).expect(200).json()
            data = str(number).encode()
            wire.plain("PUT", where["presigned_url"], data).expect(200)
            body = {"staging": where, "checksum": md5(data).hexdigest(), "size_bytes": len(data)}
            return wire("PUT", f"{branch}/staging/backing", {"path": "linked"}, body, {"If-None-Match": "*"})

        return link

    statuses = [reply.status for reply in at_once(served, [linking(number) for number in range(CLIENTS)])]
    assert statuses.count(200) == 1
    assert set(statuses) == {200, 412}
    assert main.object("linked").reader().read() == str(statuses.index(200)).encode()


def test_all_of_many_uploads_are_in_the_commit_after_them(served: Served, branch: str, main: lakefs.Branch) -> None:
    expected = [f"dir/{number:03}" for number in range(200)]
    for reply in at_once(served, [uploading(branch, path, path.encode()) for path in expected]):
        reply.expect(201)
    main.commit("all of them")
    assert [item.path for item in lakefs.Reference(main.repo_id, "main@", client_of(main)).objects()] == expected
    assert list(main.uncommitted()) == []


def test_what_is_uploaded_while_others_commit_is_in_a_commit_or_staged(
    served: Served, branch: str, main: lakefs.Branch
) -> None:
    paths = [f"dir/{number:03}" for number in range(60)]
    work: list[Callable[[Wire], Reply]] = []
    for number, path in enumerate(paths):
        work.append(uploading(branch, path, path.encode()))
        if number % 6 == 0:
            work.append(committing(branch, f"commit {number}"))
    for one, reply in zip(work, at_once(served, work), strict=True):
        # A commit may find that another one took everything along.
        assert reply.status == 201 or (one not in work[::7] and reply.status in (400, 409)), reply
    assert [item.path for item in main.objects()] == paths
    main.object("last").upload(b"1")
    main.commit("the rest")
    assert [item.path for item in lakefs.Reference(main.repo_id, "main@", client_of(main)).objects()] == [
        *paths,
        "last",
    ]
    assert all(main.object(path).reader().read() == path.encode() for path in paths[::20])


def test_two_commits_at_once_are_two_commits_with_their_messages(
    served: Served, branch: str, main: lakefs.Branch
) -> None:
    kept = {"Repository created"}
    for round_ in range(4):
        main.object(f"{round_}").upload(b"1")
        messages = [f"one of {round_}", f"other of {round_}"]
        work = [
            lambda wire, message=message: wire(
                "POST", f"{branch}/commits", "", {"message": message, "allow_empty": True}
            ).expect(201)
            for message in messages
        ]
        ids = [reply.json()["id"] for reply in at_once(served, work)]
        assert len(set(ids)) == 2
        for made, message in zip(ids, messages, strict=True):
            assert lakefs.Reference(main.repo_id, made, client_of(main)).get_commit().message == message
        kept |= set(messages)
    assert {commit.message for commit in main.log()} == kept


def test_merges_into_a_branch_that_is_written_lose_nothing(
    served: Served, branch: str, repo: lakefs.Repository, main: lakefs.Branch
) -> None:
    sources = [repo.branch(f"source-{number}").create("main") for number in range(4)]
    for source in sources:
        source.object(f"from/{source.id}").upload(source.id)
        source.commit(source.id)

    def merging(source: str) -> Callable[[Wire], Reply]:
        return lambda wire: wire("POST", f"/repositories/{repo.id}/refs/{source}/merge/main", "", {})

    written = [f"written/{number:02}" for number in range(20)]
    work = [uploading(branch, path, b"1") for path in written]
    work[5:5] = [merging(source.id) for source in sources]
    replies = at_once(served, work)
    merged = set()
    for number, reply in enumerate(replies):
        if 5 <= number < 9:
            # Uncommitted changes of the destination refuse a merge; nothing of it may arrive then.
            assert reply.status in (200, 400, 409), reply
            if reply.status == 200:
                merged.add(f"from/{sources[number - 5].id}")
        else:
            reply.expect(201)
    main.commit("written", allow_empty=True)
    assert {item.path for item in main.objects()} == {*written, *merged}


# Bodies, and clients that go away


def raw(served: Served, head: str, body: bytes = b"", *, url: str = "") -> socket.socket:
    """A connection on which the beginning of a request was sent."""
    parts = urlsplit(url or served.api)
    connection = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE)
    connection.sendall(head.encode() + body)
    return connection


@pytest.mark.parametrize("way", ["upload", "presigned", "form", "chunks"])
def test_a_client_that_goes_away_leaves_nothing(
    served: Served, branch: str, main: lakefs.Branch, wire: Wire, way: str
) -> None:
    main.object("o").upload(b"before")
    query = {"path": "o", "presign": "true"}
    where = wire("GET", f"{branch}/staging/backing", query).expect(200).json()
    url = urlsplit(where["presigned_url"])
    credentials = wire._headers["Authorization"]
    length, kind, begun = "Content-Length: 5000000", "application/octet-stream", b"x" * 100_000
    if way == "chunks":  # as the package lakefs sends uploads that are not presigned
        length, begun = "Transfer-Encoding: chunked", b"186a0\r\n" + begun + b"\r\n"
    if way == "form":
        length, kind = "Transfer-Encoding: chunked", "multipart/form-data; boundary=b"
        part = b'--b\r\nContent-Disposition: form-data; name="content"; filename="f"\r\n\r\nhalf'
        begun = f"{len(part):x}\r\n".encode() + part + b"\r\n"
    request = (
        f"PUT {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\n{length}\r\n\r\n"
        if way == "presigned"
        else f"POST /api/v1{branch}/objects?path=o HTTP/1.1\r\nHost: x\r\nAuthorization: {credentials}\r\n"
        f"Content-Type: {kind}\r\n{length}\r\n\r\n"
    )
    connection = raw(served, request, begun, url=where["presigned_url"] if way == "presigned" else "")
    connection.shutdown(socket.SHUT_WR)
    connection.settimeout(PATIENCE)
    while connection.recv(65536):  # until the server is done with it
        pass
    connection.close()
    assert main.object("o").reader().read() == b"before"
    assert wire("GET", f"{branch}/diff", "").json()["results"][0]["size_bytes"] == 6


def test_bodies_at_the_limits(wire: Wire, branch: str) -> None:
    objects = f"{branch}/objects"
    wire("POST", objects, {"path": "empty"}, b"").expect(201)
    longest = ["x" * 1020 + f"{number:04}" for number in range(1000)]
    wire("POST", f"{objects}/delete", "", {"paths": longest}).expect(200)
    wire("POST", f"{branch}/commits", "", {"message": "m" * 100_000, "allow_empty": True}).expect(201)
    too_large = wire(
        "POST",
        f"{branch}/commits",
        "",
        b'{"message": "' + b"m" * (40 << 20) + b'"}',
        {"Content-Type": "application/json"},
    )
    assert too_large.status == 413
    assert too_large.json()["message"]
    for body in (b"{", b"[]", b"\xff", b'{"message": 1}', b"[" * 100_000):
        reply = wire("POST", f"{branch}/commits", "", body, {"Content-Type": "application/json"}).expect(400)
        assert reply.json()["message"]


@pytest.mark.parametrize("ref", ["main@", "main~0", "main^0", "v+1", "v%1", "v&1", "v#1", "ü"])
def test_refs_with_special_characters_are_refs(wire: Wire, branch: str, main: lakefs.Branch, ref: str) -> None:
    base = branch.removesuffix("/branches/main")
    main.object("a b+c%d&e#f?g/é").upload(b"1")
    main.commit("one")
    if ref[0] != "m":
        wire("POST", f"{base}/tags", "", {"id": ref, "ref": "main"}).expect(201)
    for spelling in {quote(ref, safe=""), quote(ref, safe="~@+&")}:
        found = wire("GET", f"{base}/refs/{spelling}/objects/ls").expect(200).json()["results"]
        assert [item["path"] for item in found] == ["a b+c%d&e#f?g/é"]
        query = {"path": "a b+c%d&e#f?g/é"}
        assert wire("GET", f"{base}/refs/{spelling}/objects", query).expect(200).body == b"1"
