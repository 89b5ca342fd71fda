"""The tables port on DynamoDB, through pynamodb: one table, on demand, any number of functions and machines.

An item's key attributes are :data:`PARTITION` (a string) and :data:`SORT` (binary); the port's attributes lie beside them under
their own names, as DynamoDB's own types. DynamoDB removes items with an attribute :data:`EXPIRES` that is a time (Unix seconds)
some time after it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from zlib import crc32

from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError
from msgspec import Struct
from msgspec.structs import replace

from graveler.errors import BusyError, InvalidError, UnavailableError
from graveler.storage.aws_configuration import region_of
from graveler.storage.aws_requests import FAILURES, Clients, Outcome, error_code, explained, send
from graveler.storage.limits import (
    check_batch,
    check_key,
    check_query,
    damaged_item,
    encode_item,
    encode_transaction,
)
from graveler.storage.tables.port import (
    MAX_SORT_KEY_BYTES,
    Absent,
    Check,
    Condition,
    ConditionFailedError,
    Delete,
    Item,
    Key,
    Put,
    Query,
    QueryPage,
    Value,
    Write,
    replace_then_get,
)
from graveler.system.retries import Retries
from graveler.text.readable import without_password

if TYPE_CHECKING:
    from pynamodb.connection import Connection

PARTITION: Final = "P"
SORT: Final = "S"
EXPIRES: Final = "expires"
"""The table's time-to-live attribute."""
SCHEME: Final = "dynamodb://"

_GET_BATCH: Final = 100
_WRITE_BATCH: Final = 25
_THREADS: Final = 16
_CREATION_SECONDS: Final = 120

T = TypeVar("T")
Attributes = Mapping[str, Mapping[str, Any]]
"""DynamoDB's notation: name → type → value."""


class DynamoDBSettings(Struct, frozen=True):
    """The location of a table. ``region`` and ``endpoint_url``, if None, and the credentials come from AWS's own configuration.
    Times in seconds."""

    table: str
    region: str | None = None
    endpoint_url: str | None = None
    connect_timeout: float = 5
    read_timeout: float = 10
    retries: Retries = Retries()


def settings_of(url: str, *, region: str | None = None, endpoint_url: str | None = None) -> DynamoDBSettings:
    """Return the settings for ``dynamodb://<table>``. :class:`InvalidError` for anything else."""
    table = url.removeprefix(SCHEME).rstrip("/")
    if not url.startswith(SCHEME) or not table or "/" in table:
        raise InvalidError(f"{url!r} does not name a table; write {SCHEME}<table>")
    return DynamoDBSettings(table, region, endpoint_url)


class DynamoDBTables:
    """Tables in one existing DynamoDB table; :meth:`create_table` makes it.

    Cheap to create, picklable, shared by threads and usable after a fork: the client is made on first use. A request that is
    throttled, or in conflict with a transaction, is retried for a few seconds, then :class:`BusyError`. So is one whose response
    was lost; if a condition fails in the retry of a single write, it is :class:`UnavailableError`, since the first try may have
    met it. Transactions carry a token, and repeat exactly.
    """

    def __init__(self, settings: DynamoDBSettings) -> None:
        self._settings = settings

    def __reduce__(self) -> tuple[object, ...]:
        return DynamoDBTables, (self._settings,)

    def __repr__(self) -> str:
        url = self._settings.endpoint_url
        shown = self._settings if url is None else replace(self._settings, endpoint_url=without_password(url))
        return f"DynamoDBTables({shown!r})"

    def connect(self) -> None:
        """Make the client now, to save time at the first request. No request of the table."""
        _CONNECTIONS.get(self._settings)

    def get(self, key: Key) -> Item | None:
        """Return the item, or None. Cost: one request, a read unit for each 4 KB."""
        check_key(key)
        response = self._send("get_item", {**self._at(key), "ConsistentRead": True})
        return None if "Item" not in response else _decode(key, response["Item"])

    def get_many(self, keys: Sequence[Key]) -> list[Item | None]:
        """Return the items, in the order of ``keys``. Cost: one request for each 100, more if they have more than 16 MB."""
        for key in keys:
            check_key(key)
        distinct = list(dict.fromkeys(keys))
        items: dict[Key, Item] = {}
        batches = [distinct[begin : begin + _GET_BATCH] for begin in range(0, len(distinct), _GET_BATCH)]
        for part in _at_once([partial(self._get_batch, batch) for batch in batches]):
            items.update(part)
        return [items.get(key) for key in keys]

    def query(
        self,
        partition: str,
        *,
        start: bytes = b"",
        end: bytes | None = None,
        limit: int = 1000,
        descending: bool = False,
    ) -> QueryPage:
        """Return items of one partition with ``start <= sort key < end``. Cost: one request, a read unit for each 4 KB; a page
        ends at 1 MB."""
        check_query(partition, limit)
        lowest, highest = _at_least(start), _below(end)
        if lowest is None or highest is None or (highest and lowest > highest):
            return QueryPage([], False)
        values: dict[str, Mapping[str, object]] = {":p": {"S": partition}}
        names = {"#P": PARTITION}
        expression = "#P = :p"
        if lowest or highest:
            names["#S"] = SORT
        if lowest:
            values[":a"] = {"B": lowest}
        if highest:
            values[":b"] = {"B": highest}
        if lowest and highest:
            expression += " AND #S BETWEEN :a AND :b"
        elif lowest:
            expression += " AND #S >= :a"
        elif highest:
            expression += " AND #S <= :b"
        response = self._send(
            "query",
            {
                "KeyConditionExpression": expression,
                "ExpressionAttributeNames": names,
                "ExpressionAttributeValues": values,
                "ConsistentRead": True,
                "ScanIndexForward": not descending,
                "Limit": limit + 1,  # one more tells whether more follow
            },
        )
        items = [(_sort(row), _decode(Key(partition, _sort(row)), row)) for row in response["Items"]]
        return QueryPage(items[:limit], len(items) > limit or "LastEvaluatedKey" in response)

    def query_many(self, queries: Sequence[Query]) -> list[QueryPage]:
        """Return the pages of several queries, in their order. Cost: one request each, 16 at once."""
        return _at_once(
            [
                partial(self.query, q.partition, start=q.start, end=q.end, limit=q.limit, descending=q.descending)
                for q in queries
            ]
        )

    def remove_expired(self, now: float) -> int:  # noqa: ARG002 - the port's
        """Return 0: DynamoDB removes expired items by itself (TTL)."""
        return 0

    def remove_partitions(self, prefix: str) -> int:  # noqa: ARG002 - the port's
        """Return 0: DynamoDB finds partitions only by their whole key."""
        return 0

    def put(self, key: Key, item: Item, condition: Condition | None = None) -> None:
        """Replace or create one item, durably. Cost: one request, a write unit for each KB."""
        check_key(key)
        encode_item(key, item)
        self._write_one(Put(key, item, condition))

    def replace(self, key: Key, item: Item) -> Item | None:
        """Replace or create one item, durably; return the previous one, or ``item`` if that is unknown. Cost: one request, a
        write unit for each KB."""
        check_key(key)
        encode_item(key, item)
        request = {"Item": _encode(key, item), "ReturnValues": "ALL_OLD"}
        failures: list[Outcome] = []
        old: Attributes | None = self._send("put_item", request, failures.append).get("Attributes")
        if Outcome.LOST in failures:
            return item  # maybe written twice: then a concurrent writer may have replaced the first one, and this is its item
        return _decode(key, old) if old else None

    def replace_and_get(self, key: Key, item: Item, keys: Sequence[Key]) -> tuple[Item | None, list[Item | None]]:
        """Replace an item as :meth:`replace`, then read as :meth:`get_many`. Cost: two requests, one after the other."""
        return replace_then_get(self, key, item, keys)

    def delete(self, key: Key, condition: Condition | None = None) -> None:
        """Remove one item, durably. Cost: one request, a write unit for each KB."""
        check_key(key)
        self._write_one(Delete(key, condition))

    def write_many(self, writes: Sequence[Put | Delete]) -> None:
        """Make many unconditional writes of distinct keys. Cost: one request for each 25, up to 16 at once."""
        check_batch(writes)
        requests = []
        for write in writes:
            if isinstance(write, Put):
                encode_item(write.key, write.item)  # everything is checked before the first is written
                requests.append({"PutRequest": {"Item": _encode(write.key, write.item)}})
            else:
                requests.append({"DeleteRequest": {"Key": _encode(write.key, {})}})
        batches = [requests[begin : begin + _WRITE_BATCH] for begin in range(0, len(requests), _WRITE_BATCH)]
        _at_once([partial(self._write_batch, batch) for batch in batches])

    def transact(self, writes: Sequence[Write]) -> None:
        """Make all of the writes or none, durably. Cost: one request, two write units for each KB; a single write costs one."""
        encode_transaction(writes)
        if not writes:
            return
        if len(writes) == 1 and not isinstance(writes[0], Check):
            self._write_one(writes[0])
            return
        request = {"TransactItems": [self._member(write) for write in writes], "ClientRequestToken": token_hex(16)}
        try:
            self._call("transact_write_items", request)
        except ClientError as error:
            failures = {
                position: _decode(writes[position].key, reason["Item"]) if reason.get("Item") else None
                for position, reason in enumerate(_reasons(error))
                if reason.get("Code") == "ConditionalCheckFailed"
            }
            if failures:
                raise ConditionFailedError(failures) from None
            raise explained(error, self._what("transact_write_items")) from error

    def create_table(self, *, recovery: bool = True) -> None:
        """Make the table, on demand, with time to live and (``recovery``) point-in-time recovery, and wait until it can be used;
        an existing one stays as it is. :class:`InvalidError` if that is not a table of graveler's."""
        try:
            self._call(
                "create_table",
                {
                    "BillingMode": "PAY_PER_REQUEST",
                    "AttributeDefinitions": [
                        {"AttributeName": PARTITION, "AttributeType": "S"},
                        {"AttributeName": SORT, "AttributeType": "B"},
                    ],
                    "KeySchema": _KEY_SCHEMA,
                },
            )
        except ClientError as error:
            if error_code(error) != "ResourceInUseException":
                raise explained(error, self._what("create_table")) from error
        self._wait_until_active()
        self._configure(
            "update_time_to_live",
            {"TimeToLiveSpecification": {"AttributeName": EXPIRES, "Enabled": True}},
        )
        if recovery:
            self._configure(
                "update_continuous_backups",
                {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}},
            )

    def _wait_until_active(self) -> None:
        end = time.monotonic() + _CREATION_SECONDS
        pause = 0.05
        while True:
            table = self._send("describe_table", {})["Table"]
            if table["TableStatus"] == "ACTIVE":
                break
            if time.monotonic() > end:
                raise UnavailableError(
                    f"table {self._settings.table!r} is still {table['TableStatus']}; wait, then try again"
                )
            time.sleep(pause)
            pause = min(2.0, 2 * pause)
        types = {attribute["AttributeName"]: attribute["AttributeType"] for attribute in table["AttributeDefinitions"]}
        if table["KeySchema"] != _KEY_SCHEMA or (types[PARTITION], types[SORT]) != ("S", "B"):
            raise InvalidError(
                f"DynamoDB table {self._settings.table!r} was not created by graveler; choose another name"
            )

    def _configure(self, operation: str, request: dict[str, Any]) -> None:
        """Switch a property of the table on. Other servers than AWS do not know all of them, and refuse one that is on
        already."""
        try:
            self._call(operation, request)
        except ClientError as error:
            is_tolerable = error_code(error) in ("ValidationException", "UnknownOperationException")
            if not is_tolerable or (self._settings.endpoint_url is None and "already enabled" not in str(error)):
                raise explained(error, self._what(operation)) from error

    def _get_batch(self, keys: Sequence[Key]) -> dict[Key, Item]:
        items: dict[Key, Item] = {}
        members: Sequence[object] = [_encode(key, {}) for key in keys]

        def ask(keys_left: Sequence[object]) -> Sequence[object]:
            table = self._settings.table
            response = self._send(
                "batch_get_item", {"RequestItems": {table: {"Keys": keys_left, "ConsistentRead": True}}}
            )
            for item in response["Responses"].get(table, ()):
                key = Key(item[PARTITION]["S"], _sort(item))
                items[key] = _decode(key, item)
            rest: Sequence[object] = response.get("UnprocessedKeys", {}).get(table, {}).get("Keys", ())
            return rest

        self._until_done(members, ask, "batch_get_item")
        return items

    def _write_batch(self, requests: Sequence[object]) -> None:
        def ask(members: Sequence[object]) -> Sequence[object]:
            response = self._send("batch_write_item", {"RequestItems": {self._settings.table: members}})
            rest: Sequence[object] = response.get("UnprocessedItems", {}).get(self._settings.table, ())
            return rest

        self._until_done(requests, ask, "batch_write_item")

    def _until_done(
        self, members: Sequence[object], ask: Callable[[Sequence[object]], Sequence[object]], operation: str
    ) -> None:
        """Request again what a batch left over; DynamoDB does so when it is throttled, or when the response gets too large."""
        pauses = self._settings.retries.pauses()
        while members:
            rest = ask(members)
            if len(rest) == len(members):
                pause = next(pauses, None)
                if pause is None:
                    raise BusyError(
                        f"{self._what(operation)}: the table stayed busy; some of it may be done; try again"
                    )
                time.sleep(pause)
            elif rest:
                pauses = self._settings.retries.pauses()
            members = rest

    def _write_one(self, write: Put | Delete) -> None:
        ((kind, request),) = self._member(write).items()
        operation = "put_item" if kind == "Put" else "delete_item"
        try:
            self._call(operation, request)
        except ClientError as error:
            if error_code(error) == "ConditionalCheckFailedException":
                old: Attributes | None = cast(Any, error.response).get("Item")
                raise ConditionFailedError({0: _decode(write.key, old) if old else None}) from None
            raise explained(error, self._what(operation)) from error

    def _member(self, write: Write) -> dict[str, dict[str, Any]]:
        """Return a write as a member of a transaction; its contents are also a request of their own."""
        request: dict[str, Any] = {"TableName": self._settings.table}
        if isinstance(write, Put):
            request["Item"] = _encode(write.key, write.item)
        else:
            request["Key"] = _encode(write.key, {})
        if write.condition is not None:
            request.update(_condition(write.condition))
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        kind = "Put" if isinstance(write, Put) else "Delete" if isinstance(write, Delete) else "ConditionCheck"
        return {kind: request}

    def _at(self, key: Key) -> dict[str, Any]:
        return {"Key": _encode(key, {})}

    def _send(
        self, operation: str, request: dict[str, Any], failed: Callable[[Outcome], None] | None = None
    ) -> dict[str, Any]:
        try:
            return self._call(operation, request, failed)
        except ClientError as error:
            raise explained(error, self._what(operation)) from error

    def _call(
        self, operation: str, request: dict[str, Any], failed: Callable[[Outcome], None] | None = None
    ) -> dict[str, Any]:
        """Return the service's response. A ``ClientError`` that retrying does not fix is left to the caller."""
        whole = request if operation in _WITHOUT_TABLE else {"TableName": self._settings.table, **request}
        name = "".join(word.title() for word in operation.split("_"))
        subject = self._what(operation)
        try:
            connection = _CONNECTIONS.get(self._settings)
            return send(lambda: _dispatch(connection, name, whole), subject, self._settings.retries, failed)
        except ClientError:
            raise
        except FAILURES as error:
            raise explained(error, subject) from error

    def _what(self, operation: str) -> str:
        where = self._settings.endpoint_url or self._settings.region
        return f"DynamoDB table {self._settings.table!r}{f' ({where})' if where else ''}, {operation}"


_WITHOUT_TABLE: Final = frozenset(("batch_get_item", "batch_write_item", "transact_write_items"))
"""Operations whose request names its tables inside."""
_KEY_SCHEMA: Final = [
    {"AttributeName": PARTITION, "KeyType": "HASH"},
    {"AttributeName": SORT, "KeyType": "RANGE"},
]


def _connect(settings: DynamoDBSettings) -> "Connection":
    from pynamodb.connection import Connection  # 250 ms, with botocore's client

    connection = Connection(
        region=region_of(settings.region),
        host=settings.endpoint_url,
        connect_timeout_seconds=settings.connect_timeout,
        read_timeout_seconds=settings.read_timeout,
        max_pool_connections=2 * _THREADS,
        retry_configuration={"total_max_attempts": 1, "mode": "standard"},  # aws_requests.send retries
    )
    try:
        client = connection.client  # made here, once, and not by several threads at the same time
    except ValueError as error:
        raise InvalidError(f"DynamoDB endpoint {settings.endpoint_url!r} cannot be used: {error}") from None
    client.meta.events.register("response-received.dynamodb", _check_answer)
    return connection


def _check_answer(response_dict: Mapping[str, Any] | None, **_: object) -> None:
    """Raise ``ResponseParserError``, which counts as a lost response, unless all of it has arrived.

    The SDK checks neither the checksum nor the length unless it retries itself: it takes half a response for an empty one, for
    example for a missing item.
    """
    if response_dict is None:
        return
    headers, body = response_dict["headers"], response_dict["body"]
    checksum, length = headers.get("x-amz-crc32"), headers.get("content-length")
    if checksum is not None and crc32(body) != int(checksum):
        raise ResponseParserError(f"the response of {len(body)} bytes does not match its checksum")
    if length is not None and len(body) != int(length):
        raise ResponseParserError(f"only {len(body)} of the {length} bytes of the response arrived")


_CONNECTIONS: Final[Clients[DynamoDBSettings, "Connection"]] = Clients(_connect, lambda connection: connection._client)


def _dispatch(connection: "Connection", name: str, request: dict[str, Any]) -> dict[str, Any]:
    from pynamodb.exceptions import VerboseClientError

    try:
        if name in _CONTROL:
            response: dict[str, Any] = connection.client._make_api_call(name, request)
        else:
            response = connection.dispatch(name, request)
    except VerboseClientError as error:
        # pynamodb's error omits the status and the item that stood there; its cause has both.
        if isinstance(error.__cause__, ClientError):
            raise error.__cause__ from None
        raise
    return response


_CONTROL: Final = frozenset(("CreateTable", "DescribeTable", "UpdateTimeToLive", "UpdateContinuousBackups"))
"""They do not return consumed capacity, which pynamodb requests everywhere else."""


def _at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return the results of the calls, in their order; several run concurrently."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(_THREADS, len(calls)), "graveler-dynamodb") as threads:
        return [future.result() for future in [threads.submit(call) for call in calls]]


def _encode(key: Key, item: Item) -> dict[str, dict[str, object]]:
    encoded: dict[str, dict[str, object]] = {PARTITION: {"S": key.partition}, SORT: {"B": key.sort}}
    for name, value in item.items():
        if name in encoded or not name:
            raise InvalidError(
                f"an attribute cannot be called {name!r}; {PARTITION} and {SORT} are reserved for the key"
            )
        encoded[name] = _encode_value(value)
    return encoded


def _encode_value(value: Value) -> dict[str, object]:
    if isinstance(value, bool):  # before int, which it is too
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bytes):
        return {"B": value}
    return {"L": [{"S": text} for text in value]}


def _decode(key: Key, attributes: Attributes) -> Item:
    try:
        return {name: _decode_value(value) for name, value in attributes.items() if name not in (PARTITION, SORT)}
    except (KeyError, ValueError, TypeError):
        raise damaged_item(key, "it contains something that graveler did not write") from None


def _decode_value(typed: Mapping[str, Any]) -> Value:
    ((kind, value),) = typed.items()
    return _DECODERS[kind](value)


_DECODERS: Final[Mapping[str, Callable[[Any], Value]]] = {
    "S": str,
    "B": bytes,
    "N": int,
    "BOOL": bool,
    "L": lambda members: [member["S"] for member in members],
}


def _reasons(error: ClientError) -> Sequence[Mapping[str, Any]]:
    """Return why a transaction was cancelled, write by write."""
    return cast("Sequence[Mapping[str, Any]]", error.response.get("CancellationReasons", ()))


def _sort(attributes: Attributes) -> bytes:
    return bytes(attributes[SORT]["B"])


def _condition(condition: Condition) -> dict[str, Any]:
    """Return a condition as an expression; names and values stand apart, so that none can be mistaken for syntax."""
    names = {"#P": PARTITION}
    if isinstance(condition, Absent):
        return {"ConditionExpression": "attribute_not_exists(#P)", "ExpressionAttributeNames": names}
    terms = ["attribute_exists(#P)"]
    values = {}
    for position, (name, value) in enumerate(condition.attributes.items()):
        names[f"#{position}"] = name
        if value is None:
            terms.append(f"attribute_not_exists(#{position})")
        else:
            terms.append(f"#{position} = :{position}")
            values[f":{position}"] = _encode_value(value)
    expression: dict[str, Any] = {"ConditionExpression": " AND ".join(terms), "ExpressionAttributeNames": names}
    if values:
        expression["ExpressionAttributeValues"] = values
    return expression


def _at_least(start: bytes) -> bytes | None:
    """Return the smallest sort key that is not below ``start``; None if none exists. Keys are shorter than what may follow one: a
    scan goes on behind its last key at that key and a zero byte."""
    if len(start) <= MAX_SORT_KEY_BYTES:
        return start
    prefix = start[:MAX_SORT_KEY_BYTES].rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


def _below(end: bytes | None) -> bytes | None:
    """Return the largest sort key below ``end``, empty if every one is (``end`` is None); None if none exists. DynamoDB has no
    condition for a range without its end."""
    if end is None:
        return b""
    if len(end) > MAX_SORT_KEY_BYTES:
        return end[:MAX_SORT_KEY_BYTES]
    if end in (b"", b"\0"):
        return None
    if end[-1] == 0:
        return end[:-1]
    return (end[:-1] + bytes([end[-1] - 1])).ljust(MAX_SORT_KEY_BYTES, b"\xff")
