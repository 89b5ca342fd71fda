"""The keys of tables, views, namespaces and of the files of tables in a tree.

::

    _iceberg/shop.namespace                             the namespace shop: an object with its properties
    _iceberg/shop/orders.table                          the table shop.orders: its metadata file
    _iceberg/shop/open_orders.view                      the view shop.open_orders: its metadata file
    _iceberg/.files/shop/orders-1b9d6bcd/data/….parquet  a file of the table: data, deletes, manifests, statistics

Entries of one namespace lie side by side, so that a page of a listing is one scan. A table's files lie below a folder that is
named by its first name and the first 8 digits of its UUID, so that a rename leaves them where they are, and a table that was
made anew under the name shares none of them. All of it has one beginning, by which every other verb knows what it may not
change (:mod:`graveler.values.reserved_paths`).

A level or a name is any text of 1 to 255 bytes without control characters, except ``.`` and ``..``, which many clients resolve as
steps of a path. An entry's key has 1,024 bytes at most. In keys, ``%`` and ``/`` are percent-encoded, and so is a dot that a name
begins with.
"""

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote

from graveler.errors import InvalidError
from graveler.requests.iceberg import Identifier, Relation
from graveler.tree.record import MAX_KEY_BYTES
from graveler.values.reserved_paths import FILES, RESERVED

NAMESPACE: Final = ".namespace"
_SUFFIXES: Final[dict[Relation, str]] = {"table": ".table", "view": ".view"}
_MAX_LEVEL_BYTES: Final = 255
_UUID_CHARS: Final = 8
_ROOM: Final = 400
"""Bytes of a key that are left for the path of a file in its table's folder."""


def namespace_key(namespace: Sequence[str]) -> bytes:
    """Return the key of a namespace. :class:`InvalidError` for a name that cannot be one."""
    *above, last = _encoded("namespace", namespace)
    key = RESERVED + "".join(f"{level}/" for level in above).encode() + f"{last}{NAMESPACE}".encode()
    return _fitting("namespace", namespace, key)


def relation_key(relation: Identifier, kind: Relation) -> bytes:
    """Return the key of a table or a view. :class:`InvalidError` for a name that cannot be one."""
    (name,) = _encoded(kind, (relation.name,))
    key = entries_prefix(relation.namespace) + f"{name}{_SUFFIXES[kind]}".encode()
    return _fitting(kind, (*relation.namespace, relation.name), key)


def entries_prefix(namespace: Sequence[str]) -> bytes:
    """Return the beginning of the keys of what a namespace holds; of the highest namespaces for none."""
    levels = _encoded("namespace", namespace) if namespace else []
    return RESERVED + "".join(f"{level}/" for level in levels).encode()


def files_prefix(table: Identifier, uuid: str) -> bytes:
    """Return the beginning of the keys of a table's files, for one that is made under this name. :class:`InvalidError` if it
    leaves too little room for their paths."""
    *levels, name = _encoded("table", (*table.namespace, table.name))
    prefix = FILES + "".join(f"{level}/" for level in levels).encode() + f"{name}-{uuid[:_UUID_CHARS]}/".encode()
    if len(prefix) > MAX_KEY_BYTES - _ROOM:
        raise InvalidError(
            f"table {str(table)[:60]!r}… has a name of {len(prefix)} bytes with its namespace, which leaves too little room for "
            "the paths of its files; choose a shorter one"
        )
    return prefix


def relation_of(key: bytes) -> tuple[Identifier, Relation] | None:
    """Return the table or view whose entry has this key; None for any other key."""
    if not key.startswith(RESERVED) or key.startswith(FILES):
        return None
    *levels, last = key[len(RESERVED) :].decode().split("/")
    for kind, suffix in _SUFFIXES.items():
        if levels and last.endswith(suffix):
            return Identifier(tuple(map(unquote, levels)), unquote(last.removesuffix(suffix))), kind
    return None


def parse_table(text: str) -> Identifier:
    """Return the table that a text names: ``shop.orders``, or the path of its entry, ``_iceberg/shop/orders.table``, for names
    with dots. :class:`InvalidError` for any other text."""
    relation = relation_of(text.encode(errors="surrogatepass")) if text.startswith(RESERVED.decode()) else None
    if relation is not None and relation[1] == "table":
        return relation[0]
    *namespace, name = text.split(".")
    if not namespace or not all((*namespace, name)):
        raise InvalidError(f"{text!r} is not the name of a table; write its namespace and its name, as in shop.orders")
    return Identifier(tuple(namespace), name)


def namespace_of(key: bytes) -> tuple[str, ...] | None:
    """Return the namespace whose entry has this key; None for any other key."""
    if not key.startswith(RESERVED) or key.startswith(FILES) or not key.endswith(NAMESPACE.encode()):
        return None
    return tuple(map(unquote, key[len(RESERVED) : -len(NAMESPACE)].decode().split("/")))


def _fitting(kind: str, levels: Sequence[str], key: bytes) -> bytes:
    if len(key) > MAX_KEY_BYTES:
        raise InvalidError(
            f"{kind} {'.'.join(levels)[:60]!r}… has a path of {len(key):,} bytes, but at most {MAX_KEY_BYTES:,} are allowed; "
            "choose a shorter name, or fewer levels"
        )
    return key


def _encoded(kind: str, levels: Sequence[str]) -> list[str]:
    if not levels:
        raise InvalidError(f"a {kind} needs a name")
    return [_encode(kind, level) for level in levels]


def _encode(kind: str, level: str) -> str:
    try:
        size = len(level.encode())
    except UnicodeEncodeError as error:
        raise InvalidError(f"{kind} {level!r} cannot be written as UTF-8: {error.reason}") from None
    if not 1 <= size <= _MAX_LEVEL_BYTES:
        raise InvalidError(f"{kind} {level[:40]!r} has {size} bytes; a name has 1 to {_MAX_LEVEL_BYTES}")
    if any(char < " " or char == "\x7f" for char in level):
        raise InvalidError(f"{kind} {level[:40]!r} has a control character, which a name cannot have")
    if level in (".", ".."):
        raise InvalidError(
            f"{kind} {level!r} is a step of a path to many clients, which a name cannot be; choose another"
        )
    encoded = level.replace("%", "%25").replace("/", "%2F")
    return f"%2E{encoded[1:]}" if encoded.startswith(".") else encoded
