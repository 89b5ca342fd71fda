"""Merge of the partition specs of two sides: all specs of both, where a field of the source keeps its ID unless the destination
gave that ID to another field.

Readers find the values of a partition in a manifest by the IDs of its fields. So manifests of a spec whose fields have other IDs
in the result are written anew.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final

from msgspec import Struct

from graveler.model import TableReason
from graveler.table_format.partition_specs import (
    FIELD_IDS_BEFORE,
    MAX_PARTITION_ID,
    field_ids,
    highest_partition_id,
    same_spec,
    source_ids,
)
from graveler.table_format.plain_documents import Document

_VOID: Final = "void"

_FIRST_FREE_IDS: Final = 2
"""The first format version whose fields may have any ID: in version 1, those of each spec count from 1,000."""

_Origin = tuple[int, tuple[int, ...]]
"""The ID and the source columns of a field: its name and its transform (``void``) may change from spec to spec."""


class SpecMerge(Struct, frozen=True):
    """The specs of both sides, those of the destination unchanged. ``spec_ids`` are the IDs that specs of the source have in the
    result; ``renumbered`` is true if one of these specs has another ID, or a field of it."""

    specs: tuple[Document, ...]
    spec_ids: Mapping[int, int]
    renumbered: bool
    last_partition_id: int
    conflicts: tuple[TableReason, ...]


def merge_specs(source: Document, destination: Document, format_version: int) -> SpecMerge:
    """Merge the specs of two metadata documents for a table of a format version."""
    numbers, conflicts = _field_numbers(source, destination, format_version)
    specs = list(destination["partition-specs"])
    spec_ids = {}
    renumbered = False
    for spec in source["partition-specs"]:
        fields = [{**field, "field-id": numbers[_origin(field)]} for field in spec["fields"]]
        equal = _equal_spec(specs, {**spec, "fields": fields})
        if equal is None:
            ids = {other["spec-id"] for other in specs}
            spec_id = max(ids) + 1 if spec["spec-id"] in ids else spec["spec-id"]
            equal = {**spec, "spec-id": spec_id, "fields": fields}
            specs.append(equal)
        spec_ids[spec["spec-id"]] = equal["spec-id"]
        renumbered |= equal["spec-id"] != spec["spec-id"] or field_ids(equal) != field_ids(spec)
    last = max(
        source["last-partition-id"], destination["last-partition-id"], *(highest_partition_id(spec) for spec in specs)
    )
    return SpecMerge(tuple(specs), spec_ids, renumbered, last, conflicts)


def _equal_spec(specs: Iterable[Document], spec: Document) -> Document | None:
    """Return a spec that partitions as another does: best one with its field IDs, then one with its spec ID."""
    equal = [other for other in specs if same_spec(other, spec)]
    ids = field_ids(spec)
    return max(equal, key=lambda other: (field_ids(other) == ids, other["spec-id"] == spec["spec-id"]), default=None)


def _fields(metadata: Document) -> Iterator[Document]:
    return (field for spec in metadata["partition-specs"] for field in spec["fields"])


def _origin(field: Document) -> _Origin:
    return field["field-id"], tuple(source_ids(field))


def _transforms(metadata: Document) -> dict[_Origin, set[str]]:
    """Return the transforms that fields have in all specs, but for ``void``, which stands for a former one."""
    transforms: dict[_Origin, set[str]] = {}
    for field in _fields(metadata):
        transforms.setdefault(_origin(field), set()).update({field["transform"].lower()} - {_VOID})
    return transforms


def _field_numbers(
    source: Document, destination: Document, format_version: int
) -> tuple[dict[_Origin, int], tuple[TableReason, ...]]:
    """Return the IDs that the fields of the source have in the result, and conflicts about IDs that cannot change."""
    by_source, by_destination = _transforms(source), _transforms(destination)
    used = {number for number, _ in by_destination}
    numbers = {
        origin: origin[0]
        for origin, transforms in by_source.items()
        if origin in by_destination and (transforms <= by_destination[origin] or by_destination[origin] <= transforms)
    }
    clashing = [origin for origin in by_source if origin not in numbers and origin[0] in used]
    if format_version < _FIRST_FREE_IDS:
        return {origin: origin[0] for origin in by_source}, tuple(_clashes(clashing, by_source, source, destination))
    equal = {_named(field): field["field-id"] for field in _fields(destination) if field["transform"].lower() != _VOID}
    for field in _fields(source):
        number = equal.get(_named(field))
        if number is not None and _origin(field) not in numbers and number not in numbers.values():
            numbers[_origin(field)] = number
    ids = [source["last-partition-id"], destination["last-partition-id"], *used, *(number for number, _ in by_source)]
    last = max(FIELD_IDS_BEFORE, *ids)
    for origin in by_source:
        if origin not in numbers:
            last += origin in clashing
            numbers[origin] = last if origin in clashing else origin[0]
    if last > MAX_PARTITION_ID:
        sentence = (
            f"no ID is free for a partition field of the source: the highest is {MAX_PARTITION_ID}; choose a side"
        )
        return numbers, (TableReason("metadata", sentence),)
    return numbers, ()


def _named(field: Document) -> tuple[tuple[int, ...], str, str]:
    return tuple(source_ids(field)), field["transform"].lower(), field["name"]


def _clashes(
    origins: Iterable[_Origin], by_source: Mapping[_Origin, Set[str]], source: Document, destination: Document
) -> Iterator[TableReason]:
    """Yield conflicts about fields with IDs that the destination gave to others, which the source does not have."""
    for origin in origins:
        name = next(field["name"] for field in _fields(source) if _origin(field) == origin)
        for other in _fields(destination):
            transforms = by_source.get(_origin(other))
            if other["field-id"] != origin[0] or (
                transforms is not None and other["transform"].lower() in {*transforms, _VOID}
            ):
                continue
            yield TableReason(
                "metadata",
                f"the source gave ID {origin[0]} to partition field {name!r}, and the destination to {other['name']!r}; fields "
                "of version 1 of the format cannot have other IDs: upgrade the table to version 2 at one side",
            )
            break
