"""Changed copies of named tuples."""

from typing import Any, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])


def changed(value: T, **fields: object) -> T:
    """Return a named tuple with other values in some fields."""
    copy: T = value._replace(**fields)  # type: ignore[attr-defined]
    return copy
