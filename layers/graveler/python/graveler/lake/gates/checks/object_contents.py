"""The built-in checks that look at the bytes of objects: their formats, and the schemas of Parquet files."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from heapq import nlargest
from itertools import chain
from typing import Final

from msgspec import Struct

from graveler.lake.gates.checks.definitions import FormatsCheck, SchemaCheck, Selection
from graveler.lake.gates.checks.inputs import CheckInput
from graveler.lake.gates.checks.parquet_schema import MAGIC, Columns, columns_of
from graveler.lake.gates.checks.verdicts import PASSED, Offences, Verdict
from graveler.model import ObjectEntry, StatusState
from graveler.values.data_files import is_data, is_marker
from graveler.values.globs import beginning, matches

_HEAD: Final = 16
_TEXT_HEAD: Final = 4096
_LOOKS: Final = 10
"""Files of the base that are tried."""
_DIFFERENCES: Final = 5
"""Differences of columns that a verdict names for a file."""


class _Format(Struct, frozen=True):
    """The bytes with which a format begins, from ``offset`` on, one of several, and how it ends."""

    beginnings: tuple[bytes, ...]
    offset: int = 0
    end: bytes = b""


_ZIP: Final = _Format((b"PK\x03\x04", b"PK\x05\x06"))
_FORMATS: Final = {
    "parquet": _Format((MAGIC,), end=MAGIC),
    "orc": _Format((b"ORC",)),
    "avro": _Format((b"Obj\x01",)),
    "arrow": _Format((b"ARROW1",)),
    "feather": _Format((b"ARROW1", b"FEA1")),
    "gz": _Format((b"\x1f\x8b",)),
    "tgz": _Format((b"\x1f\x8b",)),
    "zst": _Format((b"\x28\xb5\x2f\xfd",)),
    "bz2": _Format((b"BZh",)),
    "xz": _Format((b"\xfd7zXZ\x00",)),
    "lz4": _Format((b"\x04\x22\x4d\x18",)),
    "zip": _ZIP,
    "npz": _ZIP,
    "xlsx": _ZIP,
    "docx": _ZIP,
    "jar": _ZIP,
    "whl": _ZIP,
    "npy": _Format((b"\x93NUMPY",)),
    "h5": _Format((b"\x89HDF\r\n\x1a\n",)),
    "hdf5": _Format((b"\x89HDF\r\n\x1a\n",)),
    "sqlite": _Format((b"SQLite format 3\x00",)),
    "pdf": _Format((b"%PDF-",)),
    "png": _Format((b"\x89PNG\r\n\x1a\n",)),
    "jpg": _Format((b"\xff\xd8\xff",)),
    "jpeg": _Format((b"\xff\xd8\xff",)),
    "gif": _Format((b"GIF87a", b"GIF89a")),
    "tif": _Format((b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")),
    "tiff": _Format((b"II*\x00", b"MM\x00*", b"II+\x00", b"MM\x00+")),
    "webp": _Format((b"WEBP",), offset=8),
    "wav": _Format((b"WAVE",), offset=8),
    "mp4": _Format((b"ftyp",), offset=4),
    "flac": _Format((b"fLaC",)),
    "ogg": _Format((b"OggS",)),
}
_TEXTS: Final = frozenset(("csv", "tsv", "json", "jsonl", "ndjson", "txt", "md", "yaml", "yml", "xml", "html"))
_JSON: Final = frozenset(("json", "jsonl", "ndjson"))
_JSON_BEGINNINGS: Final = b'{["-0123456789tfn'


def check_formats(definition: FormatsCheck, source: CheckInput) -> Verdict:
    """Compare the beginnings of new and changed objects with their suffixes. Cost: the ranges that differ, one object read for
    each of these objects, one more for Parquet."""
    offences = Offences()
    entries = _matching(definition, source)
    offences.extend(filter(None, source.in_threads(partial(_format_offence, source), entries)))
    return offences.verdict("would not have the format of their suffix")


def _matching(definition: FormatsCheck, source: CheckInput) -> Iterator[ObjectEntry]:
    prefixes = sorted(set(map(beginning, definition.patterns)))
    prefixes = [
        prefix for prefix in prefixes if not any(prefix != other and prefix.startswith(other) for other in prefixes)
    ]
    for entry in chain.from_iterable(map(source.new_entries, prefixes)):
        suffix = _suffix(entry.path)
        has_format = (suffix in _FORMATS or suffix in _TEXTS) and not is_marker(entry.path)
        if has_format and any(matches(pattern, entry.path) for pattern in definition.patterns):
            yield entry


def _suffix(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""


def _format_offence(source: CheckInput, entry: ObjectEntry) -> tuple[str, str] | None:
    """Return an object of another format with the reason, or None."""
    suffix = _suffix(entry.path)
    if suffix in _TEXTS:
        reason = _text_offence(source.read(entry, 0, _TEXT_HEAD), suffix in _JSON)
        return (entry.path, reason) if reason else None
    form = _FORMATS[suffix]
    head = source.read(entry, 0, _HEAD)
    if not head[form.offset :].startswith(form.beginnings):
        return entry.path, f"begins with {head.hex(' ')}" if head else "is empty"
    if form.end and source.read(entry, -len(form.end), len(form.end)) != form.end:
        return entry.path, "is cut off"
    return None


def _text_offence(head: bytes, is_json: bool) -> str:
    """Return why bytes do not begin a text, or JSON; "" if they do."""
    text = head.removeprefix(b"\xef\xbb\xbf")
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "" if not is_json else "is UTF-16, and JSON is UTF-8"
    if b"\0" in text:
        return "is not a text"
    if is_json and text.strip() and text.lstrip()[0] not in _JSON_BEGINNINGS:
        return f"begins with {text.lstrip()[:8]!r}"
    return ""


def check_schema(definition: SchemaCheck, source: CheckInput) -> Verdict:
    """Compare the columns of new and changed Parquet files with those of the base's newest file that can be read. Cost: the
    ranges below the prefix, one or two object reads for that file and for each new or changed one."""
    offences = Offences("file")
    files = nlargest(_LOOKS, _parquet_files(definition.prefix, _base_entries(definition, source)), key=_age)
    if not files:  # a new table
        return PASSED
    for reference in files:
        with suppress(ValueError):
            expected = _columns(source, reference)
            break
    else:
        return Verdict(
            StatusState.ERROR,
            f"the footers of the base's newest files below {definition.prefix!r} cannot be read: {files[0].path!r}",
        )

    def offence(entry: ObjectEntry) -> tuple[str, str] | None:
        try:
            columns = _columns(source, entry)
        except ValueError as error:
            return entry.path, str(error)
        reasons = _differences(expected, columns, grown=definition.mode == "grown")
        more = f" and {len(reasons) - _DIFFERENCES} more" if len(reasons) > _DIFFERENCES else ""
        return (entry.path, ", ".join(reasons[:_DIFFERENCES]) + more) if reasons else None

    entries = _parquet_files(definition.prefix, source.new_entries(definition.prefix))
    offences.extend(filter(None, source.in_threads(offence, entries)))
    return offences.verdict(f"would not have the columns of {reference.path!r}")


def _base_entries(definition: SchemaCheck, source: CheckInput) -> Iterator[ObjectEntry]:
    for key, packed in source.watched(source.selected(source.base_tree, Selection(definition.prefix))):
        yield source.repository.codec.decode(key, packed)


def _parquet_files(prefix: str, entries: Iterable[ObjectEntry]) -> Iterator[ObjectEntry]:
    """Yield the entries that are Parquet files of the table below the prefix."""
    folder = len(prefix[: prefix.rfind("/") + 1])
    return (entry for entry in entries if _suffix(entry.path) == "parquet" and is_data(entry.path[folder:], entry.size))


def _age(entry: ObjectEntry) -> tuple[int, str]:
    return entry.mtime, entry.path


def _columns(source: CheckInput, entry: ObjectEntry) -> Columns:
    return columns_of(entry.size, lambda start, length: source.read(entry, start, length))


def _differences(expected: Columns, columns: Columns, *, grown: bool) -> list[str]:
    """Return how columns differ from the expected ones, as texts."""
    reasons = [f"column {name!r} is missing" for name in expected if name not in columns]
    reasons += [
        f"column {name!r} is {columns[name]} instead of {kind}"
        for name, kind in expected.items()
        if columns.get(name, kind) != kind
    ]
    if not grown:
        reasons += [f"column {name!r} is new" for name in columns if name not in expected]
    return reasons
