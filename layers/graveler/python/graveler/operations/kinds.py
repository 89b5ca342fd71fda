"""The kinds of operations that there are, by name."""

from collections.abc import Mapping
from typing import Final

from graveler.operations import dumps, imports
from graveler.operations.runner import Work

KINDS: Final[Mapping[str, Work]] = {imports.KIND: imports.import_objects, dumps.KIND: dumps.dump_repository}
