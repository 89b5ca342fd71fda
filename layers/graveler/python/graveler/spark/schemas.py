"""Columns of frames that files cannot have."""

from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from graveler.errors import InvalidError


def check_columns(kind: DataType, *, case_matters: bool, within: str = "") -> None:
    """:class:`InvalidError` for columns, or fields of a column, that Spark writes and cannot read again, or cannot write."""
    if isinstance(kind, ArrayType):
        check_columns(kind.elementType, case_matters=case_matters, within=within)
    elif isinstance(kind, MapType):
        check_columns(kind.keyType, case_matters=case_matters, within=within)
        check_columns(kind.valueType, case_matters=case_matters, within=within)
    elif isinstance(kind, StructType):
        where = f"column {within!r} of the frame" if within else "the frame"
        if not kind.fields:
            raise InvalidError(f"{where} has no columns, and files need some; nothing was written")
        seen: dict[str, str] = {}
        for field in kind.fields:
            folded = field.name if case_matters else field.name.lower()
            if folded in seen:
                names = " and ".join(map(repr, dict.fromkeys((seen[folded], field.name))))
                raise InvalidError(
                    f"{where} has two columns of one name ({names}), which could not be read again; rename one. Whether upper "
                    "and lower case differ, spark.sql.caseSensitive says; nothing was written"
                )
            seen[folded] = field.name
            path = f"{within}.{field.name}" if within else field.name
            check_columns(field.dataType, case_matters=case_matters, within=path)


def nullable(schema: StructType) -> StructType:
    """The same columns, of which each, and each part of one, may have no value. As Spark reads files."""
    return StructType([StructField(field.name, _nullable(field.dataType), True) for field in schema.fields])


def _nullable(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return nullable(kind)
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType), True)
    return kind


def leaves(kind: DataType, within: str = "") -> Iterator[tuple[str, DataType]]:
    """The columns, and the fields, elements, keys and values of columns, that have no parts: name and type."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from leaves(field.dataType, f"{within}.{field.name}" if within else field.name)
    elif isinstance(kind, ArrayType):
        yield from leaves(kind.elementType, within)
    elif isinstance(kind, MapType):
        yield from leaves(kind.keyType, within)
        yield from leaves(kind.valueType, within)
    else:
        yield within, kind
