"""AWS's STS on this machine: TLS with a certificate for AWS's own hosts, and a real check of each signature.

It knows the secrets of the principals that it is told, computes what botocore would have signed for the request that arrived,
and compares. Emulators answer anybody.
"""

import hmac
import json
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlsplit

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from cryptography import x509
from msgspec import Struct

from graveler.access.sts import Sts
from graveler.access.sts_hosts import REGIONS
from tests.support.certificates import new_certificates
from tests.support.patience import PATIENCE

ACCOUNT: Final = "123456789012"
DATE: Final = "%Y%m%dT%H%M%SZ"
AWS_SECONDS: Final = 900
"""For which AWS takes a presigned GetCallerIdentity, whatever it says itself."""


class Principal(Struct, frozen=True):
    """Somebody whom this STS knows."""

    arn: str
    key_id: str
    secret: str
    token: str = ""
    ended: bool = False
    """Its session is over."""

    @property
    def environment(self) -> dict[str, str]:
        """Where AWS's libraries look for credentials."""
        return {
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            **({"AWS_SESSION_TOKEN": self.token} if self.token else {}),
        }


def role(name: str, session: str = "i-0123", *, account: str = ACCOUNT, ended: bool = False) -> Principal:
    """Who works with a role."""
    arn = f"arn:aws:sts::{account}:assumed-role/{name}/{session}"
    # As AWS's own tokens, it has characters that mean something in a query.
    return Principal(arn, f"ASIA{token_hex(8).upper()}", token_hex(20), f"FwoG+{token_hex(300)}/w==", ended)


def user(name: str, *, account: str = ACCOUNT) -> Principal:
    """A user with a key."""
    return Principal(f"arn:aws:iam::{account}:user/{name}", f"AKIA{token_hex(8).upper()}", token_hex(20))


class Asked(Struct, frozen=True):
    """A request that came."""

    host: str
    target: str
    headers: Mapping[str, str]


class _RefusalError(Exception):
    def __init__(self, status: int, code: str) -> None:
        self.status, self.code = status, code


class FakeSts:
    """Serves until the end of the block. ``answer``, if it is set, is called with the handler instead of checking anything."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] | None = None
        self._known: dict[str, Principal] = {}
        sts = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                host = self.headers.get("Host", "")
                sts.asked.append(Asked(host, self.path, {name.lower(): value for name, value in self.headers.items()}))
                if sts.answer is not None:
                    sts.answer(self)
                    return
                try:
                    status, said = 200, _confirmation(sts._caller(host, self.path, self.headers))
                except _RefusalError as refusal:
                    status, said = refusal.status, _error(refusal.code)
                assert self.headers["Accept"] == "application/json"  # else it would be XML
                send(self, status, json.dumps(said).encode())

            def log_message(self, *_: object) -> None:
                return

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        # Each connection shakes hands in its own thread, so that one that says nothing holds up no other.
        self._server.socket = _certificates()[0].wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "FakeSts":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE)

    @property
    def place(self) -> tuple[str, int]:
        return "127.0.0.1", self._server.server_port

    def knows(self, *principals: Principal) -> None:
        """Tell it whom there are."""
        self._known |= {principal.key_id: principal for principal in principals}

    def client(self, seconds: float = PATIENCE, *, believed: bool = True) -> Sts:
        """What asks it instead of AWS. Unless ``believed``, with the authorities of this machine, who do not vouch for it."""
        context = (
            ssl.create_default_context(cafile=str(_certificates()[1])) if believed else ssl.create_default_context()
        )
        return Sts(context, lambda _: self.place, seconds)

    def _caller(self, host: str, target: str, headers: Any) -> Principal:
        parts = urlsplit(target)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        query = dict(pairs)
        if parts.path != "/" or len(query) != len(pairs) or query.get("Version") != "2011-06-15":
            raise _RefusalError(400, "InvalidParameterValue")
        if query.get("Action") != "GetCallerIdentity":
            raise _RefusalError(400, "InvalidAction")
        key_id, date, region, service, last = (*query.get("X-Amz-Credential", "").split("/"), *[""] * 5)[:5]
        known = self._known.get(key_id)
        if known is None or query.get("X-Amz-Security-Token", "") != known.token:
            raise _RefusalError(403, "InvalidClientTokenId")
        if known.ended:
            raise _RefusalError(403, "ExpiredToken")
        signed = query.get("X-Amz-SignedHeaders", "").split(";")
        at = datetime.strptime(query["X-Amz-Date"], DATE).replace(tzinfo=UTC)
        if (region, service, last) != (REGIONS[host], "sts", "aws4_request") or not query["X-Amz-Date"].startswith(
            date
        ):
            raise _RefusalError(403, "SignatureDoesNotMatch")
        if "host" not in signed or datetime.now(UTC) > at + timedelta(seconds=AWS_SECONDS):
            raise _RefusalError(403, "SignatureDoesNotMatch")
        if not hmac.compare_digest(
            _signature(known, host, query, {name: headers[name] or "" for name in signed}), query["X-Amz-Signature"]
        ):
            raise _RefusalError(403, "SignatureDoesNotMatch")
        return known


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Clients that believe nothing of it, or go before they are answered, are what tests are about."""


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    """One whole answer."""
    handler.send_response(status)
    for name, value in {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **(headers or {}),
    }.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def identity_parts(
    principal: Principal,
    name: str,
    *,
    host: str = "sts.us-east-1.amazonaws.com",
    seconds: int = 600,
    at: float | None = None,
    signed: Sequence[str] = ("host", "x-lakefs-server-id"),
) -> dict[str, Any]:
    """What a client sends that signs for a server of this name, before it becomes JSON and base64: signed by botocore."""
    region, date = (
        REGIONS.get(host, "us-east-1"),
        datetime.fromtimestamp(time.time() if at is None else at, UTC).strftime(DATE),
    )
    query = {
        "Action": "GetCallerIdentity",
        "Version": "2011-06-15",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{principal.key_id}/{date[:8]}/{region}/sts/aws4_request",
        "X-Amz-Date": date,
        "X-Amz-Expires": str(seconds),
        **({"X-Amz-Security-Token": principal.token} if principal.token else {}),
        "X-Amz-SignedHeaders": ";".join(signed),
    }
    values = {"host": host, "x-lakefs-server-id": name}
    signature = _signature(principal, host, query, {header: values.get(header, "x") for header in signed})
    return {
        "method": "POST",
        "host": host,
        "region": region,
        "action": "GetCallerIdentity",
        "date": date,
        "expiration_duration": str(seconds),
        "access_key_id": principal.key_id,
        "signature": signature,
        "signed_headers": list(signed),
        "version": "2011-06-15",
        "algorithm": "AWS4-HMAC-SHA256",
        "security_token": principal.token or None,
    }


def identity_token(parts: Mapping[str, Any]) -> str:
    """The parts as a client sends them."""
    return b64encode(json.dumps(parts).encode()).decode()


def _signature(principal: Principal, host: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """What botocore signs: the request that arrived, with the headers that it says were signed."""
    region, seconds = query["X-Amz-Credential"].split("/")[2], int(query["X-Amz-Expires"])
    signing = SigV4QueryAuth(
        Credentials(principal.key_id, principal.secret, principal.token or None), "sts", region, seconds
    )
    rest = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items() if name != "X-Amz-Signature"
    )
    request = AWSRequest("POST", f"https://{host}/?{rest}", dict(headers))
    request.context["timestamp"] = query["X-Amz-Date"]
    return str(signing.signature(signing.string_to_sign(request, signing.canonical_request(request)), request))


def _confirmation(principal: Principal) -> dict[str, Any]:
    account = principal.arn.split(":")[4]
    result = {"Account": account, "Arn": principal.arn, "UserId": "AROAEXAMPLE:session"}
    return {"GetCallerIdentityResponse": {"GetCallerIdentityResult": result, "ResponseMetadata": {"RequestId": "1"}}}


def _error(code: str) -> dict[str, Any]:
    return {"Error": {"Code": code, "Message": "on purpose", "Type": "Sender"}, "RequestId": "1"}


@cache
def _certificates() -> tuple[ssl.SSLContext, Path]:
    """What a server of AWS's hosts shows, and the file of the authority that vouches for it."""
    folder = TemporaryDirectory(prefix="graveler-tests-sts-")
    _KEPT.append(folder)
    certificates = new_certificates(Path(folder.name), [x509.DNSName(host) for host in REGIONS])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.chain, certificates.key)
    return context, certificates.authority


_KEPT: Final[list[TemporaryDirectory[str]]] = []
"""Goes with the process."""
