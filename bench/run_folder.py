"""``python -m bench.run_folder``: the cost of a folder of ``graveler run``, with 100,000 files that the program leaves unchanged.

CPU seconds of the runner: before the program, when the files of a folder lake are copied, or cloned where the disk can, and after
it. The system's cache holds the folder.
"""

import argparse
import time
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from bench.lines import Goal, Line, show, table
from graveler.gateway.control import Tally
from graveler.gateway.run.folders.places import FolderPlace
from graveler.gateway.run.folders.run_folders import RunFolders
from graveler.lake.opening.folder import create_folder_lake
from graveler.requests.base import CommitInfo
from graveler.requests.importing import ImportFolder

FILES, FILES_A_FOLDER, BYTES = 100_000, 200, 100
EXIT_SECONDS = 1.0
"""CPU seconds that the exit may take."""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m bench.run_folder", description=__doc__)
    parser.add_argument("--files", type=int, default=FILES, help="number of files (default %(default)s)")
    parser.add_argument("--in", dest="place", type=Path, help="folder for the lake; else the one for temporary files")
    arguments = parser.parse_args()
    work = Path(mkdtemp(prefix="graveler-run-folder-", dir=arguments.place))
    try:
        print(table(lines(work, arguments.files)))
    finally:
        rmtree(work)


def lines(work: Path, files: int) -> "list[Line]":
    """The rows of filling a folder, of its exit, and of its removal."""
    source = work / "source"
    for first in range(0, files, FILES_A_FOLDER):
        folder = source / f"part={first // FILES_A_FOLDER:05}"
        folder.mkdir(parents=True)
        for number in range(first, min(files, first + FILES_A_FOLDER)):
            (folder / f"{number:08}.csv").write_bytes(b"%0*d" % (BYTES, number))
    with create_folder_lake(work / "lake") as lake:
        repository = lake.create_repository("bench", "local://bench")
        repository.run(ImportFolder(branch="main", folder=source, destination="tables/", info=CommitInfo("Files")))
        folders = RunFolders([FolderPlace(folder=work / "data", prefix="tables/")])
        with folders.made():
            filled = Clock()
            folders.fill(repository, "main")
            filled.stop()
            staged = Clock()
            assert folders.stage(repository, "main", Tally) == Tally()
            staged.stop()
            removed = Clock()
        removed.stop()
    what = f"a folder of {files:,} files"
    limit = Goal("CPU seconds", staged.cpu, EXIT_SECONDS * files / FILES)
    return [
        Line(f"{what}, filled from a folder lake", *filled.columns(files)),
        Line(f"{what}, unchanged at the exit", *staged.columns(files), goals=(limit,)),
        Line(f"{what}, removed", *removed.columns(files)),
    ]


class Clock:
    """The CPU seconds of this process, and the seconds, from here on."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        self.cpu = self.wall = 0.0

    def stop(self) -> None:
        """Take the seconds."""
        self.cpu, self.wall = time.process_time() - self._cpu, time.perf_counter() - self._wall

    def columns(self, files: int) -> tuple[str, str, str]:
        """The CPU, the rate by that, and the seconds."""
        return f"{show(self.cpu)} of CPU", f"{files / self.cpu:,.0f}", f"in {show(self.wall)}"


if __name__ == "__main__":
    main()
