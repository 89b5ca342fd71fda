"""Faults of S3 and DynamoDB, simulated at the SDK's own connection: nothing is lost, nothing unknown is reported as known, and
errors say what to fix."""

import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ReadTimeoutError
from moto.core.models import botocore_stubber
from urllib3 import HTTPResponse

from graveler.errors import BusyError, CorruptError, InvalidError, UnavailableError
from graveler.storage.aws_requests import Clients
from graveler.storage.objects import s3 as s3_objects
from graveler.storage.objects.port import NotPermittedError, ObjectConditionError, Page
from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.storage.objects.s3_clients import CLIENTS
from graveler.storage.tables import dynamodb as dynamodb_tables
from graveler.storage.tables.dynamodb import DynamoDBSettings, DynamoDBTables, settings_of
from graveler.storage.tables.port import Absent, ConditionFailedError, Key, Matches, Put
from graveler.system.retries import Retries
from tests.storage.adapters import CREDENTIALS, aws, make_bucket
from tests.support.servers import REGION
from tests.support.shell import Shell

QUICK = Retries(4, 0.0, 0.0)
TABLE = DynamoDBSettings("faulty", REGION, retries=QUICK)
STORE = S3Settings(REGION, retries=QUICK)
K, OTHER = Key("p", b"k"), Key("p", b"o")


class Body:
    """An answer's body, as the SDK wants it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self._data


class Trouble:
    """Answers requests of a client as it is told, one after the other; an answer None lets the request through."""

    def __init__(self, client: Any) -> None:
        self.requests: Counter[str] = Counter()
        self.answers: list[Callable[[Any], AWSResponse | None]] = []
        self._events = client.meta.events
        self._events.unregister("before-send", botocore_stubber)
        self._events.register("before-send", self._send)

    def stop(self) -> None:
        self._events.unregister("before-send", self._send)
        self._events.register("before-send", botocore_stubber)

    def _send(self, event_name: str, request: Any, **_: object) -> Any:
        """Send a request, which moto performs, or answer it in its place."""
        self.requests[event_name.rpartition(".")[2]] += 1
        answer = self.answers.pop(0)(request) if self.answers else None
        return botocore_stubber(event_name, request) if answer is None else answer


def answer_of(request: Any, status: int, body: Any, headers: Any = None) -> AWSResponse:
    """An answer as if it had come from the network."""
    given: Any = headers or {}
    return AWSResponse(request.url, status, given, body)


def dynamodb_error(status: int, code: str, more: str = "") -> Callable[[Any], AWSResponse]:
    body = f'{{"__type": "com.amazonaws.dynamodb#{code}", "message": "on purpose"{more}}}'.encode()
    return lambda request: answer_of(request, status, Body(body))


def s3_error(status: int, code: str) -> Callable[[Any], AWSResponse]:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>on purpose</Message></Error>".encode()
    return lambda request: answer_of(request, status, Body(body))


def no_answer(request: Any) -> None:
    raise ReadTimeoutError(endpoint_url=request.url)


class Lost:
    """The request has its effect, and its answer does not arrive."""

    def __init__(self, effect: Callable[[], object]) -> None:
        self._effect = effect

    def __call__(self, request: Any) -> None:
        self._effect()
        no_answer(request)


@pytest.fixture
def tables() -> Iterator[tuple[DynamoDBTables, Trouble]]:
    with aws():
        made = DynamoDBTables(TABLE)
        made.create_table()
        trouble = Trouble(dynamodb_tables._CONNECTIONS.get(TABLE).client)
        yield made, trouble
        trouble.stop()


@pytest.fixture
def objects() -> Iterator[tuple[S3Objects, Trouble]]:
    with aws():
        make_bucket("faulty", STORE)
        made = S3Objects("faulty", "a", STORE)
        trouble = Trouble(CLIENTS.get(STORE))
        yield made, trouble
        trouble.stop()


# Tables

THROTTLED = dynamodb_error(400, "ProvisionedThroughputExceededException")
CONFLICT = dynamodb_error(
    400, "TransactionCanceledException", ', "CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}]'
)


def test_what_a_put_replaced_is_not_told_where_it_may_have_been_written_twice(
    tables: tuple[DynamoDBTables, Trouble],
) -> None:
    """Somebody has replaced the first try, and the second one that: neither is what stood there."""
    table, trouble = tables
    table.put(K, {"n": 1})

    def both() -> None:
        table.put(K, {"n": 2})
        table.put(K, {"n": 3})

    trouble.answers = [Lost(both)]
    assert table.replace(K, {"n": 2}) == {"n": 2}
    assert table.get(K) == {"n": 2}


def test_what_a_put_replaced_is_told_after_a_try_that_did_nothing(tables: tuple[DynamoDBTables, Trouble]) -> None:
    table, trouble = tables
    table.put(K, {"n": 1})
    trouble.answers = [THROTTLED]
    assert table.replace(K, {"n": 2}) == {"n": 1}


@pytest.mark.parametrize(
    "fault",
    [THROTTLED, dynamodb_error(400, "ThrottlingException"), dynamodb_error(500, "InternalServerError"), no_answer],
)
def test_a_table_that_fails_for_a_while_is_asked_again(
    tables: tuple[DynamoDBTables, Trouble], fault: Callable[[Any], Any]
) -> None:
    table, trouble = tables
    for verb in (
        lambda: table.put(K, {"n": 1}),
        lambda: table.get(K),
        lambda: table.get_many([K, OTHER]),
        lambda: table.query("p"),
        lambda: table.write_many([Put(K, {"n": 1}), Put(OTHER, {})]),
        lambda: table.transact([Put(K, {"n": 1}), Put(OTHER, {})]),
        lambda: table.delete(OTHER),
    ):
        trouble.requests.clear()
        trouble.answers[:] = [fault, fault]
        verb()
        assert trouble.requests.total() == 3
    assert table.query("p").items == [(b"k", {"n": 1})]


def test_a_transaction_in_conflict_is_tried_again(tables: tuple[DynamoDBTables, Trouble]) -> None:
    table, trouble = tables
    trouble.answers[:] = [CONFLICT, CONFLICT]
    table.transact([Put(K, {}, Absent()), Put(OTHER, {})])
    assert trouble.requests["TransactWriteItems"] == 3
    trouble.answers[:] = [CONFLICT] * 4
    with pytest.raises(BusyError, match="nothing was written"):
        table.transact([Put(K, {"n": 2}), Put(OTHER, {})])
    assert table.get(K) == {}


def test_a_transaction_is_repeated_under_its_token(tables: tuple[DynamoDBTables, Trouble]) -> None:
    table, trouble = tables
    tokens: list[bytes] = []

    def note(request: Any) -> None:
        tokens.append(request.body)
        no_answer(request)

    trouble.answers[:] = [note, note]
    table.transact([Put(K, {}, Absent()), Put(OTHER, {})])
    assert len(tokens) == 2
    assert tokens[0] == tokens[1]
    assert b"ClientRequestToken" in tokens[0]


def test_a_table_that_stays_throttled_is_busy(tables: tuple[DynamoDBTables, Trouble]) -> None:
    table, trouble = tables
    trouble.answers[:] = [THROTTLED] * 4
    with pytest.raises(BusyError):
        table.put(K, {})
    assert table.get(K) is None


def test_a_lost_answer_is_never_called_a_failed_condition(tables: tuple[DynamoDBTables, Trouble]) -> None:
    table, trouble = tables
    other = DynamoDBTables(DynamoDBSettings("faulty", REGION))
    trouble.answers[:] = [Lost(lambda: other.put(K, {"by": "me"}, Absent()))]
    with pytest.raises(UnavailableError, match="lost"):
        table.put(K, {"by": "me"}, Absent())
    assert table.get(K) == {"by": "me"}
    trouble.answers[:] = [no_answer] * 4
    with pytest.raises(UnavailableError, match="lost"):
        table.delete(K, Matches({"by": "me"}))


def test_what_a_batch_leaves_over_is_sent_again(tables: tuple[DynamoDBTables, Trouble]) -> None:
    table, trouble = tables
    left = b'{"UnprocessedItems": {"faulty": [{"PutRequest": {"Item": {"P": {"S": "p"}, "S": {"B": "aw=="}}}}]}}'
    trouble.answers[:] = [lambda request: answer_of(request, 200, Body(left))]
    table.write_many([Put(K, {}), Put(OTHER, {})])
    assert trouble.requests["BatchWriteItem"] == 2
    assert table.get(K) == {}
    left = b'{"Responses": {}, "UnprocessedKeys": {"faulty": {"Keys": [{"P": {"S": "p"}, "S": {"B": "aw=="}}]}}}'
    trouble.answers[:] = [lambda request: answer_of(request, 200, Body(left))]
    assert table.get_many([K]) == [{}]
    trouble.answers[:] = [lambda request: answer_of(request, 200, Body(left))] * 5
    with pytest.raises(BusyError):
        table.get_many([K])


@pytest.mark.parametrize("headers", [{"content-length": "40"}, {"x-amz-crc32": "1"}])
def test_half_an_answer_does_not_mean_that_there_is_nothing(
    tables: tuple[DynamoDBTables, Trouble], headers: dict[str, str]
) -> None:
    table, trouble = tables
    table.put(K, {"n": 1})

    def half(request: Any) -> AWSResponse:
        return answer_of(request, 200, Body(b'{"Item": {"P": {"S": '), headers)

    for read, there in (
        (lambda: table.get(K), {"n": 1}),
        (lambda: table.get_many([K]), [{"n": 1}]),
        (lambda: table.query("p").items, [(b"k", {"n": 1})]),
    ):
        trouble.answers[:] = [half, half]
        assert read() == there
        trouble.answers[:] = [half] * 4
        with pytest.raises(UnavailableError, match="response was lost"):
            read()


def test_a_failed_condition_is_one_request(tables: tuple[DynamoDBTables, Trouble]) -> None:
    table, trouble = tables
    table.put(K, {"n": 1})
    trouble.requests.clear()
    with pytest.raises(ConditionFailedError) as caught:
        table.put(K, {}, Absent())
    assert caught.value.failures == {0: {"n": 1}}
    assert trouble.requests.total() == 1


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ResourceNotFoundException", "no such table"),
        ("ExpiredTokenException", "have expired"),
        ("UnrecognizedClientException", "not valid"),
        ("AccessDeniedException", "do not allow"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(tables: tuple[DynamoDBTables, Trouble], code: str, said: str) -> None:
    table, trouble = tables
    trouble.answers[:] = [dynamodb_error(400, code)]
    with pytest.raises(UnavailableError, match=said) as caught:
        table.get(K)
    assert "'faulty'" in str(caught.value)
    assert trouble.requests.total() == 1


def test_a_table_that_is_not_there_is_said(tables: tuple[DynamoDBTables, Trouble]) -> None:
    with pytest.raises(UnavailableError, match=r"'missing'.*no such table"):
        DynamoDBTables(DynamoDBSettings("missing", REGION)).get(K)
    with pytest.raises(InvalidError, match="P and S"):
        tables[0].put(K, {"S": 1})


@pytest.mark.parametrize("url", ["", "table", "dynamodb://", "dynamodb://a/b", "s3://a"])
def test_urls_that_name_no_table(url: str) -> None:
    with pytest.raises(InvalidError, match="dynamodb://<table>"):
        settings_of(url)


def test_nobody_there_is_said() -> None:
    nobody = "http://127.0.0.1:9"
    with patch.dict(os.environ, CREDENTIALS):
        with pytest.raises(UnavailableError, match="cannot be reached"):
            DynamoDBTables(DynamoDBSettings("t", REGION, nobody, retries=QUICK)).get(K)
        with pytest.raises(InvalidError, match="cannot be used"):
            DynamoDBTables(DynamoDBSettings("t", REGION, "no url", retries=QUICK)).get(K)
        with pytest.raises(UnavailableError, match="cannot be reached"):
            S3Objects("bucket", "", S3Settings(REGION, nobody, retries=QUICK)).get("k")
        with pytest.raises(InvalidError, match="cannot be used"):
            S3Objects("bucket", "", S3Settings(REGION, "no url", retries=QUICK)).get("k")


def test_adapters_are_pickled_by_their_settings() -> None:
    with aws():
        table = pickle.loads(pickle.dumps(DynamoDBTables(TABLE)))
        table.create_table()
        table.create_table()
        table.put(K, {"n": 1})
        assert pickle.loads(pickle.dumps(table)).get(K) == {"n": 1}
        make_bucket("bucket", STORE)
        store = pickle.loads(pickle.dumps(S3Objects("bucket", "a/b", STORE)))
        store.put("k", b"x")
        assert store.namespace == "s3://bucket/a/b"
        assert pickle.loads(pickle.dumps(store)).get("k") == b"x"


# Objects


@pytest.mark.parametrize(
    "fault", [s3_error(503, "SlowDown"), s3_error(500, "InternalError"), s3_error(409, "OperationAborted"), no_answer]
)
def test_a_store_that_fails_for_a_while_is_asked_again(
    objects: tuple[S3Objects, Trouble], fault: Callable[[Any], Any]
) -> None:
    store, trouble = objects
    for verb in (
        lambda: store.put("k", b"x"),
        lambda: store.get("k"),
        lambda: store.get_range("k", 0, 1),
        lambda: list(store.stream("k")),
        lambda: store.head("k"),
        lambda: list(store.list()),
        lambda: store.delete("k"),
    ):
        trouble.requests.clear()
        trouble.answers[:] = [fault, fault]
        verb()
        assert trouble.requests.total() == 3


def test_conditional_puts_that_cross_are_tried_again_and_a_lost_one_is_told_apart(
    objects: tuple[S3Objects, Trouble],
) -> None:
    store, trouble = objects
    trouble.answers[:] = [s3_error(409, "ConditionalRequestConflict")]
    store.put("k", b"x", if_absent=True)
    assert trouble.requests["PutObject"] == 2
    with pytest.raises(ObjectConditionError):
        store.put("k", b"x", if_absent=True)
    other = S3Objects("faulty", "a", S3Settings(REGION))
    trouble.answers[:] = [Lost(lambda: other.put("new", b"x", if_absent=True))]
    with pytest.raises(UnavailableError, match="lost"):
        store.put("new", b"x", if_absent=True)
    assert store.get("new") == b"x"


def listing(names: str, more: str) -> Callable[[Any], AWSResponse]:
    """A page of a listing with these objects, and what it says of the next one."""
    one = "<Contents><Key>a/{}</Key><LastModified>2024-01-01T00:00:00Z</LastModified><ETag>x</ETag><Size>1</Size></Contents>"
    body = f"<ListBucketResult>{''.join(map(one.format, names))}{more}</ListBucketResult>"
    return lambda request: answer_of(request, 200, Body(body.encode()))


MORE = "<IsTruncated>true</IsTruncated>"
TOKEN = "<NextContinuationToken>t</NextContinuationToken>"
END = "<IsTruncated>false</IsTruncated>"


def test_a_listing_goes_on_behind_a_page_without_objects(objects: tuple[S3Objects, Trouble]) -> None:
    store, trouble = objects
    trouble.answers[:] = [listing("kl", MORE), listing("", MORE + TOKEN), listing("m", END)]
    assert [one.key for one in store.list()] == ["k", "l", "m"]
    assert trouble.requests["ListObjectsV2"] == 3


def test_the_first_names_may_stand_behind_a_page_without_names(objects: tuple[S3Objects, Trouble]) -> None:
    store, trouble = objects
    for folders in (False, True):
        trouble.answers[:] = [listing("", MORE + TOKEN), listing("kl", MORE + TOKEN)]
        assert store.page("", folders=folders) == Page(["k", "l"], True)
        trouble.answers[:] = [listing("", MORE + TOKEN), listing("", END)]
        assert store.page("", folders=folders) == Page([], False)
        for pages in ([listing("", MORE)], [listing("", MORE + TOKEN), listing("", MORE + TOKEN)]):
            trouble.answers[:] = pages
            with pytest.raises(UnavailableError, match="the listing is incomplete"):
                store.page("", folders=folders)


@pytest.mark.parametrize(
    "pages",
    [
        [listing("kl", MORE), listing("", MORE)],
        [listing("", MORE)],
        [listing("kl", MORE), listing("", MORE + TOKEN), listing("", MORE + TOKEN)],
        [listing("kl", MORE), listing("kl", MORE)],
    ],
)
def test_a_listing_that_says_that_there_is_more_and_not_where_is_not_complete(
    objects: tuple[S3Objects, Trouble], pages: list[Callable[[Any], AWSResponse]]
) -> None:
    store, trouble = objects
    trouble.answers[:] = pages
    with pytest.raises(UnavailableError, match="the listing is incomplete"):
        list(store.list())


def test_a_store_that_stays_slow_is_busy(objects: tuple[S3Objects, Trouble]) -> None:
    store, trouble = objects
    trouble.answers[:] = [s3_error(503, "SlowDown")] * 4
    with pytest.raises(BusyError, match="nothing was written"):
        store.put("k", b"")


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (404, "NoSuchBucket", "no such bucket"),
        (400, "ExpiredToken", "have expired"),
        (403, "InvalidAccessKeyId", "not valid"),
        (403, "SignatureDoesNotMatch", "not valid"),
        (403, "AccessDenied", "do not allow"),
        (403, "RequestTimeTooSkewed", "clock"),
        (400, "AuthorizationHeaderMalformed", "another region"),
    ],
)
def test_what_is_wrong_with_a_store_is_said(
    objects: tuple[S3Objects, Trouble], status: int, code: str, said: str
) -> None:
    store, trouble = objects
    trouble.answers[:] = [s3_error(status, code)]
    with pytest.raises(UnavailableError, match=said) as caught:
        store.put("k", b"")
    assert "s3://faulty/a/k" in str(caught.value)
    assert trouble.requests.total() == 1, "nobody asks where the bucket is"


def elsewhere(request: Any) -> AWSResponse:
    """What S3 says of a bucket in Ireland; to HEAD without a word, and as it pleases with 301 or 400."""
    head = request.method == "HEAD"
    body = (
        b"" if head else b"<?xml version='1.0'?><Error><Code>PermanentRedirect</Code><Message>there</Message></Error>"
    )
    return answer_of(request, 400 if head else 301, Body(body), {"x-amz-bucket-region": "eu-west-1"})


def test_no_bucket_is_followed_to_another_region(objects: tuple[S3Objects, Trouble]) -> None:
    """Whoever did would presign for that region once it has asked the bucket, and for its own one before: S3 refuses those."""
    store, trouble = objects
    before = store.presign("k", "GET", 60).partition("?")[0]
    verbs: list[Callable[[], object]] = [
        lambda: store.get("k"),
        lambda: store.put("k", b""),
        lambda: list(store.list()),
        lambda: store.head("k"),
    ]
    for verb in verbs:
        trouble.requests.clear()
        trouble.answers[:] = [elsewhere]
        with pytest.raises(
            UnavailableError, match=r"is in another region; name that one \(eu-west-1\), or use a bucket in"
        ):
            verb()
        assert trouble.requests.total() == 1
    assert store.presign("k", "GET", 60).partition("?")[0] == before


def test_what_else_may_deny_an_object_is_said(objects: tuple[S3Objects, Trouble]) -> None:
    store, trouble = objects
    trouble.answers[:] = [s3_error(403, "AccessDenied")]
    with pytest.raises(NotPermittedError) as caught:
        store.get("k")
    for said in (
        "belongs to another account, its policy must allow it, too",
        "requester-pays buckets are not supported",
    ):
        assert said in str(caught.value)


def test_no_request_has_an_acl(
    objects: tuple[S3Objects, Trouble], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket whose owner has its objects, as new buckets are, refuses them."""
    store, trouble = objects
    sent: list[Any] = []

    def note(request: Any) -> None:
        sent.append(request)

    trouble.answers[:] = [note] * 100
    store.put("k", b"1")
    store.put("absent", b"1", if_absent=True)
    store.copy("k", "copied")
    monkeypatch.setattr(s3_objects, "_WHOLE_BYTES", 1)
    (tmp_path / "large").write_bytes(b"12")
    store.put("large", tmp_path / "large")
    upload = store.create_multipart("parts")
    store.complete_multipart("parts", upload, [(1, store.put_part("parts", upload, 1, b"1"))])
    assert {"PutObject", "CopyObject", "CreateMultipartUpload"} <= set(trouble.requests)
    for request in sent:
        named = {name.lower() for name in request.headers}
        assert not {name for name in named if name == "x-amz-acl" or name.startswith("x-amz-grant-")}
    assert "acl" not in store.presign("k", "PUT", 60).lower()


def test_without_credentials_that_is_said(objects: tuple[S3Objects, Trouble]) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        del os.environ[name]
    store = S3Objects("faulty", "", S3Settings(REGION, connect_timeout=1))
    for verb in (lambda: store.get("k"), lambda: store.presign("k", "GET", 60)):
        with pytest.raises(UnavailableError, match="no AWS credentials"):
            verb()
    with pytest.raises(UnavailableError, match="no AWS credentials"):
        DynamoDBTables(DynamoDBSettings("t", REGION, connect_timeout=1)).get(K)


def test_bytes_that_were_changed_on_the_way_are_not_taken(objects: tuple[S3Objects, Trouble]) -> None:
    store, trouble = objects
    headers = {"x-amz-checksum-crc32": "AAAAAA==", "content-length": "3", "etag": '"x"'}

    def changed(request: Any) -> AWSResponse:
        return answer_of(request, 200, HTTPResponse(BytesIO(b"abc"), headers, preload_content=False), headers)

    store.put("k", b"abd")
    trouble.answers[:] = [changed]
    assert store.get("k") == b"abd"
    trouble.answers[:] = [changed] * 4
    with pytest.raises(CorruptError, match="checksum"):
        store.get("k")
    trouble.answers[:] = [changed]
    with pytest.raises(CorruptError, match="checksum"):
        list(store.stream("k"))


def test_a_put_carries_its_checksum(objects: tuple[S3Objects, Trouble]) -> None:
    store, trouble = objects
    seen: list[Any] = []
    trouble.answers[:] = [lambda request: seen.append(request.headers)]
    store.put("k", b"abc")
    assert seen[0]["x-amz-trailer"] == b"x-amz-checksum-crc32"


def test_presigned_urls_sign_the_host_alone_and_end_with_the_credentials(objects: tuple[S3Objects, Trouble]) -> None:
    store, _ = objects
    for url in (store.presign("k", "GET", 900), store.presign("k", "PUT", 900), store.presign_part("k", "u", 1, 900)):
        query = parse_qs(urlsplit(url).query)
        assert query["X-Amz-SignedHeaders"] == ["host"]
        assert query["X-Amz-Expires"] == ["900"]
        assert not [name for name in query if "checksum" in name.lower()]
    client: Any = CLIENTS.get(STORE)
    credentials = client._request_signer._credentials
    with patch.object(credentials, "_expiry_time", datetime.now(UTC) + timedelta(seconds=100), create=True):
        (seconds,) = parse_qs(urlsplit(store.presign("k", "GET", 900)).query)["X-Amz-Expires"]
        assert 90 <= int(seconds) <= 100
    expired = patch.object(credentials, "_expiry_time", datetime.now(UTC), create=True)
    with expired, pytest.raises(UnavailableError, match="expired"):
        store.presign("k", "GET", 900)


def test_a_stream_whose_connection_breaks_goes_on_where_it_was(objects: tuple[S3Objects, Trouble]) -> None:
    store, trouble = objects
    data = bytes(range(256)) * 10_000
    store.put("k", data)
    etag = store.head("k").etag
    headers = {"content-length": str(len(data)), "etag": f'"{etag}"'}

    def cut_off(request: Any) -> AWSResponse:
        half = HTTPResponse(BytesIO(data[:1_500_000]), preload_content=False)
        return answer_of(request, 200, half, headers)

    trouble.requests.clear()
    trouble.answers[:] = [cut_off]
    assert b"".join(store.stream("k")) == data
    assert trouble.requests["GetObject"] == 2


def test_a_large_file_goes_up_in_parts_and_leaves_none_behind(
    objects: tuple[S3Objects, Trouble], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, trouble = objects
    monkeypatch.setattr(s3_objects, "_WHOLE_BYTES", 1 << 20)
    monkeypatch.setattr(s3_objects, "_PART_BYTES", 5 << 20)
    file = tmp_path / "large"
    file.write_bytes(bytes(range(256)) * 45_000)
    trouble.requests.clear()
    assert store.put("k", file, if_absent=True).size == file.stat().st_size
    assert trouble.requests == {
        "CreateMultipartUpload": 1,
        "UploadPart": 3,
        "CompleteMultipartUpload": 1,
        "HeadObject": 1,
    }
    assert store.get("k") == file.read_bytes()
    with pytest.raises(ObjectConditionError):
        store.put("k", file, if_absent=True)
    assert trouble.requests["AbortMultipartUpload"] == 1


def test_a_client_is_made_anew_when_the_environment_says_something_else(shell: Shell) -> None:
    made: list[str] = []

    def make(name: str) -> object:
        made.append(name)
        return object()

    clients = Clients(make)
    shell.unset("AWS_ENDPOINT_URL")
    first = clients.get("a")
    assert clients.get("a") is first
    shell.export("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert clients.get("a") is not first
    assert made == ["a", "a"]
