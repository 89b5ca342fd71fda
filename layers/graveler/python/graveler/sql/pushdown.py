"""Extract key ranges from a query's conditions on ``path``.

The conditions stay in the query, so a key range may hold more than they let through, never less: whatever is not surely
understood limits nothing. DuckDB compares texts by their bytes in UTF-8, as trees do, unless a collation says otherwise.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from sqlglot import exp

from graveler.tree.key_range import KeyRange

KeyRanges: TypeAlias = tuple[KeyRange, ...]
"""Ranges that ascend, do not overlap, and are not empty."""

EVERYTHING: Final[KeyRanges] = (KeyRange(),)
_COLUMN: Final = "path"
_COMPARED: Final[dict[type[exp.Expr], str]] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_UNDERSTOOD: Final = frozenset({"this", "expression", "expressions", "low", "high"})
"""The arguments that a condition may have. sqlglot keeps all that changes its meaning under other names."""
_TURNED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def key_ranges_of(table: exp.Table) -> KeyRanges:
    """Return the key ranges that hold all rows of a table which its query may need."""
    select = table.find_ancestor(exp.Select)
    if select is None or not _is_plain(table, select):
        return EVERYTHING
    needed = EVERYTHING
    for condition in _conditions(table, select):
        needed = intersection(needed, _needed_by(condition, table, select))
    return needed


def _is_plain(table: exp.Table, select: exp.Select) -> bool:
    """Return whether each row of a table contributes to the query by itself."""
    alias = table.args.get("alias")
    if select.args.get("sample") or (alias is not None and alias.args.get("columns")):
        return False
    if any(table.args.get(name) for name in ("sample", "pivots", "ordinality")):
        return False
    node: exp.Expr | None = table.parent
    while node is not select:
        if not isinstance(node, exp.From | exp.Join | exp.Table):
            return False
        if node.args.get("sample") or node.args.get("pivots"):
            return False
        node = node.parent
    return not any(
        join.args.get("method") for join in _joins(select)
    )  # NATURAL is fine, but ASOF and POSITIONAL are not


def _joins(select: exp.Select) -> Iterator[exp.Join]:
    """Yield the joins of a query, without those of its subqueries."""
    yield from select.args.get("joins") or ()
    source = select.args.get("from_") or select.args.get("from")
    if source is not None and isinstance(source.this, exp.Table):
        yield from source.this.args.get("joins") or ()


def _conditions(table: exp.Table, select: exp.Select) -> Iterator[exp.Expr]:
    """Yield conditions that a row of the table has to meet, or else cannot change the result.

    A row with nulls for the table, which an outer join makes, meets none of the conditions that :func:`_needed_by` understands.
    So those of WHERE hold with every kind of join.
    """
    where = select.args.get("where")
    if where is not None:
        yield where.this
    joins = list(_joins(select))
    all_inner = all(not join.side and join.kind in ("", "INNER", "CROSS") for join in joins)
    for join in joins:
        on = join.args.get("on")
        if on is not None and (all_inner or (join.this is table and join.side in ("", "LEFT"))):
            yield on


def _needed_by(condition: exp.Expr, table: exp.Table, select: exp.Select) -> KeyRanges:
    """Return the key ranges of the paths that can meet a condition."""
    if isinstance(condition, exp.Paren):
        return _needed_by(condition.this, table, select)
    if isinstance(condition, exp.And):
        return intersection(_needed_by(condition.this, table, select), _needed_by(condition.expression, table, select))
    if isinstance(condition, exp.Or):
        return union(_needed_by(condition.this, table, select), _needed_by(condition.expression, table, select))
    if {name for name, value in condition.args.items() if value} - _UNDERSTOOD:
        return EVERYTHING  # such as the "negate" of NOT LIKE
    operator = _COMPARED.get(type(condition))
    if operator is not None:
        if _is_path(condition.this, table, select):
            return _compared(operator, _text(condition.expression))
        if _is_path(condition.expression, table, select):
            return _compared(_TURNED[operator], _text(condition.this))
        return EVERYTHING
    if not _is_path(condition.this, table, select):
        return EVERYTHING
    if isinstance(condition, exp.Between):
        low, high = _text(condition.args["low"]), _text(condition.args["high"])
        if low is None or high is None:  # its collation would be that of the other one, too
            return EVERYTHING
        return intersection(_compared(">=", low), _compared("<=", high))
    if isinstance(condition, exp.In) and condition.expressions:
        needed: KeyRanges = ()
        for value in condition.expressions:
            needed = union(needed, _compared("=", _text(value)))
        return needed
    if type(condition) is exp.Like:
        return _like(_text(condition.expression))
    if isinstance(condition, exp.StartsWith):
        return _beginning(_text(condition.expression))
    return EVERYTHING


def _is_path(node: object, table: exp.Table, select: exp.Select) -> bool:
    """Return whether an expression is the table's column of paths."""
    if type(node) is not exp.Column or node.name.lower() != _COLUMN or node.args.get("db"):
        return False
    if node.table:
        return node.table.lower() == table.alias_or_name.lower()
    aliases = {column.alias.lower() for column in select.expressions if isinstance(column, exp.Alias)}
    return not any(_joins(select)) and _COLUMN not in aliases


def _text(node: object) -> str | None:
    """Return the text of a plain literal, or None for any other expression."""
    return node.this if type(node) is exp.Literal and node.is_string else None


def _compared(operator: str, text: str | None) -> KeyRanges:
    if text is None:
        return EVERYTHING
    key = text.encode()
    above = key + b"\0"
    match operator:
        case "=":
            return (KeyRange(key, above),)
        case "<":
            return _unless_empty(KeyRange(b"", key))
        case "<=":
            return (KeyRange(b"", above),)
        case ">":
            return (KeyRange(above),)
        case _:
            return (KeyRange(key),)


def _like(pattern: str | None) -> KeyRanges:
    if pattern is None:
        return EVERYTHING
    beginning = pattern.partition("%")[0].partition("_")[0]
    return _compared("=", pattern) if beginning == pattern else _beginning(beginning)


def _beginning(text: str | None) -> KeyRanges:
    return EVERYTHING if text is None else (KeyRange.of_prefix(text.encode()),)


def _unless_empty(keys: KeyRange) -> KeyRanges:
    return () if keys.empty else (keys,)


def intersection(ranges: KeyRanges, other: KeyRanges) -> KeyRanges:
    """Return the keys that are in both."""
    return tuple(both for keys in ranges for other_keys in other if not (both := keys & other_keys).empty)


def union(ranges: KeyRanges, other: KeyRanges) -> KeyRanges:
    """Return the keys that are in one of both."""
    merged: list[KeyRange] = []
    for keys in sorted((*ranges, *other), key=lambda keys: keys.start):
        if merged and (merged[-1].end is None or keys.start <= merged[-1].end):
            ends: Sequence[bytes | None] = (merged[-1].end, keys.end)
            whole = None if None in ends else max(end for end in ends if end is not None)
            merged[-1] = KeyRange(merged[-1].start, whole)
        else:
            merged.append(keys)
    return tuple(merged)
