"""Streams that write to a branch: each batch is one transaction, and takes effect once.

Spark records a batch in the stream's checkpoint after ``foreachBatch`` has returned. If the driver dies in between, the stream
starts with the same batch again. So a batch is written under the stream's own ID, which lasts as long as its checkpoint, and the
batch's number: see :mod:`graveler.lake.committing.applications`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame

from graveler.errors import InvalidError
from graveler.location.environment import ServedLake
from graveler.spark.connect import expect_jvm
from graveler.spark.handles import LakeLike, Reachable
from graveler.spark.transactions import Transaction, transaction

_QUERY: Final = "sql.streaming.queryId"
"""Spark's name for the ID of the stream whose batch a thread works on."""
_WRITTEN: Final = "graveler.written/"
"""The prefix of thread properties that record the batch written last, by repository, branch and application."""

WriteBatch = Callable[[Transaction, DataFrame], object]


def each_batch(
    repository: Reachable,
    branch: str,
    write: WriteBatch,
    *,
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    committer: str | None = None,
    app_id: str | None = None,
    lake: LakeLike | ServedLake = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for ``foreachBatch``: ``write(tx, frame)`` writes a batch in a transaction on ``branch``. ::

        stream = events.writeStream.option("checkpointLocation", checkpoint).foreachBatch(
            graveler.spark.each_batch("sales", "main", lambda tx, frame: tx.write(frame, "tables/events"))
        )

    Each batch takes effect on the branch once, however often and after whatever time the stream starts it again. ``app_id``
    defaults to the stream's own ID; give one if the checkpoint may be lost and the batches' numbers are kept elsewhere. A stream
    with a new checkpoint counts from zero, so it is another application. Without an ``app_id``, a stream whose checkpoint is
    older than what it has written is refused (:class:`InvalidError`), since its batches may have other rows by now; with one, the
    numbers are trusted. A batch that is written to a branch twice, by two of these in one function or in two parts, is refused
    unless each has an ``app_id``: the second would count as a repetition of the first. If ``write`` writes nothing, nothing is
    committed. The other arguments, costs and errors are those of :func:`graveler.spark.transaction`; an error ends the stream,
    which continues with this batch when it is restarted.
    """

    def each(frame: DataFrame, number: int) -> None:
        expect_jvm(frame.sparkSession, "each_batch", "run the stream in the cluster, with a session of its own")
        stream_id = app_id or _stream(frame)
        context: Any = frame.sparkSession.sparkContext
        with transaction(
            repository,
            branch,
            message=message,
            metadata=metadata,
            committer=committer,
            keep_unlanded=False,  # the stream writes the batch again
            allow_empty=True,
            app_id=stream_id,
            version=number,
            lake=lake,
            spark=frame.sparkSession,
        ) as tx:
            written = f"{_WRITTEN}{tx.repository_uid}/{branch}/{stream_id}"
            if context.getLocalProperty(written) == str(number):
                raise InvalidError(
                    f"batch {number} of this stream was already written to branch {branch!r} in this run, and would be mistaken "
                    "for a repetition: write all of it in one function, or give each each_batch its own app_id="
                )
            if not tx.repeated:
                write(tx, frame)
            elif app_id is None and (later := tx.later) is not None:
                # A stream repeats only its last batch. Spark has planned the rows of an older one anew.
                raise InvalidError(
                    f"batch {number} of this stream ({stream_id}) is older than the last one on branch {branch!r} "
                    f"(commit {later.id}): its checkpoint is an older one, or another process uses it, too. Its rows may "
                    f"differ from those written as batch {number}, so it was neither skipped nor written. Restore "
                    "the checkpoint that belongs to the branch, or move the branch back to before this batch "
                    "(`graveler reset --hard`), and start the stream again"
                )
        if context.getLocalProperty(_QUERY):
            context.setLocalProperty(written, str(number))

    return each


def _stream(frame: DataFrame) -> str:
    """Return the ID of the stream whose batch this is. :class:`InvalidError` if Spark does not provide it."""
    context: Any = frame.sparkSession.sparkContext
    query_id = context.getLocalProperty(_QUERY)
    if not query_id:
        raise InvalidError(
            "Spark does not say which stream this batch belongs to: call this from foreachBatch, with PYSPARK_PIN_THREAD at its "
            "default, or give each_batch an app_id="
        )
    return str(query_id)
