"""The checks of every adapter of a port, and the evaluation of conditions: in one place, so that no adapter is laxer than
another.

The limits of the tables are DynamoDB's, so the cloud accepts everything that a laptop accepts.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from graveler.errors import UNREADABLE, InvalidError
from graveler.storage.tables.port import (
    MAX_ITEM_BYTES,
    MAX_SORT_KEY_BYTES,
    MAX_TRANSACTION_WRITES,
    Absent,
    Condition,
    DamagedItemError,
    Delete,
    Item,
    Key,
    Put,
    Value,
    Write,
)

MAX_OBJECT_KEY_BYTES = 1024
MAX_PARTS = 10_000
MAX_PARTITION_BYTES = 2048
MAX_TRANSACTION_BYTES = 4_000_000

_NO_COMPONENTS = frozenset(("", ".", ".."))
_ATOMS = frozenset((str, bytes, int, bool))
_encode = msgspec.msgpack.Encoder().encode
decode_map = msgspec.msgpack.Decoder(dict[str, Any]).decode
"""Decodes an item's bytes that are known to be intact. Errors are msgspec's."""


def check_object_key(key: str) -> None:
    """Raise InvalidError unless ``key`` can name an object: UTF-8 of 1 to 1,024 bytes, no NUL, no empty, ``.`` or ``..``
    component."""
    check_foreign_key(key)
    if not _NO_COMPONENTS.isdisjoint(key.split("/")):
        raise InvalidError(
            f"object key {key!r} has an empty, '.' or '..' component; give every folder between two slashes a name"
        )


def check_foreign_key(key: str) -> None:
    """Raise InvalidError unless ``key`` can name an object that others have put into a bucket: UTF-8, 1 to 1,024 bytes, no NUL.
    S3 gives no meaning to slashes and dots: ``a//b``, ``/a`` and ``a/../b`` are three objects there like any others."""
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        raise InvalidError(
            f"object key {key!r} is not valid Unicode; choose a key that can be written as UTF-8"
        ) from None
    if not 0 < size <= MAX_OBJECT_KEY_BYTES:
        raise InvalidError(f"object key {key[:80]!r} has {size} bytes; a key must have 1 to {MAX_OBJECT_KEY_BYTES:,}")
    if "\0" in key:
        raise InvalidError(f"object key {key!r} contains NUL; choose a key without it")


def check_byte_range(start: int, length: int | None) -> None:
    """Raise InvalidError for a range of negative length."""
    if length is not None and length < 0:
        raise InvalidError(f"cannot read {length} bytes from offset {start}; ask for 0 or more")


def check_part_number(number: int) -> None:
    """Raise InvalidError unless a part of an upload can have this number."""
    if not 1 <= number <= MAX_PARTS:
        raise InvalidError(f"part number {number} is not between 1 and {MAX_PARTS:,}")


def check_parts(parts: Sequence[tuple[int, str]]) -> None:
    """Raise InvalidError unless an upload can be completed from these parts: at least one, numbers ascending."""
    if not parts:
        raise InvalidError("a multipart upload needs at least one part; upload an empty object directly instead")
    for number, _ in parts:
        check_part_number(number)
    if any(part[0] >= following[0] for part, following in itertools.pairwise(parts)):
        raise InvalidError("each part of an upload must be given once, in ascending order of the part numbers")


def check_key(key: Key) -> None:
    """Raise InvalidError unless an item can have this key."""
    sort, partition = key.sort, key.partition
    if 0 < len(sort) <= MAX_SORT_KEY_BYTES and 0 < len(partition) <= MAX_PARTITION_BYTES and partition.isascii():
        return  # as nearly all
    _check_sort(sort)
    check_partition(partition)


def _check_sort(sort: bytes) -> None:
    if not 0 < len(sort) <= MAX_SORT_KEY_BYTES:
        raise InvalidError(f"sort key {sort[:40]!r} has {len(sort)} bytes; it must have 1 to {MAX_SORT_KEY_BYTES:,}")


def check_partition(partition: str) -> None:
    """Raise InvalidError unless ``partition`` can be a partition key."""
    if not 0 < len(partition) <= MAX_PARTITION_BYTES or (
        not partition.isascii() and _utf8_length(partition) > MAX_PARTITION_BYTES
    ):
        raise InvalidError(f"partition key {partition[:80]!r} must have 1 to {MAX_PARTITION_BYTES:,} bytes")


def check_query(partition: str, limit: int) -> None:
    """Raise InvalidError for an invalid partition or limit of a query."""
    check_partition(partition)
    if limit < 1:
        raise InvalidError(f"a query's limit is {limit}; it must be 1 or more")


def check_transaction(writes: Sequence[Write]) -> None:
    """Raise InvalidError unless these writes can be one transaction: at most 100, of distinct valid keys."""
    if len(writes) > MAX_TRANSACTION_WRITES:
        raise InvalidError(
            f"a transaction of {len(writes)} writes is too large; split it into parts of at most {MAX_TRANSACTION_WRITES}"
        )
    check_distinct(writes)


def check_batch(writes: Sequence[Put | Delete]) -> None:
    """Raise InvalidError unless these writes can be a batch: distinct valid keys, no conditions."""
    for write in writes:
        if write.condition is not None:
            raise InvalidError(f"a batch cannot check a condition (item {write.key}); write it in a transaction")
    check_distinct(writes)


def check_distinct(writes: Sequence[Write]) -> None:
    """Raise InvalidError unless the keys are valid and distinct."""
    keys = [write.key for write in writes]
    for key in keys:
        _check_sort(key.sort)
    for partition in {key.partition for key in keys}:
        check_partition(partition)
    if len(set(keys)) != len(keys):
        raise InvalidError("two writes in one request have the same key; send one write per item")


def encode_item(key: Key, item: Item) -> bytes:
    """Return the item as a MessagePack map; InvalidError if it is too large or holds anything but a :data:`Value`."""
    for name, value in item.items():
        if type(value) not in _ATOMS and not _is_value(value):
            raise InvalidError(
                f"attribute {name!r} of item {key} is of type {type(value).__name__}; "
                "an attribute must be text, bytes, an integer, a boolean or a list of texts"
            )
    try:
        body = _encode(item)
    except (OverflowError, UnicodeEncodeError) as error:
        raise InvalidError(f"item {key} cannot be stored: {error}") from None
    # DynamoDB counts an item's bytes differently, but never three times as many as MessagePack: most items skip the count.
    if 3 * (len(body) + MAX_SORT_KEY_BYTES + MAX_PARTITION_BYTES) > MAX_ITEM_BYTES:
        size = item_bytes(key, item)
        if size > MAX_ITEM_BYTES:
            raise InvalidError(
                f"item {key} has {size:,} bytes, but at most {MAX_ITEM_BYTES:,} are allowed; store less in it"
            )
    return body


def encode_transaction(writes: Sequence[Write]) -> list[bytes]:
    """Return the body of each put among ``writes``, empty for the others; InvalidError if they cannot be one transaction."""
    check_transaction(writes)
    bodies = [encode_item(write.key, write.item) if isinstance(write, Put) else b"" for write in writes]
    if 3 * sum(map(len, bodies)) > MAX_TRANSACTION_BYTES:
        size = sum(item_bytes(write.key, write.item) for write in writes if isinstance(write, Put))
        if size > MAX_TRANSACTION_BYTES:
            raise InvalidError(
                f"a transaction of {size:,} bytes is too large; split it into parts of at most {MAX_TRANSACTION_BYTES:,} bytes"
            )
    return bodies


def decode_item(key: Key, body: bytes) -> Item:
    """Return the item of these bytes: the inverse of :func:`encode_item`; CorruptError if they are malformed."""
    try:
        item = decode_map(body)
    except UNREADABLE as error:
        raise damaged_item(key, str(error)) from None
    for name, value in item.items():
        if not _is_value(value):
            raise damaged_item(key, f"attribute {name!r} is of type {type(value).__name__}")
    return item


def damaged_item(key: Key, reason: str) -> DamagedItemError:
    """Return the error for an item whose bytes are not what was written."""
    return DamagedItemError(key, f"item {key} of the table is damaged ({reason}); restore the table from a copy")


def text_key(partition: str, sort: bytes) -> str:
    """Return a sort key that is a name or an ID as text; CorruptError if it is not UTF-8."""
    try:
        return sort.decode()
    except UnicodeDecodeError as error:
        raise damaged_item(Key(partition, sort), f"its key is not text: {error}") from None


def check_text_keys(partition: str, sorts: Sequence[bytes]) -> None:
    """Check many keys at once as :func:`text_key` does. 0.02 µs each."""
    try:
        b"\n".join(sorts).decode()
    except UnicodeDecodeError:
        for sort in sorts:
            text_key(partition, sort)


def item_bytes(key: Key, item: Item) -> int:
    """Return the size of an item as DynamoDB counts it (names and values, plus one-letter names of the two key attributes)."""
    return (
        2
        + _utf8_length(key.partition)
        + len(key.sort)
        + sum(_utf8_length(n) + _value_bytes(v) for n, v in item.items())
    )


def holds(condition: Condition | None, item: Item | None) -> bool:
    """Return whether ``condition`` is true of the item at a key. Values of different types are never equal (1 is not True)."""
    if condition is None:
        return True
    if isinstance(condition, Absent):
        return item is None
    if item is None:
        return False
    for name, expected in condition.attributes.items():
        value = item.get(name)
        if type(value) is not type(expected) or value != expected:
            return False
    return True


def _is_value(value: object) -> bool:
    return type(value) in _ATOMS or (isinstance(value, list) and all(type(text) is str for text in value))


def _value_bytes(value: Value) -> int:
    if isinstance(value, bool):
        return 1
    if isinstance(value, int):
        return (len(str(abs(value))) + 1) // 2 + 2
    if isinstance(value, str):
        return _utf8_length(value)
    if isinstance(value, bytes):
        return len(value)
    return 3 + sum(1 + _utf8_length(text) for text in value)


def _utf8_length(text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidError(f"{text[:80]!r} is not valid Unicode") from None
