"""Checks on the columns of frames that files cannot hold."""

from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from graveler.errors import InvalidError


def check_columns(kind: DataType, *, case_matters: bool, within: str = "") -> None:
    """Refuse columns, or fields of a column, that Spark writes and cannot read again, or cannot write, with
    :class:`InvalidError`."""
    if isinstance(kind, ArrayType):
        check_columns(kind.elementType, case_matters=case_matters, within=within)
    elif isinstance(kind, MapType):
        check_columns(kind.keyType, case_matters=case_matters, within=within)
        check_columns(kind.valueType, case_matters=case_matters, within=within)
    elif isinstance(kind, StructType):
        where = f"column {within!r} of the frame" if within else "the frame"
        if not kind.fields:
            raise InvalidError(f"{where} has no columns, but files need some; nothing was written")
        names_by_folded: dict[str, str] = {}
        for field in kind.fields:
            folded = field.name if case_matters else field.name.lower()
            if folded in names_by_folded:
                names = " and ".join(map(repr, dict.fromkeys((names_by_folded[folded], field.name))))
                raise InvalidError(
                    f"{where} has two columns of one name ({names}), which could not be read back; rename one. Whether upper "
                    "and lower case differ depends on spark.sql.caseSensitive; nothing was written"
                )
            names_by_folded[folded] = field.name
            path = f"{within}.{field.name}" if within else field.name
            check_columns(field.dataType, case_matters=case_matters, within=path)


def nullable(schema: StructType) -> StructType:
    """Return the same columns, all nullable at every level, as Spark reads files."""
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
    """Yield name and type of each column, or field, element, key or value of one, that has no parts."""
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
