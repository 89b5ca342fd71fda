"""Events as they are recorded: both of S3's shapes and plain lines, keys decoded exactly once."""

import json
from typing import Any
from urllib.parse import quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import InvalidError
from graveler.ingest.events import EventKind, ObjectEvent, canonical, parse_message, split_address, to_line

ODD = "in/a b+c%20ä/100%.csv"


def notification(name: str = "ObjectCreated:Put", key: str = "in/a", **fields: Any) -> dict[str, Any]:
    """As S3 sends it to a queue."""
    return {
        "Records": [
            {
                "eventVersion": "2.1",
                "eventSource": "aws:s3",
                "awsRegion": "eu-central-1",
                "eventTime": "2026-01-31T14:05:06.789Z",
                "eventName": name,
                "userIdentity": {"principalId": "AWS:AIDAEXAMPLE"},
                "s3": {
                    "s3SchemaVersion": "1.0",
                    "configurationId": "landing",
                    "bucket": {"name": "landing", "arn": "arn:aws:s3:::landing"},
                    "object": {
                        "key": key,
                        "size": 1024,
                        "eTag": "d41d8cd98f00b204e9800998ecf8427e",
                        "sequencer": "0055AED6DCD90281E5",
                        **fields,
                    },
                },
            }
        ]
    }


def bridge(kind: str = "Object Created", key: str = "in/a", deletion: str = "", **fields: Any) -> dict[str, Any]:
    """As EventBridge hands it on."""
    detail: dict[str, Any] = {
        "version": "0",
        "bucket": {"name": "landing"},
        "object": {
            "key": key,
            "size": 1024,
            "etag": "d41d8cd98f00b204e9800998ecf8427e",
            "sequencer": "0055AED6DCD90281E5",
        },
        "request-id": "C3D13FE58DE4C810",
        "reason": "PutObject",
    }
    detail["object"] |= fields
    if deletion:
        detail["deletion-type"] = deletion
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": kind,
        "source": "aws.s3",
        "time": "2026-01-31T14:05:06Z",
        "region": "eu-central-1",
        "resources": ["arn:aws:s3:::landing"],
        "detail": detail,
    }


def only(document: object) -> ObjectEvent:
    (event,) = parse_message(json.dumps(document))
    return event


def timed(time: str) -> str:
    """A plain line with this time."""
    return f'{{"address": "s3://b/k", "kind": "created", "sequencer": "1", "time": {time}}}'


TIMES = [
    ("1e20", "has the time 1e.20"),
    ("-1", "has the time -1.0"),
    ("-1e300", "has the time"),
    ("253402300800", "year 9999"),
    ("1e999", "message is not"),
    ("NaN", "not a JSON"),
    ("Infinity", "not a JSON"),
    ("null", "message is not an object event"),
    ('"now"', "message is not an object event"),
]


def test_both_shapes_say_the_same() -> None:
    one, other = only(notification()), only(bridge())
    assert one == msgspec.structs.replace(other, time=one.time)
    assert (one.address, one.size, one.kind) == ("s3://landing/in/a", 1024, EventKind.CREATED)
    assert (one.sequencer, one.time) == ("0055aed6dcd90281e5", 1769868306.789)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
def test_a_notifications_key_is_decoded_once(key: str) -> None:
    assert only(notification(key=quote_plus(key))).key == key


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_a_key_of_eventbridge_is_as_it_is(key: str) -> None:
    assert only(bridge(key=key)).key == key


def test_spaces_plus_percent_and_umlauts() -> None:
    assert only(notification(key="in/a+b%2Bc%2520%C3%A4/100%25.csv")).key == ODD
    assert only(bridge(key=ODD)).key == ODD


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        (notification("ObjectCreated:CompleteMultipartUpload"), EventKind.CREATED),
        (notification("s3:ObjectCreated:Copy", versionId="v"), EventKind.CREATED),
        (notification("ObjectRemoved:Delete"), EventKind.DELETED),
        (notification("ObjectRemoved:Delete", versionId="v"), EventKind.VERSION_DELETED),
        (notification("ObjectRemoved:DeleteMarkerCreated", versionId="v"), EventKind.DELETED),
        (notification("LifecycleExpiration:Delete"), EventKind.DELETED),
        (bridge("Object Deleted", deletion="Permanently Deleted"), EventKind.DELETED),
        (bridge("Object Deleted", deletion="Permanently Deleted", **{"version-id": "v"}), EventKind.VERSION_DELETED),
        (bridge("Object Deleted", deletion="Delete Marker Created", **{"version-id": "v"}), EventKind.DELETED),
    ],
)
def test_what_happened(document: object, kind: EventKind) -> None:
    assert only(document).kind is kind


@pytest.mark.parametrize(
    "document",
    [
        {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "landing"},
        notification("ObjectTagging:Put"),
        notification("ObjectRestore:Completed"),
        bridge("Object Tags Added"),
        {"Records": []},
    ],
)
def test_what_changes_no_object_is_no_event(document: object) -> None:
    assert parse_message(json.dumps(document)) == []


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ("{}", "neither 'Records' nor"),
        ('{"Records": [{}]}', "eventName"),
        (json.dumps(notification(key="")), "does not name an object"),
        (json.dumps(notification(key="%ff")), "not UTF-8"),
        (json.dumps(notification(sequencer="xyz")), "not a hexadecimal"),
        (json.dumps(notification(sequencer="")), "reconcile the rule"),
        (json.dumps(bridge(size=-1)), "-1 bytes"),
        (json.dumps(bridge(size="many")), "size"),
        ('{"address": "nowhere", "kind": "created", "sequencer": "1"}', "'nowhere' is not the address"),
        ('{"address": "s3://b/k", "kind": "grown", "sequencer": "1"}', "kind"),
        *((timed(said), why) for said, why in TIMES),
        (json.dumps(notification()).replace("2026-01-31T14:05:06.789Z", "0001-01-01T00:00:00Z"), "has the time -6"),
        (json.dumps(bridge()).replace("2026-01-31T14:05:06Z", "1969-12-31T23:59:59Z"), "has the time -1.0"),
        (json.dumps(bridge()).replace("2026-01-31T14:05:06Z", "10000-01-01T00:00:00Z"), "time"),
    ],
)
def test_what_is_no_event_is_named(body: str, why: str) -> None:
    with pytest.raises(InvalidError, match=why):
        parse_message(body)


HEX = st.text("0123456789abcdefABCDEF", min_size=1, max_size=20)


@given(HEX, HEX)
def test_sequencers_compare_as_s3_says_padded_with_zeros_on_the_right(one: str, other: str) -> None:
    width = max(len(one), len(other))
    padded = one.lower().ljust(width, "0"), other.lower().ljust(width, "0")
    assert (canonical(one) < canonical(other)) == (padded[0] < padded[1])
    assert (canonical(one) == canonical(other)) == (padded[0] == padded[1])


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), st.sampled_from(EventKind), HEX)
def test_a_line_is_read_as_it_was_written(key: str, kind: EventKind, sequencer: str) -> None:
    for bucket in ("s3://landing", "file://"):
        event = ObjectEvent(bucket, key, kind, canonical(sequencer), 7, "e", 1.5, "v")
        assert parse_message(to_line(event)) == [event]


@pytest.mark.parametrize("address", ["", "a", "s3://", "s3://bucket", "file://host/a", "://a/b", "file:"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(InvalidError, match="not the address of an object"):
        split_address(address)
