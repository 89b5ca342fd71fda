"""``python -m tests.spark.stuck_driver LAKE PIPE``: a driver whose import never ends, so that a test can kill it. The last
partition hangs at its first write, and says so through the pipe."""

import signal
import sys
from pathlib import Path

from pyspark import TaskContext

from graveler.lake.opening.folder import open_folder_lake
from graveler.requests.importing import ListingOptions
from graveler.spark.importing import import_listing
from graveler.spark.session import local_session
from graveler.storage.objects.folder import FolderObjects
from graveler.storage.objects.port import Sent, StoredObject
from tests.spark.listings import BASE, Row, frame_of

PARTITIONS = 6


class StuckObjects(FolderObjects):
    """A folder's objects, in which the last partition hangs."""

    def __init__(self, root: Path, namespace: str, pipe: Path) -> None:
        super().__init__(root, namespace)
        self._place = root, namespace, pipe

    def __reduce__(self) -> tuple[object, ...]:
        return StuckObjects, self._place

    def put(self, key: str, data: bytes | Path, *, if_absent: bool = False, sent: Sent | None = None) -> StoredObject:
        context = TaskContext.get()
        if context is not None and context.partitionId() == PARTITIONS - 1 and "_graveler/ranges/" in key:
            self._place[2].write_text("stuck")
            while True:
                signal.pause()
        return super().put(key, data, if_absent=if_absent, sent=sent)


def main(folder: Path, pipe: Path, rows: list[Row]) -> None:
    """Import until somebody ends it."""
    spark = local_session("graveler tests, stuck")
    repository = open_folder_lake(folder).repository("repo")
    repository.namespace = StuckObjects(folder / "objects" / "repo", "local://repo", pipe)
    options = ListingOptions(base=BASE)
    frame = frame_of(spark, rows)
    import_listing(spark, repository, "main", frame, options, partitions=PARTITIONS, checkpoint="listing-1")


if __name__ == "__main__":
    from tests.spark.stuck_driver import main as run  # tasks know the class by its module's name
    from tests.spark.test_faults import ROWS

    run(Path(sys.argv[1]), Path(sys.argv[2]), ROWS)
