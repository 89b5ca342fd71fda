"""Values of partition fields, their order and their binary form in summaries."""

import math
from collections.abc import Iterable
from struct import pack
from typing import Any, Final

from graveler.table_format.avro_types import AvroType, decimal_bytes
from graveler.table_format.manifest_lists import PartitionSummary

PartitionValue = None | bool | int | float | str | bytes
"""A value as Avro has it: dates are days, times and timestamps microseconds or nanoseconds, decimals unscaled integers."""

NAN: Final = math.nan
"""The only value that stands for NaN in partitions: so that tuples with it are equal."""

_FORMATS: Final = {"int": "<i", "long": "<q", "float": "<f", "double": "<d"}


def bound_of(avro_type: AvroType, value: Any) -> bytes:
    """Return a value in Iceberg's binary form of single values."""
    if number_format := _FORMATS.get(avro_type.kind):
        return pack(number_format, value)
    if avro_type.kind == "string":
        return value.encode() if isinstance(value, str) else bytes(value)
    if avro_type.kind == "boolean":
        return b"\1" if value else b"\0"
    return decimal_bytes(value) if avro_type.kind == "decimal" else bytes(value)


def summarize_partitions(
    types: tuple[AvroType, ...], partitions: Iterable[tuple[PartitionValue, ...]]
) -> tuple[PartitionSummary, ...]:
    """Return a summary for each field of partitions, whose fields have these types. Text is ordered by its UTF-8 bytes."""
    distinct = set(partitions)
    return tuple(
        _summarize(avro_type, {partition[index] for partition in distinct}) for index, avro_type in enumerate(types)
    )


def _summarize(avro_type: AvroType, values: set[PartitionValue]) -> PartitionSummary:
    floating = avro_type.kind in ("float", "double")
    nan = floating and NAN in values
    ordered: list[Any] = [value for value in values if value is not None and value is not NAN]
    encode = str.encode if avro_type.kind == "string" else None
    if not ordered:
        return PartitionSummary(None in values, nan)
    lowest, highest = min(ordered, key=encode), max(ordered, key=encode)
    return PartitionSummary(None in values, nan, bound_of(avro_type, lowest), bound_of(avro_type, highest))
