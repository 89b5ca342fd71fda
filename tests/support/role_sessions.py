"""STS that gives sessions of roles, and notes what each was to be. Their keys are those of the S3 server of the tests, which
checks signatures and knows no policies: those are evaluated by the tests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from tests.infra.iam.policies import Policies, Principal, Request, parse
from tests.support.patience import PATIENCE
from tests.support.servers import ACCESS_KEY, SECRET_KEY

_TOKEN: Final = "FwoG+/="
ROLE: Final = "arn:aws:iam::123456789012:role/tables"
_ANSWER: Final = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><SessionToken>{token}</SessionToken>
<Expiration>{end}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
_REFUSAL: Final = (
    "<ErrorResponse><Error><Type>Sender</Type><Code>{}</Code><Message>on purpose</Message></Error></ErrorResponse>"
)


class RoleSessions:
    """The STS. ``refusal``, if it is set, is the code with which it refuses. Policies of more than ``room`` characters cannot be
    packed. Sessions end after ``longest`` seconds at most, whatever was asked for."""

    def __init__(self, longest: int = 3600) -> None:
        self._longest = longest
        self.requests: list[dict[str, str]] = []
        self.refusal = ""
        self.room = 2048
        self.url = ""

    @property
    def policy(self) -> str:
        """The policy of the last session."""
        return self.requests[-1]["Policy"]

    def answer(self, form: Mapping[str, str]) -> tuple[int, str]:
        """Return the response to a request."""
        self.requests.append(dict(form))
        seconds = int(form["DurationSeconds"])
        if self.refusal:
            return 400, _REFUSAL.format(self.refusal)
        if len(form["Policy"]) > self.room:
            return 400, _REFUSAL.format("PackedPolicyTooLarge")
        if len(form["Policy"]) > 2048 or not 900 <= seconds <= 3600 or form["Action"] != "AssumeRole":
            return 400, _REFUSAL.format("ValidationError")
        end = (datetime.now(UTC) + timedelta(seconds=min(seconds, self._longest))).strftime("%Y-%m-%dT%H:%M:%SZ")
        return 200, _ANSWER.format(key=ACCESS_KEY, secret=escape(SECRET_KEY), token=_TOKEN, end=end)


@contextmanager
def role_sessions(longest: int = 3600) -> Iterator[RoleSessions]:
    """An STS that listens until the end of the block, whose sessions last ``longest`` seconds at most."""
    sessions = RoleSessions(longest)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, text = sessions.answer(dict(parse_qsl(body)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    sessions.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield sessions
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE)


def allows(policy: Mapping[str, Any], action: str, resource: str, **context: str) -> bool:
    """Whether a policy allows an action on an address in S3, ``s3://bucket/key``, as IAM evaluates it."""
    role = Principal(ROLE)
    policies = Policies({ROLE: parse(policy, "session")}, {})
    keys = {name.replace("_", ":"): text for name, text in context.items()}
    arn = resource.replace("s3://", "arn:aws:s3:::") if resource.startswith("s3://") else resource
    return not policies.decide(Request(role, action, arn, keys)).refusal
