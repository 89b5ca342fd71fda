"""``python -m tests.spark.feed_driver LAKE CHECKPOINT START MOMENT``: a driver that follows branch ``main`` by its commits and
notes them in a dataset on branch ``log``, and that kills itself, its JVM and all at a moment: before its so many-th request to
the table, or as a batch returns. Moment 0 never comes."""

import sys
from pathlib import Path

from pyspark.sql import DataFrame

import graveler.spark
from graveler.lake.lake import Lake
from graveler.spark.session import local_session
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.tables.sqlite import SqliteTables
from tests.spark.stream_driver import Moments
from tests.support.instruments import FaultyTables


def main(folder: Path, checkpoint: Path, start: str, moment: int) -> None:
    """Follow the branch to its end."""
    spark = local_session("graveler tests, a feed", spark__sql__shuffle__partitions="2")
    spark.sparkContext.setLogLevel("OFF")
    graveler.spark.register(spark)
    moments = Moments(moment)
    tables = FaultyTables(SqliteTables(folder / "tables.sqlite"), moments.schedule)
    lake = Lake(tables, lambda namespace: FolderObjects(folder / "objects" / "repo", namespace))
    write = graveler.spark.each_batch(
        lake.repository("repo"), "log", lambda tx, frame: tx.write(frame.select("commit_id", "path"), "noted")
    )

    def each(frame: DataFrame, number: int) -> None:
        write(frame, number)
        moments.pass_one()

    given = {
        "lake": str(folder),
        "repository": "repo",
        "ref": "main",
        "startingRef": start,
        "maxCommitsPerTrigger": "5",
    }
    changes = spark.readStream.format("graveler").options(**given).load()
    writer = changes.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.foreachBatch(each).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
