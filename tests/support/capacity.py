"""DynamoDB's capacity units of a request, by AWS's rules, from what goes over the wire.

DynamoDB Local tells units too, but fewer: it adds up the sizes of a transaction's items where AWS rounds each of them, and counts
nothing for what it does not find. Where there is no such difference the two agree (tests/aws/test_capacity.py).
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from math import ceil
from typing import Any, Final

from msgspec import Struct

_READ_BYTES: Final = 4096
_WRITE_BYTES: Final = 1024

Attributes = Mapping[str, Mapping[str, Any]]


class Units(Struct, frozen=True):
    """Read and write units. Reads are strongly consistent, as all of graveler's are."""

    read: float = 0
    write: float = 0


def units_of(operation: str, request: bytes, answer: bytes) -> Units:
    """Of one request that DynamoDB has answered. A delete counts as of an item of up to 1 KB, since nothing tells its size."""
    asked, told = json.loads(request), json.loads(answer)
    match operation:
        case "GetItem":
            return Units(read=_read(told.get("Item", {})))
        case "BatchGetItem":
            wanted = sum(len(each["Keys"]) for each in asked["RequestItems"].values())
            found = [item for items in told["Responses"].values() for item in items]
            return Units(read=sum(map(_read, found)) + wanted - len(found))
        case "Query":
            return Units(read=max(1, ceil(sum(map(item_size, told["Items"])) / _READ_BYTES)))
        case "PutItem":
            return Units(write=_write(asked["Item"]))
        case "DeleteItem":
            return Units(write=1)
        case "BatchWriteItem":
            writes = [write for each in asked["RequestItems"].values() for write in each]
            return Units(write=sum(_write(write.get("PutRequest", {}).get("Item", {})) for write in writes))
        case "TransactWriteItems":
            return Units(
                write=2 * sum(_write(member.get("Put", {}).get("Item", {})) for member in asked["TransactItems"])
            )
        case _:
            raise ValueError(f"{operation} is not one of the port's operations")


def item_size(item: Attributes) -> int:
    """Bytes of an item, as DynamoDB counts them (a number is counted a byte too large at most)."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: Mapping[str, Any]) -> int:
    ((kind, held),) = value.items()
    match kind:
        case "S":
            return len(held.encode())
        case "B":
            return len(b64decode(held))
        case "N":
            return len(held.lstrip("-")) // 2 + 2
        case "L":
            return 3 + sum(1 + _value_size(member) for member in held)
        case _:
            return 1


def _read(item: Attributes) -> int:
    return max(1, ceil(item_size(item) / _READ_BYTES))


def _write(item: Attributes) -> int:
    return max(1, ceil(item_size(item) / _WRITE_BYTES))
