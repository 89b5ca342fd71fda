"""What a request is run with, and cannot hold since it cannot be stored."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from graveler.lake.importing.progress import Progress, no_progress
from graveler.tree.writer import Stop

if TYPE_CHECKING:
    from graveler.lake.objects.stage import Accept
    from graveler.storage.tables import Check


class Context(Struct, frozen=True):
    """Who asks (``by``, for the reference log), and how much work one call may do.

    With a ``limit``, a request is done only if no more records than that have to be read, else :class:`TooMuchWorkError`: it can
    be done as an operation. With ``stop`` too, the limit counts as far as it is seen before anything is read, and at the end of
    each range ``stop`` is asked whether to leave the rest to an operation, by the same error. ``progress`` hears how many more
    objects are done, and their bytes.

    ``body`` is what an upload writes: bytes, or a file. ``accept`` is called with the repository's settings as they are when
    objects are staged; what it raises refuses them. A commit is published only on the condition ``only_while``, if there is one
    (:class:`graveler.lake.committing.publish.StoppedError`).
    """

    by: str = ""
    limit: int | None = None
    stop: Stop | None = None
    progress: Progress = no_progress
    body: bytes | Path = b""
    accept: "Accept | None" = None
    only_while: "Check | None" = None


UNLIMITED: Final = Context()
"""One call does all of it."""
