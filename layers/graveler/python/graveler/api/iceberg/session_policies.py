"""Policies of sessions that reach the files of one table, and names of such sessions."""

import json
import re
import time
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from graveler.access.permissions import Identity
from graveler.errors import InvalidError

_READS: Final = ["s3:GetObject"]
_WRITES: Final = ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]
_KEYS: Final = ["kms:Decrypt", "kms:GenerateDataKey"]
_ROLE: Final = re.compile(r"arn:(?P<partition>aws[a-z-]{0,20}):iam::[0-9]{12}:role/[\x21-\x7e]{1,512}")
_WILDCARD: Final = re.compile(r"[*?$]")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_+=,.@-]")
_NAME_CHARS: Final = 64


class S3Folder(Struct, frozen=True, order=True):
    """A folder in a bucket. ``path`` has no slash at its end; an empty one is the whole bucket."""

    bucket: str
    path: str

    @property
    def address(self) -> str:
        """The address of the folder, with a slash at its end."""
        return f"s3://{self.bucket}/{self.path}/" if self.path else f"s3://{self.bucket}/"


class TableRights(Struct, frozen=True):
    """The rights of a caller to a table's files: to read its ``folder``, and perhaps to write new files there; to read
    ``sources``, folders elsewhere; until ``ends`` (Unix seconds; None: as long as the session)."""

    folder: S3Folder
    writes: bool
    sources: tuple[S3Folder, ...] = ()
    ends: float | None = None


def policy_of(rights: TableRights, partition: str) -> str:
    """Return the policy of a session with these rights and no others, as JSON, in a partition of AWS (``aws``, ``aws-cn``).
    It also lets S3 use the keys of KMS that the files are encrypted with, as far as the role itself may."""
    folder = rights.folder
    bucket = f"arn:{partition}:s3:::{_literal(folder.bucket)}"
    statements = [
        _statement(_WRITES if rights.writes else _READS, f"{bucket}/{_literal(folder.path)}/*"),
        _statement(["s3:ListBucket"], bucket, {"StringLike": {"s3:prefix": f"{_literal(folder.path)}/*"}}),
        _statement(_KEYS, "*", {"StringLike": {"kms:ViaService": "s3.*"}}),
    ]
    if rights.sources:
        statements.append(
            _statement(
                _READS,
                [
                    f"arn:{partition}:s3:::{_literal(source.address.removeprefix('s3://'))}*"
                    for source in rights.sources
                ],
            )
        )
    if rights.ends is not None:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(rights.ends))
        for statement in statements:
            statement.setdefault("Condition", {})["DateLessThan"] = {"aws:CurrentTime": moment}
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def partition_of(role: str) -> str:
    """Return the partition of AWS in the ARN of a role. :class:`InvalidError` for any other text."""
    match = _ROLE.fullmatch(role)
    if match is None:
        raise InvalidError(
            f"GRAVELER_TABLE_ROLE is {role[:200]!r}, and must be the ARN of a role: arn:aws:iam::<account>:role/<name>"
        )
    return match["partition"]


def session_name(identity: Identity) -> str:
    """Return the name by which AWS's own log shows a caller's sessions: its key, and the name of the key's holder."""
    return _NOT_IN_NAMES.sub("-", f"{identity.key_id}.{identity.name}")[:_NAME_CHARS]


def _statement(
    actions: list[str], resources: str | Sequence[str], condition: dict[str, dict[str, str]] | None = None
) -> dict[str, Any]:
    statement: dict[str, Any] = {"Effect": "Allow", "Action": actions, "Resource": resources}
    return statement if condition is None else {**statement, "Condition": condition}


def _literal(text: str) -> str:
    """Return a text escaped for a policy, so that its wildcards and variables stand for themselves."""
    return _WILDCARD.sub(lambda wild: f"${{{wild[0]}}}", text)
