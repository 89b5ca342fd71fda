"""The client's message to log in as an AWS principal: a request to STS that it has signed, and that we send for it.

The published clients (``lakefs``, ``lakectl``, ``hadoop-lakefs``) presign ``POST /?Action=GetCallerIdentity``, take the URL
apart, and send its parts as JSON in base64. Only that one request is made of it here: each part is compared with what they write,
and the URL is built anew. So a token chooses no action, no parameter, no header and no path, and of hosts only one of AWS's own
(:mod:`graveler.access.sts_hosts`).

Among the signed headers is ``X-LakeFS-Server-ID``. Its value is not in the token: the sender of the request puts the name of this
server there, as its settings have it, and AWS finds the signature wrong unless the client signed for that name.

AWS accepts a presigned ``GetCallerIdentity`` for 15 minutes, whatever ``X-Amz-Expires`` says
(https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go), so that is checked here.
"""

import re
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote

import msgspec

from graveler.access.refusals import IdentityRefusedError
from graveler.access.sts_hosts import REGIONS
from graveler.errors import UNREADABLE, InvalidError

SERVER_HEADER: Final = "X-LakeFS-Server-ID"
MAX_SECONDS: Final = 900
"""Longest life of a signed request."""
MAX_AHEAD: Final = 300
"""Seconds that the signer's clock may be ahead of ours."""
MAX_TOKEN: Final = 15 << 10

_FIXED: Final = {
    "method": "POST",
    "action": "GetCallerIdentity",
    "version": "2011-06-15",
    "algorithm": "AWS4-HMAC-SHA256",
}
_SIGNED: Final = ["host", SERVER_HEADER.lower()]
_DATE: Final = "%Y%m%dT%H%M%SZ"
_SHAPES: Final = {
    "date": re.compile(r"[0-9]{8}T[0-9]{6}Z"),
    "expiration_duration": re.compile(r"[0-9]{1,6}"),
    "access_key_id": re.compile(r"[A-Z0-9]{16,128}"),
    "signature": re.compile(r"[0-9a-f]{64}"),
    "security_token": re.compile(r"[!-~]{0,12000}"),
}


class _Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    method: str
    host: str
    region: str
    action: str
    date: str
    expiration_duration: str
    access_key_id: str
    signature: str
    signed_headers: list[str]
    version: str
    algorithm: str
    security_token: str | None = None


class SignedRequest(msgspec.Struct, frozen=True):
    """A request that identifies its signer. ``target`` is its path with the query; ``access_key_id`` is AWS's, and not secret."""

    host: str
    target: str
    access_key_id: str

    def __repr__(self) -> str:
        return f"SignedRequest(host={self.host!r}, target=…, access_key_id={self.access_key_id!r})"


def read_identity_token(token: str, now: float) -> SignedRequest:
    """Return the request in a token; ``now`` in Unix seconds. No request.

    :class:`InvalidError` for one that no client writes; :class:`IdentityRefusedError` for one that is not for us: for a host
    other than AWS's, without the header, expired or dated in the future.
    """
    claims = _decoded(token)
    for name, value in _FIXED.items():
        if (actual := getattr(claims, name)) != value:
            raise InvalidError(f"identity token: {name} {actual[:80]!r} must be {value}")
    for name, shape in _SHAPES.items():
        if not shape.fullmatch(getattr(claims, name) or ""):
            raise InvalidError(f"identity token: {name} is not what AWS puts there when it signs a request")
    region = REGIONS.get(claims.host)
    if region is None:
        raise _refused(
            claims, f"host {claims.host[:80]!r} is not an AWS STS host that this server knows; sign for another region"
        )
    if claims.region != region:
        raise InvalidError(f"identity token: region {claims.region[:80]!r} must be {region}, that of {claims.host}")
    if claims.signed_headers != _SIGNED:
        raise _refused(
            claims, f"the signed headers must be host and {SERVER_HEADER}, with this server's name as its value"
        )
    _expect_alive(claims, now)
    return SignedRequest(claims.host, _target(claims, region), claims.access_key_id)


def _decoded(token: str) -> _Token:
    if len(token) > MAX_TOKEN:
        raise InvalidError(f"identity token: at most {MAX_TOKEN:,} characters are allowed")
    try:
        # Versions of commons-codec before 1.5, as with Hadoop 2, write lines.
        return msgspec.json.decode(b64decode(token.replace("\r\n", ""), validate=True), type=_Token)
    except UNREADABLE as error:
        raise InvalidError(
            f"identity token: it is not the parts of a presigned GetCallerIdentity as JSON in base64 ({error})"
        ) from None


def _expect_alive(claims: _Token, now: float) -> None:
    seconds = int(claims.expiration_duration)
    if not 1 <= seconds <= MAX_SECONDS:
        raise InvalidError(f"identity token: expiration_duration {seconds} must be 1 to {MAX_SECONDS} seconds")
    try:
        signed = datetime.strptime(claims.date, _DATE).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InvalidError(f"identity token: date {claims.date!r} is not valid") from None
    if signed > now + MAX_AHEAD:
        raise _refused(claims, f"it is dated {claims.date}, which is in the future; set the signer's clock")
    if now >= signed + seconds:
        ended = datetime.fromtimestamp(signed, UTC) + timedelta(seconds=seconds)
        raise _refused(
            claims, f"it expired at {ended:%Y-%m-%d %H:%M:%S} UTC; sign a new one, and check that the clocks agree"
        )


def _target(claims: _Token, region: str) -> str:
    query = {
        "Action": claims.action,
        "Version": claims.version,
        "X-Amz-Algorithm": claims.algorithm,
        "X-Amz-Credential": f"{claims.access_key_id}/{claims.date[:8]}/{region}/sts/aws4_request",
        "X-Amz-Date": claims.date,
        "X-Amz-Expires": claims.expiration_duration,
        **({"X-Amz-Security-Token": claims.security_token} if claims.security_token else {}),
        "X-Amz-SignedHeaders": ";".join(claims.signed_headers),
        "X-Amz-Signature": claims.signature,
    }
    return "/?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())


def _refused(claims: _Token, reason: str) -> IdentityRefusedError:
    return IdentityRefusedError(f"identity token: {reason}", claims.access_key_id)
