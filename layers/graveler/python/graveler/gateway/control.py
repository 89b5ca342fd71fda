"""The lines between ``graveler run`` and its gateway, a process of its own (``python -m graveler.gateway``).

The runner writes one :class:`Opening` on the gateway's standard input, and the gateway answers with one :class:`Ready` on its
standard output as soon as it takes requests. At the end of the program, the runner writes a :class:`Closing`, and the gateway
answers with its :class:`Tally`. When its input ends, the gateway ends at once: so none outlives its runner, however that ends.

A line is a JSON document and a line feed. Secrets travel here, where no other user of the machine sees them.
"""

import re
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from graveler.errors import InvalidError, UnavailableError
from graveler.lake.opening.location import AwsLake, FolderLake, LakeLocation
from graveler.location.environment import ServedLake

D = TypeVar("D")

Location: TypeAlias = LakeLocation | ServedLake
"""The location of any lake."""

REGION: Final = "eu-central-1"
"""The region of the gateway's buckets. In older ones, such as us-east-1 and eu-west-1, boto3 presigns by version 2."""

_S3: Final = "s3://"
_BUCKET: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{2,254}", re.ASCII)

LONGEST_LINE: Final = 1 << 20
"""Limit on the bytes of a line."""


class KeyPair(Struct, frozen=True):
    """An S3 access key."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"KeyPair({self.id!r})"


class Mount(Struct, frozen=True, kw_only=True):
    """A bucket of the gateway: a ref of a repository. The key ``<prefix><path>`` of the bucket is the object ``path`` of the ref;
    ``prefix`` is empty, or ends with a slash. ``ref`` is a branch, or for ``read_only`` any ref expression."""

    bucket: str
    repository: str
    ref: str
    prefix: str = ""
    read_only: bool = False


class S3Place(Struct, frozen=True):
    """A bucket of S3, or its keys that begin with ``prefix``, which is empty or ends with a slash."""

    bucket: str
    prefix: str = ""


def parse_s3_place(text: str) -> S3Place:
    """Return the place that a URL names, ``s3://bucket`` or ``s3://bucket/prefix``. :class:`InvalidError`."""
    bucket, _, prefix = text.removeprefix(_S3).partition("/")
    if not (text.startswith(_S3) and _BUCKET.fullmatch(bucket)):
        raise InvalidError(
            f"{text!r} names no bucket of S3; write s3://BUCKET or s3://BUCKET/PREFIX, such as s3://raw/2026"
        )
    return S3Place(bucket, f"{prefix.strip('/')}/" if prefix.strip("/") else "")


class LakePlace(Struct, frozen=True, kw_only=True):
    """The location of a lake: one of the three."""

    folder: FolderLake | None = None
    aws: AwsLake | None = None
    served: ServedLake | None = None

    @classmethod
    def of(cls, location: Location) -> "LakePlace":
        """Return the document for a location, with the absolute path of a folder."""
        match location:
            case FolderLake():
                return cls(folder=FolderLake(location.folder.absolute()))
            case AwsLake():
                return cls(aws=location)
            case _:
                return cls(served=location)

    @property
    def location(self) -> Location:
        """The location."""
        location = self.folder or self.aws or self.served
        assert location is not None
        return location


def is_local(location: Location) -> bool:
    """Return whether a process can open the lake by itself."""
    return isinstance(location, FolderLake | AwsLake)


class Opening(Struct, frozen=True, kw_only=True):
    """The buckets that a gateway serves, and how. It listens on 127.0.0.1 at ``port``; 0 stands for any free one. It accepts no
    other ``keys``; None: the AWS credentials that the gateway finds in its own environment. ``user`` is the author of changes.
    ``also`` are places in S3 that the gateway reads with the rights of its process. A gateway on another host, which joins a run,
    has the ``token`` that was the open one of the run's branch in the beginning (:mod:`graveler.gateway.joined_run`)."""

    lake: LakePlace
    mounts: tuple[Mount, ...]
    keys: KeyPair | None
    user: str = ""
    port: int = 0
    region: str = REGION
    also: tuple[S3Place, ...] = ()
    token: str = ""


class Invitation(Struct, frozen=True, kw_only=True):
    """An opening for gateways on other hosts, and the version of graveler that invites them."""

    version: str
    opening: Opening


class Ready(Struct, frozen=True, kw_only=True):
    """The gateway takes requests at ``port``; or it cannot, for the reason in ``error``, a sentence, and ends."""

    port: int = 0
    error: str = ""


class Closing(Struct, frozen=True, kw_only=True):
    """Refuse new writes from now on, let running ones land within ``close`` seconds and abort the others, abort the pending
    uploads of the mounts' branches, and answer with the :class:`Tally`. Reads go on."""

    close: float


class Volume(Struct, frozen=True, kw_only=True):
    """Numbers of objects and bytes."""

    objects: int = 0
    bytes: int = 0


class Tally(Struct, frozen=True, kw_only=True):
    """The work of a gateway: what its clients ``read`` and have ``written`` (staged), the numbers of ``deleted`` objects, and of
    the writes that ``failed`` because of the store, the table, or the end."""

    read: Volume = Volume()
    written: Volume = Volume()
    deleted: int = 0
    failed: int = 0


def line_of(document: Opening | Ready | Closing | Tally | Invitation) -> bytes:
    """Return the line of a document."""
    return msgspec.json.encode(document, enc_hook=str) + b"\n"  # only paths need the hook


def parse_line(line: bytes, kind: type[D]) -> D:
    """Return the document of a line. :class:`UnavailableError` for what is none of this ``kind``, such as half a line."""
    try:
        return msgspec.json.decode(line, type=kind, dec_hook=_path)
    except msgspec.MsgspecError as error:
        raise UnavailableError(
            f"the gateway and its runner do not understand each other: {error}; both have to be of the same version of graveler"
        ) from None


def read_document(stream: BinaryIO, kind: type[D]) -> D | None:
    """Wait for the next line of a stream and return its document; None at the stream's end. Errors as :func:`parse_line`."""
    line = stream.readline(LONGEST_LINE)
    return parse_line(line, kind) if line.endswith(b"\n") else None


def _path(kind: type, value: object) -> object:
    assert kind is Path or issubclass(kind, Path)
    return Path(str(value))
