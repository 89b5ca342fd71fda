"""Refusals by AWS, and wrong configuration: verbs report the request, its target and a remedy; nothing is lost, and afterwards
they work."""

from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from msgspec import structs

from graveler.errors import InvalidError, RepositoryNotFoundError, UnavailableError
from graveler.lake.lake import Lake
from graveler.model import ObjectEntry
from graveler.storage.objects.s3 import S3Objects, S3Settings
from graveler.storage.tables.dynamodb import DynamoDBSettings, DynamoDBTables
from graveler.storage.tables.port import MAX_ITEM_BYTES, Key
from tests.aws.conftest import Proxies
from tests.aws.scene import AwsScene, servers
from tests.lake.support import commit, put, texts
from tests.support.proxy import FaultyProxy, Reply, dynamodb_reply, s3_reply
from tests.support.servers import REGION


def lake_at(scene: AwsScene) -> Lake:
    return Lake(scene.tables, scene.objects)


@pytest.fixture
def scene(proxies: Proxies, tmp_path: Path) -> AwsScene:
    """A lake behind the proxies, with a commit and something to commit."""
    made = AwsScene(tmp_path)
    tables, objects = proxies
    for proxy in proxies:
        proxy.begin(lambda *_: None)
    repository = lake_at(made).create_repository("repo", "mem://repo")
    commit(repository, {"a": "1"})
    put(repository, {"b": "2"})
    return made.through(structs.replace(servers(), dynamodb_url=tables.url, s3_url=objects.url))


def refused(proxy: FaultyProxy, operation: str, answer: Reply) -> None:
    """From now on, these requests are answered so."""
    proxy.begin(lambda asked, _: answer if asked == operation else None)


SKEWED = Reply(
    400,
    b'{"__type": "com.amazon.coral.service#InvalidSignatureException", "message": "Signature expired: 20260101T000000Z '
    b'is now earlier than 20260101T010000Z (20260101T010500Z - 5 min.)"}',
    {"Content-Type": "application/x-amz-json-1.0"},
)


@pytest.mark.parametrize(
    ("place", "operation", "answer", "said"),
    [
        (0, "TransactWriteItems", dynamodb_reply("ExpiredTokenException"), "have expired; get new ones"),
        (0, "Query", dynamodb_reply("ExpiredTokenException"), "have expired; get new ones"),
        (0, "TransactWriteItems", dynamodb_reply("AccessDeniedException"), "do not allow it"),
        (0, "BatchGetItem", SKEWED, "clock is wrong; set it"),
        (1, "PUT", s3_reply("ExpiredToken", 400), "have expired; get new ones"),
        (1, "PUT", s3_reply("AccessDenied", 403), "do not allow it"),
        (1, "GET", s3_reply("AccessDenied", 403), "do not allow it"),
        (1, "PUT", s3_reply("AuthorizationHeaderMalformed", 400), "is in another region; name that one"),
        (1, "PUT", s3_reply("PermanentRedirect", 301), "is in another region; name that one"),
        (1, "PUT", s3_reply("QuotaExceeded", 403), "QuotaExceeded"),
    ],
)
def test_a_commit_that_is_refused_somewhere_says_so_and_the_next_one_goes_on(
    scene: AwsScene, proxies: Proxies, place: int, operation: str, answer: Reply, said: str
) -> None:
    refused(proxies[place], operation, answer)
    with pytest.raises(UnavailableError, match=said) as caught:
        lake_at(scene).repository("repo").commit("main", "refused")
    assert ("DynamoDB table 'scenes-" if place == 0 else "mem://repo/_graveler/") in str(caught.value)
    assert proxies[place].seen.count(operation) == 1, "what repeating does not mend is not repeated"
    proxies[place].begin(lambda *_: None)
    repository = lake_at(scene).repository("repo")
    assert texts(repository) == {"a": "1", "b": "2"}
    repository.commit("main", "allowed")
    assert texts(repository, "main@") == {"a": "1", "b": "2"}


def test_a_clock_that_is_wrong_is_said_to_be(scene: AwsScene) -> None:
    """By S3: DynamoDB's stand-in does not look."""
    repository = lake_at(scene).repository("repo")
    wrong = datetime.now(UTC).replace(tzinfo=None) + timedelta(hours=1)
    said = r"mem://repo/.*clock is wrong; set it.*RequestTimeTooSkewed"
    with patch("botocore.auth.get_current_datetime", lambda: wrong), pytest.raises(UnavailableError, match=said):
        repository.upload("main", "c", b"3")
    repository.upload("main", "c", b"3")
    assert texts(repository) == {"a": "1", "b": "2", "c": "3"}


def test_credentials_that_are_not_valid(scene: AwsScene, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (("AWS_SECRET_ACCESS_KEY", "not valid"), ("AWS_ACCESS_KEY_ID", "not valid")):
        with monkeypatch.context() as patched:
            patched.setenv(name, "another")
            store = S3Objects(servers().name, "x", S3Settings(REGION, servers().s3_url, connect_timeout=len(name)))
            with pytest.raises(UnavailableError, match=rf"s3://.*/x/k: put.*{said}"):
                store.put("k", b"x")


def test_a_table_or_a_bucket_that_is_not_there(tmp_path: Path) -> None:
    at = servers()
    elsewhere = Lake(DynamoDBTables(DynamoDBSettings("no-such-table", REGION, at.dynamodb_url)), lambda _: _never())
    verbs: list[Callable[[], object]] = [
        lambda: elsewhere.repository("repo"),
        elsewhere.repositories,
    ]
    for verb in verbs:
        with pytest.raises(UnavailableError, match=r"'no-such-table'.*no such table.*create it"):
            verb()
    scene = AwsScene(tmp_path)
    lake = Lake(scene.tables, lambda _: S3Objects("no-such-bucket", "repo", at.s3()))
    with pytest.raises(UnavailableError, match=r"s3://no-such-bucket/.*no such bucket.*create it"):
        lake.create_repository("repo", "s3://no-such-bucket/repo")
    with pytest.raises(RepositoryNotFoundError):
        lake.repository("repo")


def _never() -> S3Objects:
    raise AssertionError("without a table nothing is asked of S3")


def test_an_object_that_nearly_fills_an_item(scene: AwsScene) -> None:
    """400 KB are the most that DynamoDB takes, and are what the table's adapter lets through: the engine itself agrees."""
    repository = lake_at(scene).repository("repo")

    def entry(size: int) -> ObjectEntry:
        return ObjectEntry("large", "mem://o/1", 1, "0" * 32, 0, metadata={"note": "x" * size})

    def fits(size: int) -> bool:
        with suppress(InvalidError):
            repository.link("main", entry(size))
            return True
        return False

    # The largest size that fits; the engine takes it, and so do the tree and the readers.
    size = bisect_left(range(MAX_ITEM_BYTES), True, key=lambda size: not fits(size)) - 1
    assert size > MAX_ITEM_BYTES * 0.9
    repository.link("main", entry(size))
    assert repository.stat("main", "large").metadata == {"note": "x" * size}
    repository.commit("main", "large")
    assert repository.stat("main@", "large").metadata == {"note": "x" * size}
    with pytest.raises(InvalidError, match=r"at most|store less"):
        repository.link("main", entry(size + 1))
    assert repository.stat("main", "large").metadata == {"note": "x" * size}
    table = servers().table()
    key = Key("sizes", b"k")
    table.put(key, {"v": b"x" * (MAX_ITEM_BYTES - len("PsizesSkv"))})
    with pytest.raises(InvalidError, match="at most"):
        table.put(key, {"v": b"x" * (MAX_ITEM_BYTES - len("PsizesSkv") + 1)})
