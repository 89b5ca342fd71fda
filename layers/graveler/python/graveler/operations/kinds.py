"""All kinds of operations, by name."""

from collections.abc import Mapping
from typing import Final

from graveler.operations import checks, dumps, listings
from graveler.operations.one_process import IN_PARTS
from graveler.operations.work import Work

KINDS: Final[Mapping[str, Work]] = {
    **IN_PARTS,
    checks.KIND: checks.check_repository,
    dumps.KIND: dumps.dump_repository,
    listings.KIND: listings.import_listing,
}
