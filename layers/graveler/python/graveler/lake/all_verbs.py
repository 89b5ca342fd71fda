"""All that the verbs need of this package, loaded at once: for a process that lives long and is to answer each verb quickly, the
first time too. Elsewhere a verb loads its own when it is first called, so that who only reads begins sooner."""

from importlib import import_module
from typing import Final

_LOADED_LATE: Final = (
    "lake.collected",
    "lake.commit",
    "lake.copying",
    "lake.create",
    "lake.importing.folder_listing",
    "lake.importing.object_listing",
    "lake.importing.prefix_listing",
    "lake.in_parts.opening",
    "lake.in_parts.parted",
    "lake.joint",
    "lake.merge",
    "lake.move",
    "lake.ready",
    "lake.rename",
    "lake.replay",
    "lake.reset",
    "lake.rewrite",
    "lake.settings",
    "lake.three_way",
    "lake.uploads",
    "lake.withdraw",
)


def load_verbs() -> None:
    """Load what verbs load when they are first called, but for RocksDB (13 ms), which the first commit of many records loads."""
    for name in _LOADED_LATE:
        import_module(f"graveler.{name}")
