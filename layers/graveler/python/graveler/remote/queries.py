"""The queries of requests for a page, for a bounded summary and for selected refs."""

from typing import TYPE_CHECKING

from graveler.model import RefSelection
from graveler.remote.connection import PAGE, Query

if TYPE_CHECKING:
    from graveler.lake.reading.summary import SummaryBounds


def page_query(prefix: str, after: str, delimiter: str, amount: int) -> Query:
    """Return the query for a page of a listing: ``amount`` entries, at most :data:`PAGE`."""
    return {"prefix": prefix, "after": after, "delimiter": delimiter, "amount": min(amount, PAGE)}


def bounds_query(bounds: "SummaryBounds | None") -> Query:
    """Return the query for the bounds of a summary; an empty one for None."""
    if bounds is None:
        return {}
    sort = "bytes" if bounds.by_bytes else None
    return {"after": bounds.after, "amount": bounds.amount, "sort": sort, "most": bounds.most}


def selection_query(selection: RefSelection) -> Query:
    """Return the query for a page of selected refs: at most :data:`PAGE`."""
    return {
        "prefix": selection.prefix,
        "after": selection.after,
        "amount": min(selection.amount, PAGE),
        "details": ",".join(selection.details),
        "base": selection.base,
        "sort": "updated" if selection.by_update else "",
    }
