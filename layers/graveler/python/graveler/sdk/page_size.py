"""The page size of the API's listings."""

from typing import Final

from graveler.errors import InvalidError

_LARGEST: Final = 1000


def page_size(max_amount: int | None) -> int:
    """Return how many results to request per page if ``max_amount`` (None: all) are wanted. :class:`InvalidError` for a negative
    one."""
    if max_amount is None:
        return _LARGEST
    if max_amount < 0:
        raise InvalidError(f"max_amount is {max_amount}; give 0 or more, or None for everything")
    return max(1, min(max_amount, _LARGEST))
