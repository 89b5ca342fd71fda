"""Short requests in the event loop: others continue while one of them waits, and long work goes to a thread."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread, current_thread, get_ident
from typing import Any

import pytest

from graveler.api.response import Response
from graveler.api.routing import BodyKind, Handling
from graveler.lake.clock import SystemClock
from graveler.lake.opening.location import FolderLake
from graveler.server.configuration import ServerSettings
from graveler.server.gateway import Gateway
from graveler.server.loop_requests import EventLoopRequests
from graveler.server.metrics import Metrics
from graveler.server.requests import Message
from graveler.server.threads import Threads
from graveler.system import pauses
from graveler.system.pauses import WouldWaitError
from tests.server.support import arriving
from tests.support.patience import PATIENCE


@pytest.fixture(autouse=True)
def here() -> Iterator[None]:
    """The loops of these tests run in this thread, which is free afterwards."""
    yield
    pauses.install_waiter(None)


def in_loop(work: Callable[[EventLoopRequests[Any]], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await asyncio.wait_for(work(EventLoopRequests()), PATIENCE)

    asyncio.run(run())


def written(log: list[str], name: str, pause_made: list[pauses.Pause]) -> str:
    """A request that writes: it waits until somebody wakes it."""
    log.append(f"{name} begins")
    pause = pauses.new_pause()
    pause_made.append(pause)
    pause.wait()
    log.append(f"{name} ends")
    return name


def test_a_request_begins_anew_where_another_one_has_written_or_failed() -> None:
    made: list[pauses.Pause] = []

    def fail() -> str:
        raise KeyError("first")

    def not_at_hand() -> str:
        pauses.require_cached()
        return "at hand"

    async def work(short: EventLoopRequests[str]) -> None:
        with pytest.raises(KeyError):
            short.run(fail)
        assert short.run(lambda: "second") == "second"
        third = short.run(lambda: written([], "third", made))
        assert isinstance(third, asyncio.Future)
        made.pop().wake()
        assert await third == "third"
        with pytest.raises(WouldWaitError):
            short.run(not_at_hand)
        kept = weakref.ref(given := Event())
        short.run(partial(str, given))
        del given
        gc.collect()
        assert kept() is None

    in_loop(work)


def test_while_one_waits_others_are_answered_and_it_goes_on_when_it_is_woken() -> None:
    log: list[str] = []
    made: list[pauses.Pause] = []

    async def work(short: EventLoopRequests[str]) -> None:
        first = short.run(lambda: written(log, "first", made))
        second = short.run(lambda: written(log, "second", made))
        assert short.run(lambda: "third") == "third"
        assert isinstance(first, asyncio.Future)
        assert isinstance(second, asyncio.Future)

        def wake_all() -> None:
            for pause in reversed(made):
                pause.wake()

        waking = Thread(target=wake_all)
        waking.start()
        assert (await first, await second) == ("first", "second")
        waking.join()

    in_loop(work)
    assert log == ["first begins", "second begins", "second ends", "first ends"]


def test_one_that_is_woken_before_it_waits_does_not_wait() -> None:
    def early() -> str:
        pause = pauses.new_pause()
        waking = Thread(target=pause.wake)
        waking.start()
        waking.join()
        pause.wait()
        return "done"

    async def work(short: EventLoopRequests[str]) -> None:
        found = short.run(early)
        assert isinstance(found, asyncio.Future)
        assert await found == "done"

    in_loop(work)


def test_what_it_raises_comes_to_who_asked_before_and_after_a_wait() -> None:
    made: list[pauses.Pause] = []

    def fail() -> str:
        pause = pauses.new_pause()
        made.append(pause)
        pause.wait()
        raise KeyError("later")

    async def work(short: EventLoopRequests[str]) -> None:
        with pytest.raises(ZeroDivisionError):
            short.run(lambda: str(1 // 0))
        found = short.run(fail)
        assert isinstance(found, asyncio.Future)
        made[0].wake()
        with pytest.raises(KeyError):
            await found

    in_loop(work)


def test_who_went_away_leaves_a_request_that_ends_all_the_same() -> None:
    log: list[str] = []
    made: list[pauses.Pause] = []

    async def work(short: EventLoopRequests[str]) -> None:
        found = short.run(lambda: written(log, "first", made))
        assert isinstance(found, asyncio.Future)
        found.cancel()
        made[0].wake()
        other = short.run(lambda: written(log, "second", made))
        assert isinstance(other, asyncio.Future)
        made[1].wake()
        assert await other == "second"

    in_loop(work)
    assert log == ["first begins", "second begins", "first ends", "second ends"]


def test_what_is_not_at_hand_is_for_a_thread_unless_something_was_written() -> None:
    made: list[pauses.Pause] = []
    clock = SystemClock()

    def read_later() -> str:
        pauses.require_cached()
        return "read"

    def sleep() -> str:
        clock.sleep(0.001)
        return "slept"

    def write_and_read() -> str:
        pause = pauses.new_pause()
        made.append(pause)
        pause.wait()
        pauses.require_cached()
        clock.sleep(0.001)
        return "both"

    async def work(short: EventLoopRequests[str]) -> None:
        for refused in (read_later, sleep):
            with pytest.raises(WouldWaitError):
                short.run(refused)
            with pytest.raises(WouldWaitError):  # so it is without a greenlet
                refused()
        with pytest.raises(WouldWaitError):
            pauses.new_pause()
        found = short.run(write_and_read)
        assert isinstance(found, asyncio.Future)
        made[0].wake()
        assert await found == "both"

    in_loop(work)


def test_other_threads_wait_as_ever() -> None:
    async def work(short: EventLoopRequests[str]) -> None:
        def in_thread() -> bool:
            pauses.require_cached()
            SystemClock().sleep(0.001)
            pause = pauses.new_pause()
            Thread(target=pause.wake).start()
            pause.wait()
            return True

        assert await asyncio.to_thread(in_thread)

    in_loop(work)


class Application:
    """Answers in whatever way its requests' paths say."""

    def __init__(self) -> None:
        self.let_go, self.begun = Event(), Event()
        self.threads: dict[str, list[int]] = {}
        self.disk = Lock()

    def respond(self, event: Mapping[str, Any], /) -> tuple[Response, str]:
        path = event["rawPath"]
        self.threads.setdefault(path, []).append(get_ident())
        if path == "/cold":
            pauses.require_cached()
            self.begun.set()
            assert self.let_go.wait(PATIENCE)
        if path == "/write":
            pause = pauses.new_pause()

            def wake() -> None:
                self.let_go.wait(PATIENCE)
                pause.wake()

            Thread(target=wake).start()
            self.begun.set()
            pause.wait()
        return Response(200, {}), path

    def handling(self, method: str, path: str, /) -> Handling:
        return Handling(BodyKind.JSON, short=True)

    def reject_without_body(self, event: Mapping[str, Any], /) -> tuple[Response, str] | None:
        raise AssertionError(event)


@pytest.mark.parametrize(("method", "slow"), [("GET", "/cold"), ("PUT", "/cold"), ("PUT", "/write"), ("GET", "/write")])
def test_one_slow_request_holds_no_other_back(tmp_path: Path, method: str, slow: str) -> None:
    application = Application()
    settings = ServerSettings(lake=FolderLake(tmp_path), metrics=tmp_path)

    async def asked(gateway: Gateway, method: str, path: str) -> int:
        statuses: list[int] = []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        headers = ((b"content-length", b"2"),) if method == "PUT" else ()
        head = {"method": method, "raw_path": path.encode(), "query_string": b"", "http_version": "1.1"}
        await gateway({**head, "headers": headers, "client": None}, arriving(b"{}"), send)
        return statuses[0]

    async def run(threads: Threads, metrics: Metrics) -> None:
        gateway = Gateway(application, None, metrics, settings, 0, threads, threads, threads, in_loop=True)
        waiting = [asyncio.ensure_future(asked(gateway, method, slow)) for _ in range(3)]
        await asyncio.to_thread(application.begun.wait, PATIENCE)
        for _ in range(20):
            assert await asked(gateway, "GET", "/other") == 200
            assert await asked(gateway, "PUT", "/other") == 200
        assert not any(each.done() for each in waiting)
        application.let_go.set()
        assert await asyncio.gather(*waiting) == [200] * 3

    with closing(Threads("handler", 4)) as threads, closing(Metrics(tmp_path)) as metrics:
        try:
            asyncio.run(run(threads, metrics))
        finally:
            application.let_go.set()
    mine = current_thread().ident
    assert set(application.threads["/other"]) == {mine}
    if slow == "/write" and method == "PUT":
        assert set(application.threads[slow]) == {mine}
    else:  # begun here, and then again in threads
        assert len(application.threads[slow]) == 6
        assert application.threads[slow].count(mine or 0) == 3
