"""PySpark's Python workers, which run one task after another."""

import sys
from zipimport import zipimporter


def forget_archives() -> None:
    """Let the worker's next task begin at once. To be called within a task.

    Before each task PySpark calls ``importlib.invalidate_caches()``, on which each finder of a ZIP archive reads the archive's
    directory again (in Python 3.11; later ones wait until they are asked). PySpark itself lies in one, and has a finder for each
    of its packages: 0.1 s of a processor. Finders that are forgotten are made anew when something is imported.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            sys.path_importer_cache.pop(path, None)
