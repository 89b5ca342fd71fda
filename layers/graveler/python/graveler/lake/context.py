"""The context in which a request runs: everything that cannot be stored with the request."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import force_setattr

from graveler.model import Actor
from graveler.system.progress import ObjectProgress, no_object_progress
from graveler.tree.writer import Stop

if TYPE_CHECKING:
    from graveler.lake.objects.stage import Accept
    from graveler.storage.tables.port import Check

NOBODY: Final = Actor()
"""The actor where nobody is known, as in a lake without access control."""


class Context(Struct, frozen=True):
    """The requester (``by``, for the reference log; ``actor``, whom rules about branches and tags judge, without access control
    the one of that name), and the limits on the work of one call.

    With a ``limit``, a request that has to read more records than that raises :class:`TooMuchWorkError`: it can be done as an
    operation instead. With ``stop`` too, the limit applies only to what is known before anything is read, and at the end of
    each range ``stop`` decides whether to leave the rest to an operation, by the same error. ``progress`` is called with how
    many more objects are done, and their bytes.

    ``body`` is what an upload writes: bytes, or a file. ``accept`` is called with the repository's current settings when
    objects are staged; an exception that it raises refuses them. ``only_while``, if given, is a condition for publishing a
    commit, and for creating a branch or a tag (:class:`StoppedError`). ``expect_source`` raises for an address outside of the
    repository's storage where the files of a table must not lie; without it, none may lie outside.
    """

    by: str = ""
    actor: Actor = NOBODY
    limit: int | None = None
    stop: Stop | None = None
    progress: ObjectProgress = no_object_progress
    body: bytes | Path = b""
    accept: "Accept | None" = None
    only_while: "Check | None" = None
    expect_source: "Callable[[str], None] | None" = None

    def __post_init__(self) -> None:
        if self.by and self.actor is NOBODY:
            force_setattr(self, "actor", Actor(self.by, self.by))


UNLIMITED: Final = Context()
"""No limits: one call does all the work."""
