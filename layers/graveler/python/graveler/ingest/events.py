"""The events that object stores send when an object is created or deleted, as typed values.

Three formats are read: a notification of S3 (``{"Records": […]}``, keys URL-encoded, with ``+`` for a space), an event of S3 via
EventBridge (keys as they are), and a plain line ``{"address": …, "kind": …, "sequencer": …}`` for folders and replays. A key is
decoded exactly once, and only if its format encodes it: ``a%2Bb`` from EventBridge is a key with a percent sign.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec

from graveler.errors import UNREADABLE, InvalidError

_SEQUENCER: Final = re.compile(r"[0-9a-f]{1,128}")
LAST_TIME: Final = 253_402_300_799.0
"""The last second of the year 9999, in Unix seconds: the limit of the calendars used here."""
FILES: Final = "file://"
"""The bucket of this machine's files."""


class EventKind(str, Enum):
    """The kind of event. ``version_deleted``: a version of a versioned object was deleted for good; only the store knows which
    version, if any, is current now."""

    CREATED = "created"
    DELETED = "deleted"
    VERSION_DELETED = "version_deleted"


class ObjectEvent(msgspec.Struct, frozen=True):
    """The creation or deletion of one object. ``bucket`` is the URL of its store, ``s3://name`` or ``file://``, so that its
    address is ``<bucket>/<key>``. ``sequencer`` orders the events of one key, see :func:`canonical`. ``size`` in bytes, ``time``
    in Unix seconds. Without an ``etag``, an object is read for its MD5 when it is staged."""

    bucket: str
    key: str
    kind: EventKind
    sequencer: str
    size: int = 0
    etag: str = ""
    time: float = 0.0
    version: str = ""

    @property
    def address(self) -> str:
        """The object's full physical address."""
        return f"{self.bucket}/{self.key}"


def split_address(address: str) -> tuple[str, str]:
    """Return bucket and key, as in :class:`ObjectEvent`. :class:`InvalidError` for an invalid address."""
    scheme, separator, rest = address.partition("://")
    if scheme == "file" and rest.startswith("/"):
        return FILES, rest[1:]
    bucket, slash, key = rest.partition("/")
    if not separator or not scheme or not bucket or not slash or scheme == "file":
        raise InvalidError(
            f"{address!r} is not the address of an object; write it as s3://bucket/key or file:///folder/file"
        )
    return f"{scheme}://{bucket}", key


def canonical(sequencer: str) -> str:
    """Return a sequencer in a form whose order as text is S3's order: hexadecimal, the shorter one padded with zeros on the
    right. :class:`InvalidError` for anything else."""
    lower = sequencer.lower()
    if not _SEQUENCER.fullmatch(lower):
        raise InvalidError(
            f"sequencer {sequencer!r} is not a hexadecimal number, so the event cannot be ordered; reconcile the rule"
        )
    return lower.rstrip("0") or "0"


def check_event(event: ObjectEvent) -> None:
    """Refuse an event that no store could have sent, with :class:`InvalidError`."""
    if not event.key or event.size < 0:
        raise InvalidError(f"the event does not name an object: key {event.key!r}, {event.size} bytes")
    if not 0 <= event.time <= LAST_TIME:  # NaN is neither
        raise InvalidError(
            f"the event of {event.key!r} has the time {event.time!r}; it must be Unix seconds, from 1970 to the year 9999"
        )


def parse_message(body: str | bytes) -> list[ObjectEvent]:
    """Return the events of one message; none for a test message, and for kinds that change no object (tags, restores).

    :class:`InvalidError` describes what is wrong with it.
    """
    try:
        text = body.encode() if isinstance(body, str) else body
        document = msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE as error:
        raise InvalidError(f"the message is not a JSON object: {error}") from None
    try:
        if "Records" in document:
            notification = msgspec.convert(document, _Notification)
            return [event for record in notification.records for event in _of_record(record)]
        if "detail-type" in document:
            return _of_bridge(msgspec.convert(document, _Bridge))
        if document.get("Event") == "s3:TestEvent":
            return []
        if "address" in document:
            return [_of_line(msgspec.convert(document, _Line))]
    except msgspec.ValidationError as error:
        raise InvalidError(f"the message is not an object event: {error}") from None
    raise InvalidError("the message is not an object event: it has neither 'Records' nor 'detail-type' nor 'address'")


def to_line(event: ObjectEvent) -> bytes:
    """Return the event as a plain line of JSON, which :func:`parse_message` reads."""
    line = _Line(event.address, event.kind, event.sequencer, event.size, event.etag, event.time, event.version)
    return msgspec.json.encode(line)


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    key: str
    size: int = 0
    e_tag: str = ""
    version_id: str | None = None
    sequencer: str = ""


class _Bucket(msgspec.Struct, frozen=True):
    name: str


class _S3(msgspec.Struct, frozen=True):
    bucket: _Bucket
    object: _Object


class _Record(msgspec.Struct, frozen=True, rename="camel"):
    event_name: str
    event_time: datetime
    s3: _S3


class _Notification(msgspec.Struct, frozen=True):
    records: Sequence[_Record] = msgspec.field(name="Records")


class _BridgeObject(msgspec.Struct, frozen=True, rename="kebab"):
    key: str
    size: int = 0
    etag: str = ""
    version_id: str = ""
    sequencer: str = ""


class _Detail(msgspec.Struct, frozen=True, rename="kebab"):
    bucket: _Bucket
    object: _BridgeObject
    deletion_type: str = ""


class _Bridge(msgspec.Struct, frozen=True):
    type: str = msgspec.field(name="detail-type")
    time: datetime
    detail: _Detail


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    address: str
    kind: EventKind
    sequencer: str
    size: int = 0
    etag: str = ""
    time: float = 0.0
    version: str = ""


def _of_record(record: _Record) -> list[ObjectEvent]:
    name = record.event_name.removeprefix("s3:")
    marker = name.endswith((":DeleteMarkerCreated", ":DeleteMarkerCreated:Null"))
    kind = _kind(
        created=name.startswith("ObjectCreated:"),
        deleted=name.startswith(("ObjectRemoved:", "LifecycleExpiration:")),
        for_good=not marker and record.s3.object.version_id is not None,
    )
    if kind is None:
        return []
    stored = record.s3.object
    return [
        _event(
            f"s3://{record.s3.bucket.name}",
            _decoded(stored.key),
            kind,
            stored.sequencer,
            stored.size,
            stored.e_tag,
            record.event_time,
            stored.version_id or "",
        )
    ]


def _of_bridge(bridge: _Bridge) -> list[ObjectEvent]:
    stored, detail = bridge.detail.object, bridge.detail
    kind = _kind(
        created=bridge.type == "Object Created",
        deleted=bridge.type == "Object Deleted",
        for_good=bool(stored.version_id) and detail.deletion_type != "Delete Marker Created",
    )
    if kind is None:
        return []
    bucket = f"s3://{detail.bucket.name}"
    return [
        _event(bucket, stored.key, kind, stored.sequencer, stored.size, stored.etag, bridge.time, stored.version_id)
    ]


def _kind(*, created: bool, deleted: bool, for_good: bool) -> EventKind | None:
    """Return the kind of event, or None. ``for_good``: a named version is gone, and not only hidden by a delete marker."""
    if created:
        return EventKind.CREATED
    if not deleted:
        return None
    return EventKind.VERSION_DELETED if for_good else EventKind.DELETED


def _of_line(line: _Line) -> ObjectEvent:
    bucket, key = split_address(line.address)
    event = ObjectEvent(
        bucket, key, line.kind, canonical(line.sequencer), line.size, line.etag, line.time, line.version
    )
    check_event(event)
    return event


def _event(
    bucket: str, key: str, kind: EventKind, sequencer: str, size: int, etag: str, time: datetime, version: str
) -> ObjectEvent:
    moment = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    event = ObjectEvent(bucket, key, kind, canonical(sequencer), size, etag.strip('"'), moment, version)
    check_event(event)
    return event


def _decoded(key: str) -> str:
    """Return the key of a notification, which is form-encoded, decoded once."""
    try:
        return unquote_to_bytes(key.replace("+", " ")).decode()
    except UnicodeDecodeError:
        raise InvalidError(
            f"key {key!r} is not UTF-8 after URL decoding, so it cannot be the path of an object"
        ) from None
