"""The keys that satisfy a condition on the column ``path``, to keep Spark's filters from opening ranges.

Spark 4.0 does not pass filters to Python data sources, so this module takes the condition, resolved by Spark itself, and extracts
the bounds of the path. Unknown expressions bound nothing; the condition is applied to the rows in any case.
"""

from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from graveler.spark.connect import is_connect
from graveler.spark.error_translation import spark_errors
from graveler.spark.slices import KeyRanges, both, either
from graveler.tree.key_range import KeyRange

_PATH: Final = "path"
_MIRRORED: Final = {
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "EqualTo": "EqualTo",
    "EqualNullSafe": "EqualNullSafe",
}
_ALL: Final = (KeyRange(),)
_OF_THE_QUERY: Final = ("Current", "Now", "LocalTimestamp")
"""Prefixes of the names of expressions whose value is determined when a query runs."""


def keys_where(spark: SparkSession, condition: Column | str, schema: pa.Schema) -> KeyRanges:
    """Return keys that include all paths for which the condition can be true; all keys through Spark Connect, which does not
    expose how it resolved a condition. :class:`graveler.errors.InvalidError` for a condition that Spark refuses."""
    with spark_errors(f"the condition {condition!r}"):
        frame = spark.createDataFrame([], from_arrow_schema(schema)).where(condition)
        if is_connect(spark):
            _ = frame.schema  # the server analyses the condition, and may refuse it
            return _ALL
        plan: Any = frame._jdf.queryExecution().analyzed()
        return _bounds(plan.condition())


def keys_of(pushed: Any) -> KeyRanges:
    """Return the keys of a filter that Spark 4.1 pushes down to a Python data source, such as ``EqualTo(("path",), "a")``."""
    kind = type(pushed).__name__
    if getattr(pushed, "attribute", ()) != (_PATH,):
        return _ALL
    value: Any = getattr(pushed, "value", None)
    if kind == "In":
        return either(*(_compared("EqualTo", text.encode()) for text in value if text is not None))
    if not isinstance(value, str):
        return _ALL
    if kind == "StringStartsWith":
        return either(KeyRange.of_prefix(value.encode()))
    return either(_compared(kind, value.encode())) if kind in _MIRRORED else _ALL


def _bounds(expression: Any) -> KeyRanges:
    kind = expression.getClass().getSimpleName()
    if kind == "And":
        return both(_bounds(expression.left()), _bounds(expression.right()))
    if kind == "Or":
        return either(*_bounds(expression.left()), *_bounds(expression.right()))
    if kind == "Between" and _is_path(expression.input()):
        low, high = _constant(expression.lower()), _constant(expression.upper())
        least = KeyRange() if low is None else _compared("GreaterThanOrEqual", low)
        return either(least if high is None else least & _compared("LessThanOrEqual", high))
    if kind in _MIRRORED:
        operand, right = expression.left(), expression.right()
        if _is_path(operand) and (value := _constant(right)) is not None:
            return either(_compared(kind, value))
        if _is_path(right) and (value := _constant(operand)) is not None:
            return either(_compared(_MIRRORED[kind], value))
    if kind == "StartsWith" and _is_path(expression.left()):
        value = _constant(expression.right())
        return _ALL if value is None else either(KeyRange.of_prefix(value))
    if kind == "Like" and _is_path(expression.left()):
        value = _constant(expression.right())
        return _ALL if value is None else either(_like(value.decode(), str(expression.escapeChar())))
    if kind == "In" and _is_path(expression.value()):
        values = [_constant(expression.list().apply(index)) for index in range(expression.list().size())]
        constants = [value for value in values if value is not None]
        if constants and len(constants) == len(values):
            return either(*(_compared("EqualTo", value) for value in constants))
    return _ALL


def _compared(kind: str, value: bytes) -> KeyRange:
    if kind == "GreaterThan":
        return KeyRange(value + b"\0")
    if kind == "GreaterThanOrEqual":
        return KeyRange(value)
    if kind == "LessThan":
        return KeyRange(b"", value)
    if kind == "LessThanOrEqual":
        return KeyRange(b"", value + b"\0")
    return KeyRange(value, value + b"\0")


def _like(pattern: str, escape: str) -> KeyRange:
    """Return the keys that begin with the part before the first wildcard or escape."""
    wildcard = next(
        (wildcard for wildcard, character in enumerate(pattern) if character in ("%", "_", escape)), len(pattern)
    )
    return KeyRange.of_prefix(pattern[:wildcard].encode())


def _is_path(expression: Any) -> bool:
    return bool(expression.getClass().getSimpleName() == "AttributeReference" and expression.name() == _PATH)


def _constant(expression: Any) -> bytes | None:
    """Return the bytes of a text that does not depend on any column; None for anything else, including values known only to a
    query, such as the date, and expressions without a value: Spark reports these when the rows are read."""
    if not expression.foldable() or expression.dataType().typeName() != "string" or not _is_settled(expression):
        return None
    try:
        value = expression.eval(None)
    except (Py4JJavaError, PySparkException):
        return None
    return None if value is None else str(value.toString()).encode()


def _is_settled(expression: Any) -> bool:
    """Return whether its value will be the same when the query runs: Spark 3.5 substitutes the current date, and the query may
    run tomorrow."""
    if expression.getClass().getSimpleName().startswith(_OF_THE_QUERY):
        return False
    children = expression.children()
    return all(_is_settled(children.apply(index)) for index in range(children.size()))
