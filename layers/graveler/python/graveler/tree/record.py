"""Records: one object, in bytes.

A record is a *key* (the object's path, UTF-8) and its *packed* bytes, which hold first the *identity* (what the object is; it
enters IDs) and then the *rest of the value* (what is needed to use it)::

    packed   := identity length (2 bytes, big endian) ‖ identity ‖ rest
    identity := object size (8 bytes, big endian)
              ‖ checksum length (1 byte; + 128 for one that is not plain hex) ‖ checksum
              ‖ [ 01 ‖ first 16 bytes of SHA-256 over the MessagePack array [content type, [key, value, …]] ]
              ‖ [ 02 ‖ address ]
    rest     := MessagePack array [mtime, address, content type, metadata], cut after the last one that is not nil

01 is present only if content type or user metadata differ from the default, 02 only if the object lies outside the repository's
namespace, where others may change it. Neither mtime nor an address inside the namespace is part of the identity: the same bytes
uploaded twice are no change. Addresses of data that graveler named (``data/<20>/<20>`` in base 32) are stored as their 25 raw
bytes; others in the namespace relative to it, such as those of files that a job has written, under names of its own, into a data
folder, ``data/<20>/<20>/…``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from operator import itemgetter
from struct import Struct as Layout
from struct import error as StructError  # noqa: N812
from struct import unpack
from typing import Final, TypeVar

import msgspec

from graveler.errors import UNREADABLE, CorruptError, InvalidError
from graveler.model import DEFAULT_CONTENT_TYPE, ObjectEntry

MAX_KEY_BYTES: Final = 1024
MAX_PACKED_BYTES: Final = 1 << 20
"""Far below what a block of a file may hold, so whatever is written can be read again."""
IDENTITY_OVERHEAD: Final = 32
"""What a record counts for besides its key when ranges are cut: a constant, so that cuts depend on keys alone."""

_MAX_SIZE: Final = (1 << 63) - 1
_HEAD: Final = Layout(">HQB")
_OUTSIDE: Final = Layout(">HQB16sB")
"""The head of a record with an MD5, up to its address outside the namespace."""
_TIMED: Final = Layout(">HI")
_TIMES: Final = frozenset((0x91CE, 0x92CE, 0x93CE, 0x94CE))
"""The bytes before the time in a rest of one to four values: an array of so many, and an integer of 32 bits."""
_ONE_TIME: Final = 0x91CE
"""The bytes before the time in a rest that holds nothing else: an array of one, an integer of 32 bits."""
_ATTRIBUTES: Final = 1
_EXTERNAL: Final = 2
_TEXT_CHECKSUM: Final = 128
_DATA: Final = "/data/"
_NAME_CHARS: Final = 20
_NAME_BYTES: Final = 2 * _NAME_CHARS * 5 // 8
_NAMED: Final = len(_DATA) + 2 * _NAME_CHARS
"""Length of ``data/<20 chars>/<20 chars>``, in characters."""
TABLES: Final = "tables/"
"""The beginning of the keys of files in the folders of tables."""
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuv"
_SIZE: Final = itemgetter(slice(2, 10))
_PAIRS: Final = tuple(high + low for high in _DIGITS for low in _DIGITS)

T = TypeVar("T")
MakeEntry = Callable[[str, str, int, str, int, str, Mapping[str, str]], T]
"""Makes a value from the fields of an :class:`ObjectEntry`, in their order."""

MakeBrief = Callable[[str, int, str, int], T]
"""Makes a value from path, size, checksum and time of an :class:`ObjectEntry`."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list).decode


def encode_key(path: str) -> bytes:
    """Return the key of a path: 1 to 1,024 bytes of UTF-8. :class:`InvalidError` for anything else."""
    try:
        key = path.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(f"path {path!r} cannot be written as UTF-8: {error.reason}") from None
    if not key:
        raise InvalidError("an object's path must not be empty")
    if len(key) > MAX_KEY_BYTES:
        raise InvalidError(f"path {path[:40]!r}… has {len(key)} bytes, but at most {MAX_KEY_BYTES} are allowed")
    return key


def identity(packed: bytes) -> bytes:
    """Return the part of a record that identifies the object."""
    return packed[2 : 2 + (packed[0] << 8 | packed[1])]


def same_identity(packed: bytes, other: bytes) -> bool:
    """Return whether two records of a key stand for the same object."""
    end = 2 + (packed[0] << 8 | packed[1])
    return packed[:end] == other[:end]


def object_size(packed: bytes) -> int:
    """Return the size in bytes of a record's object."""
    return int.from_bytes(packed[2:10], "big")


def total_object_size(packed: Sequence[bytes]) -> int:
    """Return the sum of :func:`object_size` over these records. 0.1 µs each."""
    sizes: tuple[int, ...] = unpack(f">{len(packed)}Q", b"".join(map(_SIZE, packed)))
    return sum(sizes)


def frame(identity: bytes, rest: bytes) -> bytes:
    """Join identity and rest into packed bytes."""
    return len(identity).to_bytes(2, "big") + identity + rest


def record_ids(keys: Sequence[bytes], packed: Sequence[bytes]) -> bytes:
    """Return the concatenated 32-byte record IDs, ``SHA-256(SHA-256(key) ‖ SHA-256(identity))`` each."""
    return b"".join(
        [
            sha256(sha256(key).digest() + sha256(p[2 : 2 + (p[0] << 8 | p[1])]).digest()).digest()
            for key, p in zip(keys, packed, strict=True)
        ]
    )


def record_data_id(packed: bytes) -> bytes | None:
    """Return the 25 raw bytes that identify a record's object (:func:`data_id`); None if graveler did not name it. 0.3 µs.
    :class:`CorruptError` for a malformed record: its object must not pass for an unreferenced one."""
    try:
        rest = _unpack(packed[2 + (packed[0] << 8 | packed[1]) :])
        location = rest[1] if len(rest) > 1 else None
        if isinstance(location, str):
            return data_id(location)
    except (IndexError, TypeError, *UNREADABLE) as error:
        raise CorruptError(f"a record of {len(packed)} bytes cannot be read: {error}") from None
    if location is None or (isinstance(location, bytes) and len(location) == _NAME_BYTES):
        return location
    raise CorruptError(f"a record of {len(packed)} bytes has the invalid address {location!r}")


PlainEncode = Callable[[bytes, int, bytes, int], bytes]
"""Packs an object by its name, size, checksum and time (Unix seconds); see :meth:`RecordCodec.plain`."""


class RecordCodec:
    """Converts the :class:`ObjectEntry` values of one repository to records and back. ``namespace`` is the repository's URL."""

    def __init__(self, namespace: str) -> None:
        self._prefix = namespace.rstrip("/") + "/"
        self.data_address: Final = namespace.rstrip("/") + _DATA
        """The address above data that graveler named."""

    def encode(self, entry: ObjectEntry) -> bytes:
        """Return the packed bytes of ``entry``; equal identities mean the same object. 0.6 µs. :class:`InvalidError` for an entry
        that cannot be written."""
        checksum, address, content_type, metadata = entry.checksum, entry.address, entry.content_type, entry.metadata
        if not 0 <= entry.size <= _MAX_SIZE:
            raise InvalidError(f"size of {entry.path!r} is negative or too large: {entry.size}")
        try:
            try:
                raw, mark = bytes.fromhex(checksum), 0
                if raw.hex() != checksum:  # upper case, white space
                    raw, mark = checksum.encode(), _TEXT_CHECKSUM
            except ValueError:
                raw, mark = checksum.encode(), _TEXT_CHECKSUM
            if len(raw) >= _TEXT_CHECKSUM:
                raise InvalidError(
                    f"checksum of {entry.path!r} is too long: {len(raw)} bytes, but at most 127 are allowed"
                )
            location: bytes | str | None = None
            if not address.startswith(self._prefix):
                tail = b"\x02" + address.encode()
            else:
                tail = b""
                if (
                    not address.startswith(self.data_address)
                    or (location := data_name(address[len(self.data_address) :])) is None
                ):
                    location = address[len(self._prefix) :]
            if content_type == DEFAULT_CONTENT_TYPE and not metadata:
                rest: list[object] = [entry.mtime] if location is None else [entry.mtime, location]
            else:
                flat = [text for pair in sorted(metadata.items()) for text in pair]
                tail = b"\x01" + sha256(_pack([content_type, flat])).digest()[:16] + tail
                rest = [entry.mtime, location, None if content_type == DEFAULT_CONTENT_TYPE else content_type]
                if metadata:
                    rest.append(dict(sorted(metadata.items())))
            length = 9 + len(raw) + len(tail)
            if length > 0xFFFF:
                raise InvalidError(f"the address of {entry.path!r} is too long: {len(address)} characters")
            packed = _HEAD.pack(length, entry.size, len(raw) | mark) + raw + tail + _pack(rest)
        except UnicodeEncodeError as error:
            raise InvalidError(f"a text of {entry.path!r} cannot be written as UTF-8: {error.reason}") from None
        except OverflowError:
            raise InvalidError(f"the time of {entry.path!r} is out of range: {entry.mtime}") from None
        if len(packed) > MAX_PACKED_BYTES:
            raise InvalidError(
                f"address, content type and metadata of {entry.path!r} take {len(packed)} bytes, but "
                f"at most {MAX_PACKED_BYTES} are allowed"
            )
        return packed

    def plain(self, above: str, *, text: bool = False) -> "PlainEncode":
        """Return a function that does the work of :meth:`encode` in a third of its time, for objects at ``above`` plus their
        name, of the default content type and without metadata. Their checksums are raw bytes, or with ``text`` those of a text
        that is not lower-case hex."""
        tail = b"\x02" + above.encode()
        if above.startswith(self._prefix) or self._prefix.startswith(
            above
        ):  # such objects may lie inside the namespace

            def encode(name: bytes, size: int, checksum: bytes, mtime: int) -> bytes:
                digest = checksum.decode() if text else checksum.hex()
                path = name.decode()
                return self.encode(ObjectEntry(path, above + path, size, digest, mtime))

            return encode
        mark = _TEXT_CHECKSUM if text else 0
        head, fixed = _HEAD.pack, 9 + len(tail)

        def encode_outside(name: bytes, size: int, checksum: bytes, mtime: int) -> bytes:
            length = len(checksum)
            return head(fixed + length + len(name), size, length | mark) + checksum + tail + name + _pack((mtime,))

        return encode_outside

    def decode(self, key: bytes, packed: bytes, path: str = "") -> ObjectEntry:
        """Return the entry of a record; ``path`` is the key as text, if the caller has it. :class:`CorruptError` for a malformed
        record."""
        return self.decode_as(ObjectEntry, key, packed, path)

    def decode_many(self, make: MakeEntry[T], records: Iterable[tuple[bytes, bytes]]) -> list[T]:
        """Return the result of :meth:`decode_as` for each of these records. Takes 0.6 µs for one outside the namespace with
        nothing but an MD5 and a time, as most of an import are; for others 0.3 µs more than :meth:`decode_as`."""
        decoded: list[T] = []
        add, outside, timed = decoded.append, _OUTSIDE.unpack_from, _TIMED.unpack_from
        for key, record in records:
            try:
                length, size, mark, checksum, kind = outside(record)
                code, mtime = timed(record, length + 2)
                if mark == 16 and kind == _EXTERNAL and code == _ONE_TIME and len(record) == length + 8:
                    address = record[28 : length + 2].decode()
                    add(make(key.decode(), address, size, checksum.hex(), mtime, DEFAULT_CONTENT_TYPE, {}))
                    continue
            except (StructError, UnicodeDecodeError):
                pass  # shorter than such a record, or damaged, which decode_as reports
            add(self.decode_as(make, key, record))
        return decoded

    def decode_brief(self, make: MakeBrief[T], records: Iterable[tuple[bytes, bytes]]) -> list[T]:
        """Return what ``make`` makes of a part of the fields for each of these records, in a third of :meth:`decode_many`'s time:
        of those with an MD5 and a time after 1970, the rest of the value is not read. :class:`CorruptError` as far as it is
        noticed."""
        decoded: list[T] = []
        add, head, timed = decoded.append, _HEAD.unpack_from, _TIMED.unpack_from

        def make_whole(
            path: str,
            address: str,
            size: int,
            checksum: str,
            mtime: int,
            content_type: str,
            metadata: Mapping[str, str],
        ) -> T:
            del address, content_type, metadata
            return make(path, size, checksum, mtime)

        for key, record in records:
            try:
                length, size, mark = head(record)
                code, mtime = timed(record, length + 2)
                if mark == 16 and code in _TIMES:
                    add(make(key.decode(), size, record[11:27].hex(), mtime))
                    continue
            except (StructError, UnicodeDecodeError):
                pass  # a shorter record, or a damaged one, which decode_as reports
            add(self.decode_as(make_whole, key, record))
        return decoded

    def decode_as(self, make: MakeEntry[T], key: bytes, packed: bytes, path: str = "") -> T:
        """Return what ``make`` makes of the fields of an :class:`ObjectEntry`; see :meth:`decode`."""
        try:
            length, size, mark = _HEAD.unpack_from(packed)
            end = 2 + length
            position = 11 + (mark & 127)
            raw = packed[11:position]
            checksum = raw.decode() if mark & _TEXT_CHECKSUM else raw.hex()
            if position < end and packed[position] == _ATTRIBUTES:
                position += 17
            rest = _unpack(packed[end:])
            count = len(rest)
            mtime = rest[0]
            if position < end and packed[position] == _EXTERNAL:
                address = packed[position + 1 : end].decode()
            elif position != end:
                raise CorruptError(f"the record of {key!r} has an identity whose length is wrong")
            else:
                location = rest[1] if count > 1 else None
                if isinstance(location, bytes) and len(location) == _NAME_BYTES:
                    address = self.data_address + data_path(location)
                elif isinstance(location, str):
                    address = self._prefix + location
                else:
                    raise CorruptError(f"the record of {key!r} has no address")
            if type(mtime) is not int:
                raise CorruptError(f"the record of {key!r} has fields of the wrong type")
            if count < 3:
                return make(path or key.decode(), address, size, checksum, mtime, DEFAULT_CONTENT_TYPE, {})
            content_type = rest[2] if rest[2] is not None else DEFAULT_CONTENT_TYPE
            metadata = rest[3] if count > 3 and rest[3] is not None else {}
            if not (
                isinstance(content_type, str)
                and isinstance(metadata, dict)
                and all(isinstance(text, str) for pair in metadata.items() for text in pair)
            ):
                raise CorruptError(f"the record of {key!r} has fields of the wrong type")
            return make(path or key.decode(), address, size, checksum, mtime, content_type, metadata)
        except (IndexError, TypeError, StructError, *UNREADABLE) as error:
            raise CorruptError(f"the record of {key!r} cannot be read: {error}") from None


def data_name(path: str) -> bytes | None:
    """Return the 25 bytes of ``<20 chars>/<20 chars>`` in base 32, or None if ``path`` does not have this form."""
    if len(path) != 2 * _NAME_CHARS + 1 or path[_NAME_CHARS] != "/":
        return None
    digits = path[:_NAME_CHARS] + path[_NAME_CHARS + 1 :]
    if not (digits.isascii() and digits.isalnum() and digits == digits.lower() and max(digits) <= "v"):
        return None
    return int(digits, 32).to_bytes(_NAME_BYTES, "big")


def data_id(key: str) -> bytes | None:
    """Return the 25 bytes by which the garbage collector identifies an object, from its key below the namespace: its data name,
    or for a file in a *data folder* (``data/<20 chars>/<20 chars>/…``) or in the folder of a table
    (``tables/<20 chars>/<20 chars>/…``) the folder's first part and a digest of the whole key. These digests do not sort as the
    keys do. None for other keys."""
    if key.startswith(TABLES):
        end = len(TABLES) + 2 * _NAME_CHARS + 1
        name = data_name(key[len(TABLES) : end])
        if len(key) == end:  # a folder, and no file in it
            return None
    else:
        end = _NAMED
        name = data_name(key[len(_DATA) - 1 : _NAMED]) if key.startswith(_DATA[1:]) else None
    if name is None or len(key) == end:
        return name
    if key[end] != "/" or key.endswith("/"):
        return None
    high = int.from_bytes(name, "big") >> 5 * _NAME_CHARS
    digest = int.from_bytes(sha256(key.encode()).digest(), "big") >> 256 - 5 * _NAME_CHARS
    return (high << 5 * _NAME_CHARS | digest).to_bytes(_NAME_BYTES, "big")


def data_path(name: bytes) -> str:
    """Return the path of a data name: the inverse of :func:`data_name`."""
    digits = base32(int.from_bytes(name, "big"), 2 * _NAME_CHARS)
    return f"{digits[:_NAME_CHARS]}/{digits[_NAME_CHARS:]}"


def base32(number: int, digits: int) -> str:
    """Return the lowest ``5 * digits`` bits of a number in the alphabet ``0-9a-v``, which sorts as they do. ``digits`` is
    even."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(5 * digits - 10, -1, -10)])
