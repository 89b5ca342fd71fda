"""Folders ``column=value``, as Spark and Hive name the partitions of a dataset: conversion of values to names and back.

The characters that are written as ``%`` and two digits are those of Spark's ``ExternalCatalogUtils``.
"""

import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Final

from graveler.model import ObjectEntry

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name of a null value, and of an empty text, which Spark reads as null."""

_ODD: Final = re.compile(r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_CODE: Final = re.compile("%([0-9A-Fa-f]{2})")


def folder_of(columns: Sequence[str], values: Sequence[object]) -> str:
    """Return the folder of these values, with a slash at its end; empty without columns."""
    return "".join(
        f"{_escaped(column)}={_escaped(_text(value))}/" for column, value in zip(columns, values, strict=True)
    )


def values_of(folder: str) -> dict[str, str | None]:
    """Return the columns that a folder's path names, and their values as text, outermost first."""
    values: dict[str, str | None] = {}
    for part in folder.split("/"):
        column, separator, value = part.partition("=")
        if separator and column:
            values[_plain(column)] = None if value == NULL else _plain(value)
    return values


def partition_columns(entry: ObjectEntry, dataset: str) -> list[str]:
    """Return the partition columns of a file of the dataset in a folder, outermost first."""
    return list(values_of(entry.path.removeprefix(f"{dataset}/").rpartition("/")[0]))


def _escaped(text: str) -> str:
    return _ODD.sub(lambda match: f"%{ord(match.group()):02X}", text)


def _plain(text: str) -> str:
    """Decode a name. Each two digits are one character, as in Spark: others write several for one beyond ASCII, and Spark reads
    several."""
    return _CODE.sub(lambda match: chr(int(match.group(1), 16)), text)


def _text(value: object) -> str:
    """Return a value as Spark casts it to text."""
    if value is None or value == "":
        return NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, date) else str(value)
