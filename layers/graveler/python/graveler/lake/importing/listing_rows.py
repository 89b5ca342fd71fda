"""Converting the rows of a listing to records: which rows count, what each column has to hold, and the packed bytes, in
batches."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import compress
from operator import itemgetter, methodcaller
from struct import Struct as Layout
from struct import error as StructError  # noqa: N812
from typing import Any, Final

import msgspec

from graveler.errors import InvalidError
from graveler.lake.importing.external_sort import Block
from graveler.lake.importing.gate import Gate, GateOfMany
from graveler.lake.importing.listing_files import ListingError, ListingFile
from graveler.lake.importing.listing_tables import (
    ADDRESS,
    BUCKET,
    CHECKSUM,
    CONTENT_TYPE,
    IS_DELETE_MARKER,
    IS_LATEST,
    KEY,
    METADATA,
    MTIME,
    SIZE,
    Batch,
    Table,
)
from graveler.lake.importing.uploaded_here import refuse_own
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry
from graveler.tree.record import MAX_KEY_BYTES, RecordCodec

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_LATEST: Final = 10**11
"""Unix seconds of the year 5138: a larger number is not in seconds."""
_LARGEST: Final = 2**63 - 1
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{0,20})?")
_SLASH: Final = ord("/")
_HEX: Final = {f"{n:02x}".encode(): bytes([n]) for n in range(256)} | {
    digits: bytes([n])
    for n in range(256)
    for digits in (f"{n:02X}".encode(), f"{n:02x}".capitalize().encode(), f"{n:02x}".swapcase().encode())
}
_BOOLEANS: Final[Mapping[object, bool]] = {True: True, False: False, "true": True, "false": False}

_MD5_DIGITS: Final = 32
_TEXT_CHECKSUM: Final = 128
_LONGER_TIME: Final = 0xFFFF
"""The largest number that MessagePack writes in less than 32 bits."""
_LENGTH_AND_SIZE: Final = Layout(">HQ")
_SHORT_TIME: Final = Layout(">HI")
_PLAIN_REST: Final = 0x91CE
"""MessagePack: an array of one, which is a number of 32 bits."""

_pack = msgspec.msgpack.Encoder().encode
_metadata = msgspec.json.Decoder(dict[str, str]).decode


class RowRules(msgspec.Struct, frozen=True):
    """The rules that turn rows into records; see :class:`graveler.lake.importing.object_listing.ListingOptions`."""

    source: str
    destination: str
    base: str
    url_encoded: bool | None
    folders: bool


class RowReader:
    """A reader of the rows of one file's table. ``codec`` is the repository's, and ``prefix`` the prefix of addresses in its
    namespace. ``default_mtime`` (Unix seconds) is used if the table has no times. A row with an address that the ``gate`` refuses
    is an error.

    :class:`ListingError` if columns are missing.
    """

    def __init__(
        self,
        file: ListingFile,
        table: Table,
        rules: RowRules,
        codec: RecordCodec,
        prefix: str,
        default_mtime: int,
        gate: Gate | None = None,
    ) -> None:
        self._path = file.path
        self._names = names = table.names
        self._codec = codec
        self._prefix = prefix.encode()
        self._mtime = default_mtime
        self._gate = None if gate is None else GateOfMany(gate)
        self._base = rules.base.encode()
        self._folders = rules.folders
        self._source = rules.source.encode()
        self._destination = rules.destination.encode()
        if rules.base or ADDRESS not in names:
            self._require(KEY, "Key")
        self._require(SIZE, "Size")
        self._require(CHECKSUM, "ETag")
        if not (rules.base or ADDRESS in names or BUCKET in names):
            raise ListingError(
                file.path,
                "does not say where the objects are, because it has no column Bucket or physical_address; give a base URL",
            )
        self._by_address = KEY not in names or "://" in rules.source
        if self._by_address and not rules.source:
            raise ListingError(file.path, "has addresses but no keys; say which prefix of the addresses to remove")
        self._encoded = (not table.has_header and BUCKET in names) if rules.url_encoded is None else rules.url_encoded
        of_address = [ADDRESS] if not rules.base and ADDRESS in names else [KEY] if rules.base else [KEY, BUCKET]
        self._of_address = of_address
        self._of_name = of_address if self._by_address else [KEY]

    @property
    def name_columns(self) -> Sequence[str]:
        """The columns that :meth:`names` needs."""
        return self._of_name

    @property
    def columns(self) -> Sequence[str]:
        """The columns that :meth:`block` needs."""
        optional = (SIZE, CHECKSUM, MTIME, CONTENT_TYPE, METADATA, IS_LATEST, IS_DELETE_MARKER)
        return [name for name in (*self._of_name, *self._of_address, *optional) if name in self._names]

    def names(self, batch: Batch) -> list[bytes]:
        """Return the texts from which ``source`` is removed: the rows' keys, or addresses."""
        keys = self._keys(batch)
        return self._addresses(batch, keys) if self._by_address else keys

    def block(self, batch: Batch, origin: int) -> tuple[Block, int]:
        """Return the records of the rows that count, and the sum of their objects' sizes. Their origins are ``origin`` and the
        row's number. :class:`ListingError` names row, column and value. Cost: some 2 µs a row with MD5s and no metadata, else
        5."""
        self._select(batch)
        keys = self._keys(batch)
        addresses = self._addresses(batch, keys)
        names = addresses if self._by_address else keys
        sizes = self._column(batch, SIZE, _sizes, _size)
        keep: list[bool] | None = None
        if self._source:
            keep = [name.startswith(self._source) for name in names]
        if not self._folders and _SLASH in map(itemgetter(-1), names):
            full = [size > 0 or name[-1] != _SLASH for name, size in zip(names, sizes, strict=True)]
            keep = full if keep is None else [a and b for a, b in zip(keep, full, strict=True)]
        if keep is not None and not all(keep):
            _only(batch, keep)
            names, addresses = list(compress(names, keep)), list(compress(addresses, keep))
            sizes = list(compress(sizes, keep))
        if self._source or self._destination:
            cut, destination = len(self._source), self._destination
            names = [destination + name[cut:] for name in names]
        if not names:
            return ([], [], []), 0
        if min(map(len, names)) == 0 or max(map(len, names)) > MAX_KEY_BYTES:
            self._refuse_lengths(batch, names)
        if self._gate is not None and (refusals := self._gate.refusals(addresses)):
            row, error = refusals[0]
            more = f" So cannot {len(refusals) - 1:,} of the next rows." if len(refusals) > 1 else ""
            raise ListingError(self._path, f"cannot be imported: {error}.{more}", batch.rows[row])
        checksums = self._column(batch, CHECKSUM, _checksums, _checksum)
        mtimes = self._column(batch, MTIME, _times, _time) if MTIME in batch.columns else [self._mtime] * len(names)
        packed = self._packed(batch, names, addresses, sizes, checksums, mtimes)
        return (names, [origin + row for row in batch.rows], packed), sum(sizes)

    def _packed(
        self,
        batch: Batch,
        keys: list[bytes],
        addresses: list[bytes],
        sizes: list[int],
        checksums: list[str],
        mtimes: list[int],
    ) -> list[bytes]:
        plain = not (CONTENT_TYPE in batch.columns or METADATA in batch.columns)
        if plain and (packed := encode_external_batch(self._prefix, addresses, sizes, checksums, mtimes)) is not None:
            return packed
        count = len(keys)
        types = [DEFAULT_CONTENT_TYPE] * count
        if CONTENT_TYPE in batch.columns:
            types = self._column(batch, CONTENT_TYPE, None, _content_type)
        metadata: list[dict[str, str]] = [{}] * count
        if METADATA in batch.columns:
            metadata = self._column(batch, METADATA, None, _user_metadata)
        encode = self._codec.encode
        encoded: list[bytes] = []
        for number, key, address, *rest in zip(
            batch.rows, keys, addresses, sizes, checksums, mtimes, types, metadata, strict=True
        ):
            try:
                encoded.append(encode(ObjectEntry(key.decode(), address.decode(), *rest)))
                refuse_own(encoded[-1], address.decode())
            except InvalidError as error:
                raise ListingError(self._path, f"cannot be imported: {error}", number) from None
        return encoded

    def _select(self, batch: Batch) -> None:
        """Drop rows that are not the latest version of an object."""
        for column, required in ((IS_LATEST, True), (IS_DELETE_MARKER, False)):
            if column in batch.columns:
                is_so = self._column(batch, column, _booleans, _boolean)
                if (not required) in is_so:
                    _only(batch, [value is required for value in is_so])

    def _keys(self, batch: Batch) -> list[bytes]:
        if KEY not in batch.columns:
            return []
        keys = self._column(batch, KEY, _texts, _text)
        if self._encoded:
            joined = b"".join(keys)
            if b"%" in joined or b"+" in joined:
                return self._each(batch, KEY, keys, _decoded)
        return keys

    def _addresses(self, batch: Batch, keys: list[bytes]) -> list[bytes]:
        if self._base:
            base = self._base
            return [base + key for key in keys]
        if ADDRESS in batch.columns:
            return self._column(batch, ADDRESS, _urls, _url)
        buckets = self._column(batch, BUCKET, _texts, _text)
        if len(different := set(buckets)) == 1:
            base = b"s3://" + different.pop() + b"/"
            return [base + key for key in keys]
        return [b"s3://%b/%b" % pair for pair in zip(buckets, keys, strict=True)]

    def _column(
        self,
        batch: Batch,
        column: str,
        convert_all: Callable[[list[Any]], list[Any]] | None,
        convert: Callable[[Any], Any],
    ) -> list[Any]:
        """Return the converted values of a column: quickly all together if possible, otherwise one by one."""
        values = batch.columns[column]
        if convert_all is not None:
            try:
                return convert_all(values)
            except (ValueError, TypeError, OverflowError):
                pass
        return self._each(batch, column, values, convert)

    def _each(self, batch: Batch, column: str, values: Sequence[Any], convert: Callable[[Any], Any]) -> list[Any]:
        converted: list[Any] = []
        for number, value in zip(batch.rows, values, strict=True):
            try:
                converted.append(convert(value))
            except ValueError as error:
                raise ListingError(
                    self._path, str(error), number, self._names[column], "null" if value is None else value
                ) from None
        return converted

    def _refuse_lengths(self, batch: Batch, names: list[bytes]) -> None:
        column = self._names[self._of_name[0]]
        for number, name in zip(batch.rows, names, strict=True):
            if not name:
                raise ListingError(
                    self._path,
                    "leaves an empty path in the lake; remove a shorter prefix, or add a destination",
                    number,
                    column,
                )
            if len(name) > MAX_KEY_BYTES:
                raise ListingError(
                    self._path,
                    f"becomes a path of {len(name):,} bytes, but at most {MAX_KEY_BYTES:,} are allowed",
                    number,
                    column,
                    name.decode(),
                )

    def _require(self, column: str, called: str) -> None:
        if column not in self._names:
            has = ", ".join(self._names.values()) or "no known one"
            raise ListingError(
                self._path, f"has no column {called}; known columns in it: {has}. Use a listing that has it"
            )


def encode_external_batch(
    prefix: bytes, addresses: Sequence[bytes], sizes: Sequence[int], checksums: Sequence[str], mtimes: Sequence[int]
) -> list[bytes] | None:
    """Encode objects outside of the namespace with no content type and no metadata, as
    :meth:`graveler.tree.record.RecordCodec.encode`, at less than half of the cost (0.4 µs). ``prefix`` is the prefix of addresses
    in the namespace.

    Return None if one is not of this kind: it lies inside, or a value is out of the usual range (times before 1970-01-02 or after
    2106, addresses of 64 KiB, checksums of more than 127 bytes, negative sizes).
    """
    if min(mtimes, default=0) <= _LONGER_TIME or any(map(methodcaller("startswith", prefix), addresses)):
        return None
    head, time = _LENGTH_AND_SIZE.pack, _SHORT_TIME.pack
    try:
        return [
            head(9 + len(mark) + len(address), size) + mark + b"\x02" + address + time(_PLAIN_REST, mtime)
            for address, size, mark, mtime in zip(addresses, sizes, _marked(checksums), mtimes, strict=True)
        ]
    except (ValueError, StructError):
        return None


def _marked(checksums: Sequence[str]) -> list[bytes]:
    """Encode checksums as in records: length, then the bytes of hex or (marked by 128) of other text. ValueError if one is too
    long."""
    joined = "".join(checksums)
    if set(map(len, checksums)) == {_MD5_DIGITS}:
        with suppress(ValueError):
            raw = bytes.fromhex(joined)
            if raw.hex() == joined:
                return [b"\x10" + raw[begin : begin + 16] for begin in range(0, len(raw), 16)]
    marked: list[bytes] = []
    for checksum in checksums:
        raw, mark = checksum.encode(), _TEXT_CHECKSUM
        with suppress(ValueError):
            plain = bytes.fromhex(checksum)
            if plain.hex() == checksum:  # neither upper case nor white space
                raw, mark = plain, 0
        if len(raw) >= _TEXT_CHECKSUM:
            raise ValueError
        marked.append(bytes([len(raw) | mark]) + raw)
    return marked


def _only(batch: Batch, keep: list[bool]) -> None:
    batch.rows = list(compress(batch.rows, keep))
    batch.columns = {name: list(compress(values, keep)) for name, values in batch.columns.items()}


def _texts(values: list[Any]) -> list[bytes]:
    """Return text that is not empty, as UTF-8."""
    encoded: list[bytes] = list(map(str.encode, values)) if values and isinstance(values[0], str) else values
    b"\n".join(encoded).decode()  # raises for invalid UTF-8
    if values and min(map(len, encoded)) == 0:
        raise ValueError
    return encoded


def _text(value: object) -> bytes:
    try:
        encoded = value.encode() if isinstance(value, str) else value
        if not isinstance(encoded, bytes):
            raise ValueError("is not text")
        encoded.decode()
    except UnicodeError:
        raise ValueError("is not UTF-8; write the listing in UTF-8") from None
    if not encoded:
        raise ValueError("is empty; every object needs one")
    return encoded


def _string(value: object) -> str:
    return "" if value in (None, "", b"") else _text(value).decode()


def _decoded(key: bytes) -> bytes:
    """Return a key without its URL encoding, as in forms: ``+`` for a space."""
    start, *escaped = key.replace(b"+", b" ").split(b"%")
    try:
        decoded = start + b"".join([_HEX[text[:2]] + text[2:] for text in escaped])
        decoded.decode()
    except KeyError:
        raise ValueError("has a % without two hex digits after it; are the keys not URL-encoded?") from None
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 after URL decoding; are the keys not URL-encoded?") from None
    return decoded


def _urls(values: list[Any]) -> list[bytes]:
    urls = _texts(values)
    if not all(b"://" in value for value in urls):
        raise ValueError
    return urls


def _url(value: object) -> bytes:
    url = _text(value)
    if b"://" not in url:
        raise ValueError("is not an address such as s3://bucket/key or file:///folder/file")
    return url


def _sizes(values: list[Any]) -> list[int]:
    if set(map(type, values)) != {int}:
        joined = "".join(values)
        if not (joined.isascii() and joined.isdigit()):
            raise ValueError
        values = list(map(int, values))
    if min(values) < 0 or max(values) > _LARGEST:
        raise ValueError
    return values


def _size(value: object) -> int:
    if value is None or value == "":
        raise ValueError("is not a number of bytes; every object needs a size")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise ValueError("is not a number of bytes, such as 1024")
    return value


def _times(values: list[Any]) -> list[int]:
    if set(map(type, values)) == {int} and max(map(abs, values)) < _LATEST:
        return values
    # Inventories have ISO 8601 with a zone; anything else raises.
    return [(moment - _EPOCH) // _SECOND for moment in map(datetime.fromisoformat, values)]


def _time(value: object) -> int:
    seconds: int | None = None
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if isinstance(text, int) and not isinstance(text, bool):
        seconds = text
    elif isinstance(text, str) and _NUMBER.fullmatch(text):
        seconds = int(text.partition(".")[0])
    elif isinstance(text, str):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            seconds = (moment.replace(tzinfo=moment.tzinfo or UTC) - _EPOCH) // _SECOND
    if seconds is None:
        raise ValueError("is not a time; write ISO 8601 (2024-12-31T23:59:59Z) or Unix seconds")
    if abs(seconds) >= _LATEST:
        raise ValueError("is not a time in Unix seconds; is it in milliseconds?")
    return seconds


def _checksums(values: list[Any]) -> list[str]:
    if values and isinstance(values[0], bytes):
        values = list(map(bytes.decode, values))
    joined = "".join(values)
    if '"' in joined or not joined.isascii() or "" in values:
        raise ValueError
    return values


def _checksum(value: object) -> str:
    text = _text(value).decode().strip('"')  # as S3 writes ETags
    if not text:
        raise ValueError("is empty; every object needs one")
    return text


def _booleans(values: list[Any]) -> list[bool]:
    distinct = set(values)
    if not all(value in _BOOLEANS for value in distinct):
        raise ValueError
    return (
        [_BOOLEANS[value] for value in values] if len(distinct) > 1 else [_BOOLEANS[v] for v in distinct] * len(values)
    )


def _boolean(value: object) -> bool:
    text = _string(value).lower() if isinstance(value, str | bytes) else value
    if not isinstance(text, str | bool) or text not in _BOOLEANS:
        raise ValueError("is neither true nor false")
    return _BOOLEANS[text]


def _content_type(value: object) -> str:
    return _string(value) or DEFAULT_CONTENT_TYPE


def _user_metadata(value: object) -> dict[str, str]:
    try:
        if isinstance(value, str | bytes):
            return _metadata(_string(value) or "{}")
        pairs = dict(value) if isinstance(value, list) else value  # an Arrow map is pairs
        return msgspec.convert(pairs or {}, dict[str, str])
    except (msgspec.MsgspecError, TypeError, ValueError):
        raise ValueError('is not user metadata; write a JSON object of texts, such as {"owner": "ann"}') from None
