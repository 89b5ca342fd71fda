"""Webhooks: what passes, and servers that hang, redirect, answer too much, or lie behind a private address."""

import hmac
import json
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from graveler.lake.gates.checks.check_settings import CheckSettings
from graveler.lake.gates.checks.definitions import WebhookCheck
from graveler.lake.gates.checks.inputs import CheckInput
from graveler.lake.gates.checks.verdicts import Verdict
from graveler.lake.gates.checks.webhook import check_webhook, is_public
from tests.lake.gates.checks.support import ERROR, FAILURE, PENDING, SUCCESS, Checked
from tests.support.patience import PATIENCE

Answer = Callable[[BaseHTTPRequestHandler], None]


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    def send(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return send


class Hook:
    """A server on this machine, and the verdict of a check that asks it."""

    def __init__(self) -> None:
        self.answer = answer(200)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.over = Event()
        self.dropped = Event()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                hook.requests.append((self.path, dict(self.headers), body))
                hook.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
                """Tests print nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()
        self.port = self.server.server_address[1]
        self.checked = Checked().commit({"a": b"1"}, {"ticket": "DATA-1"})
        self.settings = CheckSettings(
            secrets={"hooks": "a-secret"}, private_hosts=(f"hooks.test:{self.port}", f"127.0.0.1:{self.port}")
        )
        self.resolved: list[str] = []

    def verdict(
        self,
        *,
        scheme: str = "http",
        host: str = "hooks.test",
        addresses: Sequence[str] = ("127.0.0.1",),
        secret: str = "",
        seconds: int = 5,
        stop: Callable[[], None] = lambda: None,
    ) -> Verdict:
        def resolve(name: str, port: int) -> Sequence[str]:
            self.resolved.append(name)
            return addresses

        source = CheckInput(self.checked.world.main.parts, self.checked.candidate, None, self.settings, stop)
        definition = WebhookCheck(f"{scheme}://{host}:{self.port}/check?x=1", secret, seconds)
        return check_webhook(definition, source, "quality", resolve)

    def hang(self, handler: BaseHTTPRequestHandler) -> None:
        self.over.wait(PATIENCE)

    def drip(self, handler: BaseHTTPRequestHandler) -> None:
        """Send a header that never ends, a byte now and then, as long as the client listens."""
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        try:
            while not self.over.wait(0.05):
                handler.wfile.write(b"x")
        except OSError:
            self.dropped.set()


@pytest.fixture(scope="module")
def server() -> Iterator[Hook]:
    hook = Hook()
    yield hook
    hook.over.set()
    hook.server.shutdown()
    hook.server.server_close()


@pytest.fixture
def hook(server: Hook) -> Hook:
    server.answer = answer(200)
    server.requests.clear()
    server.resolved.clear()
    return server


def test_the_document_says_what_is_checked_and_is_signed(hook: Hook) -> None:
    assert hook.verdict(secret="hooks") == Verdict(SUCCESS)
    [(path, headers, body)] = hook.requests
    assert path == "/check?x=1"
    assert headers["Host"] == f"hooks.test:{hook.port}"
    assert headers["X-Graveler-Signature"] == f"sha256={hmac.new(b'a-secret', body, 'sha256').hexdigest()}"
    document = json.loads(body)
    assert (document["check"], document["repository"], document["base"]) == ("quality", "repo", None)
    assert (document["candidate"], document["metadata"]) == (hook.checked.candidate.id, {"ticket": "DATA-1"})
    assert hook.resolved == ["hooks.test"], "one look at the name for the check and the connection"


def test_answers_become_states(hook: Hook) -> None:
    hook.answer = answer(200, b'{"description": "fine\\n2 warnings", "url": "https://ci.example.org/7"}')
    assert hook.verdict() == Verdict(SUCCESS, "fine\n2 warnings", "https://ci.example.org/7")
    hook.answer = answer(202)
    assert hook.verdict().state is PENDING
    hook.answer = answer(500, b"stack trace\x1b[31m")
    assert hook.verdict() == Verdict(FAILURE, "hooks.test answered 500: stack trace\\x1b[31m")
    hook.answer = answer(204, b"")
    assert hook.verdict() == Verdict(SUCCESS)
    hook.answer = answer(200, b'{"description": 7, "url": "javascript:alert(1)"}')
    assert hook.verdict() == Verdict(SUCCESS)


def test_redirects_are_not_followed(hook: Hook) -> None:
    hook.answer = answer(307, Location="http://169.254.169.254/latest/meta-data/")
    verdict = hook.verdict()
    assert verdict.state is FAILURE
    assert "redirects are not followed" in verdict.words
    assert len(hook.requests) == 1


def test_an_answer_of_megabytes_is_cut(hook: Hook) -> None:
    hook.answer = answer(200, b"x" * (8 << 20))
    verdict = hook.verdict()
    assert verdict.state is SUCCESS
    assert len(verdict.words.encode()) <= 1000


@pytest.mark.parametrize("behaviour", ["hang", "drip"])
def test_a_server_that_hangs_is_an_error(hook: Hook, behaviour: str) -> None:
    hook.answer = getattr(hook, behaviour)
    assert hook.verdict(seconds=1) == Verdict(ERROR, "hooks.test did not answer within 1 seconds")
    assert behaviour == "hang" or hook.dropped.wait(PATIENCE), "the connection was ended"


def test_a_check_that_nobody_needs_ends_at_once(hook: Hook) -> None:
    hook.answer = hook.hang

    def stop() -> None:
        if hook.requests:
            raise KeyError("ended")

    with pytest.raises(KeyError):
        hook.verdict(seconds=30, stop=stop)


def test_private_addresses_are_refused_whatever_the_name_said_before(hook: Hook) -> None:
    for addresses in (["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["::ffff:169.254.169.254"]):
        verdict = hook.verdict(host="public.test", addresses=addresses)
        assert verdict.state is ERROR
        assert "which is not a public address" in verdict.words
    assert not hook.requests


def test_the_address_that_was_looked_at_is_the_one_that_is_used(hook: Hook) -> None:
    """A name that has another address at the second look is looked at once; and each check looks anew."""
    answers = iter([["127.0.0.1"], ["10.1.2.3"]])

    def resolve(name: str, port: int) -> Sequence[str]:
        return next(answers)

    source = CheckInput(hook.checked.world.main.parts, hook.checked.candidate, None, hook.settings, lambda: None)
    permitted = WebhookCheck(f"http://hooks.test:{hook.port}/")
    assert check_webhook(permitted, source, "quality", resolve).state is SUCCESS
    again = check_webhook(WebhookCheck(f"https://rebound.test:{hook.port}/"), source, "quality", resolve)
    assert again.state is ERROR
    assert "resolves to 10.1.2.3" in again.words


def test_a_name_without_address_and_a_closed_port_are_errors(hook: Hook) -> None:
    def fails(name: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    source = CheckInput(hook.checked.world.main.parts, hook.checked.candidate, None, hook.settings, lambda: None)
    verdict = check_webhook(WebhookCheck("https://nowhere.test/"), source, "quality", fails)
    assert verdict == Verdict(ERROR, "nowhere.test cannot be asked: no such name")
    assert hook.verdict(scheme="https").state is ERROR, "it has no TLS"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
        "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b:1::1", "2002:7f00:1::", "::127.0.0.1", "fec0::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
)
def test_public_addresses(address: str) -> None:
    assert is_public(address)
