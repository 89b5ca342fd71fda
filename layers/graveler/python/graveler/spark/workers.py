"""Support for PySpark's Python workers, which run one task after another."""

import sys
from zipimport import zipimporter


def forget_archives() -> None:
    """Let the worker's next task start without delay. Call it within a task.

    Before each task PySpark calls ``importlib.invalidate_caches()``, on which each finder of a ZIP archive reads the archive's
    directory again (in Python 3.11; later ones do so only when needed). PySpark itself is in one, and has a finder for each of
    its packages: 0.1 s of a processor. Finders removed here are recreated at the next import.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            sys.path_importer_cache.pop(path, None)
