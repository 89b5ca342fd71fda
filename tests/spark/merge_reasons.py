"""A check of the reasons of a refused merge, by the live rows of the three states and by the work of both sides."""

import re
from collections.abc import Sequence
from functools import cached_property

from graveler.errors import MergeConflictError
from graveler.model import TableReason
from tests.lake.iceberg.row_reader import Document, Rows, read_rows
from tests.spark.table_histories import Kind, Side

_METADATA = {
    "column": {"add_column", "rename_column", "drop_column", "widen", "reorder"},
    "partition (?:spec|field)": {"spec"},
    "sort order": {"sort_order"},
    "property": {"property", "mode", "sort_order"},
    "ref": {"tag"},
}
"""Verbs after which both sides can have changed something of the metadata."""


class MergedStates:
    """The metadata of a table at the base, the source and the destination of a merge."""

    def __init__(self, base: Document, source: Document, destination: Document) -> None:
        self.documents = (base, source, destination)

    @cached_property
    def rows(self) -> tuple[Rows, Rows, Rows]:
        """The live rows of the three states."""
        base, source, destination = map(read_rows, self.documents)
        return base, source, destination

    def positions(self, index: int) -> dict[str, set[int]]:
        """Return the live positions of each data file of a state."""
        return {path: {position for position, _ in live} for path, live in self.rows[index].live.items()}

    def changed(self, index: int) -> set[str]:
        """Return the data files of the base of which a side removed rows, or brought some back."""
        base, side = self.positions(0), self.positions(index)
        return {path for path, positions in base.items() if side.get(path) != positions}

    def added(self, index: int) -> set[str]:
        """Return the data files that a side added."""
        return self.positions(index).keys() - self.positions(0).keys()


def unfounded_reasons(
    conflict: MergeConflictError, states: MergedStates | None, kind: Kind, sides: Sequence[Side]
) -> list[str]:
    """Return the reasons of a refused merge that do not hold; a sentence about it, if there are no reasons. ``sides`` are all of
    the history, the last two of them source and destination; without ``states``, one of these dropped the table."""
    reasons = [reason for table in conflict.tables for reason in table.reasons]
    if not reasons:
        return [f"no reason: {conflict}"]
    return [reason.sentence for reason in reasons if not _holds(reason, states, kind, sides)]


def _holds(reason: TableReason, states: MergedStates | None, kind: Kind, sides: Sequence[Side]) -> bool:
    source, destination = sides[-2:]
    if reason.kind == "name":
        return "rename" in source.verbs | destination.verbs
    if states is None:
        return reason.kind == "table"
    by_source, by_destination = states.changed(1), states.changed(2)
    versions = [document["format-version"] for document in states.documents]
    match reason.kind:
        case "metadata" | "column":
            groups = [verbs for word, verbs in _METADATA.items() if re.search(rf"\b{word}", reason.sentence)]
            return any(source.verbs & verbs and destination.verbs & verbs for verbs in groups)
        case "row-ids":
            next_ids = [int(document.get("next-row-id") or 0) for document in states.documents]
            is_renumbered = any("manifests" in side.verbs for side in sides)  # Spark gives rows new IDs with it
            return is_renumbered or min(next_ids[1:]) > next_ids[0]
        case "file":
            paths = set(reason.files)
            return bool(paths) and paths <= by_source & by_destination
        case "isolation":
            return kind.is_isolated and bool(by_source) and bool(states.added(2).intersection(reason.files))
        case "position-deletes":
            if "format version" in reason.sentence:
                return len(set(versions)) > 1 and bool(by_source)
            return bool(by_source & by_destination)
    return False
