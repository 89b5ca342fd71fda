"""``python -m tests.spark.stream_driver LAKE SOURCE CHECKPOINT MOMENT``: a driver that writes a stream to a branch, and kills
itself, its JVM and all at a moment: before its so many-th request to the table, or as a batch returns. Moment 0 never comes."""

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from graveler.lake.lake import Lake
from graveler.spark.batches import each_batch
from graveler.spark.session import local_session
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.tables.sqlite import SqliteTables
from tests.support.instruments import Fault, FaultyTables


class Moments:
    """Counts down, and kills."""

    def __init__(self, moment: int) -> None:
        self._left = moment

    def pass_one(self) -> None:
        """One moment less; SIGKILL to the whole group of processes at the last one."""
        self._left -= 1
        if self._left == 0:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def schedule(self, _: str, __: int) -> Fault:
        """As tables in tests want it."""
        self.pass_one()
        return None


def main(folder: Path, source: Path, checkpoint: Path, moment: int) -> None:
    """Write what there is in the source."""
    spark = local_session("graveler tests, a stream", spark__sql__shuffle__partitions="2")
    spark.sparkContext.setLogLevel("OFF")
    moments = Moments(moment)
    tables = FaultyTables(SqliteTables(folder / "tables.sqlite"), moments.schedule)
    lake = Lake(tables, lambda namespace: FolderObjects(folder / "objects" / "repo", namespace))
    write = each_batch(lake.repository("repo"), "main", lambda tx, frame: tx.write(frame, "events"))

    def each(frame: DataFrame, number: int) -> None:
        write(frame, number)
        moments.pass_one()

    events = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(str(source))
    writer = events.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.foreachBatch(each).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
