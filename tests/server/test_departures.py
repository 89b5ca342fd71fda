"""A read that may take long ends when its client leaves, over real connections; and what asks for that."""

import http.client
import socket
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from threading import Event
from typing import Any, cast

import pytest

from graveler.api.application import Application
from graveler.api.response import Response
from graveler.api.routing import Handling
from graveler.lake.reading.summary import SummaryBounds
from graveler.lake.repository import OpenRepository
from graveler.server.gateway import METRICS
from graveler.system.departures import ClientLeftError, expect_client, reading_for
from tests.api.over_http import HOST, Switch, serving
from tests.lake.support import World, commit, put
from tests.support.patience import PATIENCE


class Walking:
    """An application whose scans go on until they are let go, or their client leaves; it tells what has happened."""

    def __init__(self) -> None:
        self.begun, self.let_go, self.ended = Event(), Event(), Event()

    def respond(self, event: Mapping[str, Any], /) -> tuple[Response, str]:
        self.begun.set()
        try:
            while not self.let_go.wait(0.01):
                expect_client()
        finally:
            self.ended.set()
        return Response(200, {}, "whole"), "walk"

    def handling(self, method: str, path: str, /) -> Handling:
        return Handling(scans=path != "/other")


@pytest.fixture
def server() -> Iterator[Switch]:
    with serving() as switch:
        yield switch


def test_a_scan_ends_when_its_client_leaves_and_one_whose_client_stays_goes_on(server: Switch) -> None:
    left = Walking()
    server.application = cast(Application, left)
    with socket.create_connection((HOST, server.port), timeout=PATIENCE) as client:
        client.sendall(b"GET /walk HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert left.begun.wait(PATIENCE)
    assert left.ended.wait(PATIENCE)
    assert not left.let_go.is_set()

    stays = Walking()
    server.application = cast(Application, stays)
    connection = http.client.HTTPConnection(HOST, server.port, timeout=PATIENCE)
    for _ in range(2):  # the connection is good for another request
        connection.request("GET", "/walk")
        assert stays.begun.wait(PATIENCE)
        stays.let_go.set()
        assert connection.getresponse().read() == b"whole"
    connection.request("GET", METRICS)
    assert b'status="499"} 1' in connection.getresponse().read()
    connection.close()


def test_a_change_goes_on_when_its_client_leaves(server: Switch) -> None:
    application = Walking()
    server.application = cast(Application, application)
    with socket.create_connection((HOST, server.port), timeout=PATIENCE) as client:
        client.sendall(b"POST /walk HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        assert application.begun.wait(PATIENCE)
    assert not application.ended.wait(0.3)
    application.let_go.set()
    assert application.ended.wait(PATIENCE)


READS: dict[str, Callable[[OpenRepository], object]] = {
    "annotate": lambda repository: repository.annotate("main@"),
    "annotate within": lambda repository: repository.annotate_within("main@", 60),
    "blame": lambda repository: repository.blame("main", "a/0"),
    "log": lambda repository: repository.log("main", amount=1000),
    "log of a text": lambda repository: repository.log("main", text="nothing"),
    "log after a commit": lambda repository: repository.log("main", after=repository.commit_of("main~3").id),
    "summary in pages": lambda repository: repository.diff_summary(
        "main~4", "main", delimiter="/", bounds=SummaryBounds(amount=100)
    ),
    "summary": lambda repository: repository.diff_summary("main~4", "main"),
    "preview of a merge": lambda repository: repository.preview_merge("main", "main~4"),
    "uncommitted summary": lambda repository: repository.uncommitted_summary("main"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reads_ask_whether_their_client_is_still_there(read: Callable[[OpenRepository], object]) -> None:
    world = World()
    commit(world.main, {"a/0": "1"})
    for number in range(5):
        commit(world.main, {f"{number}/a": "1"})
    put(world.main, {f"x/{number}": "1" for number in range(5)})
    expected = read(world.main)
    calls = count()
    with reading_for(lambda: next(calls) < 0):
        assert read(world.main) == expected
    assert next(calls) > 3
    calls = count()
    with pytest.raises(ClientLeftError), reading_for(lambda: next(calls) == 2):
        read(world.main)
    assert next(calls) == 3  # it asked no more
    assert read(world.main) == expected
