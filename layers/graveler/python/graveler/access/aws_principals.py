"""Names of AWS principals, and patterns of them.

STS names the signer: ``arn:aws:sts::ACCOUNT:assumed-role/ROLE/SESSION``, ``arn:aws:iam::ACCOUNT:user/PATH/NAME``,
``arn:aws:sts::ACCOUNT:federated-user/NAME``, ``arn:aws:iam::ACCOUNT:root``
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html). A pattern is such a name with ``*``, ``?`` and
``[…]`` in the parts behind the kind, each within its part: ``*`` matches no slash. Partition, account and kind are always
literal: anyone can have an account of their own, with roles of any name.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from graveler.errors import InvalidError

_ARN: Final = re.compile(
    r"arn:(?P<partition>aws[a-z-]{0,20}):(?P<service>sts|iam)::(?P<account>[0-9]{12}):(?P<kind>[a-z-]+)(?P<rest>(?:/[^:]+)?)"
)
_KINDS: Final = {"assumed-role": "sts", "federated-user": "sts", "user": "iam", "root": "iam"}
_WILD: Final = re.compile(r"[*?\[\]]")
_MAX: Final = 2048


class AwsPrincipal(Struct, frozen=True):
    """The signer. ``name`` is the role's or the user's, ``session`` the session's, which is chosen by the caller that assumes the
    role."""

    arn: str
    name: str
    session: str

    @property
    def unchosen_name(self) -> str:
        """The part of the name that its bearer does not choose: of a federated user none, since whoever asks AWS for its
        credentials names it."""
        return "" if ":federated-user/" in self.arn else self.name


def read_principal(arn: str) -> AwsPrincipal:
    """Return a principal by its ARN, as STS names it. :class:`InvalidError` for any other text."""
    match = _ARN.fullmatch(arn) if len(arn) <= _MAX and arn.isprintable() else None
    parts = match["rest"].split("/")[1:] if match else []
    if match is None or _KINDS.get(match["kind"]) != match["service"] or not _has_parts(match["kind"], parts):
        raise InvalidError(f"{arn[:200]!r} is not the ARN of an AWS principal that can sign requests")
    if match["kind"] == "assumed-role":
        return AwsPrincipal(arn, parts[0], parts[1])
    return AwsPrincipal(arn, parts[-1] if parts else "root", "")


def principal_pattern(text: str) -> str:
    """Return a pattern in its stored form. That of a role, as IAM writes it (``arn:aws:iam::ACCOUNT:role/PATH/NAME``), becomes
    one of its sessions, as does that of a role's sessions without a session. :class:`InvalidError` for one that could match any
    account's principals."""
    match = _ARN.fullmatch(text) if len(text) <= _MAX and text.isprintable() else None
    if match is None:
        raise InvalidError(
            f"principal {text[:200]!r} must be an ARN such as arn:aws:iam::123456789012:role/etl-*, with an account of 12 digits "
            "without wildcards; the parts after it may contain *, ? and […]"
        )
    start, kind, parts = f"arn:{match['partition']}", match["kind"], match["rest"].split("/")[1:]
    if kind == "role" and match["service"] == "iam" and parts and "" not in parts:
        if len(parts) > 1 and _WILD.search(parts[-1]):
            raise InvalidError(
                f"principal {text[:200]!r}: sessions do not include the path of their role, so a role with a path needs its "
                "full name here, without wildcards"
            )
        return f"{start}:sts::{match['account']}:assumed-role/{parts[-1]}/*"
    if kind == "assumed-role" and len(parts) == 1:
        parts.append("*")
    if _KINDS.get(kind) != match["service"] or not _has_parts(kind, parts):
        raise InvalidError(
            f"principal {text[:200]!r} must be of a role (arn:aws:iam::…:role/NAME), a role's session "
            "(arn:aws:sts::…:assumed-role/NAME/SESSION), or a user (arn:aws:iam::…:user/NAME)"
        )
    return f"{start}:{match['service']}::{match['account']}:{'/'.join((kind, *parts))}"


def matches(pattern: str, arn: str) -> bool:
    """Return whether a principal matches a pattern, as :func:`principal_pattern` returns it."""
    patterns, parts = pattern.split("/"), arn.split("/")
    if len(patterns) != len(parts) or patterns[0] != parts[0]:
        return False
    return all(fnmatchcase(part, shape) for shape, part in zip(patterns[1:], parts[1:], strict=True))


def literals(pattern: str) -> int:
    """Return the number of literal characters in a pattern: of several that match, the one with the most is the most exact."""
    return len(_WILD.sub("", pattern))


def _has_parts(kind: str, parts: Sequence[str]) -> bool:
    return "" not in parts and _has_so_many(kind, len(parts))


def _has_so_many(kind: str, parts: int) -> bool:
    if kind == "root":
        return parts == 0
    return parts == 2 if kind == "assumed-role" else parts >= 1
