"""Comparison of an import's tree with its destination, by tasks where both have content."""

from pyspark.sql import SparkSession

from graveler.lake.importing.import_effects import Compare
from graveler.model import Totals
from graveler.spark.frames import in_each_task
from graveler.spark.locations import Files
from graveler.spark.read_ahead import read_ahead
from graveler.spark.slices import TASK_ROWS, TwoSlices, pairs
from graveler.tree.key_range import KeyRange
from graveler.tree.summary import total_between
from graveler.tree.tree import Tree


def compare_by_tasks(spark: SparkSession, repository: Files, destination: bytes) -> Compare:
    """Return a function that compares the trees under a prefix: where they differ and both have ranges, tasks of
    :data:`TASK_ROWS` records each do it.

    Cost: one object read for each range that differs and overlaps others, and a Spark job if it is more than one task's work.
    """
    keys = KeyRange.of_prefix(destination)

    def compare(before: Tree, tree: Tree) -> Totals:
        parts = pairs(repository, before, tree, keys, TASK_ROWS)
        both = [part for part in parts if len(part.left) and len(part.right)]
        if len(both) < 2:
            return sum(map(compare_slices, parts), Totals())
        one_sided = (
            part for part in parts if not (len(part.left) and len(part.right))
        )  # counted by their descriptions
        totals = in_each_task(spark, both, compare_slices)
        return sum((*map(compare_slices, one_sided), *totals), Totals())

    return compare


def compare_slices(part: TwoSlices) -> Totals:
    """Compare two slices, in a task."""
    with read_ahead(part.left, part.right) as (base, right):
        return total_between(base, right, part.keys.start, part.keys.end)
